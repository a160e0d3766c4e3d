package gormdb

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"collab/adapters/inspect"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/usage"
	"collab/test/contract"
	"collab/test/must"
	"collab/test/postgres"
	"collab/test/race"
)

// replicated is a primary with standbys.
type replicated struct {
	*testing.T
	primary  *postgres.Server
	standbys []*postgres.Server
	name     string // of the database
	db       *DB
	conns    map[*postgres.Server]*sql.DB // to standbys
}

// newReplicated returns a migrated database that reads from its standbys.
func newReplicated(t *testing.T, standbys int) *replicated {
	t.Helper()
	r := &replicated{T: t, conns: map[*postgres.Server]*sql.DB{}}
	r.primary = postgres.Own(t, postgres.Options{NoSync: true, Settings: map[string]string{"synchronous_commit": "local"}})
	address := must.Do(r.primary.Database(t.Context(), "replicated")).Or(t)
	u := must.Do(url.Parse(address)).Or(t)
	r.name = strings.TrimPrefix(u.Path, "/")
	migrated(t, address).Close()
	for range standbys {
		r.standbys = append(r.standbys, r.primary.OwnStandby(t))
	}
	r.db = r.opened(r.primary, r.standbys...)
	for i, s := range r.standbys {
		r.conns[s] = r.db.replicas.all[i].conns
	}
	return r
}

// opened returns the database on a server that reads from others.
func (r *replicated) opened(primary *postgres.Server, replicas ...*postgres.Server) *DB {
	r.Helper()
	o := Options{URL: primary.URL(r.name)}
	for _, s := range replicas {
		o.ReplicaURLs = append(o.ReplicaURLs, s.URL(r.name))
	}
	db := must.Do(Open(r.Context(), o)).Or(r)
	r.Cleanup(func() {
		must.Succeed(r, db.Close())
	})
	return db
}

// replayed waits until a standby has replayed the log up to the primary's present position.
func (r *replicated) replayed(standby *postgres.Server) {
	r.Helper()
	now := must.Do(r.db.primaryPosition(r.Context())).Or(r)
	for reached := false; !reached; {
		must.NoError(r, r.conns[standby].QueryRowContext(r.Context(), "SELECT pg_last_wal_replay_lsn() - '0/0' >= $1::bigint FROM pg_sleep(0.001)", int64(now.lsn)).Scan(&reached))
	}
}

// poll polls when the standby has replayed everything. An idle primary sends the end of its log with the next commit,
// or after 15 seconds.
func (r *replicated) poll(standby *postgres.Server) {
	r.Helper()
	run(r, r.db, "SELECT pg_logical_emit_message(true, '', '')")
	for range 2 {
		r.replayed(standby)
		must.NoError(r, r.db.PollReplicas(r.Context()))
	}
}

// execute executes a statement on a standby.
func (r *replicated) execute(on *postgres.Server, statement string) {
	r.Helper()
	must.Do(r.conns[on].ExecContext(r.Context(), statement)).Or(r)
}

// add adds an entry to the audit log of an organisation, and returns the position after it.
func (r *replicated) add(o id.Org, n int) (position string) {
	r.Helper()
	must.NoError(r, r.db.Journal().Audit().Add(r.Context(), audit.Entry{ID: uid[id.Entry](kindTask, 1, n), Org: o, At: time.UnixMilli(int64(n)).UTC(), Action: audit.MemberLeft}))
	return must.Do(r.db.Position(r.Context(), "")).Or(r)
}

// wants checks how many entries are read at a position, and from where.
func (r *replicated) wants(o id.Org, position string, entries int, fromReplica bool) {
	r.Helper()
	before, n := r.db.ReplicaStats(), 0
	err := r.db.From(position).Journal().Audit().List(r.Context(), o, audit.Filter{}, func(audit.Entry) error {
		n++
		return nil
	})
	after := r.db.ReplicaStats()
	if err != nil || n != entries {
		r.Errorf("%d entries are read, error %v, want %d", n, err, entries)
	}
	replica, primary := after.Replica-before.Replica, after.Primary-before.Primary
	if replica+primary != 1 || (replica == 1) != fromReplica {
		r.Errorf("%d reads on the replica and %d on the primary are counted, want one on the replica: %v", replica, primary, fromReplica)
	}
}

