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
	"collab/test/must"
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

func TestOperatorListTakesTwoReadsPerPart(t *testing.T) {
	store, clock, ids := memory.NewStore(), memory.NewClock(start), &memory.IDs{}
	ctx, d := t.Context(), store.Directory()
	const organisations, part = 450, 200
	name := func(n int) id.Org { return id.Org(fmt.Sprintf("o%03d", n)) }
	for n := range organisations {
		fresh := org.Organisation{ID: name(n), ProviderID: string(name(n)), CreatedAt: start, UpdatedAt: start}
		must.Do(d.Organisations().Upsert(ctx, fresh, func(o org.Organisation) (org.Organisation, error) { return o, nil })).Or(t)
		for m := range n % 4 {
			u := id.User(fmt.Sprintf("u%d_%d", n, m))
			_, err := d.Users().Upsert(ctx, org.User{ID: u, ProviderID: string(u), CreatedAt: start, UpdatedAt: start},
				func(u org.User) (org.User, error) { return u, nil })
			must.NoError(t, err)
			must.NoError(t, d.Members().Put(ctx, name(n), org.Membership{Org: name(n), User: u, Role: org.Owner, JoinedAt: start}))
			i := invitation.New(invitation.Invitation{ID: id.Invitation("i" + u), Org: name(n), Email: "a@b", Role: org.Member}, string(u), start)
			if m == 0 { // has expired when the list is read
				i.ExpiresAt = start
			}
			must.NoError(t, d.Invitations().Put(ctx, name(n), i))
		}
	}
	admin, counted := org.Actor{Operator: true}, &bulkReads{Store: store}
	operators := operator.New(counted, clock, ids, nil, access.Origin)
	must.Do(operators.Grant(ctx, admin, name(2), plan.Grant{Plan: plan.Premium})).Or(t)
	for _, page := range []struct{ after, limit, want int }{{-1, 0, organisations}, {-1, 1, 1}, {-1, 200, 200}, {0, 201, 201}, {99, 300, 300}, {99, 400, 350}, {449, 10, 0}} {
		var after id.Org
		if page.after >= 0 {
			after = name(page.after)
		}
		shown := 0
		counted.n = 0
		err := operators.Organisations(ctx, admin, org.Filter{After: after, Limit: page.limit}, func(v operator.Overview) error {
			shown++
			n := page.after + shown
			want := org.Seats{Owners: n % 4, Members: n % 4, Pending: max(n%4-1, 0)}
			if v.ID != name(n) || v.Seats != want || v.Subscription.Org != v.ID || (v.Subscription.Plan == plan.Premium) != (n == 2) {
				t.Errorf("%s comes in place %d with %+v and %+v", v.ID, n, v.Seats, v.Subscription)
			}
			return nil
		})
		if parts := max(1, (shown+part-1)/part); err != nil || shown != page.want || counted.n != 2*parts {
			t.Errorf("%+v has %d organisations, read in %d reads of figures, %v", page, shown, counted.n, err)
		}
	}
}
