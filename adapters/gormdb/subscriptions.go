package gormdb

import (
	"context"
	"database/sql"
	"time"

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"
)

type subscriptionRow struct {
	OrgID           string         `gorm:"type:uuid;primaryKey"`
	Plan            string         `gorm:"not null"`
	Status          string         `gorm:"not null"`
	PurchasedSeats  sql.NullInt64  `gorm:"column:purchased_seats"`
	PeriodStart     sql.NullInt64  `gorm:"column:period_start"`
	PeriodEnd       sql.NullInt64  `gorm:"column:period_end"`
	IsExternal      bool           `gorm:"not null"`
	Updated         int64          `gorm:"column:updated_at;not null"`
	Cancels         bool           `gorm:"column:cancel_at_period_end;not null"`
	TrialEnd        sql.NullInt64  `gorm:"column:trial_end"`
	HasMethod       bool           `gorm:"column:has_payment_method;not null"`
	EverPaid        bool           `gorm:"not null"`
	Customer        sql.NullString `gorm:"column:customer"`
	ProviderID      string         `gorm:"not null"`
	Heard           int64          `gorm:"column:heard_at;not null"`
	Attempts        int64          `gorm:"not null"`
	Asked           int64          `gorm:"column:asked_at;not null"`
	Revision        int64          `gorm:"not null"`
	CheckoutKey     sql.NullString `gorm:"column:checkout_key"` // null: there is no checkout
	CheckoutPlan    sql.NullString `gorm:"column:checkout_plan"`
	CheckoutSession sql.NullString `gorm:"column:checkout_session"`
	CheckoutURL     sql.NullString `gorm:"column:checkout_url"`
	CheckoutExpires sql.NullInt64  `gorm:"column:checkout_expires_at"`
	Due             sql.NullInt64  `gorm:"->:false;<-;column:due_at"` // follows from the others
}

func (subscriptionRow) TableName() string { return "subscriptions" }

var subscriptionTable = tenant[subscriptionRow]("Subscription", nil)

func rowOfSubscription(s plan.Subscription) *subscriptionRow {
	r := &subscriptionRow{
		Plan: string(s.Plan), Status: string(s.Status()), PeriodStart: optionalMillis(s.CurrentPeriodStart),
		PeriodEnd: optionalMillis(s.CurrentPeriodEnd), IsExternal: s.ManagedExternally, Updated: s.UpdatedAt.UnixMilli(),
		Cancels: s.CancelAtPeriodEnd, TrialEnd: optionalMillis(s.TrialEnd), HasMethod: s.HasPaymentMethod, EverPaid: s.EverPaid,
		Customer: set(s.Customer), ProviderID: s.ProviderID, Heard: s.HeardAt.UnixMilli(), Attempts: int64(s.Attempts), Asked: s.AskedAt.UnixMilli(), Revision: s.Revision, Due: optionalMillis(s.Due()),
	}
	if s.PurchasedSeats != nil {
		r.PurchasedSeats = sql.NullInt64{Int64: int64(*s.PurchasedSeats), Valid: true}
	}
	if c := s.Checkout; c != nil {
		r.CheckoutKey, r.CheckoutPlan, r.CheckoutSession, r.CheckoutURL = optional(&c.Key), optional(&c.Plan), optional(&c.Session), optional(&c.URL)
		r.CheckoutExpires = optionalMillis(&c.ExpiresAt)
	}
	return r
}

func (r *subscriptionRow) subscription() (plan.Subscription, error) {
	sub := plan.Subscription{
		Org: id.Org(r.OrgID), Plan: plan.Plan(r.Plan), CurrentPeriodStart: optionalInstant(r.PeriodStart), CurrentPeriodEnd: optionalInstant(r.PeriodEnd),
		ManagedExternally: r.IsExternal, UpdatedAt: instant(r.Updated), CancelAtPeriodEnd: r.Cancels, TrialEnd: optionalInstant(r.TrialEnd),
		HasPaymentMethod: r.HasMethod, EverPaid: r.EverPaid, Customer: r.Customer.String, ProviderID: r.ProviderID, HeardAt: instant(r.Heard),
		Attempts: int(r.Attempts), AskedAt: instant(r.Asked), Revision: r.Revision,
	}.Restore(plan.Status(r.Status))
	if r.PurchasedSeats.Valid {
		seats := int(r.PurchasedSeats.Int64)
		sub.PurchasedSeats = &seats
	}
	if r.CheckoutKey.Valid {
		sub.Checkout = &plan.Checkout{
			Key: r.CheckoutKey.String, Plan: plan.Plan(r.CheckoutPlan.String), Session: r.CheckoutSession.String, URL: r.CheckoutURL.String,
			ExpiresAt: instant(r.CheckoutExpires.Int64),
		}
	}
	return sub, nil
}

type subscriptions struct{ *conn }

var _ ports.Subscriptions = subscriptions{}

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
	s, some := subscriptionTable.ofEach(q.read, orgs, crossTenantOverview)
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
			// Asked first, because a taken key would end a transaction on Postgres.
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

func ofCustomer(db *gorm.DB, customer string) selection[subscriptionRow] {
	return subscriptionTable.crossTenant(db, crossTenantCustomers).filter("customer = ?", customer)
}

func (r *subscriptionRow) subscriber() (id.Org, error) { return id.Org(r.OrgID), nil }

func (q subscriptions) ByCustomer(ctx context.Context, customer string) (id.Org, error) {
	o, found, err := find(ctx, ofCustomer(q.read, customer), (*subscriptionRow).subscriber)
	if err == nil && !found {
		err = fault.Missing("Customer")
	}
	return o, err
}

func (q subscriptions) Due(ctx context.Context, now time.Time, limit int) ([]id.Org, error) {
	if limit <= 0 {
		return nil, nil
	}
	s := subscriptionTable.crossTenant(q.read, crossTenantDue).filter("due_at <= ?", now.UnixMilli())
	return all(ctx, s.page("due_at, org_id", limit).read(), (*subscriptionRow).subscriber)
}
