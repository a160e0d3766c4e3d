package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"collab/adapters/gormdb"
	"collab/domain/fault"
	"collab/domain/object"
)

// Bounds of the contents that are copied at once. A store's client holds some MiB of each large one.
const (
	workers   = 16
	large     = 1 << 20 // bytes
	maxLarge  = 3
	batchSize = 128 // contents between two stored positions
)

// copyContents copies the content that records name after a name, in batches; the target stores the last
// name of each. If mayExist is set, content that the target has with the right size and checksum is not
// copied again.
func (m *mover) copyContents(ctx context.Context, after string, mayExist bool) error {
	total, err := m.source.CountContents(ctx, after)
	if err != nil {
		return fault.WithCause(err)
	}
	m.progress.start("content", total)
	var batch []gormdb.Content
	flush := func() error {
		if err := m.copyBatch(ctx, batch, mayExist); err != nil || m.target == nil || len(batch) == 0 {
			return err
		}
		return m.target.SetState(ctx, "content", batch[len(batch)-1].Blob)
	}
	for content, err := range m.source.Contents(ctx, after) {
		if err != nil {
			return fault.WithCause(err)
		}
		if batch = append(batch, content); len(batch) == batchSize {
			if err := flush(); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if err := flush(); err != nil {
		return err
	}
	m.progress.end()
	return nil
}

// copyBatch copies contents concurrently, and returns the first error after all have ended.
func (m *mover) copyBatch(ctx context.Context, batch []gormdb.Content, mayExist bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	largeSlots := make(chan struct{}, maxLarge)
	for range min(workers, len(batch)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(batch)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				err := m.copyContent(ctx, batch[i], mayExist, largeSlots)
				if err == nil {
					m.progress.add(1)
					if m.onCopied != nil {
						mu.Lock()
						err = m.onCopied(0, 1)
						mu.Unlock()
					}
				}
				if err != nil {
					cancel(fmt.Errorf("content %q: %w", batch[i].Blob, fault.WithCause(err)))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// copyContent copies one content.
func (m *mover) copyContent(
	ctx context.Context, content gormdb.Content, mayExist bool, largeSlots chan struct{},
) error {
	if content.Size > large {
		largeSlots <- struct{}{}
		defer func() { <-largeSlots }()
	}
	if mayExist {
		ok, err := m.hasContent(ctx, content)
		if ok || err != nil {
			return err
		}
	}
	r, err := m.fromBlobs.Open(ctx, content.Blob, 0, -1)
	if fault.Is(err, fault.NotFound) {
		return fmt.Errorf("it is missing in %s: restore it or delete its file, then run the move again", m.from.blobs)
	}
	if err != nil {
		return err
	}
	err = m.toBlobs.Put(ctx, content.Blob, content.MimeType, content.Size, verifyReader(r, content))
	return errors.Join(err, r.Close())
}

// hasContent reports whether the target has the content with its size and checksum. It removes any
// other content of that name.
func (m *mover) hasContent(ctx context.Context, content gormdb.Content) (bool, error) {
	r, err := m.toBlobs.Open(ctx, content.Blob, 0, -1)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, verifyReader(r, content))
	err = errors.Join(err, r.Close())
	if fault.Is(err, fault.Conflict) {
		return false, m.toBlobs.Remove(ctx, content.Blob)
	}
	return err == nil, err
}

// verifyReader returns a reader of the content, which fails with Conflict in place of io.EOF unless it has
// the size and checksum.
func verifyReader(r io.Reader, want gormdb.Content) io.Reader {
	return object.Verify(r, want.Size, want.Checksum, func(size int64) error {
		return fault.New(fault.Conflict, "It has %d bytes, and its size and checksum are not those that records have", size)
	})
}
