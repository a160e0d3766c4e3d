package harness_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/operator"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
)

// bulkReads counts the reads of organisations' figures on the way to a store.
type bulkReads struct {
	ports.Store
	n int
}

type countedDirectory struct {
	ports.Directory
	n *int
}

type countedSeats struct {
	ports.Seats
	n *int
}

type countedSubscriptions struct {
	ports.Subscriptions
	n *int
}

func (b *bulkReads) Directory() ports.Directory { return countedDirectory{b.Store.Directory(), &b.n} }

func (d countedDirectory) Seats() ports.Seats { return countedSeats{d.Directory.Seats(), d.n} }

func (d countedDirectory) Subscriptions() ports.Subscriptions {
	return countedSubscriptions{d.Directory.Subscriptions(), d.n}
}

func (s countedSeats) Count(ctx context.Context, orgs []id.Org, now time.Time) (map[id.Org]org.Seats, error) {
	*s.n++
	return s.Seats.Count(ctx, orgs, now)
}

func (s countedSubscriptions) Get(ctx context.Context, o id.Org) (plan.Subscription, error) {
	*s.n++
	return s.Subscriptions.Get(ctx, o)
}

func (s countedSubscriptions) Of(ctx context.Context, orgs []id.Org) (map[id.Org]plan.Subscription, error) {
	*s.n++
	return s.Subscriptions.Of(ctx, orgs)
}

func TestAnOperatorsListHasEachOrganisationsFiguresInTwoReads(t *testing.T) {
	store, clock, ids := memory.NewStore(), memory.NewClock(start), &memory.IDs{}
	ctx, d := t.Context(), store.Directory()
	const organisations = 5
	for n := range organisations {
		o := id.Org(fmt.Sprintf("o%d", n))
		if _, err := d.Organisations().Upsert(ctx, org.Organisation{ID: o, ProviderID: "org_" + string(o), CreatedAt: start, UpdatedAt: start},
			func(o org.Organisation) (org.Organisation, error) { return o, nil }); err != nil {
			t.Fatal(err)
		}
		for m := range n {
			u := id.User(fmt.Sprintf("u%d_%d", n, m))
			if _, err := d.Users().Upsert(ctx, org.User{ID: u, ProviderID: "user_" + string(u), CreatedAt: start, UpdatedAt: start},
				func(u org.User) (org.User, error) { return u, nil }); err != nil {
				t.Fatal(err)
			}
			if err := d.Members().Put(ctx, o, org.Membership{Org: o, User: u, Role: org.Owner, JoinedAt: start}); err != nil {
				t.Fatal(err)
			}
			i := invitation.New(invitation.Invitation{ID: id.Invitation("i" + u), Org: o, Email: "a@b", Role: org.Member}, string(u), start)
			if m == 0 { // has expired when the list is read
				i.ExpiresAt = start
			}
			if err := d.Invitations().Put(ctx, o, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	admin := org.Actor{Operator: true}
	if _, err := operator.New(store, clock, ids, access.Origin).Grant(ctx, admin, "o2", plan.Grant{Plan: plan.Premium}); err != nil {
		t.Fatal(err)
	}
	counted := &bulkReads{Store: store}
	var list []operator.Overview
	err := operator.New(counted, clock, ids, access.Origin).Organisations(ctx, admin, "", 0, func(o operator.Overview) error {
		list = append(list, o)
		return nil
	})
	if err != nil || len(list) != organisations {
		t.Fatalf("%d organisations, %v", len(list), err)
	}
	for n, v := range list {
		if want := (org.Seats{Owners: n, Members: n, Pending: max(n-1, 0)}); v.ID != id.Org(fmt.Sprintf("o%d", n)) || v.Seats != want {
			t.Errorf("%s has %+v, want %+v", v.ID, v.Seats, want)
		}
		if v.Subscription.Org != v.ID || (v.Subscription.Plan == plan.Premium) != (n == 2) {
			t.Errorf("%s has %+v", v.ID, v.Subscription)
		}
	}
	if counted.n != 2 {
		t.Errorf("%d reads of figures, want 2", counted.n)
	}
}

func TestAnOperatorsListIsReadInParts(t *testing.T) {
	store, clock, ids := memory.NewStore(), memory.NewClock(start), &memory.IDs{}
	const organisations = 450
	name := func(n int) id.Org { return id.Org(fmt.Sprintf("o%03d", n)) }
	for n := range organisations {
		fresh := org.Organisation{ID: name(n), ProviderID: string(name(n)), CreatedAt: start, UpdatedAt: start}
		if _, err := store.Directory().Organisations().Upsert(t.Context(), fresh, func(o org.Organisation) (org.Organisation, error) { return o, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range []struct{ after, limit, want int }{{-1, 0, organisations}, {-1, 1, 1}, {-1, 200, 200}, {0, 201, 201}, {99, 300, 300}, {99, 400, 350}, {449, 10, 0}} {
		var after id.Org
		if page.after >= 0 {
			after = name(page.after)
		}
		shown := 0
		err := operator.New(store, clock, ids, access.Origin).Organisations(t.Context(), org.Actor{Operator: true}, after, page.limit, func(o operator.Overview) error {
			shown++
			if want := name(page.after + shown); o.ID != want {
				t.Errorf("%s comes instead of %s", o.ID, want)
			}
			return nil
		})
		if err != nil || shown != page.want {
			t.Errorf("%+v has %d organisations, %v", page, shown, err)
		}
	}
}
