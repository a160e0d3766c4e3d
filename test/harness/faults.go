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

// Fault is how a call from the core to a port fails.
type Fault string

// The faults.
const (
	Refused      Fault = "nothing is done, and the call fails"
	ResponseLost Fault = "all of it is done, but the call fails"
	CrashBefore  Fault = "the server crashes before anything is done"
	CrashAfter   Fault = "the server crashes after all of it is done"
	Retried      Fault = "the transaction is rolled back and runs again" // of other calls: nothing happens
	Panics       Fault = "nothing is done, and the call panics"
)

// AllFaults are the faults that any call may have.
var AllFaults = []Fault{Refused, ResponseLost, CrashBefore, CrashAfter, Retried}

// Faults records the calls to the store and the blobs that files need, and injects faults. A
// server crashes by the end of the goroutine that called.
type Faults struct {
	mu     sync.Mutex
	calls  []string          // guarded by mu, as are those below
	at     int               // the call that fails, counted from 0
	fault  Fault             // of that call; empty: none
	during map[string]func() // by call
	byName map[string]Fault  // nil: calls fail by their number
}

// Run runs do in a goroutine of its own. It reports whether an injected fault has ended the goroutine.
func Run(do func() error) (err error, crashed bool) {
	crashed = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = do()
		crashed = false
	}()
	<-done
	return err, crashed
}

// FailNext injects each fault into the next call of its name, and then removes the name from the map. Calls are no
// longer recorded.
func (l *Faults) FailNext(byName map[string]Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byName = byName
}

// Reset clears the recorded calls and injects the fault into the call with the number, counted from now. With an
// empty fault all calls succeed.
func (l *Faults) Reset(at int, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.at, l.fault = nil, at, f
}

// Calls returns the names of the calls since Reset.
func (l *Faults) Calls() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.calls...)
}

// During has fn run during the next call of the name, when all of it is done and its caller does
// not know yet.
func (l *Faults) During(call string, fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.during == nil {
		l.during = map[string]func(){}
	}
	l.during[call] = fn
}

// record records a call, and returns its fault and what runs during it.
func (l *Faults) record(call string) (f Fault, during func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName != nil {
		f = l.byName[call]
		delete(l.byName, call)
		return f, nil
	}
	if len(l.calls) == l.at {
		f = l.fault
	}
	l.calls = append(l.calls, call)
	during = l.during[call]
	delete(l.during, call)
	return f, during
}

// call does a call, with its fault.
func (l *Faults) call(name string, do func() error) error {
	return l.attempt(name, func(Fault) error { return do() })
}

// attempt is call for calls that are told their fault.
func (l *Faults) attempt(name string, do func(Fault) error) error {
	f, during := l.record(name)
	switch f {
	case Refused:
		return fault.New(fault.Unavailable, "injected: %s was refused", name)
	case CrashBefore:
		runtime.Goexit()
	case Panics:
		panic("injected")
	}
	err := do(f)
	if during != nil {
		during()
	}
	switch {
	case f == CrashAfter:
		runtime.Goexit()
	case f == ResponseLost && err == nil:
		return fault.New(fault.Unavailable, "injected: the response of %s was lost", name)
	}
	return err
}

// ask is call for calls that return a value.
func ask[V any](call func(name string, do func() error) error, name string, do func() (V, error)) (v V, err error) {
	var none V
	if err := call(name, func() error { v, err = do(); return err }); err != nil {
		return none, err
	}
	return v, nil
}

// Store returns a store whose calls have the faults.
func (l *Faults) Store(s ports.Store) ports.Store { return faultyStore{s, l} }

// faultyStore is a store with faults.
type faultyStore struct {
	ports.Store
	faults *Faults
}

var _ ports.Store = faultyStore{}

func (s faultyStore) Storage() ports.Storage { return faultyStorage{s.Store.Storage(), s.faults} }

func (s faultyStore) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	run := func(fn func(ports.Records) error) error {
		return s.Store.Atomic(ctx, func(r ports.Records) error { return fn(faultyRecords{r, s.faults}) })
	}
	return s.faults.attempt("Atomic", func(f Fault) error {
		if f == Retried {
			undo := fault.New(fault.Unavailable, "injected: the transaction runs again")
			if err := run(func(r ports.Records) error { return cmp.Or(fn(r), error(undo)) }); err != error(undo) {
				return err
			}
		}
		return run(fn)
	})
}

type faultyRecords struct {
	ports.Records
	faults *Faults
}

func (r faultyRecords) Storage() ports.Storage { return faultyStorage{r.Records.Storage(), r.faults} }

type faultyStorage struct {
	ports.Storage
	faults *Faults
}

