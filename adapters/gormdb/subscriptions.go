package gormdb

import (
	"context"
	"database/sql"

	"collab/domain/id"
	"collab/domain/plan"
	"collab/ports"
)

type subscriptionRow struct {
	OrgID          string        `gorm:"type:uuid;primaryKey"`
	Plan           string        `gorm:"not null"`
	Status         string        `gorm:"not null"`
	PurchasedSeats sql.NullInt64 `gorm:"column:purchased_seats"`
	PeriodStart    sql.NullInt64 `gorm:"column:period_start"`
	PeriodEnd      sql.NullInt64 `gorm:"column:period_end"`
	IsExternal     bool          `gorm:"not null"`
	Updated        int64         `gorm:"column:updated_at;not null"`
}

func (subscriptionRow) TableName() string { return "subscriptions" }

func scanSubscription(s scanner) (plan.Subscription, error) {
	var r subscriptionRow
	if err := s.Scan(&r.OrgID, &r.Plan, &r.Status, &r.PurchasedSeats, &r.PeriodStart, &r.PeriodEnd, &r.IsExternal, &r.Updated); err != nil {
		return plan.Subscription{}, err
	}
	sub := plan.Subscription{
		Org: id.Org(r.OrgID), Plan: plan.Plan(r.Plan), CurrentPeriodStart: optionalInstant(r.PeriodStart), CurrentPeriodEnd: optionalInstant(r.PeriodEnd),
		ManagedExternally: r.IsExternal, UpdatedAt: instant(r.Updated),
	}.Restore(plan.Status(r.Status))
	if r.PurchasedSeats.Valid {
		seats := int(r.PurchasedSeats.Int64)
		sub.PurchasedSeats = &seats
	}
	return sub, nil
}

type subscriptions struct{ *conn }

var _ ports.Subscriptions = subscriptions{}

const selectSubscriptions = "SELECT org_id, plan, status, purchased_seats, period_start, period_end, is_external, updated_at FROM subscriptions WHERE "

func (q subscriptions) Get(ctx context.Context, o id.Org) (plan.Subscription, error) {
	sub, found, err := row(ctx, q.read, "Subscription", scanSubscription,
		selectSubscriptions+"org_id = ?", string(o))
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
	db, among, param, ok := q.among(orgs)
	if !ok {
		return subs, nil
	}
	return subs, each(ctx, db, "Subscription", scanSubscription, func(s plan.Subscription) error {
		subs[s.Org] = s
		return nil
	}, selectSubscriptions+among, param)
}

func (q subscriptions) Put(ctx context.Context, o id.Org, s plan.Subscription) error {
	r := subscriptionRow{
		OrgID: string(o), Plan: string(s.Plan), Status: string(s.Status()), PeriodStart: optionalMillis(s.CurrentPeriodStart),
		PeriodEnd: optionalMillis(s.CurrentPeriodEnd), IsExternal: s.ManagedExternally, Updated: s.UpdatedAt.UnixMilli(),
	}
	if s.PurchasedSeats != nil {
		r.PurchasedSeats = sql.NullInt64{Int64: int64(*s.PurchasedSeats), Valid: true}
	}
	return failed(ctx, q.write.WithContext(ctx).Clauses(replace).Create(&r).Error, "Subscription")
}
