// Package client generates clients in TypeScript and Go from the OpenAPI document with
// the generators' default options, compiles programs that use them, and runs these
// against a real collabd.
package client

import (
	"bytes"
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

func TestTheDocumentIsForGeneratorsOfNode(t *testing.T) {
	f := nodejs.Install(t, "no client in TypeScript is made from the document in this run", "tsconfig.json", "client.ts", "sdk.ts")
	f.Write("openapi.json", served(t))
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
