package changes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/app/access"
	"collab/app/changes"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/directory"
	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an organisation with everything that a feed of it needs. It lives in
// a bubble of testing/synctest, whose time the system's clock shows.
type fixture struct {
	directory.Directory
	store  *memory.Store
	bus    *memory.Bus
	access *access.Access
	ids    *memory.IDs
	org    id.Org
	events strings.Builder // the feeds' log
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{store: memory.NewStore(), bus: &memory.Bus{}, ids: &memory.IDs{}}
	w.Directory = directory.Directory{TB: t, Store: w.store, Clock: system.Clock{}, IDs: w.ids}
	w.store.OnChange(w.bus.Publish)
	w.access = access.New(access.Options{Store: w.store, Epochs: w.store, Clock: system.Clock{}})
	w.org = w.Organisation()
	return w
}

// user adds a user who is a member.
func (w *fixture) user(o id.Org, role org.Role) id.User {
	w.Helper()
	return w.Member(o, role).User
}

// remove ends a membership.
func (w *fixture) remove(u id.User) {
	w.Helper()
	w.Remove(w.org, u)
}

// workspace adds a team with one workspace.
func (w *fixture) workspace(by id.User) (id.Team, id.Workspace) {
	t := team.Team{ID: id.Team(w.ids.New()), Org: w.org, Name: "Team", Kind: team.Standard, CreatedBy: by}
	s := workspace.Workspace{ID: id.Workspace(w.ids.New()), Org: w.org, Team: t.ID, Name: "Workspace", CreatedBy: by}
	w.Locked(w.org, func(r ports.Records) error {
		return errors.Join(r.Work().Teams().Add(w.Context(), w.org, t), r.Work().Workspaces().Add(w.Context(), w.org, s))
	})
	return t.ID, s.ID
}

// join makes a user a member of a team, and tells them to look again.
func (w *fixture) join(t id.Team, u id.User) {
	w.Locked(w.org, func(r ports.Records) error {
		if _, err := r.Work().TeamMembers().Put(w.Context(), w.org, team.Member{Team: t, User: u}); err != nil {
			return err
		}
		_, err := r.Storage().Changes().Append(w.Context(), w.org, object.NewAccessChange(object.Audience{Users: []id.User{u}}, "", time.Now()))
		return err
	})
}

// leave is the opposite of join.
func (w *fixture) leave(t id.Team, u id.User) {
	w.Locked(w.org, func(r ports.Records) error {
		if err := r.Work().TeamMembers().Remove(w.Context(), w.org, t, u); err != nil {
			return err
		}
		_, err := r.Storage().Changes().Append(w.Context(), w.org, object.NewAccessChange(object.Audience{Users: []id.User{u}}, "", time.Now()))
		return err
	})
}

// append adds entries to an organisation's log.
func (w *fixture) append(o id.Org, all ...object.Change) {
	w.Helper()
	w.Must(w.store.Atomic(w.Context(), func(r ports.Records) error { return must.ErrorOf(r.Storage().Changes().Append(w.Context(), o, all...)) }))
}

// write adds n changes that everybody sees.
func (w *fixture) write(o id.Org, n int) {
	w.Helper()
	for range n {
		w.append(o, w.shared("a.md"))
	}
}

func (w *fixture) change(p object.Place, path string) object.Change {
	return object.Change{Type: object.Changed, Object: object.Object{Place: p, ID: id.Object(w.ids.New()), Org: w.org, Path: path, Version: 1}, At: time.Now()}
}

func (w *fixture) shared(path string) object.Change {
	return w.change(object.Place{Kind: object.HubMemory, Scope: object.Shared}, path)
}

func (w *fixture) personal(u id.User, path string) object.Change {
	return w.change(object.Place{Kind: object.HubMemory, Scope: object.Personal, Owner: &u}, path)
}

func (w *fixture) within(s id.Workspace, path string) object.Change {
	return w.change(object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: &s}, path)
}

// encode makes frames that are easy to compare.
func encode(at object.Cursor, c object.Change) []byte {
	if c.Type == object.AccessChanged {
		return fmt.Appendf(nil, "%s resync", at)
	}
	return fmt.Appendf(nil, "%s %s %s", at, c.Type, c.Object.Path)
}

// feed starts a feed that ends with the test.
func (w *fixture) feed(change ...func(*changes.Options)) *changes.Feed {
	w.Helper()
	o := changes.Options{
		Store: w.store, Epochs: w.store, Bus: w.bus, Clock: system.Clock{}, Log: slog.New(slog.NewTextHandler(&w.events, nil)),
		Alarms: system.Alarms{}, Reauthorizer: w.access.Reauthorizer, Encode: encode,
	}
	for _, fn := range change {
		fn(&o)
	}
	f := changes.New(o)
	tick := time.NewTicker(changes.PollEvery)
	w.Must(f.Start(tick.C))
	w.Cleanup(func() {
		tick.Stop()
		must.Succeed(w, f.Close(context.Background()))
	})
	return f
}

// cut is a bus that carries nothing.
func cut(o *changes.Options) { o.Bus = &memory.Bus{} }

