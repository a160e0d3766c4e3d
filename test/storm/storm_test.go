package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/test/cluster"
	"collab/test/collabd"
	"collab/test/feed"
	"collab/test/must"
	"collab/test/soak"
)

// envDuration names the variable with how long the load takes. Without it there is one in a soak only.
const envDuration = "COLLAB_STORM"

const (
	soakDuration = 90 * time.Second
	recovery     = 2 * time.Minute // bounds what a quiet system takes to be as it was
	workers      = 24
	followers    = 12
)

// plans are those of the tenants. PREMIUM has more members, STANDARD fewer tokens.
var plans = []string{"PREMIUM", "PREMIUM", "STANDARD"}

func TestMain(m *testing.M) { os.Exit(collabd.Run(m)) }

func TestInvariantsHoldAfterFaultsUnderLoad(t *testing.T) {
	duration := soakDuration
	if text := os.Getenv(envDuration); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", envDuration, err)
		}
	} else if !soak.Full() {
		t.Skipf("a storm takes %v: it is part of make soak and make storm", duration)
	}
	if os.Getenv("COLLAB_SKIP_S3") != "" {
		t.Skip("COLLAB_SKIP_S3 is set: there is no object store")
	}
	seed := soak.Seed(t)
	fmt.Printf("%s=%d\n", soak.EnvSeed, seed)
	s := &storm{fleet: start(t, seed), journal: newJournal(), seed: seed}
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.prepare()
	idle := s.settle()
	defer s.report(duration)
	s.run(duration)
	s.check(idle)
}

type storm struct {
	*fleet
	*journal
	seed      uint64
	http      *http.Client
	tenants   []*tenant
	newcomers newOrgs
	release   string
	followers []*follower
	checks    []string // a line for each
	events    int
	resumes   int
}

// clientAt returns a client of the set-up or of the checks at an address.
func (s *storm) clientAt(url string) *client {
	return &client{journal: s.journal, url: url, http: s.http, n: -1, sent: int(s.now())}
}

// must sends a call that has to succeed and decodes its response into out, unless that is nil.
func (s *storm) must(c *client, q call, out any) response {
	s.Helper()
	if q.expect == nil {
		q.expect = []int{200, 201}
	}
	q.kind = "set-up and checks"
	a := c.do(s.Context(), q)
	if !a.ok() {
		s.Fatalf("%s %s is %d: %s", q.method, q.path, a.status, a.body)
	}
	if out != nil {
		if err := a.decode(out); err != nil {
			s.Fatalf("%s %s: %v: %s", q.method, q.path, err, a.body)
		}
	}
	return a
}

