package gormdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/must"
)

// someObject returns a template, the n-th of an organisation.
func someObject(o id.Org, u id.User, n int) object.Object {
	v := object.Object{
		ID: uid[id.Object](kindObject, 1, n), Org: o, Path: fmt.Sprintf("%d.md", n), MimeType: "text/markdown",
		Place: object.Place{Kind: object.Template, Scope: object.Shared},
	}
	return v.WithContent(object.Content{Blob: v.BlobName("x"), Size: 1, Checksum: strings.Repeat("0", 64), Text: true}, u, time.UnixMilli(int64(n)).UTC())
}

// store adds the n-th object and its change.
func store(ctx context.Context, r ports.Records, o id.Org, u id.User, n int) error {
	v := someObject(o, u, n)
	if err := r.Storage().Objects().Add(ctx, o, v); err != nil {
		return err
	}
	return must.ErrorOf(r.Storage().Changes().Append(ctx, o, object.NewChange(v)))
}

// secondOrganisation adds an organisation beside the seeded one.
func secondOrganisation(t *testing.T, db *DB) id.Org {
	return organisation(t, db, uid[id.Org](kindOrg, 2, 2))
}

func TestHints(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		other := secondOrganisation(t, db)
		ctx := t.Context()
		var mu sync.Mutex
		var hints []object.Hint
		db.changed = func(h object.Hint) {
			mu.Lock()
			defer mu.Unlock()
			hints = append(hints, h)
			heads, err := db.Storage().Changes().Heads(ctx, []id.Org{h.Org})
			if err != nil || heads[h.Org].N < h.N {
				t.Errorf("the log is at %+v when the hint %+v comes, error %v", heads, h, err)
			}
		}
		expect := func(t *testing.T, want ...object.Hint) {
			t.Helper()
			slices.SortFunc(hints, func(a, b object.Hint) int { return strings.Compare(string(a.Org), string(b.Org)) })
			must.Equal(t, want, hints)
			hints = nil
		}
		t.Run("a commit is announced with the last number of each log", func(t *testing.T) {
			must.NoError(t, db.Atomic(ctx, func(r ports.Records) error {
				return errors.Join(store(ctx, r, o, u, 1), store(ctx, r, o, u, 2), store(ctx, r, other, u, 3))
			}))
			expect(t, object.Hint{Org: o, N: 2}, object.Hint{Org: other, N: 1})
		})
		t.Run("a transaction that did not append announces nothing", func(t *testing.T) {
			must.NoError(t, db.Atomic(ctx, func(r ports.Records) error {
				_, err := r.Storage().Changes().Lock(ctx, o)
				_, err2 := r.Storage().Changes().Append(ctx, o)
				return errors.Join(err, err2, r.Storage().Objects().Put(ctx, o, someObject(o, u, 1)), r.Storage().Changes().Prune(ctx, time.UnixMilli(0)))
			}))
			expect(t)
		})
		t.Run("a rollback announces nothing, and the number is used again", func(t *testing.T) {
			stop := errors.New("stop")
			must.FailIs(t, db.Atomic(ctx, func(r ports.Records) error { return errors.Join(store(ctx, r, o, u, 4), stop) }), stop)
			func() {
				defer func() { _ = recover() }()
				_ = db.Atomic(ctx, func(r ports.Records) error {
					must.Succeed(t, store(ctx, r, o, u, 4))
					panic("boom")
				})
			}()
			expect(t)
			must.NoError(t, db.Atomic(ctx, func(r ports.Records) error { return store(ctx, r, o, u, 4) }))
			expect(t, object.Hint{Org: o, N: 3})
		})
		t.Run("a transaction that is run again announces once", func(t *testing.T) {
			runs := 0
			must.NoError(t, db.Atomic(ctx, func(r ports.Records) error {
				if err := store(ctx, r, o, u, 5); err != nil {
					return err
				}
				if runs++; runs < 3 {
					return &pgconn.PgError{Code: "40001"}
				}
				return nil
			}))
			expect(t, object.Hint{Org: o, N: 4})
		})
		t.Run("a replacement in one statement is announced", func(t *testing.T) {
			was := someObject(o, u, 5)
			next := was
			next.Version, next.Blob = was.Version+1, "next"
			must.NoError(t, db.Storage().BlobNames().Announce(ctx, o, next.Blob, 0, time.UnixMilli(1).UTC()))
			replacement := object.Replacement{Change: object.NewChange(next), Previous: was.Content, Limit: plan.Unlimited}
			must.Do(db.Storage().Replace(ctx, o, replacement)).Or(t)
			expect(t, object.Hint{Org: o, N: 5})
			must.Fail(t, must.ErrorOf(db.Storage().Replace(ctx, o, replacement)), fault.Conflict)
			expect(t)
		})
		t.Run("an erased log announces nothing", func(t *testing.T) {
			must.NoError(t, db.Atomic(ctx, func(r ports.Records) error {
				return errors.Join(store(ctx, r, other, u, 6), must.ErrorOf(r.Directory().Organisations().Erase(ctx, other, time.UnixMilli(9).UTC(), 1000)))
			}))
			expect(t)
		})
	})
}

