package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5" // for Content-MD5
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	"collab/domain/fault"
	"collab/domain/object"
)

// s3 is a bucket of a store that speaks Amazon's protocol.
type s3 struct {
	client     minio.Core
	name       string
	options    minio.Options
	transport  *http.Transport
	partSizeOf func(number int) int // bytes, at least partSize
}

// openS3 returns a bucket. Without parameters, region and endpoint are those of Amazon's
// environment variables. Credentials are the first of: the environment variables, the
// shared credentials file, the role of the container or machine.
func openS3(name string, parameters url.Values) (store, error) {
	endpoint := cmp.Or(parameters.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := origin(endpoint)
	if err != nil {
		return nil, fmt.Errorf("the endpoint of s3:// %w", err)
	}
	options := &minio.Options{
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
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, err
	}
	options.Transport = transport
	client, err := openCore(u, *options)
	if err != nil {
		return nil, err
	}
	return &s3{client: *client, name: name, options: *options, transport: transport, partSizeOf: partSizeOf}, nil
}

func openCore(endpoint *url.URL, options minio.Options) (*minio.Core, error) {
	options.Secure = endpoint.Scheme == "https"
	client, err := minio.NewCore(endpoint.Host, &options)
	if err == nil {
		client.SetS3EnableDualstack(false)
	}
	return client, err
}

func (b *s3) close() error {
	b.transport.CloseIdleConnections()
	return nil
}

func (b *s3) stat(ctx context.Context, key string) (stat, error) {
	info, err := b.client.StatObject(ctx, b.name, key, minio.StatObjectOptions{Checksum: true})
	s := stat{metadata: map[string]string{}, size: info.Size, encoding: info.Metadata.Get("Content-Encoding")}
	for name, value := range info.UserMetadata {
		s.metadata[strings.ToLower(name)] = value
	}
	// The checksum of an upload in parts is one of checksums, and ends with their number.
	if sum, err := base64.StdEncoding.DecodeString(info.ChecksumSHA256); err == nil {
		s.checksum = hex.EncodeToString(sum)
	}
	return s, err
}

func (b *s3) signer(public *url.URL) (signer, error) {
	if public == nil {
		return &s3Signer{b.client, b.name}, nil
	}
	client, err := openCore(public, b.options)
	if err != nil {
		return nil, err
	}
	return &s3Signer{*client, b.name}, nil
}

// s3Signer signs with the credentials of the bucket. It sends no request, unless the region or
// the credentials have to be found out.
type s3Signer struct {
	client minio.Core
	name   string
}

func (b *s3Signer) signGet(
	ctx context.Context, key string, h responseHeaders, lifetime time.Duration,
) (string, error) {
	u, err := b.client.PresignHeader(ctx, http.MethodGet, b.name, key, lifetime, h.parameters(), nil)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// signPut binds the content by its checksum.
func (b *s3Signer) signPut(
	ctx context.Context, key string, u upload, c object.Content, lifetime time.Duration,
) (object.Address, error) {
	sum, err := hex.DecodeString(c.Checksum)
	if err != nil {
		return object.Address{}, err
	}
	headers := map[string]string{
		"Content-Type": u.mimeType, "If-None-Match": "*",
		"X-Amz-Checksum-Sha256": base64.StdEncoding.EncodeToString(sum),
	}
	u.addMetadata(headers, "X-Amz-Meta-")
	signed := http.Header{}
	for name, value := range headers {
		signed.Set(name, value)
	}
	address, err := b.client.PresignHeader(ctx, http.MethodPut, b.name, key, lifetime, nil, signed)
	if err != nil {
		return object.Address{}, err
	}
	return object.Address{URL: address.String(), Headers: headers}, nil
}

func (b *s3) list(ctx context.Context, prefix string, page int) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for info := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{
			Prefix: prefix, Recursive: true, MaxKeys: page, FetchOwner: new(bool),
		}) {
			if !yield(entry{info.Key, info.Size, info.LastModified}, info.Err) || info.Err != nil {
				return
			}
		}
		if ctx.Err() != nil { // the iterator does not return it
			yield(entry{}, ctx.Err())
		}
	}
}

func (b *s3) open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	options := minio.GetObjectOptions{}
	if length >= 0 {
		options.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	} else if offset > 0 {
		options.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	content, _, _, err := b.client.GetObject(ctx, b.name, key, options)
	return content, err
}

func (b *s3) remove(ctx context.Context, key string) error {
	return b.client.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{})
}

