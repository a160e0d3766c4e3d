package releases_test

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
	"collab/app/access"
	"collab/app/releases"
	"collab/domain/audit"
	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/patch"
	"collab/domain/release"
	"collab/ports"
	"collab/test/directory"
	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var startTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var mac = release.Target{Platform: release.Darwin, Arch: release.ARM64, Channel: release.Stable}

// fixture is a deployment with one organisation, whose releases are managed.
type fixture struct {
	directory.Directory
	store  *store
	clock  *memory.Clock
	ids    *memory.IDs
	bus    ports.Bus
	log    strings.Builder
	logger *slog.Logger // to log
	org    id.Org
	ada    org.Actor
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{store: &store{Store: memory.NewStore()}, clock: memory.NewClock(startTime), ids: &memory.IDs{}, bus: lossyBus{}}
	w.Directory = directory.Directory{TB: t, Store: w.store, Clock: w.clock, IDs: w.ids}
	w.logger = slog.New(slog.NewTextHandler(&w.log, nil))
	w.org = w.Organisation()
	w.ada = w.Member(w.org, org.Owner)
	return w
}

// server is one of the deployment, whose ticks a test gives.
type server struct {
	*releases.Releases
	poll, count chan time.Time
}

func (w *fixture) server() *server {
	w.Helper()
	s := w.unstarted()
	w.Must(s.Start(w.Context(), s.poll, s.count))
	w.Cleanup(func() { w.Must(s.Close(context.WithoutCancel(w.Context()))) })
	return s
}

// unstarted is a server that was not started.
func (w *fixture) unstarted() *server {
	a := access.New(access.Options{Store: w.store, Epochs: w.store, Clock: w.clock, IDs: w.ids})
	return &server{releases.New(releases.Options{
		Store: w.store, Bus: w.bus, Clock: w.clock, IDs: w.ids, Log: w.logger, Atomic: a.Atomic, From: access.From(w.store), Origin: access.Origin, Publishers: []id.Org{w.org},
	}), make(chan time.Time), make(chan time.Time)}
}

// runTwice gives a tick and waits until the work is done that it is for: then the
// next one is taken.
func runTwice(c chan<- time.Time) {
	c <- time.Time{}
	c <- time.Time{}
}

func draft(version string) release.Draft {
	return release.Draft{Version: version, Platform: "darwin", Arch: "arm64", Settings: release.Settings{DownloadURL: "https://dl.example.com/a.zip", Rollout: 100, Active: true}}
}

func check(t testing.TB, at, client string) releases.Check {
	t.Helper()
	v := must.Do(release.ParseVersion(at)).Or(t)
	return releases.Check{Target: mac, Version: v, Client: client}
}

// offered is the version that a device at 0.0.1 is offered, "" for none.
func (w *fixture) offered(s *server) string {
	w.Helper()
	if r := s.Offer(check(w, "0.0.1", "device")); r != nil {
		return r.Version.String()
	}
	return ""
}

// listed is what a list has.
func (w *fixture) listed(s *server, actor org.Actor, after id.Release, limit int) (all []release.Release, err error) {
	err = s.List(w.Context(), actor, after, limit, func(r release.Release) error {
		all = append(all, r)
		return nil
	})
	return all, err
}

// storedTallies are the counts that are stored.
func (w *fixture) storedTallies() []release.CheckCount {
	w.Helper()
	all := must.Do(w.store.Store.Deployment().Adoption().List(w.Context(), "0001-01-01", "9999-12-31", release.Target{}, release.CheckCount{}, 0)).Or(w)
	return all
}

func (w *fixture) checkTallies(want ...release.CheckCount) {
	w.Helper()
	if got := w.storedTallies(); !slices.Equal(got, want) {
		w.Errorf("kept is %v, want %v", got, want)
	}
}

func checkCount(day calendar.Day, version string, checks, offered int64) release.CheckCount {
	return release.CheckCount{Day: day, Target: mac, Version: version, Checks: checks, Offered: offered}
}

// lossyBus is a bus that loses everything.
type lossyBus struct{}

