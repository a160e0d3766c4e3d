package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/test/collabd"
	"collab/test/feed"
	"collab/test/must"
	"collab/test/nats"
	"collab/test/objectstore"
	"collab/test/postgres"
	"collab/test/soak"
	"collab/test/tempdir"
)

// The numbers of writers, organisations and members.
const (
	clusterWriters = 50
	clusterOrgs    = 4
	clusterUsers   = 5 // of each organisation
)

var (
	clusterReaders = soak.Count(200)        // at least one for each member
	clusterWrites  = soak.Count(20_000)     // in all
	faults         = max(4, soak.Count(16)) // the same number of each kind
)

// retryDelay is the pause after a refused or interrupted request.
const retryDelay = 25 * time.Millisecond

// tenant is one organisation of the cluster.
type tenant struct {
	users  []collabd.Client
	common string           // a workspace that all see
	circle string           // a workspace that the first, the second and the third see
	inside map[id.User]bool // the users who see circle

	mu       sync.Mutex
	acks     []feed.Write  // guarded by mu
	received feed.Received // by its readers
}

type cluster struct {
	testing.TB
	seed    uint64
	servers []*collabd.Server
	tenants []*tenant
	acked   atomic.Int64
	written chan struct{} // of capacity 1; receives after each acknowledged write
	enough  atomic.Bool   // writers end
	client  *http.Client
	streams *http.Client
}

// TestClusterLosesNoAcknowledgedWrite kills servers, the database and the bus: each write that was
// acknowledged remains, and each reader of a feed gets every change that they may see once and in order,
// and no other.
func TestClusterLosesNoAcknowledgedWrite(t *testing.T) {
	seed := seeded(t)
	db := postgres.Own(t, postgres.Options{NoSync: true, Settings: map[string]string{"synchronous_commit": "on"}})
	database := must.Do(db.Database(context.Background(), "cluster")).Or(t)
	bus := nats.Start(t)
	store := objectstore.Start(t, tempdir.New(t)) // in memory, each object would be looked for among all
	first := collabd.Start(t, "COLLAB_DATABASE_URL="+database, "COLLAB_BUS_URL="+bus.URL, "COLLAB_BLOB_URL="+store.Bucket("cluster"),
		objectstore.EnvHost+"="+store.Host, "COLLAB_HEARTBEAT=2s")
	second := first.Peer(t)

	f := newCluster(t, seed, first, second)
	f.prove(database, clusterWriters, clusterReaders, clusterWrites/clusterWriters, func(ctx context.Context) { f.injectFaults(ctx, db, bus) })
}

func newCluster(t testing.TB, seed uint64, servers ...*collabd.Server) *cluster {
	return &cluster{
		TB: t, seed: seed, servers: servers, written: make(chan struct{}, 1),
		client:  &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: clusterWriters}},
		streams: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// prove has each writer make a number of writes, or write until fn returns if the number is 0, and readers
