package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// What the page shows of an OpenAPI document.
type (
	apiDocument struct {
		Info struct {
			Title, Version, Description string
		}
		Tags []struct {
			Name, Description string
		}
		Paths      ordered[ordered[apiOperation]]
		Components struct {
			Schemas    ordered[*apiSchema]
			Parameters ordered[apiParameter]
			Responses  ordered[apiResponse]
		}
	}
	apiOperation struct {
		OperationID string
		Summary     string
		Description string
		Tags        []string
		Parameters  []apiParameter
		RequestBody struct {
			Description string
			Content     ordered[apiMedia]
		}
		Responses ordered[apiResponse]
	}
	apiParameter struct {
		Ref                   string `json:"$ref"`
		Name, In, Description string
		Required              bool
		Schema                *apiSchema
	}
	apiMedia struct {
		Schema  *apiSchema
		Example json.RawMessage
	}
	apiResponse struct {
		Ref         string `json:"$ref"`
		Description string
		Content     ordered[apiMedia]
	}
	apiSchema struct {
		Ref                  string `json:"$ref"`
		Type, Format         string
		Description, Pattern string
		Nullable             bool
		Enum                 []any
		Minimum, Maximum     *json.Number
		MinLength, MaxLength *int
		MinItems, MaxItems   *int
		Items                *apiSchema
		AllOf, OneOf, AnyOf  []*apiSchema
		Properties           ordered[*apiSchema]
		Required             []string
		Default              json.RawMessage
	}
)

// ordered is a JSON object whose order is kept, as it is how people wrote it.
type ordered[T any] []named[T]

type named[T any] struct {
	Name  string
	Value T
}

// UnmarshalJSON reads the object.
func (o *ordered[T]) UnmarshalJSON(data []byte) error {
	pairs, err := parseObject(data)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		n := named[T]{Name: string(p.name)}
		if err := json.Unmarshal(p.raw, &n.Value); err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		*o = append(*o, n)
	}
	return nil
}

func (o ordered[T]) get(name string) (v T) {
	for _, n := range o {
		if n.Name == name {
			return n.Value
		}
	}
	return v
}

//go:embed reference.css
var referenceStyle string

//go:embed reference.html
var referenceTemplate string

// referenceOperation is an operation with what the page says around it.
type referenceOperation struct {
	Method, Path string
	apiOperation
}

// renderReference makes the readable page of an OpenAPI document, and the
// policy that lets the page load nothing but its own style.
func renderReference(document []byte) (page []byte, policy string, err error) {
	var d apiDocument
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, "", err
	}
	if len(d.Paths) == 0 {
		return nil, "", errors.New("it has no paths")
	}
	byTag := map[string][]referenceOperation{}
	for _, path := range d.Paths {
		for _, op := range path.Value {
			o := referenceOperation{strings.ToUpper(op.Name), path.Name, op.Value}
			for i, p := range o.Parameters {
				if p.Ref != "" {
					o.Parameters[i] = d.Components.Parameters.get(last(p.Ref))
				}
			}
			for i, r := range o.Responses {
				if r.Value.Ref != "" {
					o.Responses[i].Value = d.Components.Responses.get(last(r.Value.Ref))
				}
			}
			for _, tag := range o.Tags {
				byTag[tag] = append(byTag[tag], o)
			}
		}
	}
	t, err := template.New("reference").Funcs(template.FuncMap{
		"kind":     (*apiSchema).kind,
		"bounds":   (*apiSchema).bounds,
		"required": func(s *apiSchema, name string) bool { return slices.Contains(s.Required, name) },
		"style":    func() template.CSS { return template.CSS(referenceStyle) },
		"indent":   indented,
	}).Parse(referenceTemplate)
	if err != nil {
		return nil, "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Document": d, "Operations": byTag}); err != nil {
		return nil, "", err
	}
	policy = "default-src 'none'; style-src '" + styleHash(referenceStyle) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return b.Bytes(), policy, nil
}

// last is the name that a reference ends in.
func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// kind writes a schema's type, with links to those that have names.
func (s *apiSchema) kind() template.HTML {
	if s == nil {
		return ""
	}
	text := template.HTMLEscapeString(s.Type)
	switch {
	case s.Ref != "":
		name := template.HTMLEscapeString(last(s.Ref))
		text = `<a href="#schema-` + name + `">` + name + `</a>`
	case len(s.AllOf) > 0:
		text = kinds(s.AllOf, " and ")
	case len(s.OneOf) > 0:
		text = kinds(s.OneOf, " or ")
	case len(s.AnyOf) > 0:
		text = kinds(s.AnyOf, " or ")
	case s.Items != nil:
		text = "array of " + string(s.Items.kind())
	case s.Format != "":
		text += " (" + template.HTMLEscapeString(s.Format) + ")"
	}
	if s.Nullable {
		text += " or null"
	}
	return template.HTML(text)
}

func kinds(all []*apiSchema, by string) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(s.kind())
	}
	return strings.Join(texts, by)
}

// bounds writes what values of a schema are allowed.
func (s *apiSchema) bounds() string {
	if s == nil {
		return ""
	}
	var said []string
	if len(s.Enum) > 0 {
		texts := make([]string, 0, len(s.Enum))
		for _, v := range s.Enum {
			texts = append(texts, fmt.Sprint(v))
		}
		said = append(said, strings.Join(texts, ", "))
	}
	between := func(least, most, unit string) {
		switch {
		case least != "" && most != "":
			said = append(said, least+" to "+most+unit)
		case most != "":
			said = append(said, "at most "+most+unit)
		case least != "":
			said = append(said, "at least "+least+unit)
		}
	}
	between(number(s.MinLength), number(s.MaxLength), " characters")
	between(number(s.MinItems), number(s.MaxItems), " items")
	between(number(s.Minimum), number(s.Maximum), "")
	if len(s.Default) > 0 {
		said = append(said, "default "+string(s.Default))
	}
	return strings.Join(said, "; ")
}

func number[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

func indented(example json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, example, "", "  "); err != nil {
		return string(example)
	}
	return b.String()
}
