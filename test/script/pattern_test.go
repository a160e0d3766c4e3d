package script

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/test/must"
)

// kinds are what placeholders can stand for, as regular expressions.
var kinds = map[string]string{
	"any":      `(?s:.*)`,
	"text":     `(?s:.+)`,
	"id":       `[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`,
	"time":     `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`,
	"int":      `-?\d+`,
	"hundred":  `[7-9]\d|1[0-2]\d`, // or so
	"etag":     `"[^"]*"`,
	"url":      `https?://[^<>\s"]+`,
	"word":     `[A-Za-z0-9_.,~%=+/-]+`,
	"token":    `[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`,
	"user":     ``, // id of who signed in under this name
	"org":      ``, // id of the organisation that this name stands for
	"email":    ``, // address of who signed in
	"service":  ``, // service token of who signed in
	"identity": ``, // identity token of who signed in
	"sub":      ``, // the provider's id of who signed in
	"orgsub":   ``, // the provider's id of the organisation
	"orgname":  ``, // name of the organisation
}

// placeholder is a kind with or without a name. Kinds without values of earlier responses are:
//
//	<unique>      a word that no other conversation has
//	<unknown>     an id that belongs to nothing
//	<base>        the server's address
//	<ms:+90s>     milliseconds since 1970, so much after the conversation began
//	<s:-1h>       the same in seconds
//	<instant:+1h> the same as an RFC 3339 time
//	<day:+48h>    the same as a date
//	<repeat:9:ab> ababababababababab
//	<bytes:ff00>  the bytes that are written in hexadecimal
//	<checksum:ab> SHA-256 of the text, in which \n is a line's end
//	<bytesum:ff>  SHA-256 of the bytes that are written in hexadecimal
var placeholder = regexp.MustCompile(`<([a-z]+)(?::([^<>]*))?>`)

// values are what placeholders stand for in one conversation, by "kind:name".
type values struct {
	known  map[string]string
	unique string
	base   string
	began  time.Time
	isOpen bool // objects may have more members than a pattern, as those of a later release do
}

// made returns the value of a placeholder that is made on the spot.
func (v *values) made(kind, name string) (string, bool, error) {
	at := v.began
	switch kind {
	case "ms", "s", "instant", "day":
		if name != "" {
			by, err := time.ParseDuration(strings.TrimPrefix(name, "+"))
			if err != nil {
				return "", true, err
			}
			at = at.Add(by)
		}
	}
	switch kind {
	case "unique":
		return v.unique, true, nil
	case "unknown":
		return "01900000-0000-7000-8000-000000000000", true, nil
	case "base":
		return v.base, true, nil
	case "ms":
		return strconv.FormatInt(at.UnixMilli(), 10), true, nil
	case "s":
		return strconv.FormatInt(at.Unix(), 10), true, nil
	case "instant":
		return at.UTC().Format("2006-01-02T15:04:05.000Z"), true, nil
	case "day":
		return at.UTC().Format(time.DateOnly), true, nil
	case "repeat":
		count, text, ok := strings.Cut(name, ":")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 0 {
			return "", true, fmt.Errorf("<repeat:count:text> is meant")
		}
		return strings.Repeat(text, n), true, nil
	case "checksum":
		return must.Sum([]byte(strings.ReplaceAll(name, `\n`, "\n"))), true, nil
	case "bytes", "bytesum":
		b, err := hex.DecodeString(name)
		if kind == "bytesum" {
			return must.Sum(b), true, err
		}
		return string(b), true, err
	}
	return "", false, nil
}

// fill puts what is known into a request's text.
func (v *values) fill(text string) (string, error) {
	var failed error
	filled := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		if made, ok, err := v.made(m[1], m[2]); ok {
			if err != nil {
				failed = fmt.Errorf("%s: %w", p, err)
			}
			return made
		}
		if _, ok := kinds[m[1]]; !ok {
			return p
		}
		value, ok := v.known[m[1]+":"+m[2]]
		if !ok {
			failed = fmt.Errorf("%s is not known here", p)
		}
		return value
	})
	return filled, failed
}