func (lossyBus) Publish(object.Hint)                         {}
func (lossyBus) Subscribe(func(object.Hint)) (func(), error) { return func() {}, nil }

// store is one whose releases or counts cannot be reached while a test says so.
type store struct {
	*memory.Store
	unread, uncounted atomic.Bool
	panics            atomic.Bool                 // rather than to fail, to read the revision
	others            int                         // releases that are counted with those that are there
	response          func(context.Context) error // of counts that are stored; nil: at once
}

var errDown = fault.New(fault.Unavailable, "The database does not answer")

func (s *store) Deployment() ports.Deployment { return deployment{s.Store.Deployment(), s} }

func (s *store) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	return s.Store.Atomic(ctx, func(r ports.Records) error { return fn(records{r, s}) })
}

type records struct {
	ports.Records
	of *store
}

func (r records) Deployment() ports.Deployment { return deployment{r.Records.Deployment(), r.of} }

type deployment struct {
	ports.Deployment
	of *store
}

func (d deployment) Releases() ports.Releases { return unsteady{d.Deployment.Releases(), d.of} }
func (d deployment) Adoption() ports.Adoption { return uncounted{d.Deployment.Adoption(), d.of} }
func (d deployment) Reports() ports.Reports   { return unreported{d.Deployment.Reports(), d.of} }

type unsteady struct {
	ports.Releases
	of *store
}

func (u unsteady) Revision(ctx context.Context) (int64, error) {
	if u.of.unread.Load() {
		if u.of.panics.Load() {
			panic(errDown)
		}
		return 0, errDown
	}
	return u.Releases.Revision(ctx)
}

func (u unsteady) List(ctx context.Context, ids []id.Release) ([]release.Release, error) {
	if u.of.unread.Load() {
		return nil, errDown
	}
	return u.Releases.List(ctx, ids)
}

func (u unsteady) Count(ctx context.Context) (int, error) {
	n, err := u.Releases.Count(ctx)
	return n + u.of.others, err
}

type uncounted struct {
	ports.Adoption
	of *store
}

func (u uncounted) Add(ctx context.Context, all []release.CheckCount) error {
	if u.of.uncounted.Load() {
		return errDown
	}
	if err := u.Adoption.Add(ctx, all); err != nil || u.of.response == nil {
		return err
	}
	return u.of.response(ctx)
}

func (u uncounted) AddDevices(ctx context.Context, all []release.DailyDevices) error {
	if u.of.uncounted.Load() {
		return errDown
	}
	return u.Adoption.AddDevices(ctx, all)
}

type unreported struct {
	ports.Reports
	of *store
}

func (u unreported) Add(ctx context.Context, all []release.Report) error {
	if u.of.uncounted.Load() {
		return errDown
	}
	return u.Reports.Add(ctx, all)
}

