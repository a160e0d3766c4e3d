package gormdb

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
)

type entryRow struct {
	OrgID      string `gorm:"type:uuid;primaryKey"`
	ID         string `gorm:"type:uuid;primaryKey"`
	UserID     string `gorm:"type:uuid;not null"`
	At         int64  `gorm:"not null"`
	Day        int64  `gorm:"not null"`
	Model      string `gorm:"not null"`
	Provider   string `gorm:"not null"`
	Input      int64  `gorm:"not null"`
	Output     int64  `gorm:"not null"`
	CacheRead  int64  `gorm:"not null"`
	CacheMade  int64  `gorm:"not null"`
	Searches   int64  `gorm:"not null"`
	Provenance string `gorm:"not null"`
	Outcome    string `gorm:"not null"`
}

func (entryRow) TableName() string { return "usage_entries" }

// sumRow is what the rows of sums have in common.
type sumRow struct {
	Input    int64 `gorm:"not null"`
	Output   int64 `gorm:"not null"`
	Requests int64 `gorm:"not null"`
}

type userModelSumRow struct {
	OrgID  string `gorm:"type:uuid;primaryKey"`
	UserID string `gorm:"type:uuid;primaryKey"`
	Day    int64  `gorm:"primaryKey;autoIncrement:false"`
	Model  string `gorm:"primaryKey"`
	Sums   sumRow `gorm:"embedded"`
}

func (userModelSumRow) TableName() string { return "usage_user_models" }

type userSumRow struct {
	OrgID  string `gorm:"type:uuid;primaryKey"`
	Day    int64  `gorm:"primaryKey;autoIncrement:false"`
	UserID string `gorm:"type:uuid;primaryKey"`
	Sums   sumRow `gorm:"embedded"`
}

func (userSumRow) TableName() string { return "usage_users" }

type modelSumRow struct {
	OrgID string `gorm:"type:uuid;primaryKey"`
	Since int64  `gorm:"primaryKey;autoIncrement:false"`
	Model string `gorm:"primaryKey"`
	Lane  string `gorm:"primaryKey"`
	Sums  sumRow `gorm:"embedded"`
}

func (modelSumRow) TableName() string { return "usage_models" }

// usageColumns are a usage_entries row's in the order of scanUsage and Add.
var usageColumns = []column{
	{"org_id", "uuid"}, {"id", "uuid"}, {"user_id", "uuid"}, {"at", "bigint"}, {"model", "text"}, {"provider", "text"}, {"input", "bigint"}, {"output", "bigint"},
	{"cache_read", "bigint"}, {"cache_made", "bigint"}, {"searches", "bigint"}, {"provenance", "text"}, {"outcome", "text"},
}

var usageNames = func() string {
	names := make([]string, len(usageColumns))
	for i, c := range usageColumns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}()

func scanUsage(s scanner) (usage.Entry, error) {
	var r entryRow
	if err := s.Scan(&r.OrgID, &r.ID, &r.UserID, &r.At, &r.Model, &r.Provider, &r.Input, &r.Output, &r.CacheRead, &r.CacheMade, &r.Searches, &r.Provenance, &r.Outcome); err != nil {
		return usage.Entry{}, err
	}
	return usage.Entry{
		ID: id.Request(r.ID), Org: id.Org(r.OrgID), User: id.User(r.UserID), At: instant(r.At), Model: r.Model, Provider: r.Provider,
		Tokens:     chat.Usage{Input: r.Input, Output: r.Output, CacheRead: r.CacheRead, CacheMade: r.CacheMade, Searches: r.Searches},
		Provenance: chat.Provenance(r.Provenance), Outcome: chat.Outcome(r.Outcome),
	}, nil
}

type ledger struct{ *conn }

var _ ports.Ledger = ledger{}

// addUsage is a statement by dialect.
var addUsage = func() (s [2]string) {
	for _, d := range []dialect{onSQLite, onPostgres} {
		values := make([]string, len(usageColumns))
		for i, c := range usageColumns {
			values[i] = d.param(c)
		}
		s[d] = "INSERT INTO usage_entries (" + usageNames + ", day) SELECT " + strings.Join(values, ", ") + ", " + d.param(column{"day", "bigint"}) + " FROM organisations o WHERE o.id = ? ON CONFLICT DO NOTHING"
	}
	return s
}()

// What the sums are of: those of a user of a day, those of all of a quarter.
const (
	day     = 24 * time.Hour
	quarter = day / 4
)

// adds is what becomes of a sum that is there.
const adds = "input = %.input + excluded.input, output = %.output + excluded.output, requests = %.requests + excluded.requests"

