package bucket

import (
	"context"
	"io"
	"iter"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"
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

func (g *google) open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	return g.bucket.Object(key).NewRangeReader(ctx, offset, length)
}

func (g *google) metadata(ctx context.Context, key string) (map[string]string, error) {
	attributes, err := g.bucket.Object(key).Attrs(ctx)
	if err != nil {
		return nil, err
	}
	return attributes.Metadata, nil
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