// prepare makes the tenants and what they change.
func (s *storm) prepare() {
	c := s.clientAt(s.cluster.Servers[0].URL())
	for i, plan := range plans {
		t := &tenant{name: fmt.Sprint("Tenant ", i), spare: map[string][]record{}}
		for n, role := range []string{"owner", "member", "member", "member", "member"} {
			p := must.Do(c.signIn(s.Context(), "set-up and checks", s.relay.url, fmt.Sprintf("user%d@tenant%d.example.com", n, i), t.name, role)).Or(s)
			t.people = append(t.people, p)
		}
		t.owner, t.subject, t.people = t.people[0], t.people[4], t.people[:4]
		by := t.owner
		s.record("role of "+t.subject.user, historyOp{Kind: "write", Value: "MEMBER", Call: s.now(), Return: s.now()})
		s.must(c, call{method: "PUT", path: "/admin/organisations/" + by.org + "/subscription", body: map[string]string{"plan": plan}, header: http.Header{"X-Admin-Secret": {cluster.AdminSecret}}}, nil)
		s.must(c, call{method: "POST", path: "/auth/seed-onboarding", by: by}, nil)
		var spaces []struct{ ID, Name string }
		s.must(c, call{method: "GET", path: "/workspaces", by: by}, &spaces)
		for _, w := range spaces {
			if w.Name == "Shared Workspace" {
				t.workspace = w.ID
			}
		}
		var made struct{ ID string }
		for n := range registers {
			first := fmt.Sprint("first value ", n)
			a := s.must(c, call{method: "POST", path: "/tasks", by: by, body: map[string]string{"title": first}}, &made)
			t.tasks[n], t.lastTask[n] = made.ID, versionedValue{first, a.header.Get("ETag")}
			s.record("task "+made.ID, historyOp{Kind: "write", Value: first, Call: a.last().call, Return: a.last().ret})
			var f stored
			s.content(first, true)
			a = s.must(c, call{method: "POST", path: fmt.Sprint("/sync/files?path=register-", n, ".txt"), by: by, body: first}, &f)
			t.files[n], t.lastFile[n] = f.ID, versionedValue{first, "1"}
			s.record("file "+f.ID, historyOp{Kind: "write", Value: first, Call: a.last().call, Return: a.last().ret})
			s.recordOutcome("file", f.StorageKey, exists, a)
		}
		for n := range orderedSize {
			s.must(c, call{method: "POST", path: "/tasks", by: by, body: map[string]any{"title": fmt.Sprint("ordered ", n), "tags": []string{"ordered"}}}, &made)
			t.ordered[n] = made.ID
		}
		order := t.ordered[:]
		a := s.must(c, call{method: "POST", path: "/tasks/reorder", by: by, body: map[string]any{"taskIds": order}}, nil)
		s.record("order of "+by.org, historyOp{Kind: "write", Value: strings.Join(order, " "), Call: a.last().call, Return: a.last().ret})
		s.must(c, call{method: "POST", path: "/connectors", by: by, body: map[string]string{"providerId": "tools"}}, &made)
		t.connector = made.ID
		a = s.must(c, call{method: "POST", path: "/connectors/" + made.ID + "/credentials", by: by, body: map[string]any{"credentials": map[string]string{"apiKey": "first"}}}, nil)
		s.record("credentials of "+made.ID, historyOp{Kind: "write", Value: "first", Call: a.last().call, Return: a.last().ret})
		s.preparePlaces(c, t)
		s.tenants = append(s.tenants, t)
	}
	var release struct{ ID string }
	a := s.must(c, call{method: "POST", path: "/updates", by: s.tenants[0].owner, body: map[string]any{"version": "1.0.0", "platform": "linux", "arch": "x64", "downloadUrl": "https://dl.example.com/collab", "rolloutPercentage": 50}}, &release)
	s.release = release.ID
	s.record("rollout", historyOp{Kind: "write", Value: "50", Call: a.last().call, Return: a.last().ret})
}

// run runs the load with the faults, until every client has its last response.
func (s *storm) run(duration time.Duration) {
	ctx, cancel := context.WithTimeout(s.Context(), duration+recovery)
	defer cancel()
	load, end := context.WithTimeout(ctx, duration)
	defer end()
	reading, stop := context.WithCancel(s.Context())
	s.Cleanup(stop)
	for i := range followers {
		t := s.tenants[i%len(s.tenants)]
		f := newFollower(s, t, t.people[i/len(s.tenants)%len(t.people)], i, stop)
		s.followers = append(s.followers, f)
		go f.run(reading)
	}
	var working, failing sync.WaitGroup
	for i := range workers {
		t := s.tenants[i%len(s.tenants)]
		w := &worker{
			client: &client{journal: s.journal, url: s.cluster.URL, http: s.http, n: i}, tenant: t, me: t.people[i/len(s.tenants)%len(t.people)],
			next: requestsOf(s.seed, i), provider: s.relay.url, release: s.release, new: &s.newcomers,
		}
		working.Go(func() { w.run(load, ctx) })
	}
	began := time.Now()
	for _, f := range faultsOf(s.seed, servers, duration) {
		pause(load, time.Until(began.Add(f.At)))
		failing.Go(func() {
			if err := s.inject(load, f); err != nil {
				s.violation("the fault %+v: %v", f, err)
			}
		})
	}
	<-load.Done()
	s.await("faults have ended", func() error {
		failing.Wait()
		return nil
	})
	s.await("all servers are ready", func() error {
		for _, server := range s.cluster.Servers {
			response, err := http.Get(server.URL() + "/readyz")
			if err != nil {
				return err
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("the server at %s is not ready: %d", server.URL(), response.StatusCode)
			}
		}
		return nil
	})
	s.await("all clients have their last answers", func() error {
		working.Wait()
		return nil
	})
}