// Parts of an upload to Amazon and Azure.
const (
	partSize = 5 << 20 // bytes, Amazon's minimum for a part that is not the last
	parts    = 2       // in flight at once
)

// partSizeOf returns the size in bytes of a part of an upload to Amazon. It grows, because there are
// at most 10,000 parts, so that content of 268 GiB fits and the last parts have 55 MiB.
func partSizeOf(number int) int { return partSize * (1 + number/1000) }

// abortTimeout limits the request that aborts a failed upload.
const abortTimeout = 5 * time.Second

// put writes content shorter than a part in one request, other content in parts. The parts
// in flight are in memory.
func (b *s3) put(ctx context.Context, key string, r io.Reader, u upload) error {
	options := minio.PutObjectOptions{ContentType: u.mimeType, UserMetadata: u.metadata, SendContentMd5: true}
	first := make([]byte, u.chunk)
	n, err := io.ReadFull(r, first)
	if err == nil && n < partSize { // longer than its announced size
		first = append(make([]byte, 0, partSize), first...)[:partSize]
		var more int
		more, err = io.ReadFull(r, first[n:])
		n += more
	}
	switch err {
	case nil:
		return b.putParts(ctx, key, first, r, options)
	case io.EOF, io.ErrUnexpectedEOF:
		return b.putWhole(ctx, key, first[:n], options)
	}
	return err
}

// memory returns the size of the last parts, which are the largest.
func (b *s3) memory(size int64, chunk int) int64 {
	number := 1
	for left := size - int64(chunk); left >= 0; left -= int64(b.partSizeOf(number)) {
		number++
	}
	return parts * int64(b.partSizeOf(number))
}

// ifNoneMatch returns the options of a request that fails if the object exists.
func ifNoneMatch(options minio.PutObjectOptions) minio.PutObjectOptions {
	options.SetMatchETagExcept("*")
	return options
}

// maxConflicts is the number of attempts of putWhole after conflicts with concurrent writes.
const maxConflicts = 8

// putWhole writes the content in one request. It retries after status 409, which does not
// mean that the object exists.
func (b *s3) putWhole(ctx context.Context, key string, content []byte, options minio.PutObjectOptions) (err error) {
	for range maxConflicts {
		_, err = b.client.Client.PutObject(ctx, b.name, key, bytes.NewReader(content), int64(len(content)), ifNoneMatch(options))
		if minio.ToErrorResponse(err).StatusCode != http.StatusConflict {
			break
		}
	}
	return err
}

// putParts writes the first part and the rest of r. It aborts the upload if it fails.
func (b *s3) putParts(ctx context.Context, key string, first []byte, r io.Reader, options minio.PutObjectOptions) (err error) {
	id, err := b.client.NewMultipartUpload(ctx, b.name, key, options)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
			defer cancel()
			_ = b.client.AbortMultipartUpload(ctx, b.name, key, id) // a lifecycle rule removes the parts otherwise
		}
	}()

	free := make(chan []byte, parts)
	for range parts - 1 {
		free <- nil // allocated on first use
	}
	var completed struct {
		sync.Mutex
		parts []minio.CompletePart
	}
	group, groupCtx := errgroup.WithContext(ctx)
	content, last := first, false
	for number := 1; ; number++ {
		part := content
		group.Go(func() error {
			defer func() { free <- part }()
			sum := md5.Sum(part)
			var sent minio.ObjectPart
			err := fault.Catch(func() (err error) {
				sent, err = b.client.PutObjectPart(groupCtx, b.name, key, id, number, bytes.NewReader(part), int64(len(part)),
					minio.PutObjectPartOptions{Md5Base64: base64.StdEncoding.EncodeToString(sum[:])})
				return err
			})
			completed.Lock()
			defer completed.Unlock()
			completed.parts = append(completed.parts, minio.CompletePart{PartNumber: number, ETag: sent.ETag})
			return err
		})
		if last || groupCtx.Err() != nil {
			break
		}
		content = <-free
		if size := b.partSizeOf(number + 1); cap(content) < size {
			content = make([]byte, size)
		} else {
			content = content[:size]
		}
		n, err := io.ReadFull(r, content)
		if err == io.EOF {
			break
		}
		if last = err == io.ErrUnexpectedEOF; err != nil && !last {
			return errors.Join(err, group.Wait())
		}
		content = content[:n]
	}
	if err := group.Wait(); err != nil {
		return err
	}
	slices.SortFunc(completed.parts, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	_, err = b.client.CompleteMultipartUpload(ctx, b.name, key, id, completed.parts, ifNoneMatch(options))
	return err
}
