package integration

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/app/ratelimit"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/must"
	"collab/test/postgres"
)

// TestServersAdmitTheLimitOfAPlanTogether has three limiters over one database, whose clock is moved
// by hand, and several requests at once on each until they are refused. Only requests that waited for
// as long as one may are admitted beyond the lots.
func TestServersAdmitTheLimitOfAPlanTogether(t *testing.T) {
	const (
		limit   = 1000
		servers = 3
		o       = id.Org("00000001-0001-7000-8000-000000000001")
	)
	db := opened(t, postgres.URL(t))
	must.NoError(t, db.Migrate(t.Context()))
	clock := memory.NewClock(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC))
	_, err := db.Directory().Organisations().Upsert(t.Context(), org.Organisation{ID: o, ProviderID: "o"}, func(o org.Organisation) (org.Organisation, error) { return o, nil })
	must.NoError(t, err)
	s, err := plan.Unsubscribed(o).Granted(plan.Grant{Plan: plan.Free}, clock.Now())
	must.NoError(t, err)
	must.NoError(t, db.Atomic(t.Context(), func(r ports.Records) error { return r.Directory().Subscriptions().Put(t.Context(), o, s) }))
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	limiters := make([]*ratelimit.Limiter, servers)
	for i := range limiters {
		limiters[i] = ratelimit.New(db, clock, plan.RequestLimits{plan.Free: limit}, func(err error) { t.Error(err) })
		working.Go(func() { limiters[i].Work(ctx) })
	}
	for minute := range 3 {
		var admitted, late atomic.Int64
		var clients sync.WaitGroup
		for _, l := range limiters {
			for range 8 {
				clients.Go(func() {
					for began := time.Now(); l.Take(ctx, o).Allowed; began = time.Now() {
						admitted.Add(1)
						if time.Since(began) >= ratelimit.MaxWait {
							late.Add(1)
						}
					}
				})
			}
		}
		clients.Wait()
		if n, most := admitted.Load(), limit+servers*plan.Lot(limit)+late.Load(); n < limit || n > most {
			t.Errorf("%d requests are admitted in minute %d, want %d to %d", n, minute, limit, most)
		}
		clock.Advance(time.Minute)
	}
}
