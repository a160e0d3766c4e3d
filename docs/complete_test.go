package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/test/must"
)

// unlimited is the extension in which a text says why it has no limit.
const unlimited = "x-no-limit"

// events is the extension in which a stream names the schemas of its events.
const events = "x-events"

// inspector goes through a document and says what is missing.
type inspector struct {
	*testing.T
	doc *openapi3.T
}

func inspect(t *testing.T) inspector {
	t.Helper()
	d := must.Do(openapi3.NewLoader().LoadFromData(source(t))).Or(t)
	return inspector{t, d}
}

// operations calls fn with every operation and its name for messages.
func (i inspector) operations(fn func(name string, item *openapi3.PathItem, op *openapi3.Operation)) {
	for path, item := range i.doc.Paths.Map() {
		for method, op := range item.Operations() {
			fn(method+" "+path, item, op)
		}
	}
}

func TestSchemasAreDescribedAndStringsAreLimited(t *testing.T) {
	i := inspect(t)
	for name, s := range i.doc.Components.Schemas {
		i.described(name, s)
	}
	i.operations(func(name string, item *openapi3.PathItem, op *openapi3.Operation) {
		for _, p := range slices.Concat(item.Parameters, op.Parameters) {
			if p.Value.Description == "" {
				t.Errorf("%s: the parameter %s has no description", name, p.Value.Name)
			}
			i.limited(name+" "+p.Value.Name, p.Value.Schema)
		}
		if op.RequestBody != nil {
			i.bodies(name, op.RequestBody.Value.Content)
		}
		for status, r := range op.Responses.Map() {
			at := name + " " + status
			i.bodies(at, r.Value.Content)
			for h, header := range r.Value.Headers {
				if header.Value.Description == "" {
					t.Errorf("%s: the header %s has no description", at, h)
				}
				i.limited(at+" "+h, header.Value.Schema)
			}
		}
	})
}

func (i inspector) bodies(at string, content openapi3.Content) {
	for media, m := range content {
		i.limited(at+" "+media, m.Schema)
	}
}

// described checks that a component or a property has a description, and its limits.
func (i inspector) described(at string, s *openapi3.SchemaRef) {
	i.Helper()
	if s.Ref == "" && s.Value.Description == "" {
		i.Errorf("%s has no description", at)
	}
	i.limited(at, s)
}

// limited checks the limits of a schema and of those inside it. References are checked
// where their targets are defined.
func (i inspector) limited(at string, ref *openapi3.SchemaRef) {
	i.Helper()
	if ref == nil || ref.Ref != "" {
		return
	}
	s := ref.Value
	parts := slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
	if len(parts) == 0 && s.Type.Is("string") && s.MaxLength == nil && s.Enum == nil && s.Format == "" && s.Pattern == "" && s.Extensions[unlimited] == nil {
		i.Errorf("%s is a string without a limit; give one, or the reason in %s", at, unlimited)
	}
	if len(parts) == 0 && s.Type.Is("object") && len(s.Properties) == 0 && s.AdditionalProperties.Has == nil && s.AdditionalProperties.Schema == nil {
		i.Errorf("%s is an object without properties and additionalProperties", at)
	}
	for name, p := range s.Properties {
		i.described(at+"."+name, p)
	}
	i.limited(at+"[]", s.Items)
	i.limited(at+".*", s.AdditionalProperties.Schema)
	for n, part := range parts {
		i.limited(fmt.Sprint(at, "|", n), part)
	}
}

func TestEveryBodyHasAnExample(t *testing.T) {
	i := inspect(t)
	i.operations(func(name string, _ *openapi3.PathItem, op *openapi3.Operation) {
		if op.RequestBody != nil {
			i.shown(name, op.RequestBody.Value.Content)
		}
		good := 0
		for status, r := range op.Responses.Map() {
			i.shown(name+" "+status, r.Value.Content)
			if status < "400" {
				good++
			}
		}
		if good == 0 {
			t.Errorf("%s has no answer except errors", name)
		}
	})
}

// shown checks that a body has an example, beside its schema or in it. Binary bodies
// need none.
func (i inspector) shown(at string, content openapi3.Content) {
	for media, m := range content {
		if m.Example == nil && len(m.Examples) == 0 && !hasExample(m.Schema) && m.Schema.Value.Format != "binary" {
			i.Errorf("%s %s has no example", at, media)
		}
	}
}

func hasExample(ref *openapi3.SchemaRef) bool {
	s := ref.Value
	switch {
	case s.Example != nil:
		return true
	case s.Items != nil:
		return hasExample(s.Items)
	}
	return slices.ContainsFunc(slices.Concat(s.AllOf, s.AnyOf, s.OneOf), hasExample)
}