// follow the feeds while fn runs. It then compares acknowledged writes, received events and stored files.
func (f *cluster) prove(database string, writers, followers, writes int, fn func(ctx context.Context)) {
	t := f.TB
	for i := range clusterOrgs {
		f.tenants = append(f.tenants, f.tenant(fmt.Sprintf("Company %d", i)))
	}

	// Writers and readers begin.
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var reading, writing sync.WaitGroup
	readers := make([]*reader, followers)
	started := make(chan struct{}, followers)
	for i := range readers {
		c := f.tenants[i%clusterOrgs]
		readers[i] = &reader{cluster: f, tenant: c, user: c.users[i/clusterOrgs%clusterUsers], random: rand.New(rand.NewPCG(f.seed, uint64(i))), started: sync.OnceFunc(func() { started <- struct{}{} })}
		readers[i].Received = &c.received
		readers[i].target.Store(-1)
		reading.Go(func() { readers[i].run(ctx) })
	}
	for range readers {
		select {
		case <-started:
		case <-ctx.Done():
			t.Fatal("not all readers came in")
		}
	}
	began := time.Now()
	for i := range writers {
		writing.Go(func() {
			w := &writer{cluster: f, tenant: f.tenants[i%clusterOrgs], n: i, random: rand.New(rand.NewPCG(f.seed, uint64(1000+i)))}
			w.run(ctx, writes)
		})
	}
	fn(ctx)
	f.enough.Store(writes == 0)
	writing.Wait()
	took := time.Since(began)
	if t.Failed() || ctx.Err() != nil {
		cancel()
		reading.Wait()
		t.Fatalf("%d writes: %v", f.acked.Load(), ctx.Err())
	}

	// Readers continue until they have received all their events.
	logs, changes := make([][]object.Change, clusterOrgs), opened(t, database).Storage().Changes()
	for i, c := range f.tenants {
		logs[i] = must.Do(feed.Log(t.Context(), changes, id.Org(c.users[0].Org))).Or(t)
	}
	for i, r := range readers {
		r.target.Store(feed.Last(logs[i%clusterOrgs], r.sees))
		r.interrupt()
	}
	finished := make(chan struct{})
	go func() { reading.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(2 * time.Minute):
		cancel()
		<-finished
		t.Error("not all readers came to the end")
	}
	events, connections, resumes := 0, 0, 0
	for i, r := range readers {
		must.NoError(t, r.Compare(logs[i%clusterOrgs], r.sees))
		events, connections, resumes = events+len(r.Events), connections+r.connections, resumes+r.cut
	}
	var checking sync.WaitGroup
	for i, c := range f.tenants {
		checking.Go(func() { f.check(c, logs[i]) })
	}
	checking.Wait()
	t.Logf("%d writes in %s, %d entries in the logs; %d events to %d readers over %d connections, of which %d were cut off", f.acked.Load(), took.Round(time.Second),
		len(slices.Concat(logs...)), events, len(readers), connections, resumes)
}

func (f *cluster) tenant(name string) *tenant {
	c := &tenant{inside: map[id.User]bool{}}
	for i := range clusterUsers {
		role := []string{"owner", "member", "member", "viewer", "member"}[i]
		c.users = append(c.users, f.servers[0].SignIn(f, fmt.Sprintf("user%d@%s.example.com", i, strings.ReplaceAll(name, " ", "")), name, role))
	}
	owner := c.users[0]
	var team, space struct{ ID string }
	owner.Must(f, 200, "POST", "/auth/seed-onboarding", nil, nil)
	var spaces []struct{ ID, Name string }
	owner.Must(f, 200, "GET", "/workspaces", nil, &spaces)
	for _, s := range spaces {
		if s.Name == "Shared Workspace" {
			c.common = s.ID
		}
	}
	owner.Must(f, 201, "POST", "/teams", map[string]string{"name": "Circle"}, &team)
	for _, u := range c.users[1:3] {
		if status, body, err := owner.Do("POST", "/teams/"+team.ID+"/members", map[string]string{"userId": u.User}); err != nil || status/100 != 2 {
			f.Fatalf("joining the circle: %d %s, %v", status, body, err)
		}
	}
	owner.Must(f, 201, "POST", "/workspaces", map[string]string{"name": "Circle", "teamId": team.ID}, &space)
	c.circle = space.ID
	for _, u := range c.users[:3] {
		c.inside[id.User(u.User)] = true
	}
	return c
}

// injectFaults kills and stops servers, the database and the bus, evenly over the writes.
func (f *cluster) injectFaults(ctx context.Context, db *postgres.Server, bus *nats.Server) {
	random := rand.New(rand.NewPCG(f.seed, 1<<32))
	var plan []string
	for len(plan) < faults {
		plan = append(plan, "first server", "second server", "database", "bus")
	}
	random.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	for i, what := range plan {
		if !f.awaitWrites(ctx, (i+1)*clusterWrites/(faults+1)) {
			return
		}
		var err error
		switch what {
		case "first server", "second server":
			s := f.servers[0]
			if what == "second server" {
				s = f.servers[1]
			}
			s.Kill()
			err = s.Restart()
		case "database":
			err = db.Restart(ctx, random.IntN(2) == 0)
		case "bus":
			bus.Stop()
			// The servers go on without the bus for a while.
			f.awaitWrites(ctx, int(f.acked.Load())+clusterWrites/200)
			bus.Restart(f)
		}
		if err != nil {
			f.Errorf("trouble %d, %s: %v", i, what, err)
			return
		}
	}
}

