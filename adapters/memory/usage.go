package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
)

func (r records) Quotas() ports.Quotas     { return quotas{r.run} }
func (r records) Ledger() ports.Ledger     { return ledger{r.run} }
func (r records) Requests() ports.Requests { return requests{r.run} }

// accountKey identifies the account of a user on a day.
type accountKey struct {
	user id.User
	day  calendar.Day
}

// leaseKey identifies a lease of an account.
type leaseKey struct {
	accountKey
	id id.Request
}

func keyOfAccount(l quota.Lease) accountKey { return accountKey{l.User, l.Day} }
func keyOfLease(l quota.Lease) leaseKey     { return leaseKey{keyOfAccount(l), l.ID} }

type quotas struct{ run runner }

func (q quotas) ReserveAt(_ context.Context, epoch int64, l quota.Lease, limit int64, n quota.Need) (int64, error) {
	return result(q.run, func(x *tx) (int64, error) {
		tenant, err := x.Tenants.get(l.Org)
		if err != nil {
			return 0, err
		}
		if tenant.Leases.has(keyOfLease(l)) {
			return 0, tenant.Leases.errTaken()
		}
		a := tenant.Accounts.rows[keyOfAccount(l)]
		l.Tokens = a.Grant(limit, n)
		if l.Tokens == 0 || epoch != x.Epochs.rows[l.Org] {
			return 0, nil
		}
		a.Reserved += l.Tokens
		tenant.Accounts.put(x, keyOfAccount(l), a)
		tenant.Leases.put(x, keyOfLease(l), l)
		return l.Tokens, nil
	})
}

func (q quotas) ReserveAllAt(_ context.Context, epoch int64, leases []quota.Lease, limit int64) ([]id.User, error) {
	return result(q.run, func(x *tx) (granted []id.User, err error) {
		tenant, err := x.Tenants.get(leases[0].Org)
		if err != nil {
			return nil, err
		}
		sums := map[accountKey]int64{}
		for _, l := range leases {
			sums[keyOfAccount(l)] += l.Tokens
		}
		if epoch != x.Epochs.rows[leases[0].Org] {
			return nil, nil
		}
		for key, sum := range sums {
			if a := tenant.Accounts.rows[key]; a.Used+a.Reserved+sum <= limit {
				a.Reserved += sum
				tenant.Accounts.put(x, key, a)
				granted = append(granted, key.user)
			}
		}
		for _, l := range leases {
			if !slices.Contains(granted, l.User) {
				continue
			}
			if err := tenant.Leases.add(x, keyOfLease(l), l); err != nil {
				return nil, err
			}
		}
		return granted, nil
	})
}

// releaseLease returns the tokens of a lease, if it exists.
func (t *tenant) releaseLease(x *tx, h leaseKey) {
	a := t.Accounts.rows[h.accountKey]
	a.Reserved -= t.Leases.rows[h].Tokens
	t.Accounts.put(x, h.accountKey, a)
	t.Leases.remove(x, h)
}

func (q quotas) Account(_ context.Context, o id.Org, user id.User, d calendar.Day) (quota.Account, error) {
	return result(q.run, func(x *tx) (quota.Account, error) { return x.tenant(o).Accounts.rows[accountKey{user, d}], nil })
}

func (q quotas) Extend(_ context.Context, leases []quota.Lease, until time.Time) error {
	return q.run.do(func(x *tx) {
		for _, l := range leases {
			tenant := x.tenant(l.Org)
			if existing, ok := tenant.Leases.rows[keyOfLease(l)]; ok {
				existing.ExpiresAt = until
				tenant.Leases.put(x, keyOfLease(l), existing)
			}
		}
	})
}

func (q quotas) Sweep(_ context.Context, now time.Time) error {
	return q.run.do(func(x *tx) {
		for _, tenant := range x.Tenants.rows {
			for h, l := range tenant.Leases.rows {
				if !l.ExpiresAt.After(now) {
					tenant.releaseLease(x, h)
				}
			}
		}
	})
}

// ledger derives its sums anew whenever they are asked for.
type ledger struct{ run runner }

func (s ledger) Settle(_ context.Context, o id.Org, entries ...usage.Entry) error {
	return s.run.in(o, func(x *tx, tenant *tenant) error {
		for _, e := range entries {
			if tenant.Usage.has(e.ID) {
				return tenant.Usage.errTaken()
			}
		}
		for _, e := range entries {
			if err := tenant.Usage.add(x, e.ID, e); err != nil {
				return err
			}
			key := accountKey{e.User, calendar.DayOf(e.At)}
			tenant.releaseLease(x, leaseKey{key, e.ID})
			a := tenant.Accounts.rows[key]
			a.Used += e.Tokens.Total()
			tenant.Accounts.put(x, key, a)
		}
		return nil
	})
}

