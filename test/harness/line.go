package harness

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"runtime"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// Failure is what happens to a call on its way from the core to a port.
type Failure string

// The failures.
const (
	Refused      Failure = "nothing is done, and the call fails"
	Unheard      Failure = "all of it is done, but the call fails"
	KilledBefore Failure = "the server dies before anything is done"
	KilledAfter  Failure = "the server dies after all of it is done"
	Repeated     Failure = "the transaction is undone and runs again" // of other calls: nothing happens
)

// Failures are all failures.
var Failures = []Failure{Refused, Unheard, KilledBefore, KilledAfter, Repeated}

// Line is the way from the core to its store and its blobs: it notes each call
// that files need, and lets one of them fail as planned. A server dies by the
// end of the goroutine that called.
type Line struct {
	mu      sync.Mutex
	calls   []string          // guarded by mu, as are those below
	at      int               // the call that fails, counted from 0
	failure Failure           // empty: none
	within  map[string]func() // by call

	named   map[string]Failure // by call; nil: failures are planned by number alone
	waiting bool               // those in named are for later calls than the ones now
}

// Plan has the next call of the name fail, once Wait was taken back. From then on,
// as after Heal, the line notes no calls and counts none.
func (l *Line) Plan(call string, f Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named == nil {
		l.named = map[string]Failure{}
	}
	l.named[call] = f
}

// Wait says whether planned failures are kept for later calls.
func (l *Line) Wait(wait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = wait
}

// Planned reports whether calls are still to fail by name.
func (l *Line) Planned() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.named) > 0
}

// Heal takes all planned failures back.
func (l *Line) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.named, l.failure = map[string]Failure{}, ""
}

// Listen forgets the calls so far and has the one with the number, counted from
// now, fail; an empty failure lets all through.
func (l *Line) Listen(at int, f Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.at, l.failure = nil, at, f
}

// Calls returns the names of the calls since Listen.
func (l *Line) Calls() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.calls...)
}

// Within has fn run during the next call of the name, when all of it is done and
// its caller does not know yet.
func (l *Line) Within(call string, fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.within == nil {
		l.within = map[string]func(){}
	}
	l.within[call] = fn
}

func (l *Line) note(call string) (f Failure, within func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named != nil {
		if f = l.named[call]; f == "" || l.waiting {
			return "", nil
		}
		delete(l.named, call)
		return f, nil
	}
	if len(l.calls) == l.at {
		f = l.failure
	}
	l.calls = append(l.calls, call)
	within = l.within[call]
	delete(l.within, call)
	return f, within
}

// call does what a call is for, with the failure that was planned for it.
func (l *Line) call(name string, do func() error) error {
	return l.attempt(name, func(Failure) error { return do() })
}

// attempt is call for what fails in ways of its own.
func (l *Line) attempt(name string, do func(Failure) error) error {
	f, within := l.note(name)
	switch f {
	case Refused:
		return fault.New(fault.Unavailable, "planned: %s was refused", name)
	case KilledBefore:
		runtime.Goexit()
	}
	err := do(f)
	if within != nil {
		within()
	}
	switch {
	case f == KilledAfter:
		runtime.Goexit()
	case f == Unheard && err == nil:
		return fault.New(fault.Unavailable, "planned: %s was not heard of", name)
	}
	return err
}

// ask is call for what returns a value.
func ask[V any](l *Line, name string, do func() (V, error)) (v V, err error) {
	err = l.call(name, func() error {
		v, err = do()
		return err
	})
	if err != nil {
		var none V
		return none, err
	}
	return v, nil
}

// lineStore is a store at the end of a line.
type lineStore struct {
	ports.Store
	line *Line
}

var _ ports.Store = lineStore{}

func (s lineStore) Storage() ports.Storage { return lineStorage{s.Store.Storage(), s.line} }