func TestRolesThatManageReleases(t *testing.T) {
	w := newFixture(t)
	other := w.Organisation()
	made := must.Do(w.server().Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	for _, c := range []struct {
		about      string
		actor      org.Actor
		publishers []id.Org
		anybody    bool
		may        bool
	}{
		{"an owner of a publisher", w.ada, []id.Org{other, w.org}, false, true},
		{"an admin of a publisher", w.Member(w.org, org.Admin), []id.Org{w.org}, false, true},
		{"a member of a publisher", w.Member(w.org, org.Member), []id.Org{w.org}, false, false},
		{"a viewer of a publisher", w.Member(w.org, org.Viewer), []id.Org{w.org}, false, false},
		{"an owner of another organisation", w.Member(other, org.Owner), []id.Org{w.org}, false, false},
		{"an owner where nobody publishes", w.ada, nil, false, false},
		{"an owner where anybody does", w.Member(other, org.Owner), nil, true, true},
		{"a member where anybody does", w.Member(other, org.Member), nil, true, false},
		{"somebody without an organisation", org.Actor{User: w.ada.User, Role: org.Owner}, []id.Org{""}, true, false},
	} {
		s := w.unstarted()
		s.Publishers, s.AnyOrganisation = c.publishers, c.anybody
		ctx, d := t.Context(), draft("2.0.0")
		d.Version = "2.0.0-" + strings.ReplaceAll(c.about, " ", "-")
		_, publish := s.Publish(ctx, c.actor, d)
		_, change := s.Change(ctx, c.actor, made.ID, release.Patch{Rollout: patch.Value(7)})
		_, list := w.listed(s, c.actor, "", 0)
		_, _, rollout := s.Rollout(ctx, c.actor, made.ID, nil)
		_, adoption := s.Adoption(ctx, c.actor, "2026-01-01", "2026-01-02", release.Target{}, release.CheckCount{}, 0)
		for what, err := range map[string]error{"publish": publish, "change": change, "list": list, "look at a rollout": rollout, "see who has what": adoption} {
			if c.may && err != nil || !c.may && !fault.Is(err, fault.Forbidden) {
				t.Errorf("%s: to %s gives %v", c.about, what, err)
			}
			if err != nil && (strings.Contains(err.Error(), "COLLAB") || strings.Contains(err.Error(), string(w.org))) {
				t.Errorf("%s: to %s gives away %v", c.about, what, err)
			}
		}
	}
}

func TestFormerManagersChangeNoRelease(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	made := must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	m := org.Membership{Org: w.org, User: w.ada.User, Role: org.Member, JoinedAt: startTime}
	for _, c := range []struct {
		session id.Session
		put     func()
		want    fault.Kind
	}{
		{"ended", func() {}, fault.Unauthenticated},
		{"", func() { w.Put(m) }, fault.Forbidden},
		{"", func() { w.Put(m.Removed(startTime)) }, fault.Forbidden},
	} {
		c.put()
		ctx := access.NewContext(t.Context(), access.Request{Session: c.session})
		_, publish := s.Publish(ctx, w.ada, draft("2.0.0"))
		_, change := s.Change(ctx, w.ada, made.ID, release.Patch{Rollout: patch.Value(7)})
		if !fault.Is(publish, c.want) || !fault.Is(change, c.want) {
			t.Errorf("publishing gives %v, a change %v", publish, change)
		}
	}
	if all := s.Snapshot().All(); s.Snapshot().Revision != 1 || all[0].Rollout != 100 {
		t.Errorf("there are %v", all)
	}
}

func TestAServerWhoseStoreBecomesAnOlderCopyReadsAllOfIt(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	made := must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	for n := range 3 {
		must.Do(s.Change(t.Context(), w.ada, made.ID, release.Patch{Rollout: patch.Value(n)})).Or(w)
	}
	older := newFixture(t)
	must.Do(older.server().Publish(t.Context(), older.ada, draft("0.9.0"))).Or(w)
	s.Store = older.store
	w.Must(s.Refresh(t.Context()))
	if now := s.Snapshot(); now.Revision != 1 || len(now.All()) != 1 || now.All()[0].Version.String() != "0.9.0" {
		t.Errorf("it knows %+v", now.All())
	}
}

func TestPublishingAndChangingAreRecorded(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	ctx := access.NewContext(t.Context(), access.Request{Origin: audit.Origin{Address: "192.0.2.1", Request: "req-1"}})
	made := must.Do(s.Publish(ctx, w.ada, draft("v1.0"))).Or(w)
	if got := w.offered(s); got != "1.0.0" {
		t.Errorf("after publishing a device is offered %q", got)
	}
	w.clock.Advance(time.Hour)
	now, err := s.Change(ctx, w.ada, made.ID, release.Patch{Rollout: patch.Value(0)})
	w.Must(err)
	if now.Rollout != 0 || !now.UpdatedAt.Equal(startTime.Add(time.Hour)) || !now.PublishedAt.Equal(startTime) {
		t.Errorf("it has become %+v", now)
	}
	if got := w.offered(s); got != "" {
		t.Errorf("after the change a device is offered %q", got)
	}
	// What changes nothing leaves no trace, and neither does what fails.
	w.clock.Advance(time.Hour)
	for _, p := range []release.Patch{{}, {Rollout: patch.Value(0)}} {
		if same, err := s.Change(t.Context(), w.ada, made.ID, p); err != nil || !same.UpdatedAt.Equal(now.UpdatedAt) {
			t.Errorf("a change of nothing makes %+v, %v", same, err)
		}
	}
	for what, err := range map[string]error{
		"a version twice":         must.ErrorOf(s.Publish(t.Context(), w.ada, draft("1.0.0+again"))),
		"a draft that is wrong":   must.ErrorOf(s.Publish(t.Context(), w.ada, draft("latest"))),
		"a patch that is wrong":   must.ErrorOf(s.Change(t.Context(), w.ada, made.ID, release.Patch{Rollout: patch.Value(101)})),
		"a release of that never": must.ErrorOf(s.Change(t.Context(), w.ada, id.Release(w.ids.New()), release.Patch{})),
	} {
		if want := map[string]fault.Kind{"a version twice": fault.Conflict, "a release of that never": fault.NotFound}[what]; want != 0 && !fault.Is(err, want) || want == 0 && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s gives %v", what, err)
		}
	}
	all := directory.AuditLog(t, w.store, w.org)
	want := []audit.Entry{
		{Org: w.org, At: startTime.Add(time.Hour), Actor: w.ada.User, Action: audit.ReleaseChanged, Target: string(made.ID), Detail: "1.0.0 DARWIN ARM64 STABLE, 0 %, was 100 %", Address: "192.0.2.1", Request: "req-1"},
		{Org: w.org, At: startTime, Actor: w.ada.User, Action: audit.ReleasePublished, Target: string(made.ID), Detail: "1.0.0 DARWIN ARM64 STABLE, 100 %", Address: "192.0.2.1", Request: "req-1"},
	}
	for i := range all {
		all[i].ID = ""
	}
	if !slices.Equal(all, want) {
		t.Errorf("the log says %+v, want %+v", all, want)
	}
	must.Is(t, 2, s.Snapshot().Revision)
}

