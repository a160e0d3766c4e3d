// Package client lints the OpenAPI document, generates clients in TypeScript and Go from
// it with the generators' default options, compiles programs that use them, and runs
// these against a real collabd.
package client

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/docs"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/nodejs"
)

// calls are the calls of a client in the program.
var calls = regexp.MustCompile(`\b(?:api|open)\.([A-Z]+)\("([^"]+)"`)

func TestTheProgramUsesEveryOperation(t *testing.T) {
	used := map[string]bool{}
	for _, call := range calls.FindAllStringSubmatch(string(read(t, "client.ts")), -1) {
		used[call[1]+" "+call[2]] = true
	}
	d := must.Do(openapi3.NewLoader().LoadFromData(served(t))).Or(t)
	for path, item := range d.Paths.Map() {
		for method := range item.Operations() {
			if !used[method+" "+path] {
				t.Errorf("client.ts does not use %s %s", method, path)
			}
		}
	}
}

func TestTheDocumentIsForLintersAndGeneratorsOfNode(t *testing.T) {
	f := nodejs.Install(t, "the document is not linted, and no client in TypeScript is made from it, in this run", "tsconfig.json", "client.ts", "sdk.ts")
	t.Setenv("REDOCLY_TELEMETRY", "off")
	t.Setenv("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
	f.Write("openapi.json", served(t))
	f.Write(".spectral.yaml", []byte(`extends: ["spectral:oas"]`))

	t.Run("Redocly finds nothing", func(t *testing.T) {
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
	t.Run("Spectral finds nothing", func(t *testing.T) {
		must.Do(f.Try(nil, "node", "node_modules/.bin/spectral", "lint", "--fail-severity=hint", "openapi.json")).Or(t)
	})

	f.Run(nil, "node", "node_modules/.bin/openapi-typescript", "openapi.json", "--output", "api.d.ts")
	f.Run(nil, "node", "node_modules/.bin/openapi-ts", "--input", "openapi.json", "--output", "sdk")
	f.Write("sdk/package.json", []byte(`{"type": "commonjs"}`)) // its imports are without extensions
	f.Run(nil, "node", "node_modules/.bin/tsc", "--project", ".")
	for _, program := range []string{"client.js", "sdk.js"} {
		s := collabd.Start(t)
		if got := strings.TrimSpace(string(f.Run(nil, "node", program, s.URL))); got != "ok" {
			t.Errorf("%s says %q", program, got)
		}
	}
}

// TestTheDocumentIsForTheGeneratorOfGo runs the generator that the module of testdata/golang pins.
func TestTheDocumentIsForTheGeneratorOfGo(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.CopyFS(dir, os.DirFS("testdata/golang")))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "openapi.json"), served(t), 0o600))
	run := func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir, command.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
		var problems bytes.Buffer
		command.Stderr = &problems
		out, err := command.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, problems.Bytes())
		}
		return strings.TrimSpace(string(out))
	}
	run("tool", "oapi-codegen", "-package", "main", "-generate", "types,client", "-o", "api.go", "openapi.json")
	run("build", "-o", "program", ".")
	s := collabd.Start(t)
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "program"), s.URL).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "ok" {
		t.Errorf("the program says %q, %v", got, err)
	}
}

// served returns the OpenAPI document as a server has it.
func served(t *testing.T) []byte {
	t.Helper()
	return must.Do(docs.JSON()).Or(t)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return must.Do(os.ReadFile(name)).Or(t)
}