// actor is a member as access sees them.
func (w *fixture) actor(o id.Org, u id.User) org.Actor {
	w.Helper()
	return must.Do(w.access.Reauthorize(w.Context(), org.Actor{Org: o, User: u})).Or(w)
}

// listener takes what a subscription brings as long as it lasts.
type listener struct {
	sub  *changes.Subscriber
	stop atomic.Bool
	done chan struct{}

	mu  sync.Mutex
	all []string
}

// listen subscribes a member from the present on.
func (w *fixture) listen(f *changes.Feed, u id.User) *listener {
	w.Helper()
	return w.resume(f, w.actor(w.org, u), "", false)
}

func (w *fixture) resume(f *changes.Feed, a org.Actor, from string, resumes bool) *listener {
	w.Helper()
	return w.subscribe(w.Context(), f, a, from, resumes)
}

func (w *fixture) subscribe(ctx context.Context, f *changes.Feed, a org.Actor, from string, resumes bool) *listener {
	w.Helper()
	return w.taking(must.Do(f.Subscribe(ctx, a, from, resumes)).Or(w))
}

// subscription subscribes a member, and takes nothing.
func (w *fixture) subscription(f *changes.Feed, u id.User) *changes.Subscriber {
	w.Helper()
	return must.Do(f.Subscribe(w.Context(), w.actor(w.org, u), "", false)).Or(w)
}

// taking takes what a subscription brings until the test ends.
func (w *fixture) taking(sub *changes.Subscriber) *listener {
	l := &listener{sub: sub, done: make(chan struct{})}
	go l.run()
	w.Cleanup(l.close)
	return l
}

// ended checks why a subscription ended, once nothing moves any more.
func (w *fixture) ended(l *listener, want changes.Reason) {
	w.Helper()
	synctest.Wait()
	must.Is(w, want, l.sub.Ended())
}

func (l *listener) run() {
	defer close(l.done)
	defer l.sub.Close()
	frames := make([][]byte, 0, 16)
	for {
		for {
			frames = l.sub.Take(frames[:0])
			if len(frames) == 0 {
				break
			}
			l.mu.Lock()
			for _, f := range frames {
				l.all = append(l.all, string(f))
			}
			l.mu.Unlock()
		}
		if l.stop.Load() || l.sub.Ended() != "" {
			return
		}
		<-l.sub.Woken()
	}
}

// close ends the subscription from the taker's side.
func (l *listener) close() {
	l.stop.Store(true)
	l.sub.Wake()
	<-l.done
}

func (l *listener) got() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// last is the id of the last frame.
func (l *listener) last() string {
	all := l.got()
	last, _, _ := strings.Cut(all[len(all)-1], " ")
	return last
}

func (w *fixture) same(got []string, want ...string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("got %q, want %q", got, want)
	}
}

// epochs has another name than its method, so that both can be in one struct.
type epochs = ports.Epochs

// controlledStore is a store whose reading of logs can be counted, fail, show another
// epoch and be followed by something else.
type controlledStore struct {
	ports.Store
	epochs
	down  atomic.Bool
	fail  func() error // of each reading while down is set
	lists atomic.Int64
	epoch atomic.Int64 // added to the log's
	then  func(id.Org) // called after each reading of a log; may be nil

	heads atomic.Pointer[func()] // called once after the next reading of heads; may be nil
}

var errDown = errors.New("the database is down")

func (s *controlledStore) Storage() ports.Storage { return controlledStorage{s.Store.Storage(), s} }

type controlledStorage struct {
	ports.Storage
	by *controlledStore
}

func (s controlledStorage) Changes() ports.Changes {
	return controlledChanges{s.Storage.Changes(), s.by}
}

type controlledChanges struct {
	ports.Changes
	by *controlledStore
}

func (c controlledChanges) Heads(ctx context.Context, orgs []id.Org) (map[id.Org]object.Head, error) {
	if c.by.down.Load() {
		return nil, c.by.fail()
	}
	heads, err := c.Changes.Heads(ctx, orgs)
	for o, h := range heads {
		h.Epoch += c.by.epoch.Load()
		heads[o] = h
	}
	if then := c.by.heads.Swap(nil); then != nil {
		(*then)()
	}
	return heads, err
}

func (c controlledChanges) List(ctx context.Context, o id.Org, after int64, limit int) (entries []object.Change, err error) {
	err = c.by.list(o, func() (err error) {
		entries, err = c.Changes.List(ctx, o, after, limit)
		return err
	})
	return entries, err
}

// Entries reads a log as List does.
func (s *controlledStore) Entries(ctx context.Context, o id.Org, after int64, limit int) (entries []object.Change, epoch int64, err error) {
	err = s.list(o, func() (err error) {
		entries, epoch, err = s.epochs.Entries(ctx, o, after, limit)
		return err
	})
	return entries, epoch, err
}

func (s *controlledStore) list(o id.Org, read func() error) error {
	s.lists.Add(1)
	if s.down.Load() {
		return s.fail()
	}
	if s.then != nil {
		defer s.then(o)
	}
	return read()
}

// steer gives a feed a controlled store.
func steer(by *controlledStore) func(*changes.Options) {
	return func(o *changes.Options) {
		by.Store, by.epochs = o.Store, o.Epochs
		o.Store, o.Epochs = by, by
	}
}