func TestPollingFindsReleasesWithoutAHint(t *testing.T) {
	w := newFixture(t)
	one, two := w.server(), w.server()
	must.Do(one.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	if got := w.offered(two); got != "" {
		t.Fatalf("the bus lost nothing: %q", got)
	}
	runTwice(two.poll)
	if got := w.offered(two); got != "1.0.0" {
		t.Errorf("after a look a device is offered %q", got)
	}
	must.Do(one.Publish(t.Context(), w.ada, draft("1.1.0"))).Or(w)
	if all, err := w.listed(two, w.ada, "", 0); err != nil || len(all) != 2 || all[0].Version.String() != "1.1.0" || w.offered(two) != "1.1.0" {
		t.Errorf("a list has %v, %v", all, err)
	}
	newest := must.Do(one.Publish(t.Context(), w.ada, draft("1.2.0"))).Or(w)
	if all, err := w.listed(two, w.ada, newest.ID, 0); err != nil || len(all) != 2 || all[0].Version.String() != "1.1.0" {
		t.Errorf("after a release that the server has not read, a list has %v, %v", all, err)
	}
}

func TestHintsMakeAServerReadReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.bus = &memory.Bus{}
		one, two := w.server(), w.server()
		must.Do(one.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
		synctest.Wait()
		if got := w.offered(two); got != "1.0.0" {
			t.Errorf("a device is offered %q", got)
		}
		// Organisations' hints are not its business.
		w.store.unread.Store(true)
		w.bus.Publish(object.Hint{Org: w.org, N: 1})
		synctest.Wait()
		if w.log.Len() > 0 {
			t.Errorf("another's hint had it look: %s", w.log.String())
		}
		w.bus.Publish(object.Hint{Org: release.BusOrg, N: 1})
		synctest.Wait()
		if w.log.Len() == 0 {
			t.Error("its own had it look nowhere")
		}
	})
}

