package console

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/test/must"
	"collab/test/pages"
)

func TestTheTypesAreThoseOfTheDocument(t *testing.T) {
	doc := must.Do(openapi3.NewLoader().LoadFromFile(pages.Root(t) + "/docs/openapi.yaml")).Or(t)
	want := types(doc)
	if *update {
		must.NoError(t, os.WriteFile("web/types.ts", want, 0o644))
	}
	if got, err := os.ReadFile("web/types.ts"); err != nil || !bytes.Equal(got, want) {
		t.Error("web/types.ts is not that of docs/openapi.yaml: run go generate ./adapters/console")
	}
}

// types returns the schemas of the document as types of TypeScript, and Operations, which has the
// arguments and the response of each operation of the versioned interface by method and path.
func types(doc *openapi3.T) []byte {
	var b bytes.Buffer
	b.WriteString("// Generated from docs/openapi.yaml by types_test.go. DO NOT EDIT.\n\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		fmt.Fprintf(&b, "export type %s = %s\n", name, typeOf(doc.Components.Schemas[name].Value))
	}
	b.WriteString("\nexport type Operations = {\n")
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		all := doc.Paths.Map()[path].Operations()
		for _, method := range slices.Sorted(maps.Keys(all)) {
			if response, ok := responseOf(all[method]); ok && strings.HasPrefix(path, "/api/v1/") {
				fmt.Fprintf(&b, "\t%q: { %sanswer: %s }\n", method+" "+path, argumentsOf(all[method]), response)
			}
		}
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// responseOf returns the type of the JSON of an operation's success; ok is false if it has none.
func responseOf(op *openapi3.Operation) (text string, ok bool) {
	for _, status := range []string{"200", "201", "202"} {
		if r := op.Responses.Value(status); r != nil {
			if m := r.Value.Content["application/json"]; m != nil && m.Schema != nil {
				return refOrType(m.Schema), true
			}
		}
	}
	return "", false
}

func argumentsOf(op *openapi3.Operation) string {
	in := map[string][]string{}
	required := map[string]bool{}
	for _, p := range op.Parameters {
		v := p.Value
		if v.In != "path" && v.In != "query" {
			continue
		}
		in[v.In] = append(in[v.In], member(v.Name, v.Required, refOrType(v.Schema)))
		required[v.In] = required[v.In] || v.Required
	}
	var b strings.Builder
	for _, where := range []string{"path", "query"} {
		if len(in[where]) > 0 {
			b.WriteString(member(where, required[where], "{ "+strings.Join(in[where], "")+"}"))
		}
	}
	if op.RequestBody != nil {
		if m := op.RequestBody.Value.Content["application/json"]; m != nil {
			b.WriteString(member("body", op.RequestBody.Value.Required, refOrType(m.Schema)))
		}
	}
	return b.String()
}

func member(name string, required bool, of string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
		name = strconv.Quote(name)
	}
	if !required {
		name += "?"
	}
	return name + ": " + of + "; "
}

func refOrType(s *openapi3.SchemaRef) string {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return name
	}
	return typeOf(s.Value)
}

func typeOf(s *openapi3.Schema) string {
	joined := func(of openapi3.SchemaRefs, by string) string {
		var all []string
		for _, one := range of {
			if text := refOrType(one); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
		return "(" + strings.Join(all, by) + ")"
	}
	var text string
	switch {
	case len(s.Enum) > 0:
		var all []string
		for _, v := range s.Enum {
			one := "null"
			if v != nil {
				one = strings.ReplaceAll(fmt.Sprintf("%#v", v), "interface {}", "")
			}
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
		if s.Nullable && !slices.Contains(all, "null") {
			all = append(all, "null")
		}
		return strings.Join(all, " | ")
	case len(s.AllOf) > 0:
		text = joined(s.AllOf, " & ")
	case len(s.OneOf) > 0:
		text = joined(s.OneOf, " | ")
	case len(s.AnyOf) > 0:
		text = joined(s.AnyOf, " | ")
	case s.Type.Is("array"):
		text = cmp.Or(refOrType(s.Items), "unknown") + "[]"
		if strings.ContainsAny(refOrType(s.Items), "|&") {
			text = "(" + strings.TrimSuffix(text, "[]") + ")[]"
		}
	case s.Type.Is("object"):
		text = objectOf(s)
	case s.Type.Is("integer"), s.Type.Is("number"):
		text = "number"
	case s.Type.Is("boolean"):
		text = "boolean"
	case s.Type.Is("string"):
		text = "string"
	default:
		return "unknown"
	}
	if s.Nullable {
		text += " | null"
	}
	return text
}

func objectOf(s *openapi3.Schema) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		b.WriteString(member(name, slices.Contains(s.Required, name), refOrType(s.Properties[name])))
	}
	if more := s.AdditionalProperties; b.Len() == 0 && more.Schema != nil {
		return "{ [name: string]: " + refOrType(more.Schema) + " }"
	}
	if b.Len() == 0 {
		return "{ [name: string]: unknown }"
	}
	return "{ " + b.String() + "}"
}
