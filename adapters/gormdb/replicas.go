package gormdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/ports"
)

// Bounds of reading from replicas.
const (
	// maxLag is how far behind the primary a replica that is read may be.
	maxLag = 10 * time.Second
	// replicaTimeout is how long a replica may take until it says its position.
	replicaTimeout = time.Second
	// PollReplicasEvery is how often PollReplicas should be called.
	PollReplicasEvery = time.Second
)

// position is a place in the write-ahead log of Postgres. A promoted standby begins a new timeline.
type position struct {
	timeline uint32
	lsn      uint64
}

// String returns the position in a form that is ordered like positions.
func (p position) String() string { return fmt.Sprintf("%08x%016x", p.timeline, p.lsn) }

func parsePosition(text string) (p position, ok bool) {
	if len(text) != 24 {
		return p, false
	}
	timeline, err := strconv.ParseUint(text[:8], 16, 32)
	lsn, err2 := strconv.ParseUint(text[8:], 16, 63)
	return position{uint32(timeline), lsn}, err == nil && err2 == nil
}

// includes reports whether a log at p has everything up to q. A log on another timeline may lack the
// end of q's.
func (p position) includes(q position) bool { return p.timeline == q.timeline && p.lsn >= q.lsn }

// replica is a standby that streams from the primary.
type replica struct {
	name  string // host and port
	conns *sql.DB

	// What PollReplicas found last.
	usable   atomic.Bool
	timeline atomic.Uint32             // that it had stored
	replayed atomic.Pointer[time.Time] // it has replayed what was committed before, if usable
}

// replicas are the standbys of a primary, none in most deployments.
type replicas struct {
	all []*replica
	log *slog.Logger
	now func() time.Time

	latest           atomic.Pointer[position] // of the primary, when PollReplicas was called last
	reads, fallbacks atomic.Int64             // of collections that From returned, on replicas and on the primary

	polling sync.Mutex
	samples []sample // the primary's positions within maxLag on its timeline, the newest last; guarded by polling
}

// sample is a position of the primary that includes everything that was committed before a time.
type sample struct {
	at time.Time
	position
}

// openReplicas opens pools for the addresses. It connects to none.
func (db *DB) openReplicas(o Options) error {
	db.replicas.log, db.replicas.now = o.Logger, time.Now
	for _, url := range o.ReplicaURLs {
		a, err := parsePostgres(url)
		if err != nil {
			return err
		}
		db.replicas.all = append(db.replicas.all, newReplica(a))
	}
	return nil
}

// newReplica returns the replica at an address. It does not connect.
func newReplica(a postgresAddress) *replica {
	return &replica{name: net.JoinHostPort(a.config.Host, strconv.Itoa(int(a.config.Port))), conns: a.open()}
}

// selectPosition is the primary's position after all commits that have returned.
const selectPosition = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint," +
	" (pg_current_wal_insert_lsn() - '0/0')::bigint"

// selectPrimary is selectPosition with what distinguishes the primary and its replicas from other servers.
const selectPrimary = selectPosition + ", system_identifier FROM pg_control_system()"

// primaryPosition returns the primary's position.
func (db *DB) primaryPosition(ctx context.Context) (position, error) {
	var timeline, lsn int64
	_, err := oneRow(ctx, db.read, "Position", sharedSQL(selectPosition), &timeline, &lsn)
	return position{uint32(timeline), uint64(lsn)}, err
}

// Position queries the primary unless there are no replicas or it is known to have been at the known
// position. A known position on another timeline than the primary's is replaced.
func (db *DB) Position(ctx context.Context, known string) (string, error) {
	if len(db.replicas.all) == 0 {
		return "", nil
	}
	p, ok := parsePosition(known)
	if last := db.replicas.latest.Load(); ok && last != nil && last.includes(p) {
		return known, nil
	}
	now, err := db.primaryPosition(ctx)
	if err != nil || ok && now.includes(p) {
		return known, err
	}
	return now.String(), nil
}

// From returns collections whose queries run on a replica that has replayed the log up to the
// position, or else on the primary.
func (db *DB) From(at string) ports.Records {
	p, ok := parsePosition(at)
	if !ok || len(db.replicas.all) == 0 {
		return db
	}
	return &conn{dialect: db.dialect, read: &gorm.DB{Config: db.read.Config, Statement: &gorm.Statement{ConnPool: stalePool{db: db, at: p}}}}
}

// stalePool is a pool on which queries may run on a replica.
type stalePool struct {
	gorm.ConnPool // nil
	db            *DB
	at            position
}

// errBehind is the error of a replica that has not replayed the log up to a position, or has been
// promoted.
var errBehind = errors.New("the replica is behind")

// comparePosition reports whether a standby has replayed the log up to a position.
const comparePosition = "SELECT pg_is_in_recovery() AND COALESCE(pg_last_wal_replay_lsn() - '0/0' >= $1::bigint, false)"

