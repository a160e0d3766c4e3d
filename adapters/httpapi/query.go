package httpapi

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
)

// maxPage is the largest limit of a list.
const maxPage = 1000

// params are a request's query parameters, each at most once.
type params struct{ values url.Values }

// listing reads the query of a list: its own filters, and what pages it. A
// parameter that the list does not know is refused, so that a misspelt filter
// never selects everything.
func (c *call) listing(filters ...string) (params, page, error) {
	return c.paged(parseCursor, filters)
}

// listingByKey is listing for lists that are in the order of storage keys.
func (c *call) listingByKey(filters ...string) (params, page, error) {
	return c.paged(parseKeyCursor, filters)
}

func (c *call) paged(parse func(string) (position, bool), filters []string) (params, page, error) {
	q, err := c.query(append(filters, "limit", "cursor")...)
	if err != nil {
		return params{}, page{}, err
	}
	p, err := q.page(parse)
	return q, p, err
}

// query reads a query of the known parameters.
func (c *call) query(known ...string) (params, error) {
	if c.r.URL.RawQuery == "" {
		return params{}, nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return params{}, fault.New(fault.Invalid, "The query could not be read")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names) // so that the same query always gets the same answer
	for _, name := range names {
		switch {
		case !slices.Contains(known, name):
			return params{}, fault.Field(quoted(name), "is not a parameter of this endpoint")
		case len(values[name]) > 1:
			return params{}, fault.Field(name, "must not be repeated")
		}
	}
	return params{values}, nil
}

// bare is a handler of requests without parameters.
func bare(h handler) handler {
	return func(c *call) error {
		if _, err := c.query(); err != nil {
			return err
		}
		return h(c)
	}
}

// quoted makes a name that the client chose presentable.
func quoted(name string) string {
	if r := []rune(name); len(r) > 64 {
		name = string(r[:64]) + "…"
	}
	return strconv.Quote(name)
}

// get returns a parameter's value; given is false where it is absent.
func (q params) get(name string) (value string, given bool) {
	if v := q.values[name]; len(v) > 0 {
		return v[0], true
	}
	return "", false
}

// chosen reads an enumeration from the query; absent is the zero value.
func chosen[T ~string](q params, name string, parse func(string) (T, bool), all ...T) (T, error) {
	text, given := q.get(name)
	if !given {
		return "", nil
	}
	v, ok := parse(text)
	if !ok {
		return "", fault.Field(name, "must be one of %s", join(all))
	}
	return v, nil
}

// nobody is a well-formed id that no record has.
const nobody = "00000000-0000-0000-0000-000000000000"

// selected returns the id that a filter selects by. One that is no id selects
// nothing.
func selected[T ~string](text string) T {
	if v, ok := id.Parse[T](text); ok {
		return v
	}
	return nobody
}

// page is which part of a list is asked for. The zero value is all of it.
type page struct {
	limit int      // 0: no limit
	after position // the zero value: from the start
	waits bool     // reading the records holds nothing between two of them
}

// fetch is how many records to ask for: one more than are shown tells whether
// there is a next page.
func (p page) fetch() int {
	if p.limit == 0 {
		return 0
	}
	return p.limit + 1
}

func (q params) page(parse func(string) (position, bool)) (p page, err error) {
	if text, given := q.get("limit"); given {
		p.limit, err = strconv.Atoi(text)
		if err != nil || p.limit < 1 || p.limit > maxPage {
			return page{}, fault.Field("limit", "must be an integer between 1 and %d", maxPage)
		}
	}
	if text, given := q.get("cursor"); given {
		var ok bool
		if p.after, ok = parse(text); !ok {
			return page{}, fault.Field("cursor", "must be one that this list gave out")
		}
	}
	return p, nil
}

// position is a record's place in the order of a list. Each list uses the
// parts that it is ordered by: ID is always there, unless the storage key alone
// is.
type position struct {
	Rank int64
	At   time.Time
	ID   string
	Key  string
}

// cursor writes the position for clients, to whom it means nothing.
func (p position) cursor() string {
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

func parseCursor(text string) (p position, ok bool) {
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

// parseKeyCursor reads the cursor of a list in the order of storage keys.
func parseKeyCursor(text string) (p position, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	p.Key = string(b)
	return p, err == nil && p.Key != "" && isKeyText(p.Key)
}

// next is the Link header to the page after last.
func (a *api) next(c *call, q params, last position) string {
	values := url.Values{}
	for name, v := range q.values {
		values[name] = v
	}
	values.Set("cursor", last.cursor())
	return "<" + a.PublicURL + c.r.URL.EscapedPath() + "?" + values.Encode() + `>; rel="next"`
}
