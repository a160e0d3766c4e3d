package docs

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/test/must"
)

func TestTheDocumentIsValid(t *testing.T) {
	for name, load := range map[string]func() ([]byte, error){
		"as written": func() ([]byte, error) { return os.ReadFile("openapi.yaml") },
		"as JSON":    JSON,
	} {
		t.Run(name, func(t *testing.T) {
			data := must.Do(load()).Or(t)
			d := must.Do(openapi3.NewLoader().LoadFromData(data)).Or(t)
			must.NoError(t, d.Validate(context.Background(), openapi3.EnableExamplesValidation()))
		})
	}
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
	d := must.Do(openapi3.NewLoader().LoadFromData(source(t))).Or(t)
	seen := map[string]bool{}
	heading := regexp.MustCompile(`^[A-Z][a-z]+ .{1,50}[^. ]$`)
	for path, item := range d.Paths.Map() {
		for method, op := range item.Operations() {
			if op.OperationID == "" || op.Description == "" || len(op.Tags) != 1 || d.Tags.Get(op.Tags[0]) == nil {
				t.Errorf("%s %s needs an id, a description and one known tag", method, path)
			}
			if !heading.MatchString(op.Summary) {
				t.Errorf("%s %s: the summary %q is no short imperative", method, path, op.Summary)
			}
			if seen[op.OperationID] {
				t.Errorf("%s is the id of two operations", op.OperationID)
			}
			seen[op.OperationID] = true
		}
	}
}
