package gormdb

import (
	"context"
	"time"

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"
)

type subscriptionRow struct {
	OrgID          id.Org `gorm:"primaryKey"`
	Plan           plan.Plan
	Status         plan.Status
	PurchasedSeats *int
	PeriodStart    *time.Time
	PeriodEnd      *time.Time
	IsExternal     bool
	UpdatedAt      time.Time
	Cancels        bool `gorm:"column:cancel_at_period_end"`
	TrialEnd       *time.Time
	HasMethod      bool `gorm:"column:has_payment_method"`
	EverPaid       bool
	Customer       string `gorm:"default:null"`
	ProviderID     string
	HeardAt        time.Time
	Attempts       int
	AskedAt        time.Time
	Revision       int64
	Checkout       checkoutRow `gorm:"embedded;embeddedPrefix:checkout_"`
	DueAt          *time.Time  `gorm:"->:false;<-"` // follows from the others
}

// checkoutRow is a plan.Checkout; an empty key means none.
type checkoutRow struct {
	Key       string    `gorm:"default:null"`
	Plan      plan.Plan `gorm:"default:null"`
	Session   string    `gorm:"default:null"`
	URL       string    `gorm:"default:null"`
	ExpiresAt time.Time `gorm:"default:null"`
}

var subscriptionTable = tenant[subscriptionRow]("subscriptions", "Subscription")

func rowOfSubscription(s plan.Subscription) *subscriptionRow {
	r := &subscriptionRow{
		Plan: s.Plan, Status: s.Status(), PurchasedSeats: s.PurchasedSeats, PeriodStart: s.CurrentPeriodStart, PeriodEnd: s.CurrentPeriodEnd,
		IsExternal: s.ManagedExternally, UpdatedAt: s.UpdatedAt, Cancels: s.CancelAtPeriodEnd,
		TrialEnd: s.TrialEnd, HasMethod: s.HasPaymentMethod,
		EverPaid: s.EverPaid, Customer: s.Customer, ProviderID: s.ProviderID, HeardAt: s.SyncedAt, Attempts: s.Attempts, AskedAt: s.ClaimedAt,
		Revision: s.Revision, DueAt: s.Due(),
	}
	if s.Checkout != nil {
		r.Checkout = checkoutRow(*s.Checkout)
	}
	return r
}

func (r *subscriptionRow) subscription() (plan.Subscription, error) {
	sub := plan.Subscription{
		Org: r.OrgID, Plan: r.Plan, PurchasedSeats: r.PurchasedSeats, CurrentPeriodStart: r.PeriodStart, CurrentPeriodEnd: r.PeriodEnd,
		ManagedExternally: r.IsExternal, UpdatedAt: r.UpdatedAt, CancelAtPeriodEnd: r.Cancels,
		TrialEnd: r.TrialEnd, HasPaymentMethod: r.HasMethod,
		EverPaid: r.EverPaid, Customer: r.Customer, ProviderID: r.ProviderID, SyncedAt: r.HeardAt, Attempts: r.Attempts, ClaimedAt: r.AskedAt,
		Revision: r.Revision,
	}.Restore(r.Status)
	if r.Checkout.Key != "" {
		sub.Checkout = new(plan.Checkout(r.Checkout))
	}
	return sub, nil
}

type subscriptions struct{ *conn }

func (g group) Subscriptions() ports.Subscriptions { return subscriptions(g) }

func (q subscriptions) Get(ctx context.Context, o id.Org) (plan.Subscription, error) {
	sub, found, err := find(ctx, subscriptionTable.of(q.read, o), (*subscriptionRow).subscription)
	if err == nil && !found {
		sub = plan.Unsubscribed(o)
	}
	return sub, err
}

func (q subscriptions) Of(ctx context.Context, orgs []id.Org) (map[id.Org]plan.Subscription, error) {
	subs := make(map[id.Org]plan.Subscription, len(orgs))
	for _, o := range orgs {
		subs[o] = plan.Unsubscribed(o)
	}
	s, some := subscriptionTable.ofEach(q.read, orgs)
	if !some {
		return subs, nil
	}
	return subs, each(ctx, s, (*subscriptionRow).subscription, func(s plan.Subscription) error {
		subs[s.Org] = s
		return nil
	})
}

func (q subscriptions) Put(ctx context.Context, o id.Org, s plan.Subscription) error {
	return q.atomic(ctx, func(c *conn) error {
		if s.Customer != "" {
			// Checked first, because a unique violation aborts a transaction on Postgres.
			taken, err := ofCustomer(c.read, s.Customer).filter("org_id <> ?", string(o)).count(ctx)
			if err != nil {
				return err
			}
			if taken > 0 {
				return fault.New(fault.Conflict, "Another organisation has this customer id of the payment provider")
			}
		}
		r := rowOfSubscription(s)
		r.Revision++
		return subscriptionTable.of(c.write, o).put(ctx, r)
	})
}

func ofCustomer(db *gorm.DB, customer string) selection {
	return subscriptionTable.crossTenant(db, crossTenantCustomers).filter("customer = ?", customer)
}

func (r *subscriptionRow) subscriber() (id.Org, error) { return r.OrgID, nil }

func (q subscriptions) ByCustomer(ctx context.Context, customer string) (id.Org, error) {
	o, found, err := find(ctx, ofCustomer(q.read, customer), (*subscriptionRow).subscriber)
	return o, required(found, err, "Customer")
}

func (q subscriptions) Due(ctx context.Context, now time.Time, limit int) ([]id.Org, error) {
	if limit <= 0 {
		return nil, nil
	}
	s := subscriptionTable.crossTenant(q.read, crossTenantDue).filter("due_at <= ?", now.UnixMilli())
	return all(ctx, s.page("due_at, org_id", limit).read(), (*subscriptionRow).subscriber)
}
