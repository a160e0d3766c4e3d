package access

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
)

// fixture is an organisation with members who look at its teams and workspaces.
// It counts how often its teams are read, and lets a test hold a read up.
type fixture struct {
	*memory.Store
	t      *testing.T
	access *Access
	ids    memory.IDs
	org    id.Org
	users  []id.User

	mu    sync.Mutex
	reads int
	gate  chan struct{} // nil: no read waits
	fail  error
}

type gatedWork struct {
	ports.Work
	of *fixture
}

type gatedTeams struct {
	ports.Teams
	of *fixture
}

func (o *fixture) Work() ports.Work    { return gatedWork{o.Store.Work(), o} }
func (w gatedWork) Teams() ports.Teams { return gatedTeams{w.Work.Teams(), w.of} }

func (t gatedTeams) Refs(ctx context.Context, o id.Org) ([]team.Ref, error) {
	t.of.mu.Lock()
	t.of.reads++
	gate, err := t.of.gate, t.of.fail
	t.of.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if err != nil {
		return nil, err
	}
	return t.Teams.Refs(ctx, o)
}

// newFixture makes an organisation of so many owners, with a team that has so
// many workspaces.
func newFixture(t *testing.T, members, workspaces int) *fixture {
	o := &fixture{Store: memory.NewStore(), t: t}
	o.access = New(Options{Store: o, Epochs: o.Store, Clock: system.Clock{}})
	is := org.Organisation{ID: id.Org(o.ids.New()), ProviderID: "office"}
	must.Do(o.Directory().Organisations().Upsert(t.Context(), is, func(o org.Organisation) (org.Organisation, error) { return o, nil })).Or(o.t)
	o.org = is.ID
	o.change(func(r ports.Records) error {
		for range members {
			u := org.User{ID: id.User(o.ids.New())}
			u.ProviderID = string(u.ID)
			must.Do(r.Directory().Users().Upsert(t.Context(), u, func(u org.User) (org.User, error) { return u, nil })).Or(o.t)
			must.NoError(o.t, r.Directory().Members().Put(t.Context(), o.org, org.Membership{Org: o.org, User: u.ID, Role: org.Owner, JoinedAt: time.UnixMilli(1)}))
			o.users = append(o.users, u.ID)
		}
		in := team.Team{ID: id.Team(o.ids.New()), Org: o.org, Name: "T", Kind: team.Standard}
		must.NoError(o.t, r.Work().Teams().Add(t.Context(), o.org, in))
		for range workspaces {
			must.NoError(o.t, r.Work().Workspaces().Add(t.Context(), o.org, workspace.Workspace{ID: id.Workspace(o.ids.New()), Org: o.org, Team: in.ID, Name: "W"}))
		}
		return nil
	})
	return o
}

// change moves the organisation's epoch on.
func (o *fixture) change(fn func(ports.Records) error) {
	o.t.Helper()
	must.NoError(o.t, o.Store.Atomic(o.t.Context(), func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(o.t.Context(), o.org); err != nil {
			return err
		}
		return fn(r)
	}))
}

func (o *fixture) lookUp(ctx context.Context, u id.User) (org.Actor, error) {
	return o.access.actorOf(ctx, memberKey{o.org, u})
}

func nothing(ports.Records) error { return nil }

func TestAllMembersShareOneReadOfTheStructure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFixture(t, 50, 20)
		for n := range 3 {
			o.change(nothing)
			o.gate = make(chan struct{})
			var all sync.WaitGroup
			leaving, leave := context.WithCancel(t.Context())
			all.Go(func() { _, _ = o.lookUp(leaving, o.users[0]) }) // begins the read
			synctest.Wait()
			for _, u := range o.users[1:] {
				all.Go(func() {
					actor, err := o.lookUp(t.Context(), u)
					if err != nil || len(actor.Visibility.Workspaces()) != 20 {
						t.Errorf("%+v, %v", actor, err)
					}
				})
			}
			gone, goes := context.WithCancel(t.Context())
			all.Go(func() {
				must.FailIs(t, must.ErrorOf(o.lookUp(gone, o.users[0])), context.Canceled) // the request has left
			})
			synctest.Wait()
			leave()
			goes()
			synctest.Wait()
			close(o.gate)
			all.Wait()
			must.Is(t, n+1, o.reads)
		}
	})
}

func TestAFailedReadIsReadAgain(t *testing.T) {
	o := newFixture(t, 1, 1)
	o.fail = errors.New("down")
	must.FailIs(t, must.ErrorOf(o.lookUp(t.Context(), o.users[0])), o.fail)
	o.fail = nil
	must.Do(o.lookUp(t.Context(), o.users[0])).Or(t)
}

