package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/memory"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/mail"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/contract"
	"collab/test/must"
)

func TestStore(t *testing.T) {
	s := memory.NewStore()
	contract.Store(t, func(*testing.T) contract.Opened { return contract.Opened{Store: s, Epochs: s, Snapshots: s} })
}

func TestClock(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.FixedZone("east", 3600))
	clock := memory.NewClock(at)
	contract.Clock(t, clock)
	t.Run("it changes only when it is set", func(t *testing.T) {
		want := time.Date(2026, 1, 2, 2, 4, 5, 678_000_000, time.UTC)
		if now := clock.Now(); !now.Equal(want) {
			t.Fatalf("the time is %v, want %v", now, want)
		}
		if now := clock.Advance(1500*time.Millisecond + 1); !now.Equal(want.Add(1500*time.Millisecond)) || !now.Equal(clock.Now()) {
			t.Fatalf("the time is %v", now)
		}
		clock.Set(at.Add(-time.Hour))
		if now := clock.Now(); !now.Equal(want.Add(-time.Hour)) || now.Location() != time.UTC {
			t.Fatalf("the time is %v", now)
		}
	})
}

func TestIDs(t *testing.T) {
	must.Is(t, "00000000-0000-7000-8000-000000000001", new(memory.IDs).New())
	contract.IDs(t, new(memory.IDs))
}

func TestSecrets(t *testing.T) {
	if a, b := new(memory.Secrets).Secret(), new(memory.Secrets).Secret(); a != b {
		t.Fatalf("two runs begin with %q and %q", a, b)
	}
	contract.Secrets(t, new(memory.Secrets))
}

func TestMailerKeepsMessagesInOrder(t *testing.T) {
	var m memory.Mailer
	for _, to := range []string{"a@example.com", "b@example.com"} {
		must.NoError(t, m.Send(t.Context(), mail.Message{To: to}))
	}
	sent := m.Sent()
	if len(sent) != 2 || sent[0].To != "a@example.com" || sent[1].To != "b@example.com" {
		t.Fatalf("sent were %v", sent)
	}
	sent[0].To = "spoilt"
	if m.Sent()[0].To != "a@example.com" {
		t.Fatal("a change of the result has changed the mailer")
	}
}

func TestListsCallEachOutsideTheLock(t *testing.T) {
	s, o, ctx := stored(t)
	must.NoError(t, s.Work().Tasks().List(ctx, o, org.Actor{}, task.Filter{}, func(v task.Task) error {
		return s.Work().Tasks().Remove(ctx, o, v.ID, func(task.Task) error { return nil })
	}))
	must.Fail(t, must.ErrorOf(s.Work().Tasks().Get(ctx, o, "t")), fault.NotFound) // the task is gone
	must.NoError(t, s.Directory().Members().List(ctx, o, org.MemberFilter{}, func(p org.Profile) error {
		p.RemovedAt = new(time.UnixMilli(1).UTC())
		return s.Directory().Members().Put(ctx, o, p.Membership)
	}))
	if seats, err := s.Directory().Seats().Count(ctx, []id.Org{o}, time.UnixMilli(1)); err != nil || seats[o].Members != 0 {
		t.Fatalf("%d members and %v", seats[o].Members, err)
	}
}

func TestSubscribersAreNotifiedAfterTheCommit(t *testing.T) {
	s, o, ctx := stored(t)
	var hints []object.Hint
	s.OnChange(func(h object.Hint) {
		heads, err := s.Storage().Changes().Heads(ctx, []id.Org{h.Org}) // hangs inside the lock
		if err != nil || heads[h.Org].N < h.N {
			t.Errorf("the hint %+v is of a log that is at %+v, %v", h, heads, err)
		}
		hints = append(hints, h)
	})
	appending := func(orgs []id.Org, end func() error) error {
		return s.Atomic(ctx, func(r ports.Records) error {
			for _, in := range orgs {
				if _, err := r.Storage().Changes().Append(ctx, in, object.NewAccessChange(object.Audience{Everyone: true}, "", time.UnixMilli(1))); err != nil {
					return err
				}
			}
			if len(hints) > 0 {
				t.Error("notified before the commit")
			}
			return end()
		})
	}
	must.Do(s.Directory().Organisations().Upsert(ctx, org.Organisation{ID: "n", ProviderID: "n"}, func(o org.Organisation) (org.Organisation, error) { return o, nil })).Or(t)
	no := errors.New("no")
	must.FailIs(t, appending([]id.Org{o, "n"}, func() error { return no }), no)
	func() {
		defer func() { recover() }()
		_ = appending([]id.Org{o}, func() error { panic("oh") })
	}()
	must.NoError(t, appending(nil, func() error { return nil }))
	if len(hints) > 0 {
		t.Fatalf("hints %v of changes that were rolled back", hints)
	}
	must.NoError(t, appending([]id.Org{o, "n", o, o}, func() error { return nil }))
	must.Equal(t, []object.Hint{{Org: "n", N: 1}, {Org: o, N: 3}}, hints)
}