// replayedStore returns a position when the first standby has replayed the log up to it. It polls, because a standby
// that was slow once is not used until the next poll.
type replayedStore struct {
	*DB
	r *replicated
}

// Position implements ports.Store.
func (s replayedStore) Position(ctx context.Context, known string) (string, error) {
	s.r.poll(s.r.standbys[0])
	return s.DB.Position(ctx, known)
}

func TestAStandbyIsNotTakenForThePrimary(t *testing.T) {
	r := newReplicated(t, 1)
	standby := must.Do(url.Parse(r.standbys[0].URL(r.name))).Or(t)
	must.Fail(t, must.ErrorOf(Open(t.Context(), Options{URL: standby.String()})), fault.Unavailable)
	both := must.Do(url.Parse(r.primary.URL(r.name))).Or(t)
	both.Host = standby.Host + "," + both.Host
	must.NoError(t, must.Do(Open(t.Context(), Options{URL: both.String()})).Or(t).Close())
}

func TestListsReadFromAReplica(t *testing.T) {
	r := newReplicated(t, 1)
	now := time.Now()
	r.db.replicas.now = func() time.Time { return now } // so that the suites may take any time
	r.poll(r.standbys[0])
	open := func(*testing.T) contract.Opened {
		return contract.Opened{Store: contract.ReadFrom(replayedStore{r.db, r}), Epochs: r.db, Apart: true}
	}
	t.Run("suites", func(t *testing.T) {
		race.Skip(t, "it is the same as without replicas")
		t.Run("From", func(t *testing.T) { contract.From(t, open) })
		t.Run("Members", func(t *testing.T) { contract.Members(t, open) })
		t.Run("Audit", func(t *testing.T) { contract.Audit(t, open) })
		t.Run("Ledger", func(t *testing.T) { contract.Ledger(t, open) })
		t.Run("Adoption", func(t *testing.T) { contract.Adoption(t, open) })
	})
	if s := r.db.ReplicaStats(); s.Replica < 100 && !race.Enabled {
		t.Errorf("%d reads on the replica and %d on the primary", s.Replica, s.Primary)
	}

	standby := r.standbys[0]
	r.poll(standby)
	o := organisation(t, r.db, uid[id.Org](kindOrg, 1, 1))
	before := r.add(o, 1)
	r.replayed(standby)

	t.Run("usage is read from a replica", func(t *testing.T) {
		was := r.db.ReplicaStats().Replica
		period := usage.Period{Start: time.UnixMilli(0), End: time.UnixMilli(1e12)}
		err := r.db.From(before).Usage().Ledger().Summary(t.Context(), o, "", period, func(usage.Summary) error { return nil }, nil)
		if n := r.db.ReplicaStats().Replica; err != nil || n != was+1 {
			t.Errorf("%d reads on the replica, error %v", n-was, err)
		}
	})
	t.Run("a list may take longer than the comparison of positions", func(t *testing.T) {
		p, _ := parsePosition(before)
		rows := 0
		onReplica, err := stalePool{db: r.db, at: p}.query(t.Context(), "SELECT pg_sleep(1.1)::text", nil, func(all scanner) error {
			for all.Next() {
				rows++
			}
			return all.Err()
		})
		if err != nil || !onReplica || rows != 1 {
			t.Errorf("%d rows, on the replica: %v, error %v", rows, onReplica, err)
		}
		r.wants(o, before, 1, true)
	})
	t.Run("a replica that pauses is read at the positions that it has replayed alone", func(t *testing.T) {
		r.execute(standby, "SELECT pg_wal_replay_pause()")
		awaitTrue(t, standby.URL(r.name), "SELECT pg_get_wal_replay_pause_state() = 'paused'")
		after := r.add(o, 2)
		if after <= before {
			t.Errorf("%s follows %s", after, before)
		}
		r.wants(o, before, 1, true)
		r.wants(o, after, 2, false)
		r.wants(o, before, 1, true) // being behind does not count against it
		p, _ := parsePosition(before)
		p.timeline++
		r.wants(o, p.String(), 2, false)
		r.execute(standby, "SELECT pg_wal_replay_resume()")
		r.replayed(standby)
		r.wants(o, after, 2, true)
	})
	t.Run("a replica that is far behind is not read", func(t *testing.T) {
		r.poll(standby)
		r.execute(standby, "SELECT pg_wal_replay_pause()")
		awaitTrue(t, standby.URL(r.name), "SELECT pg_get_wal_replay_pause_state() = 'paused'")
		r.add(o, 3)
		start := now
		for _, c := range []struct {
			after time.Duration
			used  bool
		}{{9 * time.Second, true}, {11 * time.Second, false}, {30 * time.Second, false}} {
			now = start.Add(c.after)
			must.NoError(t, r.db.PollReplicas(t.Context()))
			lag, want := r.db.ReplicaStats().Lags[r.db.replicas.all[0].name], int64(-1)
			if c.used {
				want = int64(c.after / time.Second)
			}
			if lag != want {
				t.Errorf("after %v the lag is %v s, want %v", c.after, lag, want)
			}
			entries := 3
			if c.used {
				entries = 2
			}
			r.wants(o, before, entries, c.used)
		}
		r.execute(standby, "SELECT pg_wal_replay_resume()")
		r.poll(standby)
		r.wants(o, before, 3, true)
		now = now.Add(11 * time.Second)
		r.wants(o, before, 3, false) // it was not polled
		r.poll(standby)
		r.wants(o, before, 3, true)
	})
	t.Run("a replica that is killed is left alone until it answers", func(t *testing.T) {
		must.NoError(t, standby.Stop())
		for range 2 {
			r.wants(o, before, 3, false)
			must.NoError(t, r.db.Ready(t.Context()))
			must.NoError(t, r.db.PollReplicas(t.Context()))
		}
		must.NoError(t, standby.Restart(t.Context(), false))
		r.wants(o, before, 3, false)
		r.poll(standby)
		r.wants(o, before, 3, true)
	})
}

