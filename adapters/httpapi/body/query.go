package body

import (
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
)

// MaxPage is the largest limit of a list.
const MaxPage = 1000

// Query holds the parameters of a request's query, each at most once.
type Query struct{ Values url.Values }

// quote returns a client's name in quotes, cut after 64 characters.
func quote(name string) string {
	if r := []rune(name); len(r) > 64 {
		name = string(r[:64]) + "…"
	}
	return strconv.Quote(name)
}

// Get returns a parameter's value; given is false if it is absent.
func (q Query) Get(name string) (value string, given bool) {
	if v := q.Values[name]; len(v) > 0 {
		return v[0], true
	}
	return "", false
}

// EnumParam returns a parameter that is an enumeration, the zero value if it is absent.
func EnumParam[T ~string](q Query, name string, all ...T) (T, error) {
	if _, given := q.Get(name); !given {
		return "", nil
	}
	return ParsedParam(q, name, "must be one of "+Join(all), func(s string) (T, bool) { return check.OneOf(s, all...) })
}

// InstantParam returns a parameter that is an instant (see Instant), the zero value if it is absent.
func InstantParam(q Query, name string) (time.Time, error) {
	return ParsedParam(q, name, NotInstant, parseInstant)
}

// ParsedParam returns a parameter that parse accepts, the zero value if it is absent. problem says
// what it must be.
func ParsedParam[T any](q Query, name, problem string, parse func(string) (T, bool)) (v T, err error) {
	if text, given := q.Get(name); given {
		var ok bool
		if v, ok = parse(text); !ok {
			err = fault.Field(name, "%s", problem)
		}
	}
	return v, err
}

// NilID is a well-formed id that no record has.
const NilID = "00000000-0000-0000-0000-000000000000"

// IDParam returns the id of a filter. A malformed one becomes NilID, which selects nothing.
func IDParam[T ~string](text string) T {
	if v, ok := id.Parse[T](text); ok {
		return v
	}
	return NilID
}

// Page is the requested part of a list. The zero value is the whole list.
type Page struct {
	Limit int      // 0: no limit
	After Position // the zero value: from the start
	Waits bool     // no database connection is held between two records
}

// Fetch returns the number of records to read, 0 for all: one more than the limit, to know
// whether there is a next page.
func (p Page) Fetch() int {
	if p.Limit == 0 {
		return 0
	}
	return p.Limit + 1
}

// Page returns the requested part of a list. parse reads the list's cursors.
func (q Query) Page(parse func(string) (Position, bool)) (p Page, err error) {
	if text, given := q.Get("limit"); given {
		p.Limit, err = strconv.Atoi(text)
		if err != nil || p.Limit < 1 || p.Limit > MaxPage {
			return Page{}, fault.Field("limit", "must be an integer between 1 and %d", MaxPage)
		}
	}
	if text, given := q.Get("cursor"); given {
		var ok bool
		if p.After, ok = parse(text); !ok {
			return Page{}, fault.Field("cursor", "must be one that this list gave out")
		}
	}
	return p, nil
}

// Position is a record's position in the order of a list. Each list uses the fields that it
// is ordered by.
type Position struct {
	Rank int64
	At   time.Time
	ID   string
	Key  string
}

// Cursor returns the position as an opaque text for clients.
func (p Position) Cursor() string {
	if p.Key != "" {
		return base64.RawURLEncoding.EncodeToString([]byte(p.Key))
	}
	b := make([]byte, 0, 80)
	b = strconv.AppendInt(b, p.Rank, 36)
	b = append(b, '.')
	if !p.At.IsZero() {
		b = strconv.AppendInt(b, p.At.UnixMilli(), 36)
	}
	b = append(b, '.')
	b = append(b, p.ID...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads what Cursor returned for a position without a Key.
func ParseCursor(text string) (p Position, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return p, false
	}
	rank, rest, ok1 := strings.Cut(string(b), ".")
	at, last, ok2 := strings.Cut(rest, ".")
	if !ok1 || !ok2 {
		return p, false
	}
	if p.Rank, err = strconv.ParseInt(rank, 36, 64); err != nil {
		return p, false
	}
	if at != "" {
		ms, err := strconv.ParseInt(at, 36, 64)
		if err != nil || ms < -62135596800000 || ms > 253402300799999 { // years 1 to 9999
			return p, false
		}
		p.At = time.UnixMilli(ms).UTC()
	}
	p.ID, ok = id.Parse[string](last)
	return p, ok
}

// ParseKeyCursor reads the cursor of a list in the order of storage keys.
func ParseKeyCursor(text string) (p Position, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	p.Key = string(b)
	return p, err == nil && p.Key != "" && IsKeyText(p.Key)
}

// ParseQuery reads a query of the known parameters.
func ParseQuery(raw string, known ...string) (Query, error) {
	if raw == "" {
		return Query{}, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return Query{}, fault.New(fault.Invalid, "The query could not be read")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // so that the same query always gets the same error
		switch {
		case !slices.Contains(known, name):
			return Query{}, fault.Field(quote(name), "is not a parameter of this endpoint")
		case len(values[name]) > 1:
			return Query{}, fault.Field(name, "must not be repeated")
		}
	}
	return Query{values}, nil
}

// Parameter is a parameter of a query and whether it was given.
type Parameter struct {
	Text  string
	Given bool
}

// ReadParameters parses a query into the parameters that of returns by name. It allocates
// nothing for a query without escapes. Parameters for which of returns nil are ignored:
// caches and updaters add their own.
func ReadParameters(query string, of func(name string) *Parameter) error {
	plain := !strings.ContainsAny(query, "%+;")
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		name, text, _ := strings.Cut(part, "=")
		if !plain {
			var err error
			if name, text, err = parseParameter(part); err != nil {
				return fault.New(fault.Invalid, "The query could not be read")
			}
		}
		p := of(name)
		if p == nil {
			continue
		}
		if p.Given {
			return fault.Field(name, "must not be repeated")
		}
		*p = Parameter{text, true}
	}
	return nil
}

// parseParameter parses one parameter by net/url.
func parseParameter(part string) (name, text string, err error) {
	all, err := url.ParseQuery(part)
	for name, texts := range all {
		return name, texts[0], err
	}
	return "", "", err
}

// MaxKeyText bounds a client's text for a part of a storage key, in bytes. It exceeds the
// longest key to allow for letters that are not composed.
const MaxKeyText = 4 * object.MaxPath

// IsKeyText reports whether a text may be a part of a storage key, which databases can
// store.
func IsKeyText(text string) bool {
	return len(text) <= MaxKeyText && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// ParseForm parses a query or a form in which every parameter is given once.
func ParseForm(text string) (url.Values, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "The parameters could not be read")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return nil, fault.Field(quote(name), "must not be repeated")
		}
	}
	return values, nil
}