func (s faultyStorage) Objects() ports.Objects { return faultyObjects{s.Storage.Objects(), s.faults} }
func (s faultyStorage) Changes() ports.Changes { return faultyChanges{s.Storage.Changes(), s.faults} }
func (s faultyStorage) Versions() ports.Versions {
	return faultyVersions{s.Storage.Versions(), s.faults}
}
func (s faultyStorage) BlobNames() ports.BlobNames {
	return faultyBlobNames{s.Storage.BlobNames(), s.faults}
}

func (s faultyStorage) ObjectSets() ports.ObjectSets {
	return faultyObjectSets{s.Storage.ObjectSets(), s.faults}
}

func (s faultyStorage) Replace(ctx context.Context, o id.Org, r object.Replacement) (object.Head, error) {
	return ask(s.faults.call, "Storage.Replace", func() (object.Head, error) { return s.Storage.Replace(ctx, o, r) })
}

type faultyVersions struct {
	ports.Versions
	faults *Faults
}

func (s faultyVersions) List(ctx context.Context, o id.Org, of id.Object, before int64, limit int, each func(object.EarlierVersion) error) error {
	return s.faults.call("Versions.List", func() error { return s.Versions.List(ctx, o, of, before, limit, each) })
}

func (s faultyVersions) Deleted(ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter, each func(object.EarlierVersion) error) error {
	return s.faults.call("Versions.Deleted", func() error { return s.Versions.Deleted(ctx, o, viewer, f, each) })
}

func (s faultyVersions) Keep(ctx context.Context, o id.Org, keep object.Retention, ended ...object.EarlierVersion) error {
	return s.faults.call("Versions.Keep", func() error { return s.Versions.Keep(ctx, o, keep, ended...) })
}

func (s faultyVersions) Take(ctx context.Context, o id.Org, of id.Object, version int64) (object.EarlierVersion, error) {
	return ask(s.faults.call, "Versions.Take", func() (object.EarlierVersion, error) { return s.Versions.Take(ctx, o, of, version) })
}

func (s faultyVersions) Discard(ctx context.Context, o id.Org, of []id.Object, size int64, limit int, now time.Time) (int, error) {
	return ask(s.faults.call, "Versions.Discard", func() (int, error) { return s.Versions.Discard(ctx, o, of, size, limit, now) })
}

func (s faultyVersions) Expire(ctx context.Context, now time.Time) error {
	return s.faults.call("Versions.Expire", func() error { return s.Versions.Expire(ctx, now) })
}

type faultyObjects struct {
	ports.Objects
	faults *Faults
}

func (s faultyObjects) Get(ctx context.Context, o id.Org, of id.Object) (object.Object, error) {
	return ask(s.faults.call, "Objects.Get", func() (object.Object, error) { return s.Objects.Get(ctx, o, of) })
}

func (s faultyObjects) At(ctx context.Context, o id.Org, storageKey string) (object.Object, error) {
	return ask(s.faults.call, "Objects.At", func() (object.Object, error) { return s.Objects.At(ctx, o, storageKey) })
}

func (s faultyObjects) List(ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter, head func(object.Head) error, each func(object.Object) error) error {
	return s.faults.call("Objects.List", func() error { return s.Objects.List(ctx, o, viewer, f, head, each) })
}

func (s faultyObjects) Add(ctx context.Context, o id.Org, v object.Object) error {
	return s.faults.call("Objects.Add", func() error { return s.Objects.Add(ctx, o, v) })
}

func (s faultyObjects) Put(ctx context.Context, o id.Org, objects ...object.Object) error {
	return s.faults.call("Objects.Put", func() error { return s.Objects.Put(ctx, o, objects...) })
}

func (s faultyObjects) Remove(ctx context.Context, o id.Org, ids []id.Object) error {
	return s.faults.call("Objects.Remove", func() error { return s.Objects.Remove(ctx, o, ids) })
}

type faultyChanges struct {
	ports.Changes
	faults *Faults
}

func (s faultyChanges) Lock(ctx context.Context, o id.Org) (object.Head, error) {
	return ask(s.faults.call, "Changes.Lock", func() (object.Head, error) { return s.Changes.Lock(ctx, o) })
}

func (s faultyChanges) Append(ctx context.Context, o id.Org, changes ...object.Change) (object.Head, error) {
	return ask(s.faults.call, "Changes.Append", func() (object.Head, error) { return s.Changes.Append(ctx, o, changes...) })
}

type faultyBlobNames struct {
	ports.BlobNames
	faults *Faults
}

func (s faultyBlobNames) Announce(ctx context.Context, o id.Org, name string, size int64, now time.Time) error {
	return s.faults.call("BlobNames.Announce", func() error { return s.BlobNames.Announce(ctx, o, name, size, now) })
}

func (s faultyBlobNames) Forget(ctx context.Context, b object.Blob) error {
	return s.faults.call("BlobNames.Forget", func() error { return s.BlobNames.Forget(ctx, b) })
}

