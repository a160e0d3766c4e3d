package gormdb

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/usage"
	"collab/ports"
)

type entryRow struct {
	Entry entryFields `gorm:"embedded"`
	Day   time.Time   `gorm:"->:false;<-"`
}

// entryFields are those of usage.Entry.
type entryFields struct {
	ID         id.Request `gorm:"primaryKey"`
	Org        id.Org     `gorm:"column:org_id;primaryKey"`
	User       id.User    `gorm:"column:user_id"`
	At         time.Time
	Model      string
	Provider   string
	Tokens     tokenFields `gorm:"embedded"`
	Provenance chat.Provenance
	Outcome    chat.Outcome
}

// tokenFields are those of chat.Usage.
type tokenFields struct {
	Input        int64
	Output       int64
	CacheRead    int64
	CacheCreated int64 `gorm:"column:cache_made"`
	Searches     int64
}

// sumRow has the columns that all tables of sums share.
type sumRow struct{ Input, Output, Requests int64 }

func (s *sumRow) add(t sumRow) {
	s.Input, s.Output, s.Requests = s.Input+t.Input, s.Output+t.Output, s.Requests+t.Requests
}

type userModelSumRow struct {
	OrgID  id.Org    `gorm:"primaryKey"`
	UserID id.User   `gorm:"primaryKey"`
	Day    time.Time `gorm:"primaryKey"`
	Model  string    `gorm:"primaryKey"`
	Sums   sumRow    `gorm:"embedded"`
}

type userSumRow struct {
	OrgID  id.Org    `gorm:"primaryKey"`
	Unit   int64     `gorm:"primaryKey"`
	Since  time.Time `gorm:"primaryKey"`
	UserID id.User   `gorm:"primaryKey"`
	Sums   sumRow    `gorm:"embedded"`
}

type modelSumRow struct {
	OrgID id.Org    `gorm:"primaryKey"`
	Unit  int64     `gorm:"primaryKey"`
	Since time.Time `gorm:"primaryKey"`
	Model string    `gorm:"primaryKey"`
	Shard string    `gorm:"column:lane;primaryKey"`
	Sums  sumRow    `gorm:"embedded"`
}

var (
	entryTable     = tenant[entryRow]("usage_entries", "Entry")
	userModelTable = tenant[userModelSumRow]("usage_user_models", "Entry")
	userSumTable   = tenant[userSumRow]("usage_users", "Entry")
	modelSumTable  = tenant[modelSumRow]("usage_models", "Entry")
)

func (r *entryRow) entry() (usage.Entry, error) {
	f := r.Entry
	return usage.Entry{
		ID: f.ID, Org: f.Org, User: f.User, At: f.At, Model: f.Model, Provider: f.Provider,
		Tokens: chat.Usage(f.Tokens), Provenance: f.Provenance, Outcome: f.Outcome,
	}, nil
}

func fieldsOfEntry(e usage.Entry) entryFields {
	return entryFields{e.ID, e.Org, e.User, e.At, e.Model, e.Provider, tokenFields(e.Tokens), e.Provenance, e.Outcome}
}

type ledger struct{ *conn }

func (g group) Ledger() ports.Ledger { return ledger(g) }

const (
	quarter = 6 * time.Hour
	day     = 4 * quarter
	week    = 7 * day // from Monday on
)

// The units of the sums of users and of models, the longest first. A period consists of few
// of them, and of the few entries at its start and end that no unit covers. A summary has
// each day of models.
var (
	userUnits  = []time.Duration{week, day, quarter}
	modelUnits = []time.Duration{day, time.Hour}
)

// shardOf returns the row among those of a sum in which a user's requests are counted, so
// that requests rarely wait for the same row. The last digit of an id is random.
func shardOf(user id.User) string { return string(user[max(0, len(user)-1):]) }

// Settle is one statement on Postgres.
func (q ledger) Settle(ctx context.Context, o id.Org, entries ...usage.Entry) error {
	s := settlementOf(o, entries)
	if q.dialect == onSQLite {
		return q.settleInSteps(ctx, o, s)
	}
	all := s.set(settleAll.of(o))
	if q.inTransaction() {
		return q.settle(ctx, o, all)
	}
	return q.db.retry(ctx, func() error { return q.settle(ctx, o, all) })
}