var (
	addUserModel = "INSERT INTO usage_user_models (org_id, user_id, day, model, input, output, requests) VALUES (?, ?, ?, ?, ?, ?, 1)" +
		" ON CONFLICT (org_id, user_id, day, model) DO UPDATE SET " + strings.ReplaceAll(adds, "%", "usage_user_models")
	addUser = "INSERT INTO usage_users (org_id, day, user_id, input, output, requests) VALUES (?, ?, ?, ?, ?, 1)" +
		" ON CONFLICT (org_id, day, user_id) DO UPDATE SET " + strings.ReplaceAll(adds, "%", "usage_users")
	addModel = "INSERT INTO usage_models (org_id, since, model, lane, input, output, requests) VALUES (?, ?, ?, ?, ?, ?, 1)" +
		" ON CONFLICT (org_id, since, model, lane) DO UPDATE SET " + strings.ReplaceAll(adds, "%", "usage_models")
)

// lane is which of a sum's rows a user's requests count in. The last digit of an
// id is random.
func lane(user id.User) string { return string(user[max(0, len(user)-1):]) }

// Add changes last what most others change too.
func (q ledger) Add(ctx context.Context, e usage.Entry) error {
	org, user, on := string(e.Org), string(e.User), e.At.Truncate(day).UnixMilli()
	in, out := e.Tokens.Input, e.Tokens.Output
	return q.atomic(ctx, func(c *conn) error {
		n, err := exec(ctx, c.write, "Entry", addUsage[c.dialect], org, string(e.ID), user, e.At.UnixMilli(), e.Model, e.Provider, in, out,
			e.Tokens.CacheRead, e.Tokens.CacheMade, e.Tokens.Searches, string(e.Provenance), string(e.Outcome), on, org)
		if err == nil && n == 0 {
			if _, err = get(ctx, c.write, "Organisation", scanInt, "SELECT 1 FROM organisations WHERE id = ?", org); err == nil {
				err = fault.New(fault.Conflict, "Entry is there already")
			}
		}
		if err == nil {
			_, err = exec(ctx, c.write, "Entry", addUserModel, org, user, on, e.Model, in, out)
		}
		if err == nil {
			_, err = exec(ctx, c.write, "Entry", addUser, org, on, user, in, out)
		}
		if err == nil {
			_, err = exec(ctx, c.write, "Entry", addModel, org, e.At.Truncate(quarter).UnixMilli(), e.Model, lane(e.User), in, out)
		}
		return err
	})
}

// span is a stretch of time within a unit whose entries a summary counts one by
// one, or takes off again what the whole unit has of them.
type span struct {
	from, until time.Time
	off         bool
}

// cut returns a period as whole units, from the first up to the last, and at
// most two spans of at most half a unit.
func cut(p usage.Period, unit time.Duration) (first, last time.Time, spans []span) {
	first, last = p.Start.Truncate(unit), p.End.Truncate(unit)
	if !p.Start.Before(p.End) {
		return first, first, nil
	}
	if first.Equal(last) && p.End.Sub(p.Start) <= unit/2 {
		return first, first, []span{{from: p.Start, until: p.End}}
	}
	if into := p.Start.Sub(first); into > unit/2 {
		spans = append(spans, span{from: p.Start, until: first.Add(unit)})
		first = first.Add(unit)
	} else if into > 0 {
		spans = append(spans, span{from: first, until: p.Start, off: true})
	}
	if into := p.End.Sub(last); into > unit/2 {
		spans = append(spans, span{from: p.End, until: last.Add(unit), off: true})
		last = last.Add(unit)
	} else if into > 0 {
		spans = append(spans, span{from: last, until: p.End})
	}
	return first, last, spans
}

// sumsRow is a sum of one model at some time on a day, or of one user.
type sumsRow struct {
	ofUser bool
	at     int64
	of     string
	usage.Sum
}

func scanSums(s scanner) (r sumsRow, err error) {
	err = s.Scan(&r.ofUser, &r.at, &r.of, &r.Input, &r.Output, &r.Requests)
	return r, err
}

// summary builds a query that has all of a summary in it, and so tells of one
// moment: sums of a model at a time, and of an organisation those of a user as
// well.
type summary struct {
	dialect
	parts []string
	args  []any
}

func (s *summary) add(part string, args ...any) {
	s.parts, s.args = append(s.parts, part), append(s.args, args...)
}

// summed are the columns of a sum of rows, of which each is so many requests.
func summed(sign, requests string) string {
	return "CAST(" + sign + "SUM(x.input) AS BIGINT), CAST(" + sign + "SUM(x.output) AS BIGINT), CAST(" + sign + requests + " AS BIGINT)"
}

// whole sums rows of sums.
var whole = summed("", "SUM(x.requests)")

// single sums the span's entries, or takes them off.
func (s span) single() string {
	if s.off {
		return summed("-", "COUNT(*)")
	}
	return summed("", "COUNT(*)")
}

