package bucket

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"collab/adapters/loopback"
)

// azure is a container of Azure Blob Storage.
type azure struct {
	container *container.Client
	name      string
	transport *http.Transport
	sign      sasSigner // nil: the credentials cannot sign
}

// openAzure returns a container. Parameters override environment variables:
//
//	storage_account=…  AZURE_STORAGE_ACCOUNT
//	domain=…           AZURE_STORAGE_DOMAIN, by default blob.core.windows.net
//	protocol=…         AZURE_STORAGE_PROTOCOL, by default https
//	localemu=true      AZURE_STORAGE_IS_LOCAL_EMULATOR: the account is in the path instead
//	                   of the host name, as it is for localhost and loopback addresses
//
// Credentials are the first of: AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN,
// AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGEBLOB_CONNECTIONSTRING, which contains
// the account too, and those of newEntra. All requests use the transport.
func openAzure(name string, parameters url.Values, transport *http.Transport) (store, error) {
	if cdn, _ := strconv.ParseBool(os.Getenv("AZURE_STORAGE_IS_CDN")); cdn {
		return nil, errors.New("azblob:// does not support AZURE_STORAGE_IS_CDN")
	}
	setting := func(parameter, variable, fallback string) string {
		return cmp.Or(parameters.Get(parameter), os.Getenv(variable), fallback)
	}
	client := &redactingClient{http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: client}}
	account, key, sas := setting("storage_account", "AZURE_STORAGE_ACCOUNT", ""), os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_SAS_TOKEN")
	connection := cmp.Or(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), os.Getenv("AZURE_STORAGEBLOB_CONNECTIONSTRING"))
	if connection != "" && sas == "" && (key == "" || account == "") {
		if len(parameters) > 0 {
			return nil, errors.New("azblob:// takes no parameters beside a connection string")
		}
		c, err := container.NewClientFromConnectionString(connection, name, options)
		a := &azure{container: c, name: name, transport: transport}
		if key := connectionField(connection, "AccountKey"); err == nil && key != "" {
			var credential *container.SharedKeyCredential
			credential, err = container.NewSharedKeyCredential(connectionField(connection, "AccountName"), key)
			a.sign = signWithKey(credential)
		}
		return a, err
	}

	if account == "" {
		return nil, errors.New("azblob:// needs AZURE_STORAGE_ACCOUNT")
	}
	u, err := origin(setting("protocol", "AZURE_STORAGE_PROTOCOL", "https") + "://" + setting("domain", "AZURE_STORAGE_DOMAIN", "blob.core.windows.net"))
	if err != nil {
		return nil, errors.New("the protocol of azblob:// must be https or http, and its domain a host")
	}
	u.Path = "/" + name
	emulated, err := strconv.ParseBool(setting("localemu", "AZURE_STORAGE_IS_LOCAL_EMULATOR", "false"))
	switch {
	case err != nil:
		return nil, errors.New("localemu of azblob:// must be true or false")
	case emulated || loopback.IsHost(u.Hostname()):
		u.Path = "/" + account + u.Path
	default:
		u.Host = account + "." + u.Host
	}
	a := &azure{name: name, transport: transport}
	switch {
	case key != "":
		var credential *container.SharedKeyCredential
		if credential, err = container.NewSharedKeyCredential(account, key); err == nil {
			a.container, err = container.NewClientWithSharedKeyCredential(u.String(), credential, options)
			a.sign = signWithKey(credential)
		}
	case sas != "":
		u.RawQuery = strings.TrimPrefix(sas, "?")
		a.container, err = container.NewClientWithNoCredential(u.String(), options)
	default:
		var credential *entra
		if credential, err = newEntra(client); err == nil {
			a.container, err = container.NewClient(u.String(), credential, options)
			u.Path = strings.TrimSuffix(u.Path, name)
			a.sign = signWithDelegation(u.String(), credential, options.ClientOptions)
		}
	}
	return a, err
}

// redactingClient is a client whose errors omit the URL, which may contain a SAS token.
type redactingClient struct{ http.Client }

func (c *redactingClient) Do(r *http.Request) (*http.Response, error) {
	response, err := c.Client.Do(r)
	if urlError, ok := errors.AsType[*url.Error](err); ok {
		err = urlError.Err
	}
	return response, err
}

var _ policy.Transporter = (*redactingClient)(nil)

func (a *azure) close() error {
	a.transport.CloseIdleConnections()
	return nil
}

func (a *azure) put(ctx context.Context, key string, r io.Reader, u upload) error {
	metadata := map[string]*string{}
	for name, value := range u.metadata {
		metadata[name] = &value
	}
	_, err := a.container.NewBlockBlobClient(key).UploadStream(ctx, r, &blockblob.UploadStreamOptions{
		BlockSize: int64(u.chunk), Concurrency: parts, Metadata: metadata,
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &u.mimeType},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: new(azcore.ETagAny)}},
	})
	return err
}

func (a *azure) memory(_ int64, chunk int) int64 { return parts * int64(chunk) }

func (a *azure) open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	content, err := a.container.NewBlobClient(key).DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: offset, Count: max(length, 0)}, // 0 reads to the end
	})
	return content.Body, err
}

func (a *azure) stat(ctx context.Context, key string) (stat, error) {
	properties, err := a.container.NewBlobClient(key).GetProperties(ctx, nil)
	s := stat{metadata: map[string]string{}}
	for name, value := range properties.Metadata {
		s.metadata[strings.ToLower(name)] = *value
	}
	if properties.ContentLength != nil {
		s.size = *properties.ContentLength
	}
	if properties.ContentEncoding != nil {
		s.encoding = *properties.ContentEncoding
	}
	s.notUploaded = properties.CopyStatus != nil ||
		properties.BlobType != nil && *properties.BlobType != blob.BlobTypeBlockBlob
	return s, err
}

// remove deletes the blob and its snapshots, without which Azure does not delete it.
func (a *azure) remove(ctx context.Context, key string) error {
	_, err := a.container.NewBlobClient(key).Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: new(blob.DeleteSnapshotsOptionTypeInclude)})
	return err
}

func (a *azure) list(ctx context.Context, prefix string, page int) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		pages := a.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix, MaxResults: new(int32(page))})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(entry{}, err)
				return
			}
			for _, object := range page.Segment.BlobItems {
				if !yield(entry{*object.Name, *object.Properties.ContentLength, *object.Properties.LastModified}, nil) {
					return
				}
			}
		}
	}
}