func TestListsOfObjectsCallOutsideTheLock(t *testing.T) {
	s, o, ctx := stored(t)
	v := object.Object{ID: "a", Org: o, Path: "a.md", Place: object.Place{Kind: object.Template, Scope: object.Shared}}
	must.NoError(t, s.Storage().Objects().Add(ctx, o, v))
	must.NoError(t, s.Atomic(ctx, func(r ports.Records) error {
		return must.ErrorOf(r.Storage().Changes().Append(ctx, o, object.NewChange(v)))
	}))
	head := func(object.Head) error { return must.ErrorOf(s.Storage().Objects().Get(ctx, o, v.ID)) }
	calls := 0
	each := func(found object.Object) error {
		calls++
		return s.Storage().Objects().Remove(ctx, o, []id.Object{found.ID})
	}
	err := s.Storage().Changes().Since(ctx, o, 0, head, func(c object.Change) error {
		calls++
		return s.Storage().Objects().Put(ctx, o, c.Object)
	})
	if err := errors.Join(err, s.Storage().Objects().List(ctx, o, nil, object.Filter{}, head, each)); err != nil || calls != 2 {
		t.Fatalf("%d calls and %v", calls, err)
	}
}

func TestCollectionsOfAnEndedTransactionFail(t *testing.T) {
	s, o, ctx := stored(t)
	var kept ports.Records
	must.NoError(t, s.Atomic(ctx, func(r ports.Records) error {
		kept = r
		return nil
	}))
	must.Fail(t, must.ErrorOf(kept.Work().Tasks().Get(ctx, o, "t")), fault.Internal)
}

func TestRecordsOfAnUnknownOrganisationAreRefused(t *testing.T) {
	s, _, ctx := stored(t)
	d, w := s.Directory(), s.Work()
	_, added := w.Tasks().Add(ctx, "x", task.Task{ID: "v"})
	for name, err := range map[string]error{
		"member":       d.Members().Put(ctx, "x", org.Membership{Org: "x", User: "u"}),
		"invitation":   d.Invitations().Put(ctx, "x", invitation.Invitation{ID: "i"}),
		"subscription": d.Subscriptions().Put(ctx, "x", plan.Unsubscribed("x")),
		"team":         w.Teams().Add(ctx, "x", team.Team{ID: "m"}),
		"order":        w.Orders().Update(ctx, "x", "u", func(o workspace.Order) (workspace.Order, error) { return o, nil }),
		"task":         added,
		"stranger":     d.Members().Put(ctx, "o", org.Membership{Org: "o", User: "nobody"}),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestAStoreIsAlwaysReady(t *testing.T) {
	must.NoError(t, memory.NewStore().Ready(t.Context()))
}

// stored returns a store with the task "t" and a member in one organisation.
func stored(t *testing.T) (*memory.Store, id.Org, context.Context) {
	t.Helper()
	s, ctx := memory.NewStore(), t.Context()
	must.NoError(t, s.Atomic(ctx, func(r ports.Records) error {
		return errors.Join(
			must.ErrorOf(r.Directory().Organisations().Upsert(ctx, org.Organisation{ID: "o", ProviderID: "p"}, func(o org.Organisation) (org.Organisation, error) { return o, nil })),
			must.ErrorOf(r.Directory().Users().Upsert(ctx, org.User{ID: "u", ProviderID: "p"}, func(u org.User) (org.User, error) { return u, nil })),
			r.Directory().Members().Put(ctx, "o", org.Membership{Org: "o", User: "u"}),
			must.ErrorOf(r.Work().Tasks().Add(ctx, "o", task.Task{ID: "t", Org: "o"})))
	}))
	return s, "o", ctx
}

func TestAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := memory.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		contract.Alarms(t, &memory.Alarms{Clock: clock}, func(d time.Duration) {
			clock.Advance(d)
			synctest.Wait()
		})
	})
}
