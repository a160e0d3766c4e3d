package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" // which the protocol checks parts with
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"
)

// s3 is a bucket of a store that speaks Amazon's protocol. It does what objects
// asks of a driver and no more: it copies nothing and signs no addresses.
type s3 struct {
	client    minio.Core
	name      string
	transport *http.Transport
}

var _ driver.Bucket = (*s3)(nil)

// s3Parameters are what an s3:// address may be followed by.
var s3Parameters = []string{"endpoint", "profile", "region", "use_path_style"}

// openS3 returns the bucket of the name. Where there are no parameters, region and
// endpoint are those of Amazon's environment variables, and credentials come from
// those, from the file of shared credentials, and from the container's or the
// machine's role, in this order.
func openS3(name string, parameters url.Values) (*blob.Bucket, error) {
	for parameter, values := range parameters {
		if !slices.Contains(s3Parameters, parameter) || len(values) > 1 {
			return nil, fmt.Errorf("s3:// takes the parameters %s, each once", strings.Join(s3Parameters, ", "))
		}
	}
	given := parameters.Get("endpoint")
	endpoint := cmp.Or(given, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("the endpoint of s3:// must be https:// or http:// and a host")
	}
	options := &minio.Options{
		Secure: u.Scheme == "https",
		Region: cmp.Or(parameters.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{Profile: parameters.Get("profile")}, &credentials.IAM{},
		}),
	}
	switch style := parameters.Get("use_path_style"); style {
	case "true":
		options.BucketLookup = minio.BucketLookupPath
	case "", "false":
		if u.Host != "s3.amazonaws.com" {
			options.BucketLookup = minio.BucketLookupDNS
		}
	default:
		return nil, errors.New("use_path_style of s3:// must be true or false")
	}
	transport, err := minio.DefaultTransport(options.Secure)
	if err != nil {
		return nil, err
	}
	options.Transport = transport
	client, err := minio.NewCore(u.Host, options)
	if err != nil {
		return nil, err
	}
	client.SetS3EnableDualstack(false)
	return blob.NewBucket(&s3{client: *client, name: name, transport: transport}), nil
}

// Close closes the connections that nothing uses.
func (b *s3) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// ErrorCode says what kind of error it is.
func (b *s3) ErrorCode(err error) gcerrors.ErrorCode {
	var refused minio.ErrorResponse
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return gcerrors.Unimplemented
	case !errors.As(err, &refused):
		return gcerrors.Unknown
	}
	switch {
	case refused.Code == minio.PreconditionFailed || refused.Code == "ConditionalRequestConflict":
		return gcerrors.FailedPrecondition
	case refused.StatusCode == http.StatusNotFound:
		return gcerrors.NotFound
	case refused.StatusCode == http.StatusForbidden:
		return gcerrors.PermissionDenied
	}
	return gcerrors.Unknown
}

func (b *s3) As(any) bool { return false }

func (b *s3) ErrorAs(err error, target any) bool { return errors.As(err, target) }

// Attributes returns what the store knows of an object beside its content.
func (b *s3) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	object, err := b.client.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{
		ContentType: object.ContentType, Metadata: object.UserMetadata, ModTime: object.LastModified, Size: object.Size,
		ETag: object.ETag, AsFunc: b.As,
	}, nil
}

// ListPaged returns one page of the objects below the prefix. The token of a page
// is the last key of the page before it.
func (b *s3) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	if o.Delimiter != "" {
		return nil, errors.ErrUnsupported
	}
	size := cmp.Or(o.PageSize, 1000)
	page := &driver.ListPage{}
	for object := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{
		Prefix: o.Prefix, StartAfter: string(o.PageToken), Recursive: true, MaxKeys: size, FetchOwner: new(bool),
	}) {
		if object.Err != nil {
			return nil, object.Err
		}
		page.Objects = append(page.Objects, &driver.ListObject{
			Key: object.Key, ModTime: object.LastModified, Size: object.Size, AsFunc: b.As,
		})
		if len(page.Objects) == size {
			page.NextPageToken = []byte(object.Key)
			break
		}
	}
	return page, ctx.Err() // with which the iterator ends silently
}

// s3Reader reads an object or a part of it.
type s3Reader struct {
	io.ReadCloser
	attributes driver.ReaderAttributes
}

func (r *s3Reader) Attributes() *driver.ReaderAttributes { return &r.attributes }
func (r *s3Reader) As(any) bool                          { return false }

// NewRangeReader reads length bytes of an object from offset on, to its end where
// length is negative.
func (b *s3) NewRangeReader(ctx context.Context, key string, offset, length int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	options := minio.GetObjectOptions{}
	switch {
	case length >= 0: // the protocol has no ranges without bytes
		options.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+max(length, 1)-1))
	case offset > 0:
		options.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	content, object, _, err := b.client.GetObject(ctx, b.name, key, options)
	if err != nil {
		return nil, err
	}
	if length == 0 {
		if err := content.Close(); err != nil {
			return nil, err
		}
		content = http.NoBody
	}
	return &s3Reader{content, driver.ReaderAttributes{ContentType: object.ContentType, ModTime: object.LastModified, Size: object.Size}}, nil
}