// settleInSteps is Settle on SQLite.
func (q ledger) settleInSteps(ctx context.Context, o id.Org, s settlement) error {
	return q.atomic(ctx, func(c *conn) error {
		err := ledger{c}.settle(ctx, o, s.set(settleEntries.of(o)))
		for _, other := range settleOthers {
			if err == nil {
				_, err = exec(ctx, c.write, "Entry", s.set(other.of(o)))
			}
		}
		return err
	})
}

// settle runs a statement that changes nothing if the organisation does not exist or an id
// is taken.
func (q ledger) settle(ctx context.Context, o id.Org, c command) error {
	n, err := exec(ctx, q.write, "Entry", c)
	if err == nil && n == 0 {
		if _, err = organisations(q).Get(ctx, o); err == nil {
			err = fault.New(fault.Conflict, "Entry is there already")
		}
	}
	return err
}

// settlement has the parameters of Settle's statements, each rows in the order of their keys.
type settlement [6]struct{ name, rows string }

// set sets those of the parameters that a statement has.
func (s settlement) set(c command) command {
	for _, p := range s {
		if slices.Contains(c.names, p.name) {
			c = c.set(p.name, p.rows)
		}
	}
	return c
}

func settlementOf(o id.Org, entries []usage.Entry) settlement {
	rows := make([]entryRow, len(entries))
	leases, accounts := make([]leaseRow, len(entries)), make([]accountRow, len(entries))
	var userModels []userModelSumRow
	var users []userSumRow
	var models []modelSumRow
	for i, e := range entries {
		sums, at := sumRow{e.Tokens.Input, e.Tokens.Output, 1}, e.At.UTC()
		dayStart := at.Truncate(day)
		rows[i] = entryRow{fieldsOfEntry(e), dayStart}
		leases[i] = leaseRow{OrgID: o, UserID: e.User, Day: dayStart.UnixMilli(), ID: e.ID}
		accounts[i] = accountRow{UserID: e.User, Day: dayStart.UnixMilli(), Used: e.Tokens.Total()}
		userModels = append(userModels, userModelSumRow{UserID: e.User, Day: dayStart, Model: e.Model, Sums: sums})
		for _, unit := range userUnits {
			users = append(users, userSumRow{
				Unit: unit.Milliseconds(), Since: at.Truncate(unit), UserID: e.User, Sums: sums,
			})
		}
		for _, unit := range modelUnits {
			models = append(models, modelSumRow{
				Unit: unit.Milliseconds(), Since: at.Truncate(unit), Model: e.Model, Shard: shardOf(e.User), Sums: sums,
			})
		}
	}
	userModels = summed(userModels, func(a, b userModelSumRow) int {
		return cmp.Or(cmp.Compare(a.UserID, b.UserID), a.Day.Compare(b.Day), cmp.Compare(a.Model, b.Model))
	}, func(to *userModelSumRow, one userModelSumRow) { to.Sums.add(one.Sums) })
	users = summed(users, func(a, b userSumRow) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), a.Since.Compare(b.Since), cmp.Compare(a.UserID, b.UserID))
	}, func(to *userSumRow, one userSumRow) { to.Sums.add(one.Sums) })
	models = summed(models, func(a, b modelSumRow) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), a.Since.Compare(b.Since),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Shard, b.Shard))
	}, func(to *modelSumRow, one modelSumRow) { to.Sums.add(one.Sums) })
	accounts = summed(accounts, byAccount, func(to *accountRow, one accountRow) { to.Used += one.Used })
	slices.SortFunc(leases, func(a, b leaseRow) int { return cmp.Or(compareAccounts(a, b), cmp.Compare(a.ID, b.ID)) })
	return settlement{
		{"leases", records(leases, leaseKeys)},
		{"entries", records(rows, entryTable.rest)},
		{"user_models", records(userModels, userModelTable.rest)},
		{"users", records(users, userSumTable.rest)},
		{"models", records(models, modelSumTable.rest)},
		{"accounts", records(accounts, settledAccounts)},
	}
}

// segment is a part of a period: whole units that have sums or, if unit is 0, single
// entries. It is added, or subtracted if the segment around it covers too much.
type segment struct {
	unit        time.Duration
	from, until time.Time
	subtract    bool
}

