package docs

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/test/must"
)

func TestTheDocumentIsValid(t *testing.T) {
	must.NoError(t, inspect(t).doc.Validate(t.Context(), openapi3.EnableExamplesValidation()))
}

func TestTheJSONEqualsTheYAML(t *testing.T) {
	data := must.Do(JSON()).Or(t)
	var texts []string
	for _, data := range [][]byte{source(t), data} {
		d := must.Do(openapi3.NewLoader().LoadFromData(data)).Or(t)
		delete(d.Extensions, shared)
		text := must.Do(json.Marshal(d)).Or(t)
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Error("openapi.yaml and JSON differ")
	}
}

func TestEveryOperationIsDescribed(t *testing.T) {
	i := inspect(t)
	heading := regexp.MustCompile(`^[A-Z][a-z]+ .{1,50}[^. ]$`)
	i.operations(func(name string, _ *openapi3.PathItem, op *openapi3.Operation) {
		if op.Description == "" || len(op.Tags) != 1 || i.doc.Tags.Get(op.Tags[0]) == nil {
			t.Errorf("%s needs a description and one known tag", name)
		}
		if !heading.MatchString(op.Summary) {
			t.Errorf("%s: the summary %q is no short imperative", name, op.Summary)
		}
	})
}