// Delete removes an object.
func (b *s3) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	return b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
}

func (b *s3) Copy(context.Context, string, string, *driver.CopyOptions) error {
	return errors.ErrUnsupported
}

func (b *s3) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errors.ErrUnsupported
}

// partSize is the least that Amazon takes for a part that is not the last one.
const partSize = 5 << 20

// abortTimeout is how long the end of an upload that failed may take.
const abortTimeout = 5 * time.Second

// s3Upload writes one object.
type s3Upload struct {
	*s3
	ctx     context.Context
	key     string
	options minio.PutObjectOptions
	*driver.WriterOptions

	err error // of Upload; Close returns it
}

// NewTypedWriter returns what writes one object by Upload.
func (b *s3) NewTypedWriter(ctx context.Context, key, contentType string, o *driver.WriterOptions) (driver.Writer, error) {
	options := minio.PutObjectOptions{ContentType: contentType, UserMetadata: o.Metadata, SendContentMd5: true}
	return &s3Upload{s3: b, ctx: ctx, key: key, options: options, WriterOptions: o}, nil
}

func (u *s3Upload) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (u *s3Upload) Close() error              { return u.err }

// Upload writes all of r. Whether it did, Close says, whose errors blob translates.
func (u *s3Upload) Upload(r io.Reader) error {
	u.err = u.upload(r)
	return nil
}

// conditional returns the options of the request that makes the object appear. It
// must not replace another.
func (u *s3Upload) conditional() minio.PutObjectOptions {
	options := u.options
	if u.IfNotExist {
		options.SetMatchETagExcept("*")
	}
	return options
}

// upload writes all of r: in one request what is shorter than a part, the rest in
// parts. It holds MaxConcurrency parts in memory.
func (u *s3Upload) upload(r io.Reader) error {
	first := make([]byte, min(u.BufferSize, partSize))
	n, err := io.ReadFull(r, first)
	if err == nil && n < partSize { // longer than was expected
		first = append(make([]byte, 0, partSize), first...)[:partSize]
		var more int
		more, err = io.ReadFull(r, first[n:])
		n += more
	}
	switch err {
	case nil:
		return u.uploadParts(first, r)
	case io.EOF, io.ErrUnexpectedEOF:
		return u.put(first[:n])
	}
	return err
}

// maxConflicts is how often put is tried when others write the object, or what the
// store keeps it in, at the same time.
const maxConflicts = 8

// put writes the whole content in one request. The protocol wants it sent again after
// a conflict, which does not say that the object is there.
func (u *s3Upload) put(content []byte) (err error) {
	for range maxConflicts {
		_, err = u.client.Client.PutObject(u.ctx, u.name, u.key, bytes.NewReader(content), int64(len(content)), u.conditional())
		if minio.ToErrorResponse(err).StatusCode != http.StatusConflict {
			break
		}
	}
	return err
}

// uploadParts writes the first part and all of r after it. When it fails, it has the
// store drop the parts.
func (u *s3Upload) uploadParts(first []byte, r io.Reader) (err error) {
	id, err := u.client.NewMultipartUpload(u.ctx, u.name, u.key, u.options)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ctx, over := context.WithTimeout(context.WithoutCancel(u.ctx), abortTimeout)
			defer over()
			_ = u.client.AbortMultipartUpload(ctx, u.name, u.key, id) // a rule of the bucket does it otherwise
		}
	}()

	free := make(chan []byte, u.MaxConcurrency)
	for range u.MaxConcurrency - 1 {
		free <- nil // allocated when it is needed
	}
	var done struct {
		sync.Mutex
		parts []minio.CompletePart
	}
	sending, ctx := errgroup.WithContext(u.ctx)
	content, last := first, false
	for number := 1; ; number++ {
		part := content
		sending.Go(func() error {
			defer func() { free <- part[:partSize] }()
			sum := md5.Sum(part)
			sent, err := u.client.PutObjectPart(ctx, u.name, u.key, id, number, bytes.NewReader(part), int64(len(part)),
				minio.PutObjectPartOptions{Md5Base64: base64.StdEncoding.EncodeToString(sum[:])})
			done.Lock()
			defer done.Unlock()
			done.parts = append(done.parts, minio.CompletePart{PartNumber: number, ETag: sent.ETag})
			return err
		})
		if last || ctx.Err() != nil {
			break
		}
		if content = <-free; content == nil {
			content = make([]byte, partSize)
		}
		n, err := io.ReadFull(r, content)
		if err == io.EOF {
			break
		}
		if last = err == io.ErrUnexpectedEOF; err != nil && !last {
			return errors.Join(err, sending.Wait())
		}
		content = content[:n]
	}
	if err := sending.Wait(); err != nil {
		return err
	}
	slices.SortFunc(done.parts, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	_, err = u.client.CompleteMultipartUpload(u.ctx, u.name, u.key, id, done.parts, u.conditional())
	return err
}