// segmentsOf returns the segments that a period consists of, or whose sum is to be
// subtracted. All but that of the longest unit are at its start and end, and at most about
// half as long as the next longer unit.
func segmentsOf(p usage.Period, subtract bool, units []time.Duration) []segment {
	if !p.Start.Before(p.End) {
		return nil
	}
	if len(units) == 0 {
		return []segment{{from: p.Start, until: p.End, subtract: subtract}}
	}
	unit, shorter := units[0], units[1:]
	first, last := p.Start.Truncate(unit), p.End.Truncate(unit)
	if first.Equal(last) && p.End.Sub(p.Start) <= unit/2 {
		return segmentsOf(p, subtract, shorter)
	}
	var begin, end []segment
	if p.Start.Sub(first) > unit/2 {
		first = first.Add(unit)
		begin = segmentsOf(usage.Period{Start: p.Start, End: first}, subtract, shorter)
	} else {
		begin = segmentsOf(usage.Period{Start: first, End: p.Start}, !subtract, shorter)
	}
	if p.End.Sub(last) > unit/2 {
		last = last.Add(unit)
		end = segmentsOf(usage.Period{Start: p.End, End: last}, !subtract, shorter)
	} else {
		end = segmentsOf(usage.Period{Start: last, End: p.End}, subtract, shorter)
	}
	all := append(begin, end...)
	if first.Before(last) {
		all = append(all, segment{unit: unit, from: first, until: last, subtract: subtract})
	}
	return all
}

// sumsRow is the sum of one model at one time, or of one user.
type sumsRow struct {
	ofUser bool
	at     int64
	column string
	usage.Sum
}

// rows builds a query for the rows of the sums of all segments.
type rows struct {
	parts []string
	args  []any
}

// add adds the rows of a segment. Column is their columns before the sums, and from what follows FROM, with its
// parameters.
func (r *rows) add(s segment, column, from string, args ...any) {
	sign, requests := "", "requests"
	if s.subtract {
		sign = "-"
	}
	if s.unit == 0 {
		requests = "1"
	}
	r.parts = append(r.parts, "SELECT "+column+", "+
		sign+"input AS input, "+sign+"output AS output, "+sign+requests+" AS requests FROM "+from)
	r.args = append(r.args, args...)
}

// summed returns the query for the rows' sums that Summary reads.
func (r rows) summed(column, by string) string {
	return "SELECT " + column + ", " + sumColumns + " FROM (" + strings.Join(r.parts, " UNION ALL ") + ") x GROUP BY " + by
}

// ofModels returns the rows of the models of a user, or of all users if it is empty.
func ofModels(user id.User, p usage.Period) (r rows) {
	if user != "" {
		for _, s := range segmentsOf(p, false, []time.Duration{day}) {
			from, until := s.from.UnixMilli(), s.until.UnixMilli()
			if s.unit > 0 {
				r.add(s, "day AS at, model", "usage_user_models WHERE org_id = @org AND user_id = ? AND day >= ? AND day < ?",
					string(user), from, until)
			} else {
				r.add(s, "day AS at, model", "usage_entries WHERE org_id = @org AND day = ? AND user_id = ? AND at >= ? AND at < ?",
					s.from.Truncate(day).UnixMilli(), string(user), from, until)
			}
		}
		return r
	}
	return unitRows(p, modelUnits, "usage_models", "since AS at, model", "day AS at, model")
}

// unitRows returns the rows of all users, from a table of sums by unit and from the entries.
func unitRows(p usage.Period, units []time.Duration, table, ofSums, ofEntries string) (r rows) {
	for _, s := range segmentsOf(p, false, units) {
		from, until := s.from.UnixMilli(), s.until.UnixMilli()
		if s.unit > 0 {
			r.add(s, ofSums, table+" WHERE org_id = @org AND unit = ? AND since >= ? AND since < ?",
				s.unit.Milliseconds(), from, until)
		} else {
			r.add(s, ofEntries, "usage_entries WHERE org_id = @org AND at >= ? AND at < ?", from, until)
		}
	}
	return r
}

