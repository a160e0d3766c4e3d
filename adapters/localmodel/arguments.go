package localmodel

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of generated arguments, because schemas may be recursive.
const (
	maxNodes      = 200 // values
	maxDepth      = 12
	optionalDepth = 2 // deeper objects have required properties only
	maxItems      = 5
	maxText       = 200 // characters
)

// arguments returns arguments for a tool's schema from the message: quoted texts or the
// whole message for strings, its numbers for numbers. It ignores patterns and conditions.
func arguments(schema, message string) string {
	d := json.NewDecoder(strings.NewReader(schema))
	d.UseNumber() // keeps the spelling of a default
	var root map[string]any
	if d.Decode(&root) != nil {
		return "{}"
	}
	f := &filler{root: root, message: strings.ToLower(beginning(message)), left: maxNodes}
	for _, m := range quoted.FindAllStringSubmatch(beginning(message), maxItems) {
		f.texts = append(f.texts, m[1]+m[2]+m[3])
	}
	f.texts = append(f.texts, excerpt(message, maxQuote))
	for _, n := range numbers.FindAllString(beginning(message), maxItems) {
		if v, err := strconv.ParseFloat(n, 64); err == nil {
			f.numbers = append(f.numbers, v)
		}
	}
	return object(f.value(root, 0))
}

var (
	quoted  = regexp.MustCompile("\"([^\"]+)\"|“([^”]+)”|`([^`]+)`")
	numbers = regexp.MustCompile(`-?\b[0-9]{1,12}(?:\.[0-9]{1,6})?\b`)
)

type filler struct {
	root    map[string]any
	message string // in lower case
	texts   []string
	numbers []float64
	left    int // remaining values
}

func (f *filler) value(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if f.left--; f.left < 0 || depth > maxDepth {
		return nil
	}
	if !ok {
		return f.text(nil)
	}
	if ref, ok := s["$ref"].(string); ok {
		return f.value(f.resolve(ref), depth+1)
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if options, ok := s["enum"].([]any); ok && len(options) > 0 {
		for _, o := range options {
			if text, ok := o.(string); ok && text != "" && mentions(f.message, strings.ToLower(text)) {
				return o
			}
		}
		return options[0]
	}
	if v, ok := s["default"]; ok {
		return v
	}
	if all, ok := s["examples"].([]any); ok && len(all) > 0 {
		return all[0]
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if parts, ok := s[key].([]any); ok && len(parts) > 0 {
			return f.value(f.merge(s, key, parts), depth+1)
		}
	}
	switch kind(s) {
	case "object":
		return f.object(s, depth)
	case "array":
		return f.array(s, depth)
	case "integer":
		return f.number(s, true)
	case "number":
		return f.number(s, false)
	case "boolean":
		return true
	case "null":
		return nil
	}
	return f.text(s)
}

// resolve returns the part of the schema at a local reference.
func (f *filler) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	var at any = f.root
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
	}
	return at
}

// merge merges the schema with its first alternative that is not null, or for allOf with
// all parts.
func (f *filler) merge(s map[string]any, key string, parts []any) map[string]any {
	merged := map[string]any{}
	properties := map[string]any{}
	var required []any
	add := func(m map[string]any) {
		for k, v := range m {
			switch k {
			case "properties":
				p, _ := v.(map[string]any)
				maps.Copy(properties, p)
			case "required":
				names, _ := v.([]any)
				required = append(required, names...)
			default:
				merged[k] = v
			}
		}
	}
	add(s)
	delete(merged, key)
	for _, p := range parts {
		m, _ := p.(map[string]any)
		if ref, ok := m["$ref"].(string); ok && key == "allOf" {
			m, _ = f.resolve(ref).(map[string]any)
		}
		if key != "allOf" && kind(m) == "null" && len(parts) > 1 {
			continue
		}
		add(m)
		if key != "allOf" {
			break
		}
	}
	if len(properties) > 0 {
		merged["properties"] = properties
	}
	if len(required) > 0 {
		merged["required"] = required
	}
	return merged
}

