// Package bucket keeps blobs in files, in memory, and in the object stores of
// Google, Amazon and Azure.
//
// All stores use the same keys (see key.go), so any tool that copies files can move a
// deployment from one store to another. Type objects implements ports.Blobs for all
// object stores; interface store is the client of one of them.
package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"collab/adapters/outbound"
	"collab/domain/fault"
	"collab/ports"
)

// schemes are the prefixes of store addresses.
var schemes = []string{"file://", "mem://", "gs://", "s3://", "azblob://"}

// stepTimeout limits one step of a store, including the client library's retries: the
// start of a response, or the transfer of one chunk.
const stepTimeout = 30 * time.Second

// maxPrefix is the limit of a prefix in bytes. With it every name still has a valid key.
const maxPrefix = 128

// Bucket is one store of blobs.
type Bucket struct {
	ports.Blobs
	close func() error
}

var _ ports.Blobs = (*Bucket)(nil)

// Open returns the store at the address:
//
//	file://dir, file:///dir               a directory, created if it is missing
//	mem://                                this process's memory
//	gs://bucket/prefix                    with Google's default credentials, or the
//	                                      emulator in STORAGE_EMULATOR_HOST without any
//	s3://bucket/prefix?region=…           with the parameters and credentials of openS3
//	azblob://container/prefix?domain=…    with the parameters and environment variables
//	                                      of openAzure
//
// The prefix is optional. Open sends no request to the store; Ready does. The credentials
// must permit listing: without it some stores answer 403 instead of 404 for a missing
// object. After a crash during an upload, Amazon keeps the parts until a lifecycle rule of
// the bucket removes them.
func Open(ctx context.Context, address string) (*Bucket, error) {
	return open(ctx, address, stepTimeout)
}

// CheckAddress returns an error unless the address has the form that Open demands. It opens nothing.
func CheckAddress(address string) error {
	u, _, err := parse(address)
	if err == nil && u.Scheme == "s3" {
		_, err = openS3(u.Host, u.Query())
	}
	return err
}

// CheckOrigin returns an error unless clients may reach a store at the address.
func CheckOrigin(address string) error {
	_, err := origin(address)
	return err
}

// allowedParameters are the names of parameters by the scheme of the address.
var allowedParameters = map[string][]string{
	"s3":     {"endpoint", "profile", "region", "use_path_style"},
	"azblob": {"domain", "localemu", "protocol", "storage_account"},
}

// parse returns the parts of an address, and the prefix of its keys: empty, or with a slash at its end.
func parse(address string) (u *url.URL, prefix string, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch scheme {
	case "file":
		if rest == "" {
			return nil, "", errors.New("file:// must be followed by a directory")
		}
		return &url.URL{Scheme: scheme, Path: rest}, "", nil
	case "mem":
		if rest != "" {
			return nil, "", errors.New("mem:// must not be followed by anything")
		}
		return &url.URL{Scheme: scheme}, "", nil
	case "gs", "s3", "azblob":
	default:
		return nil, "", fmt.Errorf("must begin with one of %s", strings.Join(schemes, ", "))
	}

	u, err = url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, "", fmt.Errorf("must be %s://, the name of a bucket, and a prefix if need be", scheme)
	}
	if prefix = strings.Trim(u.Path, "/"); prefix != "" {
		if err := checkName(prefix); err != nil || len(prefix) > maxPrefix {
			return nil, "", fmt.Errorf("must have a prefix of at most %d bytes, without empty segments or dots for segments", maxPrefix)
		}
		if scheme == "azblob" && strings.ContainsAny(prefix, `"#%?\`) {
			return nil, "", errors.New("must have a prefix without quotes, #, %, ? and backslashes")
		}
		// gocloud.dev, which older deployments wrote with, has other keys for these prefixes.
		if prefix += "/"; scheme != "s3" && strings.Contains(prefix, "../") {
			return nil, "", errors.New("must have a prefix without segments that end in two dots")
		}
	}
	if scheme == "gs" && u.RawQuery != "" {
		return nil, "", errors.New("gs:// takes no parameters")
	}
	for parameter, values := range u.Query() {
		if allowed := allowedParameters[scheme]; !slices.Contains(allowed, parameter) || len(values) > 1 {
			return nil, "", fmt.Errorf("%s:// takes the parameters %s, each once, and not %q", scheme, strings.Join(allowed, ", "), parameter)
		}
	}
	return u, prefix, nil
}

func open(ctx context.Context, address string, timeout time.Duration) (*Bucket, error) {
	u, prefix, err := parse(address)
	if err != nil {
		return nil, err
	}
	o := &objects{stepTimeout: timeout, prefix: prefix, chunk: partSize, page: 1000}
	switch u.Scheme {
	case "file":
		f, err := openFiles(u.Path)
		if err != nil {
			return nil, err
		}
		return &Bucket{f, f.directory.Close}, nil
	case "mem":
		return newBucket(&objects{store: &inMemory{objects: map[string]memoryObject{}}, stepTimeout: timeout}), nil
	case "gs":
		o.chunk = 8 << 20
		// The client keeps the context to renew its credentials.
		o.store, err = openGoogle(context.WithoutCancel(ctx), u.Host)
	case "s3":
		o.store, err = openS3(u.Host, u.Query())
	case "azblob":
		// It reads an object with a Content-Encoding as it is stored.
		o.store, err = openAzure(u.Host, u.Query(), outbound.NewConfigured(stepTimeout).Transport.(*http.Transport))
	}
	if err != nil {
		return nil, err
	}
	return newBucket(o), nil
}

func newBucket(o *objects) *Bucket { return &Bucket{o, o.store.close} }

// Secrets returns the secrets in the variables that Open and the stores' client libraries read.
func Secrets(getenv func(variable string) string) (all []string) {
	for _, variable := range []string{
		"AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN",
		"AZURE_CLIENT_SECRET", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING",
		"AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "IDENTITY_HEADER",
	} {
		value := getenv(variable)
		sas, _ := url.ParseQuery(strings.TrimPrefix(cmp.Or(connectionField(value, "SharedAccessSignature"), value), "?"))
		all = append(all, value, connectionField(value, "AccountKey"), sas.Get("sig"), url.QueryEscape(sas.Get("sig")))
	}
	return all
}

// origin parses an http or https URL that has a host and nothing else.
func origin(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("must be https:// or http:// and a host")
	}
	return u, nil
}

// Close releases the connections to the store.
func (b *Bucket) Close() error { return b.close() }

// unavailable returns the error for a failed operation of the store.
func unavailable(cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "The object store does not answer")
}

// conflict returns the error for a name that has content already.
func conflict(cause error) error {
	return fault.Wrap(fault.Conflict, cause, "There is content under this name already")
}

// notFound returns the error for a name without content.
func notFound(cause error) error {
	return fault.Wrap(fault.NotFound, cause, "Content not found")
}
