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
	maxElements   = 5
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
	g := &generator{root: root, message: strings.ToLower(truncate(message)), left: maxNodes}
	for _, m := range quoted.FindAllStringSubmatch(truncate(message), maxElements) {
		g.texts = append(g.texts, m[1]+m[2]+m[3])
	}
	g.texts = append(g.texts, excerpt(message, maxQuote))
	for _, n := range numbers.FindAllString(truncate(message), maxElements) {
		if v, err := strconv.ParseFloat(n, 64); err == nil {
			g.numbers = append(g.numbers, v)
		}
	}
	return object(g.value(root, 0))
}

var (
	quoted  = regexp.MustCompile("\"([^\"]+)\"|“([^”]+)”|`([^`]+)`")
	numbers = regexp.MustCompile(`-?\b[0-9]{1,12}(?:\.[0-9]{1,6})?\b`)
)

// generator generates the values of a call's arguments.
type generator struct {
	root    map[string]any
	message string // in lower case
	texts   []string
	numbers []float64
	left    int // values that may still be generated
}

func (g *generator) value(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if g.left--; g.left < 0 || depth > maxDepth {
		return nil
	}
	if !ok {
		return g.text(nil)
	}
	if ref, ok := s["$ref"].(string); ok {
		return g.value(g.resolve(ref), depth+1)
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if options, ok := s["enum"].([]any); ok && len(options) > 0 {
		for _, o := range options {
			if text, ok := o.(string); ok && text != "" && mentions(g.message, strings.ToLower(text)) {
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
			return g.value(g.merge(s, key, parts), depth+1)
		}
	}
	switch kind(s) {
	case "object":
		return g.object(s, depth)
	case "array":
		return g.array(s, depth)
	case "integer":
		return g.number(s, true)
	case "number":
		return g.number(s, false)
	case "boolean":
		return true
	case "null":
		return nil
	}
	return g.text(s)
}

// resolve returns the part of the schema at a local reference.
func (g *generator) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	var at any = g.root
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
func (g *generator) merge(s map[string]any, key string, parts []any) map[string]any {
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
			m, _ = g.resolve(ref).(map[string]any)
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
	switch declared := s["type"].(type) {
	case string:
		return declared
	case []any:
		for _, t := range declared {
			if name, ok := t.(string); ok && name != "null" {
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

func (g *generator) object(s map[string]any, depth int) map[string]any {
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
		if g.left <= 0 {
			break
		}
		o[name] = g.value(properties[name], depth+1)
	}
	return o
}

func (g *generator) array(s map[string]any, depth int) []any {
	a := []any{}
	prefixItems, _ := s["prefixItems"].([]any)
	n := 1
	if minItems, ok := number(s["minItems"]); ok {
		n = int(min(max(minItems, 1), maxElements))
	}
	if maxItems, ok := number(s["maxItems"]); ok && maxItems < 1 || depth > maxDepth/2 && n == 1 {
		n = 0
	}
	for i := range n {
		if i < len(prefixItems) {
			a = append(a, g.value(prefixItems[i], depth+1))
		} else {
			a = append(a, g.value(s["items"], depth+1))
		}
	}
	return a
}

// number returns the next number of the message that the schema allows, else the allowed
// number nearest to 1.
func (g *generator) number(s map[string]any, integer bool) any {
	minimum, maximum := math.Inf(-1), math.Inf(1)
	step, stepped := number(s["multipleOf"])
	if !stepped || step <= 0 {
		step, stepped = 1, integer
	}
	if integer {
		step = max(math.Ceil(step), 1)
	}
	if v, ok := number(s["minimum"]); ok {
		minimum = v
	}
	if v, ok := number(s["maximum"]); ok {
		maximum = v
	}
	if v, ok := number(s["exclusiveMinimum"]); ok {
		minimum = max(minimum, math.Nextafter(v, math.Inf(1)))
	}
	if v, ok := number(s["exclusiveMaximum"]); ok {
		maximum = min(maximum, math.Nextafter(v, math.Inf(-1)))
	}
	nearest := func(v float64) float64 {
		v = min(max(v, minimum), maximum)
		if !stepped {
			return v
		}
		multiple := math.Ceil(v/step) * step
		if multiple > maximum {
			multiple = math.Floor(v/step) * step
		}
		return multiple
	}
	v := nearest(1)
	for i, n := range g.numbers {
		if nearest(n) == n {
			v = n
			g.numbers = slices.Delete(g.numbers, i, i+1)
			break
		}
	}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 1
	}
	if integer && math.Abs(v) < 1<<53 {
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
func (g *generator) text(s map[string]any) string {
	if format, ok := s["format"].(string); ok && formats[format] != "" {
		return formats[format]
	}
	text := g.texts[0]
	if len(g.texts) > 1 {
		g.texts = g.texts[1:]
	}
	if minLength, ok := number(s["minLength"]); ok {
		for n := utf8.RuneCountInString(text); float64(n) < min(minLength, maxText); n++ {
			text += "x"
		}
	}
	maxLength := maxText
	if v, ok := number(s["maxLength"]); ok && v < maxText {
		maxLength = max(int(v), 0)
	}
	n := 0
	for i := range text {
		if n++; n > maxLength {
			return text[:i]
		}
	}
	return text
}