// awaitWrites waits until a number of writes was acknowledged, and reports whether the test goes on.
func (f *cluster) awaitWrites(ctx context.Context, n int) bool {
	for f.acked.Load() < int64(n) && ctx.Err() == nil && !f.Failed() {
		select {
		case <-f.written:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil && !f.Failed()
}

// writer is one program that writes.
type writer struct {
	*cluster
	tenant *tenant
	n      int
	random *rand.Rand
	writes int
	made   map[string]string // ids of existing files, by path
}

func (w *writer) run(ctx context.Context, writes int) {
	w.made = map[string]string{}
	for (w.writes < writes || writes == 0) && !w.enough.Load() && ctx.Err() == nil && !w.Failed() {
		c := w.tenant
		text := fmt.Sprintf("write %d of writer %d, %x", w.writes, w.n, w.random.Uint64())
		name := fmt.Sprintf("w%02d-%d.md", w.n, w.random.IntN(8))
		switch k := w.random.IntN(100); {
		case k < 60:
			w.put(ctx, w.author(1, 2, 4), "/sync/memory/workspace/"+c.common+"/"+name, text)
		case k < 75:
			w.put(ctx, w.author(0, 1, 2), "/sync/memory/workspace/"+c.circle+"/"+name, text)
		case k < 85:
			w.put(ctx, w.author(0, 1, 2, 4), "/sync/memory/user", text)
		case k < 93 || len(w.made) == 0:
			w.create(ctx, w.author(1, 2, 4), fmt.Sprintf("made/%02d/%d.txt", w.n, w.writes), text)
		default:
			w.remove(ctx, w.author(1, 2, 4), slices.Sorted(maps.Keys(w.made))[0])
		}
	}
}

func (w *writer) author(among ...int) collabd.Client {
	return w.tenant.users[among[w.random.IntN(len(among))]]
}

// send sends a request to either server until one returns a final status; again reports that an earlier
// attempt may have taken effect.
func (w *writer) send(ctx context.Context, u collabd.Client, method, path, body string) (status int, response []byte, again bool) {
	at := w.random.IntN(2)
	for ; ctx.Err() == nil && !w.Failed(); again = true {
		r, err := u.At(w.servers[at%2]).Request(ctx, method, path, strings.NewReader(body), "Content-Type: text/plain")
		if err != nil {
			w.Error(err)
			return
		}
		a, err := w.client.Do(r)
		if err == nil {
			response, err = io.ReadAll(a.Body)
			_ = a.Body.Close()
			if status = a.StatusCode; err == nil && status != http.StatusServiceUnavailable {
				return status, response, again
			}
		}
		at++
		time.Sleep(retryDelay)
	}
	return 0, nil, again
}

type record struct {
	ID, StorageKey, Checksum string
	Version                  int64
}

// note records an acknowledgement.
func (w *writer) note(ctx context.Context, what string, status int, response []byte, checksum string) (r record) {
	if ctx.Err() != nil || w.Failed() {
		return record{}
	}
	if status/100 != 2 {
		w.Errorf("%s is %d: %s", what, status, response)
		return record{}
	}
	if err := json.Unmarshal(response, &r); err != nil || r.Checksum != checksum {
		w.Errorf("%s: %v, %s", what, err, response)
		return record{}
	}
	w.tenant.ack(feed.Write{Key: r.StorageKey, Version: r.Version, Checksum: checksum})
	w.done()
	return r
}

func (w *writer) done() {
	w.writes++
	w.acked.Add(1)
	select {
	case w.written <- struct{}{}:
	default:
	}
}

func (c *tenant) ack(a feed.Write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks = append(c.acks, a)
}

func (w *writer) put(ctx context.Context, u collabd.Client, path, text string) {
	status, response, _ := w.send(ctx, u, "PUT", path, text)
	w.note(ctx, "PUT "+path, status, response, must.Sum(text))
}

func (w *writer) create(ctx context.Context, u collabd.Client, path, text string) {
	status, response, again := w.send(ctx, u, "POST", "/sync/files?"+url.Values{"path": {path}}.Encode(), text)
	if status == http.StatusConflict && again {
		// An attempt that was cut off has deleted the file.
		prefix := url.Values{"prefix": {u.Org + "/shared/artifacts/" + path}}.Encode()
		status, response, _ = w.send(ctx, u, "GET", "/sync/files?"+prefix, "")
		response = bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(response), []byte("[")), []byte("]"))
	}
	if r := w.note(ctx, "POST "+path, status, response, must.Sum(text)); r.ID != "" {
		w.made[path] = r.ID
	}
}

