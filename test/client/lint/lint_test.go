// Package lint lints the OpenAPI document. It imports nothing else of the product, so that
// its result is cached until the document changes.
package lint

import (
	"encoding/json"
	"os"
	"testing"

	"collab/docs"
	"collab/test/must"
	"collab/test/nodejs"
)

func TestLintersFindNothing(t *testing.T) {
	f := nodejs.InstallFrom(t, "the document is not linted in this run", os.DirFS(".."))
	t.Setenv("REDOCLY_TELEMETRY", "off")
	t.Setenv("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
	f.Write("openapi.json", must.Do(docs.JSON()).Or(t))
	f.Write(".spectral.yaml", []byte(`extends: ["spectral:oas"]`))

	t.Run("Redocly", func(t *testing.T) {
		var found struct {
			Totals   struct{ Errors, Warnings int }
			Problems []struct{ RuleID, Message string }
		}
		out, failed := f.Try(nil, "node", "node_modules/.bin/redocly", "lint", "--extends=recommended", "--format=json", "openapi.json")
		if err := json.Unmarshal(out, &found); err != nil {
			t.Fatalf("%v, %v", failed, err)
		}
		if found.Totals.Errors+found.Totals.Warnings > 0 {
			t.Errorf("it finds %+v", found)
		}
	})
	t.Run("Spectral", func(t *testing.T) {
		must.Do(f.Try(nil, "node", "node_modules/.bin/spectral", "lint", "--fail-severity=hint", "openapi.json")).Or(t)
	})
}