// match compares a text with a pattern and takes over what new placeholders
// stand for. It returns what is wrong, or nothing.
func (v *values) match(pattern, got string) string {
	var expr strings.Builder
	expr.WriteString(`\A`)
	var taken []string
	literal := func(s string) {
		for i, part := range strings.Split(s, "...") {
			if i > 0 {
				expr.WriteString(`(?s:.*)`)
			}
			expr.WriteString(regexp.QuoteMeta(part))
		}
	}
	last := 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(pattern, -1) {
		kind, name := pattern[at[2]:at[3]], ""
		if at[4] >= 0 {
			name = pattern[at[4]:at[5]]
		}
		value, isMade, err := v.made(kind, name)
		if err != nil {
			return err.Error()
		}
		kindExpr, isKind := kinds[kind]
		if !isMade && !isKind {
			continue
		}
		literal(pattern[last:at[0]])
		last = at[1]
		key := kind + ":" + name
		known, isKnown := v.known[key]
		switch {
		case isMade:
			expr.WriteString(regexp.QuoteMeta(value))
		case name != "" && isKnown:
			expr.WriteString(regexp.QuoteMeta(known))
		case kindExpr == "":
			return fmt.Sprintf("<%s> is not known here", key)
		case name == "":
			expr.WriteString("(?:" + kindExpr + ")")
		default:
			expr.WriteString("(" + kindExpr + ")")
			taken = append(taken, key)
		}
	}
	literal(pattern[last:])
	expr.WriteString(`\z`)
	re, err := regexp.Compile(expr.String())
	if err != nil {
		return err.Error()
	}
	m := re.FindStringSubmatch(got)
	if m == nil {
		return fmt.Sprintf("want %s, got %s", v.explain(pattern), got)
	}
	for i, key := range taken {
		v.known[key] = m[i+1]
	}
	return ""
}

// explain writes a pattern with what is known put in.
func (v *values) explain(pattern string) string {
	return placeholder.ReplaceAllStringFunc(pattern, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		if value, ok := v.known[m[1]+":"+m[2]]; ok {
			return p + "=" + value
		}
		return p
	})
}

// more is what "..." becomes in a JSON pattern.
const more = "\u2026 more"

// elided turns "..." outside strings into something that JSON can hold.
func elided(pattern string) string {
	var out strings.Builder
	var open []byte
	inString := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case inString && c == '\\' && i+1 < len(pattern):
			out.WriteByte(c)
			i++
			c = pattern[i]
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			open = append(open, c)
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		case strings.HasPrefix(pattern[i:], "..."):
			i += 2
			out.WriteString(strconv.Quote(more))
			if len(open) > 0 && open[len(open)-1] == '{' {
				out.WriteString(":true")
			}
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("something follows the value")
	}
	return v, nil
}

// matchJSON compares a response with a JSON pattern and returns all that
// differs, each with its place.
func (v *values) matchJSON(pattern string, got []byte) []string {
	want, err := decode([]byte(elided(pattern)))
	if err != nil {
		return []string{"the pattern is not JSON: " + err.Error()}
	}
	have, err := decode(got)
	if err != nil {
		return []string{"the answer is not JSON: " + err.Error()}
	}
	return v.compare("", want, have)
}

func (v *values) compare(place string, want, got any) []string {
	differs := func(format string, args ...any) []string {
		where := place
		if where == "" {
			where = "body"
		}
		return []string{where + ": " + fmt.Sprintf(format, args...)}
	}
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return differs("want an object, got %s", written(got))
		}
		var all []string
		_, open := want[more]
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if name == more {
				continue
			}
			inner, there := have[name]
			if !there {
				all = append(all, differs("%s is missing", name)...)
				continue
			}
			all = append(all, v.compare(place+"."+name, want[name], inner)...)
		}
		for _, name := range slices.Sorted(maps.Keys(have)) {
			if _, known := want[name]; !known && !open && !v.isOpen {
				all = append(all, differs("%s is not expected (%s)", name, written(have[name]))...)
			}
		}
		return all
	case []any:
		have, ok := got.([]any)
		if !ok {
			return differs("want an array, got %s", written(got))
		}
		open := len(want) > 0 && want[len(want)-1] == more
		if open {
			want = want[:len(want)-1]
		}
		if len(have) < len(want) || len(have) > len(want) && !open {
			return differs("want %d elements, got %d: %s", len(want), len(have), written(got))
		}
		var all []string
		for i := range want {
			all = append(all, v.compare(fmt.Sprintf("%s[%d]", place, i), want[i], have[i])...)
		}
		return all
	case string:
		if want == "<any>" {
			return nil
		}
		text := ""
		switch have := got.(type) {
		case string:
			text = have
		case json.Number:
			if !strings.HasPrefix(want, "<int") && want != "<hundred>" {
				return differs("want %q, got %s", want, have)
			}
			text = have.String()
		default:
			return differs("want %q, got %s", want, written(got))
		}
		if wrong := v.match(want, text); wrong != "" {
			return differs("%s", wrong)
		}
		return nil
	case json.Number:
		have, ok := got.(json.Number)
		if !ok || !sameNumber(want, have) {
			return differs("want %s, got %s", want, written(got))
		}
		return nil
	}
	if want != got {
		return differs("want %s, got %s", written(want), written(got))
	}
	return nil
}

func sameNumber(a, b json.Number) bool {
	x, ok1 := new(big.Rat).SetString(a.String())
	y, ok2 := new(big.Rat).SetString(b.String())
	return ok1 && ok2 && x.Cmp(y) == 0
}

func written(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > 300 {
		return string(text[:300]) + "…"
	}
	return string(text)
}
