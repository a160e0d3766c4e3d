// Package check collects the problems of an input, so that one response can report all of
// them.
package check

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"collab/domain/fault"
	"collab/domain/patch"
)

// Bounds of strings, in characters (not bytes).
const (
	MaxName        = 200    // names and titles
	MaxEmail       = 254    // RFC 5321's limit of a forward path
	MaxDescription = 10_000 // descriptions
	MaxReason      = 1_000  // reasons given for a change
	MaxTag         = 64     // one tag
	MaxURL         = 2_048  // addresses
)

// rfc3339 is the form of a time, of which time.Parse accepts more: an hour of one digit, a comma before the
// fraction, and offsets of any length (https://go.dev/issue/54580).
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// Time reads an RFC 3339 time of the years 1 to 9999 in UTC, and cuts it to milliseconds.
func Time(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, text)
	t = t.UTC().Truncate(time.Millisecond)
	return t, err == nil && t.Year() >= 1 && t.Year() <= 9999 && rfc3339.MatchString(text)
}

// MaxVersion is the greatest version of a record that is imported: the greatest integer that
// every reader of JSON represents.
const MaxVersion = 1 << 53

// maxLabel is the DNS's limit of one label, in bytes.
const maxLabel = 63

// maxProblems bounds the list: a large input can have any number of problems.
const maxProblems = 100

// List collects up to maxProblems problems. The zero value is ready to use.
type List struct {
	problems []fault.Problem
}

// Add adds a problem with a field.
func (l *List) Add(field, format string, args ...any) {
	if len(l.problems) == maxProblems {
		return
	}
	l.problems = append(l.problems, fault.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// AddError adds the problems of a fault.Error; it ignores nil and other errors.
func (l *List) AddError(err error) {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		for _, p := range f.Problems {
			l.Add(p.Field, "%s", p.Message)
		}
	}
}

// NonNull returns the value of a field that cannot be removed; ok is false if the field is
// absent or null. It adds a problem for a null.
func NonNull[T any](l *List, name string, f patch.Field[T]) (v T, ok bool) {
	if f.IsNull() {
		l.Add(name, "must not be null")
	}
	return f.Get()
}

// OneOf returns s as one of the names, which it must equal exactly; ok is false otherwise.
func OneOf[T ~string](s string, names ...T) (name T, ok bool) {
	if !slices.Contains(names, T(s)) {
		return "", false
	}
	return T(s), true
}

// Err returns nil if there are no problems, else one Invalid error with all of them, whose
// message is about the first.
func (l *List) Err() error {
	if len(l.problems) == 0 {
		return nil
	}
	first := l.problems[0]
	return &fault.Error{Kind: fault.Invalid, Message: first.Field + " " + first.Message, Problems: l.problems}
}

// Name returns value without surrounding space, having checked that 1 to
// MaxName characters remain and that none of them is a control character.
func (l *List) Name(field, value string) string {
	value = strings.TrimSpace(value)
	switch {
	case !utf8.ValidString(value):
		l.Add(field, "must be valid UTF-8")
	case value == "":
		l.Add(field, "must not be empty")
	case utf8.RuneCountInString(value) > MaxName:
		l.Add(field, "must be at most %d characters", MaxName)
	case strings.ContainsFunc(value, unicode.IsControl):
		l.Add(field, "must not contain control characters")
	}
	return value
}

// Text checks a free text of at most limit characters, without changing it. It refuses null
// characters, as databases cannot store them.
func (l *List) Text(field, value string, limit int) {
	switch {
	case !utf8.ValidString(value):
		l.Add(field, "must be valid UTF-8")
	case utf8.RuneCountInString(value) > limit:
		l.Add(field, "must be at most %d characters", limit)
	case strings.ContainsRune(value, 0):
		l.Add(field, "must not contain null characters")
	}
}

// Description checks the field description, which may be nil.
func (l *List) Description(value *string) {
	if value != nil {
		l.Text("description", *value, MaxDescription)
	}
}

// Email returns a trimmed e-mail address in the form that every mailer takes: a
// dot-atom, @, and a domain's labels, letters of any script among them; neither
// quoted text nor an IP address. It does not check whether the address exists.
func (l *List) Email(field, value string) string {
	value = strings.TrimSpace(value)
	local, domain, _ := strings.Cut(value, "@")
	switch {
	case !utf8.ValidString(value):
		l.Add(field, "must be valid UTF-8")
	case value == "":
		l.Add(field, "must not be empty")
	case utf8.RuneCountInString(value) > MaxEmail:
		l.Add(field, "must be at most %d characters", MaxEmail)
	case !dotted(local, isAtom) || !dotted(domain, isLabel):
		l.Add(field, "must be an e-mail address")
	}
	return value
}

// dotted reports whether s is one part or more with dots between them.
func dotted(s string, isPart func(string) bool) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !isPart(part) {
			return false
		}
	}
	return true
}

// isAtom reports whether s is an atom of RFC 5322, with RFC 6532's characters
// beyond ASCII.
func isAtom(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`<>()[],;:@\"`, r)
	})
}

// isLabel reports whether s can be a label of a host's name: letters, digits
// and hyphens, of which none is the first or the last character.
func isLabel(s string) bool {
	return s != "" && len(s) <= maxLabel && s[0] != '-' && s[len(s)-1] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && !unicode.In(r, unicode.L, unicode.M, unicode.Nd)
	})
}
