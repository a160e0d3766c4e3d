package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// object is one of the values to which encoding/json decodes with UseNumber; the others are []any, a string, a
// json.Number, a bool and nil.
type object = map[string]any

// result is what an act replies with.
type result struct {
	header http.Header // of a response; else nil
	value  any
}

// decode reads JSON; ok is false for anything else.
func decode(text []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err == nil && json.Valid(text)
}

// instant formats a time as the API does.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// find follows a path, at first into the headers where it begins with a capital letter. It
// returns nil where the path leads nowhere.
func (r result) find(parts []part) any {
	if first, _ := utf8.DecodeRuneInString(parts[0].name); unicode.IsUpper(first) {
		if len(parts) > 1 || r.header.Get(parts[0].name) == "" {
			return nil
		}
		return r.header.Get(parts[0].name)
	}
	v := r.value
	for _, p := range parts {
		switch of := v.(type) {
		case object:
			v = of[p.name]
		case []any:
			switch {
			case p.index != nil:
				i := *p.index
				if i < 0 {
					i += len(of)
				}
				if i < 0 || i >= len(of) {
					return nil
				}
				v = of[i]
			case p.find:
				v = search(of, p.key, p.value)
			case p.name == "count":
				v = strconv.Itoa(len(of))
			default:
				return nil
			}
		default:
			return nil
		}
	}
	return v
}

// identities are the fields by which an element is found when no field is named.
var identities = []string{"id", "userId", "serverId", "clientId", "instanceId"}

// search returns the first element that has the value, in the field if one is named.
func search(list []any, key, value string) any {
	names := identities
	if key != "" {
		names = []string{key}
	}
	for _, v := range list {
		r, ok := v.(object)
		has := func(name string) bool { is, there := r[name]; return there && format(is) == value }
		if !ok && key == "" && v == value || slices.ContainsFunc(names, has) {
			return v
		}
	}
	return nil
}

// format writes a value in one line, as it stands behind an operator.
func format(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case object:
		texts := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			texts = append(texts, name+": "+format(v[name]))
		}
		return "{" + strings.Join(texts, ", ") + "}"
	case []any:
		texts := make([]string, len(v))
		for i, e := range v {
			texts[i] = format(e)
		}
		return strings.Join(texts, ",")
	}
	return fmt.Sprint(v)
}

// compare reports whether an expectation holds for a value.
func compare(actual any, op, want string) bool {
	is := format(actual)
	switch op {
	case "=":
		return is == want || want == "" && actual == nil || same(is, want)
	case "!=":
		return !compare(actual, "=", want)
	case "~":
		return actual != nil && strings.Contains(is, want)
	case "!~":
		return !compare(actual, "~", want)
	}
	order, ok := orderOf(is, want)
	switch op {
	case "<":
		return ok && order < 0
	}
	return ok && order > 0
}

// same reports whether two texts are the same time.
func same(a, b string) bool {
	s, ok := parseInstant(a)
	t, ok2 := parseInstant(b)
	return ok && ok2 && s.Equal(t)
}

// orderOf compares two numbers, or two times; ok is false for anything else.
func orderOf(a, b string) (order int, ok bool) {
	m, err := strconv.ParseInt(a, 10, 64)
	n, err2 := strconv.ParseInt(b, 10, 64)
	if err == nil && err2 == nil {
		return cmp.Compare(m, n), true
	}
	s, ok := parseInstant(a)
	t, ok2 := parseInstant(b)
	return s.Compare(t), ok && ok2
}

// parseInstant reads a time as scenarios write it, with or without a fraction.
func parseInstant(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err == nil
}

// parseSpan reads a length of time such as 14d, 3h30m or 500ms.
func parseSpan(s string) (time.Duration, bool) {
	if s == "" || !isDigit(s[0]) {
		return 0, false
	}
	var d time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n > 100*366 {
			return 0, false
		}
		if d = time.Duration(n) * 24 * time.Hour; rest == "" {
			return d, true
		}
		s = rest
	}
	more, err := time.ParseDuration(s)
	if err != nil || more < 0 || !isDigit(s[0]) {
		return 0, false
	}
	return d + more, true
}

// quote puts a text in quotes that would not be one word without.
func quote(s string) string {
	if s != "" && s[0] != '#' && s[0] != '\'' && !strings.ContainsAny(s, " \t\n\"\\$") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "$", "$$").Replace(s) + `"`
}
