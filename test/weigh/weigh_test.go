package main

import (
	"os"
	"slices"
	"testing"

	"collab/test/must"
)

func TestLimits(t *testing.T) {
	text, err := os.ReadFile("limits")
	must.NoError(t, err)
	figures, err := parseLimits(string(text))
	if err != nil || len(figures) != 5 || figures[0].name != "binary_megabytes" || figures[0].limit < 1 {
		t.Errorf("got %v, %v", figures, err)
	}
	for _, wrong := range []string{"binary", "binary 1 MB", "binary small"} {
		if figures, err := parseLimits(wrong); err == nil {
			t.Errorf("%q is %v", wrong, figures)
		}
	}
}

func TestWhatOnlyOneLibraryBrings(t *testing.T) {
	all := packages{}
	add := func(path, module string, imports ...string) {
		p := listedPackage{ImportPath: path, Imports: imports}
		if module != "" {
			p.Module = &struct{ Path string }{module}
		}
		all[path] = p
	}
	add("collab/cmd/collabd", "collab", "a/x", "b", "fmt")
	add("a/x", "a", "a/y", "shared")
	add("a/y", "a", "c")
	add("b", "b", "shared")
	add("c", "c", "fmt")
	add("shared", "shared")
	add("fmt", "")
	if got := all.direct(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("direct are %q", got)
	}
	if got := all.without("a").modules(); !slices.Equal(got, []string{"b", "collab", "shared"}) {
		t.Errorf("without a are %q", got)
	}
}

func TestPackageOfSymbol(t *testing.T) {
	for symbol, want := range map[string]string{
		"runtime.mallocgc": "runtime", "gorm.io/gorm.(*DB).Find": "gorm.io/gorm", "net/http.(*Server).Serve.func1": "net/http",
		"gopkg.in/ini%2ev1.Load": "gopkg.in/ini.v1", "collab/domain/id.Parse[go.shape.struct { gorm.io/gorm.X int }]": "collab/domain/id",
	} {
		if got := packageOf(symbol); got != want {
			t.Errorf("%s is of %s, want %s", symbol, got, want)
		}
	}
}
