package objects

import (
	"context"
	"errors"
	"io"
	"sync"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// Bounds of reading many objects together.
const (
	// MaxReads is the most objects that Select takes.
	MaxReads = MaxOperations

	// MaxReadBytes is the most bytes that the contents of the objects have together which one Select
	// returns without an error.
	MaxReadBytes = 16 << 20

	// MaxReadFile is the largest content, in bytes, of an object that Select returns without an error.
	// It is small enough to be verified before a byte of it is sent.
	MaxReadFile = 256 << 10

	// parallelReads is how many contents all calls of Contents read from the store at once.
	parallelReads = 32
)

// Wanted is an object whose content is to be read.
type Wanted struct {
	Object   id.Object // empty: there is none
	Expected *int64    // the stored version; nil: any
}

// Select returns an outcome for each of at most MaxReads objects, in their order, from one snapshot:
// the object, and why its content is not to be read. That is NotFound if the actor does not see it,
// Conflict if it has another version, and TooLarge beyond MaxReadFile, or if the contents before it leave
// too little of MaxReadBytes.
func (s *Objects) Select(ctx context.Context, actor org.Actor, wanted []Wanted) ([]Outcome, error) {
	if err := actor.CheckMember(); err != nil {
		return nil, err
	}
	ids := make([]id.Object, len(wanted))
	for i, w := range wanted {
		ids[i] = w.Object
	}
	existing, err := s.Store.Storage().ObjectSets().Get(ctx, actor.Org, ids)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(wanted))
	left := int64(MaxReadBytes)
	for i, w := range wanted {
		o, ok := existing[w.Object]
		if !ok || !o.VisibleTo(actor) {
			outcomes[i].Err = fault.Missing("File")
			continue
		}
		outcomes[i].Object = o
		switch err := o.CheckVersion(w.Expected); {
		case err != nil:
			outcomes[i].Err = withStored(o, err)
		case o.Size > MaxReadFile:
			outcomes[i].Err = fault.New(fault.TooLarge, "The file has more than %d bytes: download it by itself", MaxReadFile)
		case o.Size > left:
			outcomes[i].Err = fault.New(fault.TooLarge, "The answer has no room for the file: ask for it again")
		default:
			left -= o.Size
		}
	}
	return outcomes, nil
}

// Contents reads the contents of the first of Select's outcomes, as many as buffer has room for, which
// has at least MaxReadFile bytes. It returns a part of the buffer for each, nil for an outcome that has
// an error or gets one, because its content is missing or damaged. It fails with Unavailable if
// the store does, and with the error of ctx; an outcome has no error then that only comes from that.
func (s *Objects) Contents(ctx context.Context, outcomes []Outcome, buffer []byte) (contents [][]byte, err error) {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range outcomes {
		o := &outcomes[i]
		if o.Err != nil {
			contents = append(contents, nil)
			continue
		}
		if int64(len(buffer)) < o.Object.Size {
			break
		}
		content := buffer[:o.Object.Size]
		contents, buffer = append(contents, content), buffer[len(content):]
		select {
		case s.reads <- struct{}{}:
		case <-reading.Done():
			continue
		}
		all.Go(func() {
			defer func() { <-s.reads }()
			if reading.Err() != nil { // the slot may have been free only after the end
				return
			}
			if o.Err = fault.Catch(func() error { return s.readInto(reading, o.Object, content) }); fault.Is(o.Err, fault.Unavailable) {
				cancel(o.Err)
			}
		})
	}
	all.Wait()
	if reading.Err() != nil {
		for i := range outcomes {
			if errors.Is(outcomes[i].Err, context.Canceled) { // by the failure, or by ctx
				outcomes[i].Err = nil
			}
		}
		return nil, context.Cause(reading)
	}
	for i := range contents {
		if outcomes[i].Err != nil {
			contents[i] = nil
		}
	}
	return contents, nil
}

// readInto reads the whole content of an object, verified as Open does. It leaves the cache as it is, so
// that a client that reads everything once does not displace what is read often.
func (s *Objects) readInto(ctx context.Context, o object.Object, into []byte) error {
	if known, ok := s.contents.Get(o.Blob); ok {
		copy(into, known)
		return nil
	}
	r, err := s.open(ctx, o, 0, o.Size)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err = io.ReadFull(r, into); err != nil {
		return err
	}
	if _, err = r.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}