func (s faultyBlobNames) Discard(ctx context.Context, o id.Org, names []string, now time.Time) error {
	return s.faults.call("BlobNames.Discard", func() error { return s.BlobNames.Discard(ctx, o, names, now) })
}

func (s faultyBlobNames) Expire(ctx context.Context, before time.Time) error {
	return s.faults.call("BlobNames.Expire", func() error { return s.BlobNames.Expire(ctx, before) })
}

func (s faultyBlobNames) Due(ctx context.Context, before time.Time, after string, limit int) ([]object.Blob, error) {
	return ask(s.faults.call, "BlobNames.Due", func() ([]object.Blob, error) { return s.BlobNames.Due(ctx, before, after, limit) })
}

func (s faultyBlobNames) Known(ctx context.Context, names []string) (map[string]bool, error) {
	return ask(s.faults.call, "BlobNames.Known", func() (map[string]bool, error) { return s.BlobNames.Known(ctx, names) })
}

// faultyBlobs is a store of blobs with faults.
type faultyBlobs struct {
	ports.Blobs
	faults *Faults
}

var _ ports.Blobs = faultyBlobs{}

func (b faultyBlobs) Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error {
	return b.faults.call("Blobs.Put", func() error { return b.Blobs.Put(ctx, name, mimeType, size, r) })
}

func (b faultyBlobs) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	return ask(b.faults.call, "Blobs.Open", func() (io.ReadCloser, error) { return b.Blobs.Open(ctx, name, offset, length) })
}

func (b faultyBlobs) Remove(ctx context.Context, name string) error {
	return b.faults.call("Blobs.Remove", func() error { return b.Blobs.Remove(ctx, name) })
}

func (b faultyBlobs) List(ctx context.Context, each func(name string, size int64, written time.Time) error) error {
	return b.faults.call("Blobs.List", func() error { return b.Blobs.List(ctx, each) })
}

// BlobsURL begins the addresses of the deployment's store of blobs. Nothing answers there: what a client
// would send is put into Deployment.Blobs under the rest of the address.
const BlobsURL = "https://blobs.invalid/"

// faultySigned gives out addresses of a store of blobs with faults.
type faultySigned struct{ faultyBlobs }

var _ ports.SignedBlobs = faultySigned{}

func (b faultySigned) SignGet(_ context.Context, name, mimeType, disposition string, lifetime time.Duration) (string, error) {
	return ask(b.faults.call, "SignedBlobs.SignGet", func() (string, error) {
		v := url.Values{"type": {mimeType}, "disposition": {disposition}, "lifetime": {lifetime.String()}}
		return BlobsURL + url.PathEscape(name) + "?" + v.Encode(), nil
	})
}

func (b faultySigned) SignPut(_ context.Context, mimeType string, c object.Content, _ time.Duration) (object.Address, error) {
	return ask(b.faults.call, "SignedBlobs.SignPut", func() (object.Address, error) {
		return object.Address{URL: BlobsURL + c.Blob, Headers: map[string]string{"Content-Type": mimeType, "Checksum": c.Checksum}}, nil
	})
}

func (b faultySigned) Stat(ctx context.Context, name string) (size int64, checksum string, err error) {
	checksum, err = ask(b.faults.call, "SignedBlobs.Stat", func() (string, error) {
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

type faultyObjectSets struct {
	ports.ObjectSets
	faults *Faults
}

func (s faultyObjectSets) Get(ctx context.Context, o id.Org, ids []id.Object) (map[id.Object]object.Object, error) {
	return ask(s.faults.call, "ObjectSets.Get", func() (map[id.Object]object.Object, error) { return s.ObjectSets.Get(ctx, o, ids) })
}

func (s faultyObjectSets) Deleted(ctx context.Context, o id.Org, storageKeys []string) (map[string]int64, error) {
	return ask(s.faults.call, "ObjectSets.Deleted", func() (map[string]int64, error) { return s.ObjectSets.Deleted(ctx, o, storageKeys) })
}

func (s faultyObjectSets) Taken(ctx context.Context, o id.Org, storageKeys []string, without []id.Object) (map[string]id.Object, error) {
	return ask(s.faults.call, "ObjectSets.Taken", func() (map[string]id.Object, error) { return s.ObjectSets.Taken(ctx, o, storageKeys, without) })
}

func (s faultyObjectSets) Add(ctx context.Context, o id.Org, vs []object.Object) error {
	return s.faults.call("ObjectSets.Add", func() error { return s.ObjectSets.Add(ctx, o, vs) })
}

func (s faultyObjectSets) Announce(ctx context.Context, o id.Org, names []string, now time.Time) error {
	return s.faults.call("ObjectSets.Announce", func() error { return s.ObjectSets.Announce(ctx, o, names, now) })
}

func (s faultyObjectSets) Forget(ctx context.Context, o id.Org, names []string) error {
	return s.faults.call("ObjectSets.Forget", func() error { return s.ObjectSets.Forget(ctx, o, names) })
}
