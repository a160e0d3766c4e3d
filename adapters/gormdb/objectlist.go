package gormdb

import (
	"context"
	"database/sql"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// List is one statement over ranges of storage keys, one for each place whose objects the
// viewer sees, so that invisible objects are not read.
func (q objects) List(
	ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter,
	head func(object.Head) error, fn func(object.Object) error,
) error {
	objects := func(db *gorm.DB) error {
		s, some := objectList(objectTable.of(db, o), "storage_key", "objects_order", o, viewer, f)
		if !some {
			return nil
		}
		return each(ctx, s, (*objectRow).object, fn)
	}
	if head == nil {
		return objects(q.read)
	}
	return q.withHead(ctx, o, head, objects)
}

// snapshot runs fn, whose statements all read one snapshot.
func (c *conn) snapshot(ctx context.Context, fn func(*gorm.DB) error) error {
	if c.inTransaction() {
		return fn(c.read)
	}
	return transaction(ctx, c.read, &sql.TxOptions{Isolation: c.dialect.snapshot(), ReadOnly: true}, fn)
}

// withHead calls head with the head of a log, and then runs fn, whose statements read the same snapshot.
func (c *conn) withHead(ctx context.Context, o id.Org, head func(object.Head) error, fn func(*gorm.DB) error) error {
	return c.snapshot(ctx, func(db *gorm.DB) error {
		var h object.Head
		err := getRow(ctx, db, "Log", tenantSQL(o, heads+"h.org_id = @org"), headDest(&h)...)
		if err == nil {
			err = head(h)
		}
		if err != nil {
			return err
		}
		return fn(db)
	})
}

// objectList narrows a selection of objects, or of rows that have their places, to those of a list
// that is ordered by a key, with the key's index; some is false when none can be in it.
func objectList(s selection, key, index string, o id.Org, viewer *org.Actor, f object.Filter) (_ selection, some bool) {
	s = s.matching(s.name+".kind", string(f.Kind)).matching(s.name+".scope", string(f.Scope))
	if f.WithoutWorkspace {
		s = s.filter(s.name + ".workspace_id IS NULL")
	}
	for _, is := range [][2]string{
		{"workspace_id", string(f.Workspace)}, {"team_id", string(f.Team)}, {"owner_id", string(f.Owner)},
	} {
		if s, some = s.is(s.name+"."+is[0], is[1]); !some {
			return s, false
		}
	}
	ranges := clipRanges(visibleRanges(o, viewer, f), f)
	if f.Folder != "" {
		return inFolder(s, ranges, f), len(ranges) > 0
	}
	if len(f.Words) > 0 {
		d := dialectOf(s.db)
		return inRanges(s, key, index, ranges, f.ExamineLimit).scanAtMost(f.Limit, d.wordCondition(), list(d, f.Words)), len(ranges) > 0
	}
	return inRanges(s, key, index, ranges, f.Limit), len(ranges) > 0
}

// inRanges narrows a selection to the rows whose keys are in disjoint ascending ranges, so that they
// are in the order of their keys without sorting: range by range, and within one in the
// order of the index. CROSS keeps SQLite to that order, and OFFSET, or a coarse limit as in
// page, Postgres.
func inRanges(s selection, key, index string, ranges []keyRange, limit int) selection {
	last := ""
	if limit > 0 {
		last, s.args = " LIMIT ?", append(s.args, limit)
	}
	d := dialectOf(s.db)
	table, low, high, bounds := rangeTable(d, ranges)
	within := " AND " + key + " >= " + low + " AND " + key + " < " + high
	if d == onPostgres {
		end := " OFFSET 0"
		if limit > 0 {
			end = " LIMIT " + strconv.Itoa(roundLimit(limit))
		}
		s.from = table + " CROSS JOIN LATERAL (SELECT * FROM " + s.name + " WHERE " + s.where + within +
			" ORDER BY " + key + end + ") " + s.name + last
		s.where = ""
	} else {
		s.from = table + " CROSS JOIN " + s.name + " INDEXED BY " + index
		s.where += within + last
	}
	s.args = append(bounds, s.args...)
	return s
}

// wordCondition holds for objects that have all words of a list in their paths, which are the ends of
// their folded keys.
func (d dialect) wordCondition() string {
	path := "substr(objects.folded_key, 1 + length(objects.storage_key) - length(objects.path))"
	if d == onPostgres {
		return "NOT EXISTS (SELECT 1 FROM unnest(?::text[]) AS w(word) WHERE strpos(" + path + `, w.word COLLATE "C") = 0)`
	}
	return "NOT EXISTS (SELECT 1 FROM json_each(?) w WHERE instr(" + path + ", w.value) = 0)"
}

// inFolder narrows a selection to the objects of the filter's folder that are in the ranges, in the order
// of their folded keys.
func inFolder(s selection, ranges []keyRange, f object.Filter) selection {
	table, low, high, bounds := rangeTable(dialectOf(s.db), ranges)
	s = s.filter("objects.folded_key > ? AND objects.folded_key < ?", f.Folder+"/", f.Folder+"0") // 0 comes after /
	within := "EXISTS (SELECT 1 FROM " + table + " WHERE objects.storage_key >= " + low + " AND objects.storage_key < " + high + ")"
	return s.filter(within, bounds...).page("objects.folded_key", f.Limit)
}

// rangeTable returns a table of parameters that has the ranges as rows, and its columns.
func rangeTable(d dialect, ranges []keyRange) (table, low, high string, bounds []any) {
	if d == onPostgres {
		lows, highs := make([]string, len(ranges)), make([]string, len(ranges))
		for i, r := range ranges {
			lows[i], highs[i] = r.low, r.high
		}
		return "unnest(?::text[], ?::text[]) AS f(low, high)", "f.low", "f.high", []any{list(d, lows), list(d, highs)}
	}
	pairs := make([]string, len(ranges))
	for i, r := range ranges {
		pairs[i] = array([]string{r.low, r.high})
	}
	return "json_each(?) f", "f.value->>0", "f.value->>1", []any{"[" + strings.Join(pairs, ",") + "]"}
}

// keyRange has the storage keys from low to before high, in byte order.
type keyRange struct{ low, high string }

// visibleRanges returns ascending ranges that contain exactly the objects that the viewer
// sees, of those that the filter can select. Each range is the prefix of a place, as the
// domain defines it.
func visibleRanges(o id.Org, viewer *org.Actor, f object.Filter) []keyRange {
	var ranges []keyRange
	add := func(p object.Place) {
		if f.Kind == "" || p.Scope == object.Personal || f.Kind == p.Kind {
			folder := strings.TrimSuffix(object.Object{Org: o, Place: p}.StorageKey(), "/")
			ranges = append(ranges, keyRange{folder + "/", folder + "0"}) // 0 comes after /
		}
	}
	personal := f.Scope != object.Shared && f.Team == ""
	shared := f.Scope != object.Personal && f.Owner == ""
	inWorkspace := func(w id.Workspace) {
		for _, kind := range []object.Kind{object.Artifact, object.WorkspaceMemory} {
			add(object.Place{Kind: kind, Scope: object.Shared, Workspace: &w})
		}
	}
	inTeam := func(t id.Team) { add(object.Place{Kind: object.TeamMemory, Scope: object.Shared, Team: &t}) }
	switch {
	case viewer == nil && f.Owner != "":
		add(object.Place{Scope: object.Personal, Owner: &f.Owner})
	case viewer == nil && f.Team != "":
		inTeam(f.Team)
	case viewer == nil && f.Workspace != "" && !personal:
		inWorkspace(f.Workspace)
	case viewer == nil:
		ranges = append(ranges, keyRange{string(o) + "/", string(o) + "0"})
	default:
		if personal && (f.Owner == "" || f.Owner == viewer.User) {
			add(object.Place{Scope: object.Personal, Owner: &viewer.User})
		}
		if !shared {
			break
		}
		if f.Team == "" && f.Workspace == "" {
			for _, kind := range []object.Kind{object.Artifact, object.BrandAsset, object.HubMemory, object.Template} {
				add(object.Place{Kind: kind, Scope: object.Shared})
			}
		}
		if f.Workspace == "" {
			for t := range viewer.Visibility.Teams() {
				if f.Team == "" || f.Team == t {
					inTeam(t)
				}
			}
		}
		switch {
		case f.Team != "" || f.WithoutWorkspace:
		case f.Workspace != "":
			if viewer.SeesWorkspace(f.Workspace) {
				inWorkspace(f.Workspace)
			}
		default:
			for _, w := range viewer.Visibility.Workspaces() {
				inWorkspace(w)
			}
		}
	}
	slices.SortFunc(ranges, func(a, b keyRange) int { return strings.Compare(a.low, b.low) })
	return ranges
}

// clipRanges cuts the ranges to the filter's prefix and position, and makes their bounds
// valid texts.
func clipRanges(ranges []keyRange, f object.Filter) []keyRange {
	low, high := f.Prefix, prefixEnd(f.Prefix)
	if f.After != "" {
		low = max(low, f.After+"\x00")
	}
	var cut []keyRange
	for _, r := range ranges {
		r.low = atLeast(max(r.low, low))
		if high != "" {
			r.high = min(r.high, high)
		}
		if r.high = atLeast(r.high); r.low < r.high {
			cut = append(cut, r)
		}
	}
	return cut
}

// prefixEnd returns the least string that in byte order is after all strings with the
// prefix s; empty if there is none.
func prefixEnd(s string) string {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < 0xff {
			return s[:i] + string([]byte{s[i] + 1})
		}
	}
	return ""
}

// atLeast returns the first text that a database can store, UTF-8 without zeros, which is
// not before s in byte order. There is one for every s here, as the highest range ends with
// one.
func atLeast(s string) string {
	for s != "" {
		at := 0
		for at < len(s) {
			r, size := utf8.DecodeRuneInString(s[at:])
			if r == 0 || r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		if at == len(s) {
			return s
		}
		rest := s[at:]
		i := sort.Search(runes, func(i int) bool { return string(nthRune(i)) >= rest })
		if i < runes {
			return s[:at] + string(nthRune(i))
		}
		s = prefixEnd(s[:at])
	}
	return s
}

// runes is the number of characters except zero, in the order of their encodings.
const runes = utf8.MaxRune - surrogates

const (
	firstSurrogate = 0xd800
	surrogates     = 0x800
)

func nthRune(i int) rune {
	r := rune(i + 1)
	if r >= firstSurrogate {
		r += surrogates
	}
	return r
}
