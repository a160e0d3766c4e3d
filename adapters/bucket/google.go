package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"collab/domain/object"
)

// google is a bucket of Google Cloud Storage.
type google struct {
	client *storage.Client
	bucket *storage.BucketHandle
}

func openGoogle(ctx context.Context, name string) (store, error) {
	client, err := storage.NewClient(ctx)
	if err != nil {
		return nil, err
	}
	return &google{client, client.Bucket(name)}, nil
}

func (g *google) close() error { return g.client.Close() }

func (g *google) put(ctx context.Context, key string, r io.Reader, u upload) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := g.bucket.Object(key).If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
	w.ContentType, w.Metadata, w.ChunkSize = u.mimeType, u.metadata, u.chunk
	if _, err := io.Copy(w, r); err != nil {
		cancel() // before Close, which would complete the object
		_ = w.Close()
		return err
	}
	return w.Close()
}

func (g *google) memory(_ int64, chunk int) int64 { return int64(chunk) }

func (g *google) open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	return g.bucket.Object(key).ReadCompressed(true).NewRangeReader(ctx, offset, length)
}

func (g *google) stat(ctx context.Context, key string) (stat, error) {
	attributes, err := g.bucket.Object(key).Attrs(ctx)
	if err != nil {
		return stat{}, err
	}
	return stat{metadata: attributes.Metadata, size: attributes.Size, encoding: attributes.ContentEncoding}, nil
}

// signer returns nil unless GOOGLE_APPLICATION_CREDENTIALS is a file with the key of a service
// account. Other credentials sign by a request to Google for each address, which the client
// library sends without a context; an emulator checks no signature.
func (g *google) signer(public *url.URL) (signer, error) {
	file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	if file == "" || os.Getenv("STORAGE_EMULATOR_HOST") != "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var account struct {
		Type  string `json:"type"`
		Email string `json:"client_email"`
		Key   string `json:"private_key"`
	}
	if json.Unmarshal(content, &account) != nil {
		return nil, errors.New("GOOGLE_APPLICATION_CREDENTIALS must be a file with credentials in JSON")
	}
	if account.Type != "service_account" || account.Email == "" || account.Key == "" {
		return nil, nil
	}
	options := storage.SignedURLOptions{Scheme: storage.SigningSchemeV4, GoogleAccessID: account.Email, PrivateKey: []byte(account.Key)}
	if public != nil {
		options.Hostname, options.Insecure = public.Host, public.Scheme == "http"
	}
	return &googleSigner{g.bucket, options}, nil
}

// googleSigner signs with the key of the service account. It sends no request.
type googleSigner struct {
	bucket  *storage.BucketHandle
	options storage.SignedURLOptions
}

func (g *googleSigner) signGet(
	_ context.Context, key string, h responseHeaders, lifetime time.Duration,
) (string, error) {
	options := g.options
	options.Method, options.Expires = http.MethodGet, time.Now().Add(lifetime)
	options.QueryParameters = h.parameters()
	return g.bucket.SignedURL(key, &options)
}

// signPut binds the size. Google knows no SHA-256.
func (g *googleSigner) signPut(_ context.Context, key string, u upload, c object.Content, lifetime time.Duration) (object.Address, error) {
	headers := map[string]string{
		"Content-Type": u.mimeType, "X-Goog-If-Generation-Match": "0",
		"X-Goog-Content-Length-Range": fmt.Sprintf("%d,%d", c.Size, c.Size),
	}
	u.addMetadata(headers, "X-Goog-Meta-")
	options := g.options
	options.Method, options.Expires, options.ContentType = http.MethodPut, time.Now().Add(lifetime), u.mimeType
	for name, value := range headers {
		if name != "Content-Type" {
			options.Headers = append(options.Headers, name+":"+value)
		}
	}
	address, err := g.bucket.SignedURL(key, &options)
	return object.Address{URL: address, Headers: headers}, err
}

func (g *google) remove(ctx context.Context, key string) error {
	return g.bucket.Object(key).Delete(ctx)
}

func (g *google) list(ctx context.Context, prefix string, page int) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		objects := g.bucket.Objects(ctx, &storage.Query{Prefix: prefix})
		objects.PageInfo().MaxSize = page
		for {
			object, err := objects.Next()
			if err == iterator.Done {
				return
			}
			if err != nil {
				yield(entry{}, err)
				return
			}
			if !yield(entry{object.Name, object.Size, object.Updated}, nil) {
				return
			}
		}
	}
}