// report prints what was done. It fails the test if something was wrong.
func (s *storm) report(duration time.Duration) {
	var b strings.Builder
	fmt.Fprintf(&b, "a storm of %v with the seed %d\n\nanswers by kind of request:\n", duration, s.seed)
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(s.responses)) {
		fmt.Fprintf(&b, "  %-26s", kind)
		for _, status := range slices.Sorted(maps.Keys(s.responses[kind])) {
			n := s.responses[kind][status]
			fmt.Fprintf(&b, " %s: %d ", status, n)
			total += n
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintln(&b, "\nwebhooks by answer:")
	for _, what := range slices.Sorted(maps.Keys(s.relay.delivered)) {
		fmt.Fprintf(&b, "  %s: %d\n", what, s.relay.delivered[what])
	}
	fmt.Fprintln(&b, "\nfaults:")
	faults := 0
	for _, what := range slices.Sorted(maps.Keys(s.fleet.injected)) {
		fmt.Fprintf(&b, "  %-34s %d\n", what, s.fleet.injected[what])
		faults += s.fleet.injected[what]
	}
	fmt.Fprintf(&b, "\nchecks:\n  %s\n", strings.Join(s.checks, "\n  "))
	if len(s.undecided) > 0 {
		fmt.Fprintf(&b, "\nundecided:\n  %s\n", strings.Join(s.undecided, "\n  "))
	}
	fmt.Fprintf(&b, "\nseed %d: %d requests, %d acknowledged writes, %d events (%d reconnections), %d faults, %d violations\n",
		s.seed, total, s.acknowledged, s.events, s.resumes, faults, len(s.violations))
	fmt.Print(b.String())
	if len(s.violations) == 0 {
		return
	}
	for _, v := range s.violations[:min(len(s.violations), 40)] {
		s.Error(v)
	}
	folder, err := os.MkdirTemp("", "collab-storm-")
	if err == nil {
		var text []byte
		text, err = json.MarshalIndent(map[string]any{"seed": s.seed, "violations": s.violations, "histories": s.histories, "made": s.made, "audited": s.audited}, "", " ")
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, "history.json"), text, 0o600))
	}
	for i, server := range s.cluster.Servers {
		log, failed := os.ReadFile(server.LogFile())
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(folder, fmt.Sprint("server-", i, ".log")), log, 0o600))
	}
	s.Errorf("%d violations with %s=%d; histories and logs are in %s (%v)", len(s.violations), soak.EnvSeed, s.seed, folder, err)
}

// follower is a client of the feed that is cut off again and again.
type follower struct {
	feed.Follower
	storm  *storm
	tenant *tenant
	by     *person
	n      int
	stop   context.CancelFunc // of all followers

	connections int
	done        chan struct{} // closed when it has ended

	mu     sync.Mutex
	target int64 // where it ends; -1 while that is not known; guarded by mu
	cut    context.CancelFunc
}

func newFollower(s *storm, t *tenant, by *person, n int, stop context.CancelFunc) *follower {
	return &follower{Follower: feed.Follower{Received: &t.received}, storm: s, tenant: t, by: by, n: n, stop: stop, done: make(chan struct{}), target: -1}
}

func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	next := requestsOf(f.storm.seed, 1<<20+f.n)
	for ctx.Err() == nil && !f.arrived() {
		r := next()
		life, cancel := context.WithTimeout(ctx, time.Duration(r.Draws[0]%8000)*time.Millisecond)
		f.mu.Lock()
		f.cut = cancel
		f.mu.Unlock()
		if err := f.follow(life); errors.Is(err, feed.ErrViolation) {
			f.storm.violation("%v", err)
			cancel()
			return
		}
		cancel()
		f.connections++
		pause(ctx, r.Pause)
	}
}

// arrived reports whether the follower has all events.
func (f *follower) arrived() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.target >= 0 && f.Started && f.Last >= f.target
}

// end lets the follower end at a number.
func (f *follower) end(target int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	if f.cut != nil {
		f.cut()
	}
}

func (f *follower) follow(ctx context.Context) error {
	r, err := f.Request(ctx, f.storm.cluster.URL, f.by.bearer())
	if err != nil {
		return err
	}
	response, err := f.storm.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	f.storm.count("feed", strconv.Itoa(response.StatusCode))
	if response.StatusCode != http.StatusOK {
		if response.StatusCode < 500 {
			f.storm.violation("the feed is %d", response.StatusCode)
		}
		return errNoResponse
	}
	return f.Read(response.Body, f.arrived)
}

// sees reports whether the follower receives a change, by the rules of the contract. It belongs to the
// teams of its tenant.
func (f *follower) sees(e object.Change) bool {
	if e.Type == object.AccessChanged {
		return e.Audience.Everyone || e.Audience.Managers && f.by == f.tenant.owner || slices.Contains(e.Audience.Users, id.User(f.by.user)) ||
			slices.ContainsFunc(e.Audience.Teams, func(t id.Team) bool { return slices.Contains(f.tenant.teams[:], string(t)) })
	}
	return e.Object.Scope != object.Personal || *e.Object.Owner == id.User(f.by.user)
}
