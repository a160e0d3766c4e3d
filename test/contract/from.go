package contract

import (
	"context"
	"testing"

	"collab/domain/audit"
	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/release"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/must"
)

// From is the suite of ports.Store.Position and ports.Store.From. The suites of the collections may
// be run with ReadFrom.
func From(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a position follows every commit before it, and a known one stays": func(w *fixture) {
			o := w.org()
			e := someEntry(o.ID, "")
			w.ok(w.Audit().Add(w.ctx, e))
			known := must.Do(w.store.Position(w.ctx, "")).Or(w)
			resultOf(entries(w.ctx, w.store.From(known), o.ID)).is(w, []audit.Entry{e})
			resultOf(w.store.Position(w.ctx, known)).is(w, known)
		},
		"a position that is none of the store's is that of the present": func(w *fixture) {
			for _, position := range []string{"", "x", "ffffffffffffffffffffffff", "ffffffff7fffffffffffffff", "000000000000000000000000 "} {
				o := w.org()
				e := someEntry(o.ID, "")
				w.ok(w.Audit().Add(w.ctx, e))
				resultOf(entries(w.ctx, w.store.From(position), o.ID)).is(w, []audit.Entry{e})
				now := must.Do(w.store.Position(w.ctx, position)).Or(w)
				if now == position && now != "" {
					w.Errorf("%q is a position", now)
				}
			}
		},
	}.run(t, open)
}

func entries(ctx context.Context, r ports.Records, o id.Org) (all []audit.Entry, err error) {
	err = r.Journal().Audit().List(ctx, o, audit.Filter{}, collect(&all))
	return all, err
}

// ReadFrom returns a store whose methods that From's result has are called on that, each at a new position.
func ReadFrom(s ports.Store) ports.Store { return fromStore{s} }

type (
	fromStore     struct{ ports.Store }
	fromDirectory struct {
		ports.Directory
		s fromStore
	}
	fromMembers struct {
		ports.Members
		s fromStore
	}
	fromJournal struct {
		ports.Journal
		s fromStore
	}
	fromAudit struct {
		ports.Audit
		s fromStore
	}
	fromUsage struct {
		ports.Usage
		s fromStore
	}
	fromLedger struct {
		ports.Ledger
		s fromStore
	}
	fromDeployment struct {
		ports.Deployment
		s fromStore
	}
	fromAdoption struct {
		ports.Adoption
		s fromStore
	}
)

func (s fromStore) Directory() ports.Directory   { return fromDirectory{s.Store.Directory(), s} }
func (s fromStore) Journal() ports.Journal       { return fromJournal{s.Store.Journal(), s} }
func (s fromStore) Usage() ports.Usage           { return fromUsage{s.Store.Usage(), s} }
func (s fromStore) Deployment() ports.Deployment { return fromDeployment{s.Store.Deployment(), s} }

func (d fromDirectory) Members() ports.Members    { return fromMembers{d.Directory.Members(), d.s} }
func (j fromJournal) Audit() ports.Audit          { return fromAudit{j.Journal.Audit(), j.s} }
func (u fromUsage) Ledger() ports.Ledger          { return fromLedger{u.Usage.Ledger(), u.s} }
func (d fromDeployment) Adoption() ports.Adoption { return fromAdoption{d.Deployment.Adoption(), d.s} }

// from calls fn with the collections at a new position.
func (s fromStore) from(ctx context.Context, fn func(ports.Records) error) error {
	position, err := s.Position(ctx, "")
	if err != nil {
		return err
	}
	return fn(s.From(position))
}

func (m fromMembers) List(ctx context.Context, o id.Org, f org.MemberFilter, each func(org.Profile) error) error {
	return m.s.from(ctx, func(r ports.Records) error { return r.Directory().Members().List(ctx, o, f, each) })
}

func (a fromAudit) List(ctx context.Context, o id.Org, f audit.Filter, each func(audit.Entry) error) error {
	return a.s.from(ctx, func(r ports.Records) error { return r.Journal().Audit().List(ctx, o, f, each) })
}

func (l fromLedger) Summary(ctx context.Context, o id.Org, user id.User, p usage.Period, head func(usage.Summary) error, each func(usage.Part) error) error {
	return l.s.from(ctx, func(r ports.Records) error { return r.Usage().Ledger().Summary(ctx, o, user, p, head, each) })
}

func (l fromLedger) Daily(ctx context.Context, o id.Org, b usage.Breakdown, after usage.Daily, limit int, each func(usage.Daily) error) error {
	return l.s.from(ctx, func(r ports.Records) error { return r.Usage().Ledger().Daily(ctx, o, b, after, limit, each) })
}

func (a fromAdoption) List(ctx context.Context, first, last calendar.Day, of release.Target, after release.CheckCount, limit int) (all []release.CheckCount, err error) {
	err = a.s.from(ctx, func(r ports.Records) error {
		all, err = r.Deployment().Adoption().List(ctx, first, last, of, after, limit)
		return err
	})
	return all, err
}
