// Package operator has the use cases of operators of the service, across organisations. Every use is
// audited.
package operator

import (
	"context"

	"collab/domain/audit"
	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/usage"
	"collab/ports"
)

// Operator are the use cases of operators.
type Operator struct {
	store  ports.Store
	clock  ports.Clock
	ids    ports.IDs
	limits plan.StorageLimits
	origin func(context.Context) audit.Origin
}

// New returns the use cases over the store. Origin returns the origin of the request that a
// context carries, for the audit log.
func New(store ports.Store, clock ports.Clock, ids ports.IDs, limits plan.StorageLimits, origin func(context.Context) audit.Origin) *Operator {
	return &Operator{store: store, clock: clock, ids: ids, limits: limits, origin: origin}
}

// Overview is an organisation with the figures that operators see.
type Overview struct {
	org.Organisation
	Subscription plan.Subscription
	Seats        org.Seats
	Used         object.Usage
	StorageLimit int64     // in bytes, or plan.Unlimited
	Usage        usage.Sum // of the last usageDays days
}

// usageDays is the number of days, with the present one, whose usage an Overview has.
const usageDays = 30

// batch is how many organisations Organisations reads at a time.
const batch = 200

// Organisations calls each with the organisations that f selects by id. A search examines
// org.MaxExamined of them.
func (s *Operator) Organisations(ctx context.Context, actor org.Actor, f org.Filter, each func(Overview) error) error {
	if err := actor.CheckOperator(); err != nil {
		return err
	}
	if err := s.audit(ctx, s.store, actor, "", audit.OperatorRead, "organisations"); err != nil {
		return err
	}
	f.ExamineLimit = org.MaxExamined
	for shown := 0; ; {
		part := f
		if part.Limit = batch; f.Limit > 0 {
			part.Limit = min(batch, f.Limit-shown)
		}
		orgs, err := s.store.Directory().Organisations().List(ctx, part)
		if err != nil {
			return err
		}
		all, err := s.overviews(ctx, s.store, orgs)
		if err != nil {
			return err
		}
		for _, o := range all {
			if err := each(o); err != nil {
				return err
			}
		}
		if shown += len(all); len(all) < part.Limit || shown == f.Limit {
			return nil
		}
		f.After = all[len(all)-1].ID
	}
}

// Organisation returns one organisation.
func (s *Operator) Organisation(ctx context.Context, actor org.Actor, o id.Org) (Overview, error) {
	if err := actor.CheckOperator(); err != nil {
		return Overview{}, err
	}
	found, err := s.store.Directory().Organisations().Get(ctx, o)
	if err != nil {
		return Overview{}, err
	}
	if err := s.audit(ctx, s.store, actor, o, audit.OperatorRead, "organisation"); err != nil {
		return Overview{}, err
	}
	return s.overview(ctx, s.store, found)
}

// Members calls each with the active members of an organisation that f selects and their users, by
// JoinedAt, then user id. The organisation may be closed.
func (s *Operator) Members(ctx context.Context, actor org.Actor, o id.Org, f org.MemberFilter, each func(org.Profile) error) error {
	if err := actor.CheckOperator(); err != nil {
		return err
	}
	if _, err := s.store.Directory().Organisations().Get(ctx, o); err != nil {
		return err
	}
	if err := s.audit(ctx, s.store, actor, o, audit.OperatorRead, "members"); err != nil {
		return err
	}
	f.ExamineLimit = org.MaxExamined
	return s.store.Directory().Members().List(ctx, o, f, each)
}

// Grant sets an organisation's subscription, which from then on is managed outside the payment
// provider.
func (s *Operator) Grant(ctx context.Context, actor org.Actor, o id.Org, g plan.Grant) (Overview, error) {
	if err := actor.CheckOperator(); err != nil {
		return Overview{}, err
	}
	var out Overview
	err := s.store.Atomic(ctx, func(r ports.Records) error {
		organisation, err := r.Directory().Organisations().Lock(ctx, o)
		if err != nil {
			return err
		}
		was, err := r.Directory().Subscriptions().Get(ctx, o)
		if err != nil {
			return err
		}
		granted, err := was.Granted(g, s.clock.Now())
		if err != nil {
			return err
		}
		if err := r.Directory().Subscriptions().Put(ctx, o, granted); err != nil {
			return err
		}
		if err := s.audit(ctx, r, actor, o, audit.SubscriptionChanged, string(was.Plan)+" -> "+string(granted.Plan)); err != nil {
			return err
		}
		out, err = s.overview(ctx, r, organisation)
		return err
	})
	return out, err
}

func (s *Operator) overview(ctx context.Context, r ports.Records, o org.Organisation) (Overview, error) {
	list, err := s.overviews(ctx, r, []org.Organisation{o})
	if err != nil {
		return Overview{}, err
	}
	return list[0], nil
}

func (s *Operator) overviews(ctx context.Context, r ports.Records, orgs []org.Organisation) ([]Overview, error) {
	ids := make([]id.Org, len(orgs))
	for i, o := range orgs {
		ids[i] = o.ID
	}
	subs, err := r.Directory().Subscriptions().Of(ctx, ids)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	seats, err := r.Directory().Seats().Count(ctx, ids, now)
	if err != nil {
		return nil, err
	}
	used, err := r.Storage().Used(ctx, ids)
	if err != nil {
		return nil, err
	}
	spent, err := r.Usage().Ledger().Totals(ctx, ids, calendar.DayOf(now.AddDate(0, 0, 1-usageDays)), calendar.DayOf(now))
	if err != nil {
		return nil, err
	}
	list := make([]Overview, len(orgs))
	for i, o := range orgs {
		sub := subs[o.ID].At(now)
		list[i] = Overview{o, sub, seats[o.ID], used[o.ID], s.limits.Of(sub.Plan), spent[o.ID]}
	}
	return list, nil
}

func (s *Operator) audit(ctx context.Context, r ports.Records, actor org.Actor, o id.Org, a audit.Action, detail string) error {
	return r.Journal().Audit().Add(ctx, audit.By(actor, s.origin(ctx), id.Entry(s.ids.New()), o, a, "", detail, s.clock.Now()))
}