// query runs a query on a replica, and scan with its rows. It returns false if the query is to run on
// the primary; then scan was not called.
func (p stalePool) query(ctx context.Context, text string, args []any, scan func(scanner) error) (bool, error) {
	r := p.db.replicas.choose(p.at, args)
	if r == nil {
		p.db.replicas.fallbacks.Add(1)
		return false, nil
	}
	scanned := false
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(replicaTimeout, cancel)
	defer timer.Stop()
	err := onPgx(reading, r.conns, func(c *pgx.Conn) error {
		// In one round trip with the query, the response would wait for the query's.
		var reached bool
		if err := c.QueryRow(reading, comparePosition, int64(p.at.lsn)).Scan(&reached); err != nil {
			return err
		}
		if !reached {
			return errBehind
		}
		timer.Stop()
		rows, err := c.Query(reading, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		// The first row is awaited before scan may pass anything on.
		first := rows.Next()
		if err := rows.Err(); err != nil {
			return err
		}
		scanned = true
		return scan(&peekedRows{pgxRows{rows}, first})
	})
	if scanned || ctx.Err() != nil {
		p.db.replicas.reads.Add(1)
		return true, err
	}
	if !errors.Is(err, errBehind) && reading.Err() == nil { // PollReplicas judges slow ones
		p.db.replicas.suspend(r, err)
	}
	p.db.replicas.fallbacks.Add(1)
	return false, nil
}

// peekedRows are rows whose first call of Next was made.
type peekedRows struct {
	scanner
	first bool
}

// Next implements scanner.
func (r *peekedRows) Next() bool {
	if r.first {
		r.first = false
		return true
	}
	return r.scanner.Next()
}

// choose returns a replica for a query, the same one for an organisation, or nil.
func (s *replicas) choose(at position, args []any) *replica {
	h, now := fnv.New32a(), s.now()
	if len(args) > 0 {
		fmt.Fprint(h, args[0])
	}
	for i := range s.all {
		r := s.all[(int(h.Sum32()%uint32(len(s.all)))+i)%len(s.all)]
		if r.usable.Load() && r.timeline.Load() == at.timeline && now.Sub(*r.replayed.Load()) <= maxLag {
			return r
		}
	}
	return nil
}

// suspend reads nothing from a replica until PollReplicas finds that it can be used again.
func (s *replicas) suspend(r *replica, reason error) {
	if r.usable.Swap(false) {
		s.log.Warn("replica not used", "replica", r.name, "error", reason.Error())
	}
}

// PollReplicas finds out which replicas are read until it is called again: those that answer, stream
// from the primary on its timeline, and are at most maxLag behind it. It ends after maxLag.
func (db *DB) PollReplicas(ctx context.Context) error {
	s := &db.replicas
	s.polling.Lock()
	defer s.polling.Unlock()
	ctx, cancel := context.WithTimeout(ctx, maxLag)
	defer cancel()
	asked := s.now()
	var timeline, lsn, system int64
	if _, err := oneRow(ctx, db.read, "Position", sharedSQL(selectPrimary), &timeline, &lsn, &system); err != nil {
		return err
	}
	primary := position{uint32(timeline), uint64(lsn)}
	s.latest.Store(&primary)
	s.samples = append(s.samples, sample{asked, primary})
	for s.samples[0].timeline != primary.timeline || asked.Sub(s.samples[0].at) > maxLag {
		s.samples = s.samples[1:]
	}
	var all sync.WaitGroup
	for _, r := range s.all {
		all.Go(func() {
			if err := fault.Catch(func() error { return r.poll(ctx, s.samples, system) }); err != nil {
				s.suspend(r, err)
			} else if !r.usable.Swap(true) {
				s.log.Info("replica used", "replica", r.name)
			}
		})
	}
	all.Wait()
	return nil
}

// selectReplica is the state of a standby. After it has followed a promoted one, the timelines
// are those before until it has stored that it did.
const selectReplica = `SELECT pg_is_in_recovery(), COALESCE((pg_last_wal_replay_lsn() - '0/0')::bigint, 0),
		greatest(c.timeline_id, r.min_recovery_end_timeline)::bigint, s.system_identifier
	FROM pg_control_checkpoint() c, pg_control_recovery() r, pg_control_system() s`

// poll reads the state of the replica, and returns an error if it is not to be read.
func (r *replica) poll(ctx context.Context, primary []sample, system int64) error {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	var standby bool
	var lsn, timeline, of int64
	if err := r.conns.QueryRowContext(ctx, selectReplica).Scan(&standby, &lsn, &timeline, &of); err != nil {
		return failed(ctx, err, "Replica")
	}
	switch {
	case of != system:
		return fault.New(fault.Unavailable, "It is no replica of the database")
	case !standby:
		return fault.New(fault.Unavailable, "It is not a standby")
	}
	r.timeline.Store(uint32(timeline))
	if now := primary[len(primary)-1].timeline; uint32(timeline) != now {
		return fault.New(fault.Unavailable, "It is on the timeline %d, and the primary on %d", timeline, now)
	}
	for n := len(primary) - 1; n >= 0; n-- {
		if uint64(lsn) < primary[n].lsn {
			continue
		}
		r.replayed.Store(&primary[n].at)
		return nil
	}
	return errLagging
}

// errLagging is the error of a replica that has not replayed what the primary had within maxLag.
var errLagging = fault.New(fault.Unavailable, "It is more than %v behind, or how far is not known yet", maxLag)

// ReplicaStats are the numbers of reads that replicas might answer, and the replicas' lags.
type ReplicaStats struct {
	Replica, Primary int64
	Lags             map[string]int64 // in seconds, by host and port; -1 for a replica that is not read
}

// ReplicaStats returns the present ones.
func (db *DB) ReplicaStats() ReplicaStats {
	s := ReplicaStats{db.replicas.reads.Load(), db.replicas.fallbacks.Load(), map[string]int64{}}
	for _, r := range db.replicas.all {
		s.Lags[r.name] = -1
		if r.usable.Load() {
			s.Lags[r.name] = int64(db.replicas.now().Sub(*r.replayed.Load()) / time.Second)
		}
	}
	return s
}