func TestResponsesHaveCommonHeadersAndErrors(t *testing.T) {
	i := inspect(t)
	id := regexp.MustCompile(`^[a-z]+([A-Z][a-z]*)*$`)
	i.operations(func(name string, _ *openapi3.PathItem, op *openapi3.Operation) {
		if !id.MatchString(op.OperationID) {
			t.Errorf("%s: %s is not in camel case", name, op.OperationID)
		}
		for status, r := range op.Responses.Map() {
			at := name + " " + status
			if status == "default" {
				if media := r.Value.Content["application/json"]; media == nil || media.Schema.Ref != "#/components/schemas/Error" {
					t.Errorf("%s does not have the schema Error", at)
				}
				continue
			}
			for _, h := range []string{"X-Request-Id", "X-Content-Type-Options", "Cache-Control"} {
				if header := r.Value.Headers[h]; header == nil || !header.Value.Required {
					t.Errorf("%s: the header %s is not described as required", at, h)
				}
			}
			if status < "400" {
				continue
			}
			schema := "Error"
			if at == "POST /api/v1/auth/device/token 400" { // ID-23
				schema = "DeviceError"
			}
			media := r.Value.Content["application/json"]
			if media == nil || media.Schema.Ref != "#/components/schemas/"+schema {
				t.Errorf("%s does not have the schema %s", at, schema)
				continue
			}
			for n, example := range examples(media) {
				if code := example.(map[string]any)["statusCode"]; fmt.Sprint(code) != status {
					t.Errorf("%s: the example %s has the status %v", at, n, code)
				}
			}
		}
	})
}

// examples returns the examples of a body by name.
func examples(m *openapi3.MediaType) map[string]any {
	all := map[string]any{}
	if m.Example != nil {
		all["example"] = m.Example
	}
	for name, e := range m.Examples {
		all[name] = e.Value.Value
	}
	return all
}

// TestStreamsNameTheirEvents expects the schema of a stream to be that of one event's data, and an example of the
// stream in its description.
func TestStreamsNameTheirEvents(t *testing.T) {
	i := inspect(t)
	streams := 0
	i.operations(func(name string, _ *openapi3.PathItem, op *openapi3.Operation) {
		for status, r := range op.Responses.Map() {
			m := r.Value.Content["text/event-stream"]
			if m == nil {
				continue
			}
			streams++
			schemas, _ := m.Extensions[events].(map[string]any)
			told := map[string]bool{}
			kind := "message"
			for line := range strings.Lines(*r.Value.Description) {
				field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				switch field {
				case "event":
					kind = value
				case "":
					kind = "message"
				case "data":
					i.event(fmt.Sprint(name, " ", status), schemas[kind], value)
					told[kind] = true
				}
			}
			if !slices.Equal(slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(schemas))) {
				t.Errorf("%s: the description shows the events %v, want %v", name, told, schemas)
			}
		}
	})
	if streams != 2 {
		t.Errorf("the document has %d streams, want 2", streams)
	}
}

// event checks the data of an event against its schema.
func (i inspector) event(at string, schema any, data string) {
	i.Helper()
	ref, _ := schema.(map[string]any)
	name, _ := ref["$ref"].(string)
	s := i.doc.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]
	if s == nil {
		i.Errorf("%s: an event without a schema: %s", at, data)
		return
	}
	var v any
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		i.Errorf("%s: %v in %s", at, err, data)
		return
	}
	if err := s.Value.VisitJSON(v); err != nil {
		i.Errorf("%s: %v", at, err)
	}
}

func TestEveryComponentAndTagIsUsed(t *testing.T) {
	i := inspect(t)
	c := i.doc.Components
	text := string(source(t))
	sections := map[string]string{} // by name: generators make types of the names
	for kind, names := range map[string][]string{
		"headers": slices.Collect(maps.Keys(c.Headers)), "parameters": slices.Collect(maps.Keys(c.Parameters)),
		"requestBodies": slices.Collect(maps.Keys(c.RequestBodies)), "responses": slices.Collect(maps.Keys(c.Responses)),
		"schemas": slices.Collect(maps.Keys(c.Schemas)),
	} {
		for _, name := range names {
			if !strings.Contains(text, `"#/components/`+kind+"/"+name+`"`) {
				t.Errorf("nothing refers to %s/%s", kind, name)
			}
			if other := sections[name]; other != "" {
				t.Errorf("%s is the name of components in %s and in %s", name, other, kind)
			}
			sections[name] = kind
		}
	}
	used := map[string]bool{}
	i.operations(func(_ string, _ *openapi3.PathItem, op *openapi3.Operation) { used[op.Tags[0]] = true })
	for _, tag := range i.doc.Tags {
		if tag.Description == "" || !used[tag.Name] {
			t.Errorf("the tag %s has no description, or no operation", tag.Name)
		}
	}
}