func (s lineStore) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	run := func(fn func(ports.Records) error) error {
		return s.Store.Atomic(ctx, func(r ports.Records) error { return fn(lineRecords{r, s.line}) })
	}
	return s.line.attempt("Atomic", func(f Failure) error {
		if f == Repeated {
			undo := fault.New(fault.Unavailable, "planned: the transaction runs again")
			if err := run(func(r ports.Records) error { return cmp.Or(fn(r), error(undo)) }); err != error(undo) {
				return err
			}
		}
		return run(fn)
	})
}

type lineRecords struct {
	ports.Records
	line *Line
}

func (r lineRecords) Storage() ports.Storage { return lineStorage{r.Records.Storage(), r.line} }

type lineStorage struct {
	ports.Storage
	line *Line
}

func (s lineStorage) Objects() ports.Objects     { return lineObjects{s.Storage.Objects(), s.line} }
func (s lineStorage) Changes() ports.Changes     { return lineChanges{s.Storage.Changes(), s.line} }
func (s lineStorage) BlobNames() ports.BlobNames { return lineBlobNames{s.Storage.BlobNames(), s.line} }

func (s lineStorage) Replace(ctx context.Context, o id.Org, epoch int64, was object.Content, c object.Change) (object.Head, error) {
	return ask(s.line, "Storage.Replace", func() (object.Head, error) { return s.Storage.Replace(ctx, o, epoch, was, c) })
}

type lineObjects struct {
	ports.Objects
	line *Line
}

func (s lineObjects) Get(ctx context.Context, o id.Org, of id.Object) (object.Object, error) {
	return ask(s.line, "Objects.Get", func() (object.Object, error) { return s.Objects.Get(ctx, o, of) })
}

func (s lineObjects) At(ctx context.Context, o id.Org, storageKey string) (object.Object, error) {
	return ask(s.line, "Objects.At", func() (object.Object, error) { return s.Objects.At(ctx, o, storageKey) })
}

func (s lineObjects) List(ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter, head func(object.Head) error, each func(object.Object) error) error {
	return s.line.call("Objects.List", func() error { return s.Objects.List(ctx, o, viewer, f, head, each) })
}

func (s lineObjects) Add(ctx context.Context, o id.Org, v object.Object) error {
	return s.line.call("Objects.Add", func() error { return s.Objects.Add(ctx, o, v) })
}

func (s lineObjects) Put(ctx context.Context, o id.Org, v object.Object) error {
	return s.line.call("Objects.Put", func() error { return s.Objects.Put(ctx, o, v) })
}

func (s lineObjects) Remove(ctx context.Context, o id.Org, ids []id.Object) error {
	return s.line.call("Objects.Remove", func() error { return s.Objects.Remove(ctx, o, ids) })
}

type lineChanges struct {
	ports.Changes
	line *Line
}

func (s lineChanges) Lock(ctx context.Context, o id.Org) (object.Head, error) {
	return ask(s.line, "Changes.Lock", func() (object.Head, error) { return s.Changes.Lock(ctx, o) })
}

func (s lineChanges) Append(ctx context.Context, o id.Org, changes ...object.Change) (object.Head, error) {
	return ask(s.line, "Changes.Append", func() (object.Head, error) { return s.Changes.Append(ctx, o, changes...) })
}

type lineBlobNames struct {
	ports.BlobNames
	line *Line
}

func (s lineBlobNames) Announce(ctx context.Context, o id.Org, name string, now time.Time) error {
	return s.line.call("BlobNames.Announce", func() error { return s.BlobNames.Announce(ctx, o, name, now) })
}

func (s lineBlobNames) Forget(ctx context.Context, b object.Blob) error {
	return s.line.call("BlobNames.Forget", func() error { return s.BlobNames.Forget(ctx, b) })
}

func (s lineBlobNames) Discard(ctx context.Context, o id.Org, names []string, now time.Time) error {
	return s.line.call("BlobNames.Discard", func() error { return s.BlobNames.Discard(ctx, o, names, now) })
}