// kind returns the type of a schema, else the one implied by its keywords.
func kind(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
		return "null"
	}
	switch {
	case s["properties"] != nil, s["required"] != nil:
		return "object"
	case s["items"] != nil, s["prefixItems"] != nil:
		return "array"
	}
	return ""
}

func (f *filler) object(s map[string]any, depth int) map[string]any {
	properties, _ := s["properties"].(map[string]any)
	var names []string
	required, _ := s["required"].([]any)
	for _, r := range required {
		if name, ok := r.(string); ok && !slices.Contains(names, name) && len(names) < maxNodes {
			names = append(names, name)
		}
	}
	if depth <= optionalDepth {
		var optional []string
		for name := range properties {
			if !slices.Contains(names, name) {
				optional = append(optional, name)
			}
		}
		slices.Sort(optional)
		names = append(names, optional...)
	}
	o := map[string]any{}
	for _, name := range names {
		if f.left <= 0 {
			break
		}
		o[name] = f.value(properties[name], depth+1)
	}
	return o
}

func (f *filler) array(s map[string]any, depth int) []any {
	a := []any{}
	first, _ := s["prefixItems"].([]any)
	n := 1
	if least, ok := number(s["minItems"]); ok {
		n = int(min(max(least, 1), maxItems))
	}
	if most, ok := number(s["maxItems"]); ok && most < 1 || depth > maxDepth/2 && n == 1 {
		n = 0
	}
	for i := range n {
		if i < len(first) {
			a = append(a, f.value(first[i], depth+1))
		} else {
			a = append(a, f.value(s["items"], depth+1))
		}
	}
	return a
}

// number returns the next number of the message that the schema allows, else the allowed
// number nearest to 1.
func (f *filler) number(s map[string]any, whole bool) any {
	low, high := math.Inf(-1), math.Inf(1)
	step, stepped := number(s["multipleOf"])
	if !stepped || step <= 0 {
		step, stepped = 1, whole
	}
	if whole {
		step = max(math.Ceil(step), 1)
	}
	if v, ok := number(s["minimum"]); ok {
		low = v
	}
	if v, ok := number(s["maximum"]); ok {
		high = v
	}
	if v, ok := number(s["exclusiveMinimum"]); ok {
		low = max(low, math.Nextafter(v, math.Inf(1)))
	}
	if v, ok := number(s["exclusiveMaximum"]); ok {
		high = min(high, math.Nextafter(v, math.Inf(-1)))
	}
	near := func(v float64) float64 {
		v = min(max(v, low), high)
		if !stepped {
			return v
		}
		up := math.Ceil(v/step) * step
		if up > high {
			up = math.Floor(v/step) * step
		}
		return up
	}
	v := near(1)
	for i, n := range f.numbers {
		if near(n) == n {
			v = n
			f.numbers = slices.Delete(f.numbers, i, i+1)
			break
		}
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 1
	}
	if whole && math.Abs(v) < 1<<53 {
		return int64(v)
	}
	return v
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := n.Float64()
	return x, err == nil
}

// formats has a value for each format of JSON Schema.
var formats = map[string]string{
	"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1H",
	"email": "ada@example.com", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uri": "https://example.com/", "uri-reference": "/", "url": "https://example.com/",
	"uuid": "00000000-0000-4000-8000-000000000000",
}

// text returns the next text of the message, cut or padded to the schema's length. The last
// one is repeated.
func (f *filler) text(s map[string]any) string {
	if format, ok := s["format"].(string); ok && formats[format] != "" {
		return formats[format]
	}
	text := f.texts[0]
	if len(f.texts) > 1 {
		f.texts = f.texts[1:]
	}
	if least, ok := number(s["minLength"]); ok {
		for n := utf8.RuneCountInString(text); float64(n) < min(least, maxText); n++ {
			text += "x"
		}
	}
	most := maxText
	if v, ok := number(s["maxLength"]); ok && v < maxText {
		most = max(int(v), 0)
	}
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i]
		}
	}
	return text
}
