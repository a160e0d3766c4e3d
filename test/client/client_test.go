// Package client generates a TypeScript client from the OpenAPI document, compiles a
// program that uses all of it, and runs that against a real collabd.
package client

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"collab/test/collabd"
	"collab/test/nodejs"
)

const document = "../../docs/openapi.yaml"

// calls are the calls of a client in the program.
var calls = regexp.MustCompile(`\b(?:api|open)\.([A-Z]+)\("([^"]+)"`)

func TestTheProgramUsesEveryOperation(t *testing.T) {
	program, err := os.ReadFile("client.ts")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, call := range calls.FindAllStringSubmatch(string(program), -1) {
		used[call[1]+" "+call[2]] = true
	}
	d, err := openapi3.NewLoader().LoadFromFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range d.Paths.Map() {
		for method := range item.Operations() {
			if !used[method+" "+path] {
				t.Errorf("client.ts does not use %s %s", method, path)
			}
		}
	}
}

func TestAClientMadeFromTheDocument(t *testing.T) {
	f := nodejs.Install(t, "no client is made from the document in this run", "tsconfig.json", "client.ts")
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	f.Write("openapi.yaml", text)
	// A default makes a field of an answer certain, but one of a request may still be
	// left out.
	f.Run(nil, "node", "node_modules/openapi-typescript/bin/cli.js", "openapi.yaml", "--default-non-nullable=false", "--output", "api.d.ts")
	f.Run(nil, "node", "node_modules/typescript/bin/tsc", "--project", ".")

	s := collabd.Start(t)
	if got := strings.TrimSpace(string(f.Run(nil, "node", "client.js", s.URL))); got != "ok" {
		t.Errorf("the program says %q", got)
	}
}