func (s lineBlobNames) Expire(ctx context.Context, before time.Time) error {
	return s.line.call("BlobNames.Expire", func() error { return s.BlobNames.Expire(ctx, before) })
}

func (s lineBlobNames) Due(ctx context.Context, before time.Time, after string, limit int) ([]object.Blob, error) {
	return ask(s.line, "BlobNames.Due", func() ([]object.Blob, error) { return s.BlobNames.Due(ctx, before, after, limit) })
}

func (s lineBlobNames) Known(ctx context.Context, names []string) (map[string]bool, error) {
	return ask(s.line, "BlobNames.Known", func() (map[string]bool, error) { return s.BlobNames.Known(ctx, names) })
}

// lineBlobs is a store of blobs at the end of a line.
type lineBlobs struct {
	ports.Blobs
	line *Line
}

var _ ports.Blobs = lineBlobs{}

func (b lineBlobs) Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error {
	return b.line.call("Blobs.Put", func() error { return b.Blobs.Put(ctx, name, mimeType, size, r) })
}

func (b lineBlobs) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	return ask(b.line, "Blobs.Open", func() (io.ReadCloser, error) { return b.Blobs.Open(ctx, name, offset, length) })
}

func (b lineBlobs) Remove(ctx context.Context, name string) error {
	return b.line.call("Blobs.Remove", func() error { return b.Blobs.Remove(ctx, name) })
}

func (b lineBlobs) List(ctx context.Context, each func(name string, size int64, written time.Time) error) error {
	return b.line.call("Blobs.List", func() error { return b.Blobs.List(ctx, each) })
}

// BlobsURL begins the addresses of the world's store of blobs. Nothing answers there: what a client
// would send is put into World.Blobs under the rest of the address.
const BlobsURL = "https://blobs.invalid/"

// lineSigned gives out addresses of a store of blobs at the end of a line.
type lineSigned struct{ lineBlobs }

var _ ports.SignedBlobs = lineSigned{}

func (b lineSigned) SignGet(_ context.Context, name, mimeType, disposition string, lifetime time.Duration) (string, error) {
	return ask(b.line, "SignedBlobs.SignGet", func() (string, error) {
		v := url.Values{"type": {mimeType}, "disposition": {disposition}, "lifetime": {lifetime.String()}}
		return BlobsURL + url.PathEscape(name) + "?" + v.Encode(), nil
	})
}

func (b lineSigned) SignPut(_ context.Context, mimeType string, c object.Content, _ time.Duration) (object.Address, error) {
	return ask(b.line, "SignedBlobs.SignPut", func() (object.Address, error) {
		return object.Address{URL: BlobsURL + c.Blob, Headers: map[string]string{"Content-Type": mimeType, "Checksum": c.Checksum}}, nil
	})
}

func (b lineSigned) Stat(ctx context.Context, name string) (size int64, checksum string, err error) {
	checksum, err = ask(b.line, "SignedBlobs.Stat", func() (string, error) {
		r, err := b.Blobs.Open(ctx, name, 0, -1)
		if err != nil {
			return "", err
		}
		content, err := io.ReadAll(r)
		size = int64(len(content))
		return Checksum(string(content)), errors.Join(err, r.Close())
	})
	return size, checksum, err
}

// datedBlobs is a store whose blobs are written when a clock says so.
type datedBlobs struct {
	ports.Blobs
	clock ports.Clock

	mu      sync.Mutex
	written map[string]time.Time // guarded by mu
}

var _ ports.Blobs = (*datedBlobs)(nil)

func (b *datedBlobs) Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error {
	if err := b.Blobs.Put(ctx, name, mimeType, size, r); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written[name] = b.clock.Now()
	return nil
}

func (b *datedBlobs) List(ctx context.Context, each func(name string, size int64, written time.Time) error) error {
	return b.Blobs.List(ctx, func(name string, size int64, _ time.Time) error {
		b.mu.Lock()
		written := b.written[name]
		b.mu.Unlock()
		return each(name, size, written)
	})
}