func (w *writer) remove(ctx context.Context, u collabd.Client, path string) {
	status, response, again := w.send(ctx, u, "DELETE", "/sync/files/"+w.made[path], "")
	switch {
	case ctx.Err() != nil || w.Failed():
	case status == http.StatusOK || status == http.StatusNotFound && again:
		delete(w.made, path)
		w.tenant.ack(feed.Write{Key: u.Org + "/shared/artifacts/" + path})
		w.done()
	default:
		w.Errorf("DELETE %s is %d: %s", path, status, response)
	}
}

// reader is one program that follows a feed, and is cut off all the time.
type reader struct {
	*cluster
	tenant  *tenant
	user    collabd.Client
	random  *rand.Rand
	started func()
	target  atomic.Int64 // where it ends; -1 while that is not known

	mu     sync.Mutex
	cancel context.CancelFunc // cuts the connection off; guarded by mu

	// Of its own goroutine.
	feed.Follower
	connections int
	cut         int
}

func (r *reader) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
	}
}

func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil && !r.Failed() {
		if target := r.target.Load(); target >= 0 && r.Last >= target && r.Started {
			return
		}
		if err := r.follow(ctx); err != nil {
			r.cut++
			time.Sleep(retryDelay)
		}
	}
}

// follow reads one connection's events, as many as it likes, and returns an
// error when the connection was none or was cut off.
func (r *reader) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	q, err := r.Request(ctx, r.servers[r.random.IntN(2)].URL, r.user.Token)
	if err != nil {
		return err
	}
	a, err := r.streams.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != 200 {
		body, err := io.ReadAll(io.LimitReader(a.Body, 1<<10))
		if a.StatusCode != http.StatusServiceUnavailable {
			r.Errorf("the feed is %d: %s", a.StatusCode, body)
		}
		return errors.Join(errors.New("unavailable"), err)
	}
	r.connections++
	enough := len(r.Events) + 1 + r.random.IntN(400)
	err = r.Read(a.Body, func() bool {
		r.started()
		target := r.target.Load()
		return len(r.Events) >= enough && target < 0 || target >= 0 && r.Last >= target
	})
	if errors.Is(err, feed.ErrViolation) {
		r.Error(err)
	}
	return err
}

// sees reports whether the reader must receive an event.
func (r *reader) sees(e object.Change) bool {
	user := id.User(r.user.User)
	switch {
	case e.Object.Scope == object.Personal:
		return *e.Object.Owner == user
	case e.Object.Workspace != nil && string(*e.Object.Workspace) == r.tenant.circle:
		return r.tenant.inside[user]
	}
	return true
}

// check compares the log, the acknowledged writes, the received events and the stored files.
func (f *cluster) check(c *tenant, log []object.Change) {
	there, owner, wrong := feed.Replay(id.Org(c.users[0].Org), log, c.acks, &c.received)
	for _, err := range wrong {
		f.Error(err)
	}
	// Every member lists and can read the files that they see.
	for i, u := range c.users {
		var manifest []record
		if status, body, err := u.At(f.servers[i%2]).Do("GET", "/sync/manifest", nil); err != nil || status != 200 || json.Unmarshal(body, &manifest) != nil {
			f.Errorf("the manifest is %d %.200s, %v", status, body, err)
			return
		}
		seen := map[string]feed.Content{}
		for _, r := range manifest {
			seen[r.StorageKey] = feed.Content{Version: r.Version, Checksum: r.Checksum}
		}
		want := maps.Clone(there)
		maps.DeleteFunc(want, func(key string, _ feed.Content) bool {
			return owner[key] != "" && owner[key] != id.User(u.User) || strings.Contains(key, "/workspaces/"+c.circle+"/") && !c.inside[id.User(u.User)]
		})
		if !maps.Equal(seen, want) {
			f.Errorf("%s is shown %d files, want %d", u.User, len(seen), len(want))
		}
		for n, r := range manifest {
			if i > 0 && !strings.Contains(r.StorageKey, "/personal/") {
				continue // the first user has read it
			}
			status, body, err := u.At(f.servers[n%2]).Do("GET", "/sync/files/"+r.ID+"?raw=1", nil)
			if err != nil || status != 200 || must.Sum(body) != r.Checksum {
				f.Errorf("%s is %d, %q, %v; its record is %+v", r.StorageKey, status, body, err, r)
			}
		}
	}
}