func TestVisibilityIsOfTheNewestEpoch(t *testing.T) {
	o := newFixture(t, 2, 3)
	was := must.Do(o.lookUp(t.Context(), o.users[0])).Or(o.t)
	added := workspace.Workspace{ID: id.Workspace(o.ids.New()), Org: o.org, Name: "New"}
	for in := range was.Visibility.Teams() {
		added.Team = in
	}
	o.change(func(r ports.Records) error { return r.Work().Workspaces().Add(t.Context(), o.org, added) })
	for _, u := range o.users {
		is, err := o.lookUp(t.Context(), u)
		if err != nil || !is.SeesWorkspace(added.ID) || len(is.Visibility.Workspaces()) != 4 {
			t.Errorf("%+v, %v", is, err)
		}
	}
	if was.SeesWorkspace(added.ID) || len(was.Visibility.Workspaces()) != 3 {
		t.Error("a visibility was changed after it was given out")
	}
	// A look that began before the change takes nothing back.
	o.access.actorCache.put(memberKey{o.org, o.users[0]}, cachedActor{epoch: was.Visibility.Epoch, actor: was})
	if is, err := o.lookUp(t.Context(), o.users[0]); err != nil || !is.SeesWorkspace(added.ID) {
		t.Errorf("%+v, %v", is, err)
	}
}

func TestAClosedOrganisationIsReadOnce(t *testing.T) {
	o := newFixture(t, 2, 1)
	o.change(func(r ports.Records) error {
		_, err := r.Directory().Organisations().Upsert(t.Context(), org.Organisation{ProviderID: "office"}, func(o org.Organisation) (org.Organisation, error) {
			now := time.UnixMilli(1)
			o.ClosedAt = &now
			return o, nil
		})
		return err
	})
	for range 3 {
		must.Fail(t, must.ErrorOf(o.lookUp(t.Context(), o.users[0])), fault.Forbidden)
	}
	must.Is(t, 0, o.reads)
}

// TestVisibilitiesShareTheirMemory caches a thousand members who see 2,000 workspaces: they take little more memory than one.
func TestVisibilitiesShareTheirMemory(t *testing.T) {
	const members, bound = 1000, 8 << 20
	o := newFixture(t, members, workspace.MaxWorkspaces)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	held := make([]org.Actor, members)
	for i, u := range o.users {
		var err error
		held[i], err = o.lookUp(t.Context(), u)
		must.NoError(o.t, err)
	}
	used := int64(heap()) - int64(before)
	t.Logf("%d members at %d workspaces: %.1f MiB, estimated as %.1f MiB", members, workspace.MaxWorkspaces, float64(used)/(1<<20), float64(o.access.actorCache.bytes)/(1<<20))
	if used > bound {
		t.Errorf("the visibilities take %d bytes, want at most %d", used, bound)
	}
	runtime.KeepAlive(held)
}

func TestTheCacheIsBoundedInBytes(t *testing.T) {
	o := newFixture(t, 200, 100)
	first := must.Do(o.lookUp(t.Context(), o.users[0])).Or(o.t)
	alone := o.access.actorCache.bytes
	o.access.actorCache.limit = 2 * alone
	for _, u := range o.users {
		actor, err := o.lookUp(t.Context(), u)
		if err != nil || len(actor.Visibility.Workspaces()) != len(first.Visibility.Workspaces()) {
			t.Errorf("%+v, %v", actor, err)
		}
		sum := 0
		for _, in := range o.access.actorCache.known {
			sum += in.bytes
		}
		if sum != o.access.actorCache.bytes || sum > 2*alone {
			t.Fatalf("%d bytes are kept and %d counted, of at most %d", sum, o.access.actorCache.bytes, 2*alone)
		}
	}
	o.access.actorCache.limit = alone / 2 // too little for one
	if _, err := o.lookUp(t.Context(), o.users[0]); err != nil || o.access.actorCache.bytes > alone/2 {
		t.Errorf("%v, %d bytes", err, o.access.actorCache.bytes)
	}
	if _, ok := o.access.LogPosition(o.org); !ok {
		t.Error("the log of an organisation too large for the cache has no position")
	}
}

// TestTheLogPositionIsNoOlderThanAnyAuthorization has a slow request, which read its mark before a change of the
// log, complete after the organisation was evicted.
func TestTheLogPositionIsNoOlderThanAnyAuthorization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFixture(t, 2, 1)
		gate := make(chan struct{})
		o.gate = gate
		var slow sync.WaitGroup
		slow.Go(func() { must.Succeed(t, must.ErrorOf(o.lookUp(t.Context(), o.users[0]))) })
		synctest.Wait()
		o.gate = nil
		var head object.Head
		o.change(func(r ports.Records) (err error) {
			head, err = r.Storage().Changes().Append(t.Context(), o.org, object.NewAccessChange(object.Audience{}, o.users[0], time.UnixMilli(1)))
			return err
		})
		must.Do(o.lookUp(t.Context(), o.users[1])).Or(o.t)
		o.access.actorCache.forget(o.org)
		close(gate)
		slow.Wait()
		if at, ok := o.access.LogPosition(o.org); !ok || at != head.Cursor() {
			t.Errorf("the position is %+v, %v, want %+v", at, ok, head.Cursor())
		}
	})
}