func TestAServerServesItsSnapshotWhileTheStoreFails(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	w.store.unread.Store(true)
	w.store.panics.Store(true)
	runTwice(s.poll)
	w.store.panics.Store(false)
	runTwice(s.poll)
	if got := w.offered(s); got != "1.0.0" {
		t.Errorf("without the store a device is offered %q", got)
	}
	if n := strings.Count(w.log.String(), "release read failed"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, w.log.String())
	}
	// A change is made all the same, and known as soon as the store answers.
	must.Do(s.Publish(t.Context(), w.ada, draft("1.1.0"))).Or(w)
	w.store.unread.Store(false)
	runTwice(s.poll)
	if got := w.offered(s); got != "1.1.0" {
		t.Errorf("with the store again a device is offered %q", got)
	}
	w.store.unread.Store(true)
	runTwice(s.poll)
	if n := strings.Count(w.log.String(), "release read failed"); n != 2 {
		t.Errorf("the log says it %d times:\n%s", n, w.log.String())
	}
	must.FailIs(t, must.ErrorOf(w.listed(s, w.ada, "", 0)), errDown) // a list without the store
}

func TestAListHasTheHighestVersionFirstWithAllSettings(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	const n = 40 // more than are read at once
	made := make([]release.Release, n)
	for i := range n {
		d, notes := draft(fmt.Sprintf("1.%d.0", i)), fmt.Sprint("notes of ", i)
		d.Settings.Notes = &notes
		var err error
		made[n-1-i], err = s.Publish(t.Context(), w.ada, d)
		w.Must(err)
	}
	same := func(got []release.Release, err error, want []release.Release) {
		t.Helper()
		if err != nil || !slices.EqualFunc(got, want, func(a, b release.Release) bool { return a.ID == b.ID && a.Same(b) }) {
			t.Errorf("the list has %d releases, want %d, %v", len(got), len(want), err)
		}
	}
	for after := -1; after < n; after += 7 {
		var from id.Release
		if after >= 0 {
			from = made[after].ID
		}
		for _, limit := range []int{0, 1, 17, n} {
			want := made[after+1:]
			if limit > 0 && limit < len(want) {
				want = want[:limit]
			}
			got, err := w.listed(s, w.ada, from, limit)
			same(got, err, want)
		}
	}
	must.Fail(t, must.ErrorOf(w.listed(s, w.ada, "00000000-0000-7000-8000-000000000000", 1)), fault.Invalid) // after a release that is not there
	no := errors.New("no")
	must.FailIs(t, s.List(t.Context(), w.ada, "", 0, func(release.Release) error { return no }), no) // a list that is broken off
}

func TestTheNumberOfReleasesIsLimited(t *testing.T) {
	w := newFixture(t)
	w.store.others = release.MaxReleases - 1
	s := w.server()
	last := must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	if _, err := s.Publish(t.Context(), w.ada, draft("2.0.0")); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "10000") {
		t.Errorf("one more gives %v", err)
	}
	if got := w.offered(s); got != "1.0.0" || s.Snapshot().Revision != 1 {
		t.Errorf("a device is offered %q at revision %d", got, s.Snapshot().Revision)
	}
	must.Do(s.Change(t.Context(), w.ada, last.ID, release.Patch{Rollout: patch.Value(50)})).Or(t)
}

func TestAServerThatCannotReadStartsAndReadsLater(t *testing.T) {
	w := newFixture(t)
	must.Do(w.server().Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	w.store.unread.Store(true)
	s := w.server()
	runTwice(s.poll)
	if got := w.offered(s); got != "" {
		t.Errorf("before it has read, a device is offered %q", got)
	}
	if n := strings.Count(w.log.String(), "release read failed"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, w.log.String())
	}
	w.store.unread.Store(false)
	runTwice(s.poll)
	if got := w.offered(s); got != "1.0.0" {
		t.Errorf("with the store a device is offered %q", got)
	}
}