// entries returns the entries of a period, in the order of their time and id.
func (t *tenant) entries(p usage.Period) []usage.Entry {
	return t.Usage.list(func(e usage.Entry) bool {
		return !e.At.Before(p.Start) && e.At.Before(p.End)
	}, compareEntries, 0)
}

func compareEntries(a, b usage.Entry) int { return byTime(a.At, b.At, a.ID, b.ID) }

func (s ledger) Summary(_ context.Context, o id.Org, user id.User, p usage.Period, head func(usage.Summary) error, each func(usage.Part) error) error {
	sum := usage.Summary{Period: p}
	models, days, users := map[string]usage.Sum{}, map[string]usage.Sum{}, map[string]usage.Sum{}
	err := s.run(func(x *tx) error {
		for _, e := range x.tenant(o).entries(p) {
			if user != "" && e.User != user {
				continue
			}
			one := e.Sum()
			sum.Sum = sum.Sum.Plus(one)
			models[e.Model] = models[e.Model].Plus(one)
			days[string(calendar.DayOf(e.At))] = days[string(calendar.DayOf(e.At))].Plus(one)
			if user == "" {
				users[string(e.User)] = users[string(e.User)].Plus(one)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	sum.ByModel, sum.ByDay = parts(models), parts(days)
	return forEach(parts(users), head(sum), each)
}

func parts(sums map[string]usage.Sum) (all []usage.Part) {
	for name, sum := range sums {
		all = append(all, usage.Part{Of: name, Sum: sum})
	}
	slices.SortFunc(all, func(a, b usage.Part) int { return cmp.Compare(a.Of, b.Of) })
	return all
}

func (s ledger) Totals(_ context.Context, orgs []id.Org, first, last calendar.Day) (map[id.Org]usage.Sum, error) {
	return ofEach(s.run, orgs, func(x *tx, o id.Org) (sum usage.Sum, _ error) {
		for _, e := range x.tenant(o).entries(usage.Period{Start: first.Start(), End: last.End()}) {
			sum = sum.Plus(e.Sum())
		}
		return sum, nil
	})
}

func (s ledger) Daily(_ context.Context, o id.Org, b usage.Breakdown, after usage.Daily, limit int, each func(usage.Daily) error) error {
	all, err := result(s.run, func(x *tx) (all []usage.Daily, err error) {
		sums := map[usage.Daily]usage.Sum{}
		for _, e := range x.tenant(o).entries(usage.Period{Start: b.First.Start(), End: b.Last.End()}) {
			if b.User != "" && e.User != b.User {
				continue
			}
			key := usage.Daily{Day: calendar.DayOf(e.At), Model: e.Model, User: b.User}
			if b.ByUser {
				key.Model, key.User = "", e.User
			}
			sums[key] = sums[key].Plus(e.Sum())
		}
		order := func(a, b usage.Daily) int {
			return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.User, b.User), cmp.Compare(a.Model, b.Model))
		}
		for key, sum := range sums {
			if order(key, after) > 0 {
				key.Sum = sum
				all = append(all, key)
			}
		}
		slices.SortFunc(all, order)
		return first(all, limit), nil
	})
	return forEach(all, err, each)
}

// Entries copies the entries before it calls each, as Objects.List does.
func (s ledger) Entries(_ context.Context, o id.Org, p usage.Period, each func(usage.Entry) error) error {
	all, err := result(s.run, func(x *tx) ([]usage.Entry, error) { return x.tenant(o).entries(p), nil })
	return forEach(all, err, each)
}

// requestsKey identifies the requests of an organisation in a minute.
type requestsKey struct {
	org    id.Org
	minute time.Time
}

type requestCount struct {
	requestsKey
	n int64
}

type requests struct{ run runner }

func (r requests) Add(_ context.Context, o id.Org, minute time.Time, n int64) (int64, error) {
	return result(r.run, func(x *tx) (int64, error) {
		c := x.Requests.rows[requestsKey{o, minute}]
		c = requestCount{requestsKey{o, minute}, c.n + n}
		x.Requests.put(x, c.requestsKey, c)
		return c.n, nil
	})
}

func (r requests) Prune(_ context.Context, before time.Time) error {
	return r.run.do(func(x *tx) {
		x.Requests.removeWhere(x, func(c requestCount) bool { return c.minute.Before(before) })
	})
}