// TestReplaceChecksTheEpochOnceItHasTheLog has a replacement wait for the log while the organisation's epoch changes.
func TestReplaceChecksTheEpochOnceItHasTheLog(t *testing.T) {
	db, ctx := opened(t, migratedPostgres(t)), t.Context()
	o, u := seeded(t, db)
	must.NoError(t, db.Atomic(ctx, func(r ports.Records) error { return store(ctx, r, o, u, 1) }))
	was := someObject(o, u, 1)
	next := was
	next.Version, next.Blob = was.Version+1, "next"
	must.NoError(t, db.Storage().BlobNames().Announce(ctx, o, next.Blob, 0, time.UnixMilli(1).UTC()))
	replacement := object.Replacement{Change: object.NewChange(next), Previous: was.Content, Limit: plan.Unlimited}
	replaced := make(chan error, 1)
	must.NoError(t, db.Atomic(ctx, func(r ports.Records) error {
		_, err := r.Storage().Changes().Lock(ctx, o)
		go func() {
			replaced <- must.ErrorOf(db.Storage().Replace(ctx, o, replacement))
		}()
		return errors.Join(err, awaitBlocked(t, db, replaced), db.Atomic(ctx, func(r ports.Records) error {
			return must.ErrorOf(r.Directory().Organisations().Lock(ctx, o))
		}))
	}))
	must.Fail(t, <-replaced, fault.Conflict)
	must.Is(t, was.Version, must.Do(db.Storage().Objects().Get(ctx, o, was.ID)).Or(t).Version)
}

func TestTheLogEpochIsTheDatabases(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		before := time.Now().Unix()
		db := migrated(t, url)
		o, u := seeded(t, db)
		other := secondOrganisation(t, db)
		must.NoError(t, db.Atomic(t.Context(), func(r ports.Records) error { return store(t.Context(), r, o, u, 1) }))
		heads, err := db.Storage().Changes().Heads(t.Context(), []id.Org{o, other})
		must.NoError(t, err)
		if now := time.Now().Unix(); heads[o].Epoch < before-1 || heads[o].Epoch > now+1 || heads[o].Epoch != heads[other].Epoch || heads[o].N != 1 || heads[other].N != 0 {
			t.Errorf("the heads are %+v, from %d on to %d", heads, before, now)
		}
		// A restored copy gets another epoch, which all servers read at once.
		must.Do(db.pools[0].Exec("UPDATE log_epoch SET epoch = epoch + 1")).Or(t)
		must.NoError(t, db.Migrate(t.Context()))
		want := heads[o]
		want.Epoch++
		var got [4]object.Head
		setHead := func(i int) func(object.Head) error { return func(h object.Head) error { got[i] = h; return nil } }
		err = db.Atomic(t.Context(), func(r ports.Records) error {
			got[0], err = r.Storage().Changes().Lock(t.Context(), o)
			got[1], err = r.Storage().Changes().Append(t.Context(), o)
			return err
		})
		err = errors.Join(err, db.Storage().Objects().List(t.Context(), o, nil, object.Filter{}, setHead(2), func(object.Object) error { return nil }),
			db.Storage().Changes().Since(t.Context(), o, 0, setHead(3), func(object.Change) error { return nil }))
		if err != nil || got != [4]object.Head{want, want, want, want} {
			t.Errorf("the heads are %+v, want %+v, error %v", got, want, err)
		}
	})
}

// appendEntries appends n entries without objects to a log, in one transaction.
func appendEntries(t *testing.T, db *DB, o id.Org, at time.Time, n int) {
	t.Helper()
	entries := make([]object.Change, n)
	for i := range entries {
		entries[i] = object.NewAccessChange(object.Audience{Everyone: true}, "", at)
	}
	must.NoError(t, db.Atomic(t.Context(), func(r ports.Records) error {
		return must.ErrorOf(r.Storage().Changes().Append(t.Context(), o, entries...))
	}))
}

func TestPruneDeletesInBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, _ := seeded(t, db)
		other := secondOrganisation(t, db)
		old, young := time.UnixMilli(1000).UTC(), time.UnixMilli(5000).UTC()
		appendEntries(t, db, o, old, 2*prunedEntries)
		appendEntries(t, db, o, young, 10)
		appendEntries(t, db, o, old, 10) // after a clock was set back: the entries before are removed too
		appendEntries(t, db, o, young, 5)
		appendEntries(t, db, other, old, 7)
		r := record(t, db)
		sent := r.statements(t, func() error { return db.Storage().Changes().Prune(t.Context(), young) })
		if n := countPrefix(sent, "DELETE FROM changes"); n < 4 {
			t.Errorf("%d deletions", n)
		}
		heads := must.Do(db.Storage().Changes().Heads(t.Context(), []id.Org{o, other})).Or(t)
		for log, want := range map[id.Org][2]int64{o: {2*prunedEntries + 25, 2*prunedEntries + 20}, other: {7, 7}} {
			if h := heads[log]; h.N != want[0] || h.Floor != want[1] {
				t.Errorf("the head is %+v, want %v", h, want)
			}
			left, err := db.Storage().Changes().List(t.Context(), log, 0, 100)
			if err != nil || int64(len(left)) != want[0]-want[1] || len(left) > 0 && left[0].N != want[1]+1 {
				t.Errorf("%d entries are left, error %v", len(left), err)
			}
		}
	})
}

// TestPruneAgainstItselfAndWriters has two servers prune growing logs.
func TestPruneAgainstItselfAndWriters(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		other := secondOrganisation(t, db)
		for _, of := range []id.Org{o, other} {
			appendEntries(t, db, of, time.UnixMilli(1), prunedEntries/2+100)
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { must.Succeed(t, db.Storage().Changes().Prune(t.Context(), time.UnixMilli(1000))) })
		}
		for i, of := range []id.Org{o, other} {
			all.Go(func() {
				for n := range 20 {
					// Later than what is pruned.
					must.Succeed(t, db.Atomic(t.Context(), func(r ports.Records) error { return store(t.Context(), r, of, u, 2000+100*i+n) }))
				}
			})
		}
		all.Wait()
		for _, of := range []id.Org{o, other} {
			heads, err := db.Storage().Changes().Heads(t.Context(), []id.Org{of})
			left, err2 := db.Storage().Changes().List(t.Context(), of, 0, 1000)
			if err != nil || err2 != nil || heads[of].N != prunedEntries/2+120 || heads[of].Floor != prunedEntries/2+100 || len(left) != 20 {
				t.Errorf("the head is %+v with %d entries, errors %v, %v", heads[of], len(left), err, err2)
			}
		}
	})
}

func TestAnnouncingSharesATransaction(t *testing.T) {
	db := migrated(t, databases[0].url(t))
	o, _ := seeded(t, db)
	announce := func(name string) func() error {
		return func() error { return db.Storage().BlobNames().Announce(t.Context(), o, name, 0, time.UnixMilli(1)) }
	}
	errs := queued(t, db, false, announce("a"), announce("b"), announce("a"))
	if errs[0] != nil || errs[1] != nil || !fault.Is(errs[2], fault.Conflict) || errs[3] != nil {
		t.Errorf("the errors are %v", errs)
	}
}

// TestRangeBounds compares the bounds of ranges, which are texts that Postgres can store, with any bytes.
func TestRangeBounds(t *testing.T) {
	bytes := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, '/', 'a', 0x7f, 0x80, 0xbf, 0xc2, 0xdf, 0xe0, 0xed, 0x9f, 0xa0, 0xef, 0xf0, 0xf4, 0x8f, 0x90, 0xf5, 0xff}), 0, 6),
			func(b []byte) string { return string(b) }),
	)
	texts := rapid.OneOf(rapid.StringN(0, 6, -1), rapid.StringOf(rapid.SampledFrom([]rune{1, '/', 'a', 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xfffd, 0xffff, 0x10000, 0x10ffff})))
	rapid.Check(t, func(t *rapid.T) {
		s, text := bytes.Draw(t, "bytes"), texts.Draw(t, "text")
		if cut := rapid.IntRange(0, len(text)).Draw(t, "cut"); rapid.Bool().Draw(t, "near") {
			s = text[:cut] + s
		}
		if strings.ContainsRune(text, 0) {
			return
		}
		low := atLeast(s)
		if !storable(low) {
			t.Fatalf("%q is no text", low)
		}
		if low != "" && (text >= s) != (text >= low) {
			t.Errorf("%q is not before %q: %t, not before %q: %t", text, s, text >= s, low, text >= low)
		}
		if low == "" && s != "" && text >= s {
			t.Errorf("%q is not before %q, which nothing follows", text, s)
		}
		end := prefixEnd(s)
		if (strings.HasPrefix(text, s)) != (text >= s && (end == "" || text < end)) {
			t.Errorf("%q begins with %q: %t, and is before %q: %t", text, s, strings.HasPrefix(text, s), end, text < end)
		}
	})
}