func TestChecksAreCounted(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0+b1"))).Or(w)
	s.Offer(check(t, "1.0.0", "a"))
	s.Offer(check(t, "v1.0+b2", "a"))
	s.Offer(check(t, "0.9.0", "a"))
	w.checkTallies()
	runTwice(s.count)
	w.checkTallies(checkCount("2026-01-02", "0.9.0", 1, 1), checkCount("2026-01-02", "1.0.0", 2, 0))
	w.clock.Set(startTime.Add(21 * time.Hour))
	s.Offer(check(t, "1.0.0", ""))
	all, err := s.Adoption(t.Context(), w.ada, "2026-01-03", "2026-01-03", release.Target{}, release.CheckCount{}, 0)
	if err != nil || !slices.Equal(all, []release.CheckCount{checkCount("2026-01-03", "1.0.0", 1, 0)}) {
		t.Errorf("who has what is %v, %v", all, err)
	}
}

func TestDevicesOfChecksAndFeedsAreCounted(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	made := must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	all := func(*release.Release) bool { return true }
	s.Offer(check(t, "0.9.0", "a"))
	for _, client := range []string{"a", "b", "b", ""} {
		s.Feed(check(t, "0.9.0", client), all)
	}
	if p, err := s.Progress(t.Context(), w.ada, made.ID); err != nil || p.Devices != 2 {
		t.Errorf("the progress is %+v, %v", p, err)
	}
}

func TestCountsAreKeptWhileTheStoreFails(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	made := must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	w.store.uncounted.Store(true)
	for i := range 3 {
		s.Offer(check(t, "1.0.0", "a"))
		s.Report(mac, made.Version, true, fmt.Sprint("net-", i))
		runTwice(s.count)
	}
	if n := strings.Count(w.log.String(), "update check counts not stored"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, w.log.String())
	}
	must.FailIs(t, must.ErrorOf(s.Adoption(t.Context(), w.ada, "2026-01-01", "2026-01-03", release.Target{}, release.CheckCount{}, 0)), errDown)
	w.checkTallies()
	w.store.uncounted.Store(false)
	for range 2 {
		runTwice(s.count)
		w.checkTallies(checkCount("2026-01-02", "1.0.0", 3, 0))
		if p, err := s.Progress(t.Context(), w.ada, made.ID); err != nil || p.Devices != 1 || p.Counted.Failed != 3 {
			t.Errorf("the progress is %+v, %v", p, err)
		}
	}
}

func TestCloseWritesCounts(t *testing.T) {
	w := newFixture(t)
	s := w.unstarted()
	w.Must(s.Start(t.Context(), s.poll, s.count))
	s.Offer(check(t, "1.0.0", "a"))
	w.Must(s.Close(t.Context()))
	w.checkTallies(checkCount("2026-01-02", "1.0.0", 1, 0))
	s.Offer(check(t, "1.0.0", "a"))
	w.store.uncounted.Store(true)
	must.FailIs(t, s.Close(t.Context()), errDown) // closing without the store
}

// TestCloseWaitsForAWriteOfCounts closes during a write whose result is not known yet: the counts are not written again.
func TestCloseWaitsForAWriteOfCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		s := w.unstarted()
		w.Must(s.Start(t.Context(), s.poll, s.count))
		stored := make(chan struct{})
		w.store.response = func(ctx context.Context) error {
			w.store.response = nil
			select {
			case <-stored:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.Offer(check(t, "1.0.0", "a"))
		s.count <- time.Time{}
		closed := make(chan error, 1)
		go func() { closed <- s.Close(t.Context()) }()
		synctest.Wait()
		close(stored)
		w.Must(<-closed)
		w.checkTallies(checkCount("2026-01-02", "1.0.0", 1, 0))
	})
}

func TestACancelledReaderDoesNotInterruptAWriteOfCounts(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	ctx, leave := context.WithCancel(t.Context())
	w.store.response = func(ctx context.Context) error {
		leave()
		return ctx.Err()
	}
	s.Offer(check(t, "1.0.0", "a"))
	_, _ = s.Adoption(ctx, w.ada, "2026-01-01", "2026-01-03", release.Target{}, release.CheckCount{}, 0)
	w.store.response = nil
	runTwice(s.count)
	w.checkTallies(checkCount("2026-01-02", "1.0.0", 1, 0))
}

func TestCloseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		s := w.unstarted()
		w.Must(s.Start(t.Context(), s.poll, s.count))
		w.store.response = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		s.Offer(check(t, "1.0.0", "a"))
		s.count <- time.Time{}
		ctx, over := context.WithTimeout(t.Context(), time.Second)
		defer over()
		began := time.Now()
		if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("closing takes %v and gives %v", time.Since(began), err)
		}
	})
}

func TestUnknownVersionsBeyondTheLimitAreCountedTogether(t *testing.T) {
	w := newFixture(t)
	s := w.server()
	must.Do(s.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	const many = release.MaxUnknown + 50
	for range 2 {
		for n := range many {
			s.Offer(check(t, fmt.Sprintf("0.0.%d", n), "a"))
		}
	}
	for n := range many { // each is of the one release
		s.Offer(check(t, fmt.Sprintf("1.0.0+%d", n), "a"))
	}
	w.Must(s.FlushCounts(t.Context()))
	byVersion := map[string]int64{}
	for _, c := range w.storedTallies() {
		byVersion[c.Version] += c.Checks
	}
	if len(byVersion) != release.MaxUnknown+2 || byVersion["0.0.0"] != 2 || byVersion[release.OtherVersions] != 2*50 || byVersion["1.0.0"] != many {
		t.Errorf("%d versions are counted, %d checks together, %d of the release", len(byVersion), byVersion[release.OtherVersions], byVersion["1.0.0"])
	}
	// The next day begins anew.
	w.clock.Advance(24 * time.Hour)
	s.Offer(check(t, "0.0.249", "a"))
	all, err := s.Adoption(t.Context(), w.ada, "2026-01-03", "2026-01-03", release.Target{}, release.CheckCount{}, 0)
	if err != nil || !slices.Equal(all, []release.CheckCount{checkCount("2026-01-03", "0.0.249", 1, 1)}) {
		t.Errorf("on the next day it is %v, %v", all, err)
	}
}

func TestNoCheckIsLostOrCountedTwice(t *testing.T) {
	w := newFixture(t)
	one, two := w.server(), w.server()
	made := must.Do(one.Publish(t.Context(), w.ada, draft("1.0.0"))).Or(w)
	const askers, times = 16, 200
	var offers atomic.Int64
	var all sync.WaitGroup
	for i := range askers {
		s := []*server{one, two}[i%2]
		old, current := check(t, "0.9.0", fmt.Sprint(i)), check(t, "1.0.0", "")
		all.Go(func() {
			for n := range times {
				if s.Offer(old) != nil {
					offers.Add(1)
				}
				s.Offer(current)
				if n%50 == 0 {
					if err := s.FlushCounts(t.Context()); err != nil && !errors.Is(err, errDown) {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Go(func() {
		for n := range 50 {
			w.store.uncounted.Store(n%3 == 0)
			must.Succeed(t, must.ErrorOf(one.Change(t.Context(), w.ada, made.ID, release.Patch{Rollout: patch.Value(n % 2 * 100)})))
			runTwice(two.poll)
			runTwice(two.count)
		}
		w.store.uncounted.Store(false)
	})
	all.Wait()
	w.Must(errors.Join(one.FlushCounts(t.Context()), two.FlushCounts(t.Context())))
	w.checkTallies(checkCount("2026-01-02", "0.9.0", askers*times, offers.Load()), checkCount("2026-01-02", "1.0.0", askers*times, 0))
	if got, want := one.Snapshot().Revision, int64(51); got != want || two.Snapshot().Revision != want {
		t.Errorf("the revisions are %d and %d, want %d", got, two.Snapshot().Revision, want)
	}
}

func TestAClosedOrganisationPublishesNothing(t *testing.T) {
	w := newFixture(t)
	s, owner := w.server(), w.Member(w.org, org.Owner)
	there := must.Do(s.Publish(t.Context(), owner, draft("1.0.0"))).Or(w)
	w.Close(w.org)
	_, published := s.Publish(t.Context(), owner, draft("1.0.1"))
	_, changed := s.Change(t.Context(), owner, there.ID, release.Patch{})
	for _, err := range []error{published, changed} {
		must.Fail(t, err, fault.Forbidden)
	}
}