// Summary is one query, and so reads one snapshot. The sums of models are
// before those of users.
func (q ledger) Summary(
	ctx context.Context, o id.Org, user id.User, p usage.Period,
	head func(usage.Summary) error, fn func(usage.Part) error,
) error {
	sums := ofModels(user, p)
	if len(sums.parts) == 0 {
		return head(usage.Summary{Period: p})
	}
	query := sums.summed("false, x.at, x.model", "x.at, x.model")
	if user == "" {
		users := unitRows(p, userUnits, "usage_users", "user_id", "user_id")
		query += " UNION ALL " + users.summed("true, 0, CAST(x.user_id AS TEXT)", "x.user_id") + " ORDER BY 1, 3"
		sums.args = append(sums.args, users.args...)
	}
	var total usage.Sum
	models, days, begun := map[string]usage.Sum{}, map[string]usage.Sum{}, false
	begin := func() error {
		begun = true
		return head(usage.Summary{Period: p, Sum: total, ByModel: parts(models), ByDay: parts(days)})
	}
	var r sumsRow
	to := []any{&r.ofUser, &r.at, &r.column, &r.Input, &r.Output, &r.Requests}
	err := eachRow(ctx, q.read, "Entry", tenantSQL(o, query, sums.args...), to, func() error {
		if !r.ofUser {
			day := string(calendar.DayOf(instant(r.at)))
			total, models[r.column], days[day] = total.Plus(r.Sum), models[r.column].Plus(r.Sum), days[day].Plus(r.Sum)
			return nil
		}
		if !begun {
			if err := begin(); err != nil {
				return err
			}
		}
		if r.Requests == 0 {
			return nil // they were subtracted completely
		}
		return fn(usage.Part{Of: r.column, Sum: r.Sum})
	})
	if err == nil && !begun {
		err = begin()
	}
	return err
}

// parts returns the sums that have requests, in their order. A sum that was subtracted
// completely has none.
func parts(sums map[string]usage.Sum) (all []usage.Part) {
	for name, sum := range sums {
		if sum.Requests > 0 {
			all = append(all, usage.Part{Of: name, Sum: sum})
		}
	}
	slices.SortFunc(all, func(a, b usage.Part) int { return cmp.Compare(a.Of, b.Of) })
	return all
}

func (q ledger) Totals(ctx context.Context, orgs []id.Org, first, last calendar.Day) (map[id.Org]usage.Sum, error) {
	sums := make(map[id.Org]usage.Sum, len(orgs))
	for _, o := range orgs {
		sums[o] = usage.Sum{}
	}
	known := validIDs(orgs)
	if len(known) == 0 {
		return sums, nil
	}
	var o id.Org
	var sum usage.Sum
	c := usageTotals[q.dialect].crossTenant(crossTenantOverview).set("orgs", list(q.dialect, known)).
		set("unit", day.Milliseconds()).set("from", first.Start().UnixMilli()).set("until", last.End().UnixMilli())
	return sums, eachRow(ctx, q.read, "Entry", c, []any{&o, &sum.Input, &sum.Output, &sum.Requests}, func() error {
		sums[o] = sum
		return nil
	})
}

func (q ledger) Daily(
	ctx context.Context, o id.Org, b usage.Breakdown, after usage.Daily, limit int, fn func(usage.Daily) error,
) error {
	d := usage.Daily{User: b.User}
	c, of := dailyModels.of(o).set("unit", day.Milliseconds()).set("after", after.Model), any(&d.Model)
	switch {
	case b.ByUser:
		c, of = dailyUsers.of(o).set("unit", day.Milliseconds()).set("after", cursorID(after.User)), &d.User
	case b.User != "":
		c = dailyModelsOfUser.of(o).set("user", string(b.User)).set("after", after.Model)
	}
	c = c.set("from", millis(max(b.First, after.Day))).set("until", b.Last.End().UnixMilli()).
		set("after_day", millis(after.Day)). // no day is before all others
		set("limit", cmp.Or(limit, math.MaxInt))
	var at int64
	return eachRow(ctx, q.read, "Entry", c, []any{&at, of, &d.Input, &d.Output, &d.Requests}, func() error {
		d.Day = calendar.DayOf(instant(at))
		return fn(d)
	})
}

func (q ledger) Entries(ctx context.Context, o id.Org, p usage.Period, fn func(usage.Entry) error) error {
	s := entryTable.of(q.read, o).filter("at >= ? AND at < ?", p.Start.UnixMilli(), p.End.UnixMilli())
	return each(ctx, s.page("at, id", 0), (*entryRow).entry, fn)
}