func TestAListReadsNoInvisibleObjects(t *testing.T) {
	a := someActor()
	for name, f := range map[string]object.Filter{
		"all": {}, "kind": {Kind: object.Artifact}, "prefix": {Prefix: string(a.Org) + "/p"}, "workspace": {Workspace: uid[id.Workspace](kindWorkspace, 7, 3)},
		"hidden workspace": {Workspace: uid[id.Workspace](kindWorkspace, 7, 59)}, "others": {Owner: uid[id.User](kindUser, 7, 6)},
		"after": {After: string(a.Org) + "/personal/0"}, "unplaced": {WithoutWorkspace: true},
	} {
		for _, r := range clipRanges(visibleRanges(a.Org, &a, f), f) {
			for _, p := range []object.Place{
				{Scope: object.Personal, Owner: new(uid[id.User](kindUser, 7, 4))},
				{Scope: object.Personal, Owner: new(uid[id.User](kindUser, 7, 6))},
				{Kind: object.Artifact, Scope: object.Shared, Workspace: new(uid[id.Workspace](kindWorkspace, 7, 59))},
				{Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: new(uid[id.Workspace](kindWorkspace, 7, 60))},
				{Kind: object.TeamMemory, Scope: object.Shared, Team: new(uid[id.Team](kindTeam, 7, 9))},
			} {
				if key := (object.Object{Org: a.Org, Place: p, Path: "x"}).StorageKey(); r.low <= key && key < r.high {
					t.Errorf("%s: %s is read", name, key)
				}
			}
		}
	}
}

func TestUsageCountsWhatServersOfThePreviousReleaseWrite(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		ctx := t.Context()
		for n := range 3 {
			must.NoError(t, db.Atomic(ctx, func(r ports.Records) error { return store(ctx, r, o, u, n) }))
		}
		used := func(want int64) {
			t.Helper()
			used, err := db.Storage().Used(ctx, []id.Org{o})
			if err != nil || used[o].Total() != want {
				t.Fatalf("the usage is %v, want %d, error %v", used, want, err)
			}
		}
		replace := func(size int64) error {
			was, err := db.Storage().Objects().Get(ctx, o, someObject(o, u, 1).ID)
			must.NoError(t, err)
			next := was.WithContent(object.Content{Blob: was.BlobName("next"), Size: size, Checksum: was.Checksum}, u, time.UnixMilli(9).UTC())
			if err := db.Storage().BlobNames().Announce(ctx, o, next.Blob, 0, time.UnixMilli(1).UTC()); err != nil && !fault.Is(err, fault.Conflict) {
				t.Fatal(err)
			}
			replacement := object.Replacement{Change: object.NewChange(next), Previous: was.Content, Limit: 1000}
			return must.ErrorOf(db.Storage().Replace(ctx, o, replacement))
		}
		used(3)
		// The previous release changes objects, and of the log's head only the number.
		run(t, db, "UPDATE objects SET size = 500 WHERE path = '2.md'")
		run(t, db, "UPDATE log_heads SET n = n + 1")
		used(502)
		must.Fail(t, replace(7), fault.Conflict) // a replacement without the present usage
		must.NoError(t, db.Atomic(ctx, func(r ports.Records) error { return store(ctx, r, o, u, 3) }))
		used(503)
		must.NoError(t, db.Atomic(ctx, func(r ports.Records) error {
			if _, err := r.Storage().Changes().Lock(ctx, o); err != nil {
				return err
			}
			return must.ErrorOf(r.Storage().Used(ctx, []id.Org{o}))
		}))
		must.NoError(t, replace(498))
		used(1000)
		must.Fail(t, replace(499), fault.Conflict) // a replacement beyond the limit
	})
}

func TestAMoveOfManyObjectsTakesAFixedNumberOfStatements(t *testing.T) {
	const limit = 8
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		r := record(t, db)
		move := func(from, n int) []sentStatement {
			must.NoError(t, db.Atomic(t.Context(), func(r ports.Records) (err error) {
				for i := range n {
					err = errors.Join(err, store(t.Context(), r, o, u, from+i))
				}
				return err
			}))
			statements := r.statements(t, func() error {
				return db.Atomic(t.Context(), func(r ports.Records) error {
					next, changes := make([]object.Object, n), make([]object.Change, n)
					for i := range n {
						next[i] = someObject(o, u, from+i)
						next[i].Path, next[i].Version = "moved/"+next[i].Path, 2
						changes[i] = object.NewMove(next[i], fmt.Sprintf("%d.md", from+i))
					}
					err := r.Storage().Objects().Put(t.Context(), o, next...)
					_, err2 := r.Storage().Changes().Append(t.Context(), o, changes...)
					return errors.Join(err, err2)
				})
			})
			// SQLite inserts entries of the log one by one.
			return slices.CompactFunc(statements, func(a, b sentStatement) bool { return db.dialect == onSQLite && a.text == b.text })
		}
		few, many := move(1, 2), move(10, 200)
		if len(many) > limit || len(few) != len(many) {
			t.Errorf("2 objects take %d statements, 200 take %d: %v", len(few), len(many), many)
		}
	})
}