func TestReplicasAfterAFailover(t *testing.T) {
	r := newReplicated(t, 2)
	promoted, left := r.standbys[0], r.standbys[1]
	o := organisation(t, r.db, uid[id.Org](kindOrg, 1, 1))
	before := r.add(o, 1)
	r.poll(promoted)
	must.NoError(t, promoted.Promote(t.Context()))
	for _, s := range r.db.replicas.all {
		s.usable.Store(s == r.db.replicas.all[0])
	}
	r.wants(o, before, 1, false) // no standby any more
	must.NoError(t, r.db.PollReplicas(t.Context()))
	if s := r.db.replicas.all[0]; s.usable.Load() {
		t.Error("a promoted standby is read")
	}
	found := Inspection{Address: r.primary.URL(r.name), Replicas: []string{left.URL(r.name), promoted.URL(r.name)}}.replicas(t.Context())
	if len(found) != 2 || found[0].Severity != inspect.OK || found[1].Severity != inspect.Wrong || !strings.Contains(found[1].Err.Error(), "It is not a standby") {
		t.Errorf("the doctor finds %+v", found)
	}
	// The other standby stays on the timeline of the former primary, which goes on.
	for n := range 20 {
		r.add(o, 2+n)
	}
	r.replayed(left)
	r.db = r.opened(promoted, left)
	after := r.add(o, 100)
	if !strings.HasPrefix(after, "00000002") || after <= before {
		t.Errorf("the position %s follows %s", after, before)
	}
	must.NoError(t, r.db.PollReplicas(t.Context()))
	if s := r.db.replicas.all[0]; s.usable.Load() || s.timeline.Load() != 1 {
		t.Fatalf("the standby that was left is used: %v, on the timeline %d", s.usable.Load(), s.timeline.Load())
	}
	r.wants(o, after, 2, false)
	r.wants(o, before, 2, false)
	if now, err := r.db.Position(t.Context(), before); err != nil || now < after {
		t.Errorf("after %s a position before the failover becomes %s, error %v", after, now, err)
	}
	// The first poll after a failover that the addresses follow forgets the former timeline.
	former, _ := parsePosition(before)
	r.db.replicas.samples = []sample{{time.Now(), former}}
	if err := r.db.PollReplicas(t.Context()); err != nil || len(r.db.replicas.samples) != 1 || r.db.replicas.samples[0].timeline != 2 {
		t.Errorf("the samples are %v, error %v", r.db.replicas.samples, err)
	}
}