// ofDay selects a part of a day's entries by user, in whose order an index has
// them. SQLite would rather have them by time, and sort them.
func (d dialect) ofDay() string {
	if d == onSQLite {
		return "x.day = ? AND +x.at >= ? AND +x.at < ?"
	}
	return "x.day = ? AND x.at >= ? AND x.at < ?"
}

func (s *summary) ofMember(o id.Org, user id.User, p usage.Period) {
	first, last, spans := cut(p, day)
	if first.Before(last) {
		s.add("SELECT false, x.day, x.model, "+whole+" FROM usage_user_models x WHERE x.org_id = ? AND x.user_id = ? AND x.day >= ? AND x.day < ? GROUP BY x.day, x.model",
			string(o), string(user), first.UnixMilli(), last.UnixMilli())
	}
	for _, p := range spans {
		on := p.from.Truncate(day).UnixMilli()
		s.add("SELECT false, "+s.param(column{"day", "bigint"})+", x.model, "+p.single()+
			" FROM usage_entries x WHERE x.org_id = ? AND x.day = ? AND x.user_id = ? AND x.at >= ? AND x.at < ? GROUP BY x.model",
			on, string(o), on, string(user), p.from.UnixMilli(), p.until.UnixMilli())
	}
}

func (s *summary) ofOrganisation(o id.Org, p usage.Period) {
	first, last, spans := cut(p, quarter)
	if first.Before(last) {
		s.add("SELECT false, x.since, x.model, "+whole+" FROM usage_models x WHERE x.org_id = ? AND x.since >= ? AND x.since < ? GROUP BY x.since, x.model",
			string(o), first.UnixMilli(), last.UnixMilli())
	}
	for _, p := range spans {
		s.add("SELECT false, "+s.param(column{"at", "bigint"})+", x.model, "+p.single()+
			" FROM usage_entries x WHERE x.org_id = ? AND x.at >= ? AND x.at < ? GROUP BY x.model",
			p.from.UnixMilli(), string(o), p.from.UnixMilli(), p.until.UnixMilli())
	}
	first, last, spans = cut(p, day)
	if first.Before(last) {
		s.add("SELECT true, 0, CAST(x.user_id AS TEXT), "+whole+" FROM usage_users x WHERE x.org_id = ? AND x.day >= ? AND x.day < ? GROUP BY x.user_id",
			string(o), first.UnixMilli(), last.UnixMilli())
	}
	for _, p := range spans {
		s.add("SELECT true, 0, CAST(x.user_id AS TEXT), "+p.single()+" FROM usage_entries x WHERE x.org_id = ? AND "+s.ofDay()+" GROUP BY x.user_id",
			string(o), p.from.Truncate(day).UnixMilli(), p.from.UnixMilli(), p.until.UnixMilli())
	}
}

func (q ledger) Summary(ctx context.Context, o id.Org, user id.User, p usage.Period) (usage.Summary, error) {
	query := summary{dialect: q.dialect}
	if user != "" {
		query.ofMember(o, user, p)
	} else {
		query.ofOrganisation(o, p)
	}
	sum := usage.Summary{Period: p}
	if len(query.parts) == 0 {
		return sum, nil
	}
	models, users, days := map[string]usage.Sum{}, map[string]usage.Sum{}, map[string]usage.Sum{}
	err := each(ctx, q.read, "Entry", scanSums, func(r sumsRow) error {
		if r.ofUser {
			users[r.of] = users[r.of].Plus(r.Sum)
			return nil
		}
		on := string(quota.DayOf(instant(r.at)))
		sum.Sum, models[r.of], days[on] = sum.Sum.Plus(r.Sum), models[r.of].Plus(r.Sum), days[on].Plus(r.Sum)
		return nil
	}, strings.Join(query.parts, " UNION ALL "), query.args...)
	if err != nil {
		return usage.Summary{}, err
	}
	sum.ByModel, sum.ByDay, sum.ByUser = parts(models), parts(days), parts(users)
	return sum, nil
}

// parts are the sums that have requests, in their order. Of one that was taken
// off whole there is nothing left.
func parts(of map[string]usage.Sum) (all []usage.Part) {
	for name, sum := range of {
		if sum.Requests > 0 {
			all = append(all, usage.Part{Of: name, Sum: sum})
		}
	}
	slices.SortFunc(all, func(a, b usage.Part) int { return cmp.Compare(a.Of, b.Of) })
	return all
}

func (q ledger) Entries(ctx context.Context, o id.Org, p usage.Period, fn func(usage.Entry) error) error {
	return each(ctx, q.read, "Entry", scanUsage, fn, "SELECT "+usageNames+" FROM usage_entries WHERE org_id = ? AND at >= ? AND at < ? ORDER BY at, id",
		string(o), p.Start.UnixMilli(), p.End.UnixMilli())
}
