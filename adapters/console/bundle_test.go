package console

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"

	"collab/test/chromium"
	"collab/test/must"
	"collab/test/nodejs"
)

//go:generate go test . -run ^TestThe(Types|Bundle) -update

var update = flag.Bool("update", false, "write dist and web/types.ts")

// vendored are the modules of web/vendor by the names under which sources import them.
var vendored = map[string]string{
	"preact": "preact.mjs", "preact/hooks": "hooks.mjs", "preact/jsx-runtime": "jsxRuntime.mjs",
}

// output is a file that the bundler has made.
type output struct {
	EntryPoint string // the source; empty for what several share
	Imports    []struct{ Path, Kind string }
}

// bundle returns the files of dist by their names, without compression, and what imports what by the same names.
func bundle(t *testing.T) (files map[string][]byte, outputs map[string]output) {
	t.Helper()
	web := must.Do(filepath.Abs("web")).Or(t)
	alias := map[string]string{}
	for name, file := range vendored {
		alias[name] = filepath.Join(web, "vendor/preact", file)
	}
	made := api.Build(api.BuildOptions{
		EntryPoints: []string{"main.tsx", "style.css"}, AbsWorkingDir: web, Outdir: "/assets", Alias: alias,
		Bundle: true, Splitting: true, Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", LegalComments: api.LegalCommentsNone,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		EntryNames: "[name]-[hash]", ChunkNames: "[name]-[hash]",
		TsconfigRaw: "{}", Metafile: true,
	})
	for _, e := range made.Errors {
		t.Fatalf("%+v: %s", e.Location, e.Text)
	}
	var meta struct{ Outputs map[string]output }
	must.NoError(t, json.Unmarshal([]byte(made.Metafile), &meta))
	outputs = map[string]output{}
	for name, o := range meta.Outputs {
		outputs[distName(name)] = o
	}
	files, style, script := map[string][]byte{}, "", ""
	for _, f := range made.OutputFiles {
		switch name := filepath.Base(f.Path); {
		case filepath.Ext(name) == ".css":
			style = strings.TrimSpace(string(f.Contents))
			continue
		case strings.HasPrefix(name, "main-"):
			script = assets + name
			fallthrough
		default:
			files[distName(name)] = f.Contents
		}
	}
	page := must.Do(os.ReadFile("web/index.html")).Or(t)
	files["index.html"] = []byte(strings.NewReplacer(
		"{{style}}", style, "{{script}}", script, "{{beside}}", beside(outputs),
	).Replace(string(page)))
	return files, outputs
}

// distName returns the name in dist of a file that the bundler has made.
func distName(path string) string { return "assets/" + filepath.Base(path) }

// beside returns links to the scripts that main imports, so that they are loaded together.
func beside(outputs map[string]output) string {
	var links strings.Builder
	for _, o := range outputs {
		for _, i := range o.Imports {
			if o.EntryPoint == "main.tsx" && i.Kind == "import-statement" {
				fmt.Fprintf(&links, "<link rel=\"modulepreload\" href=%q>\n", assets+filepath.Base(i.Path))
			}
		}
	}
	return links.String()
}

// pack returns content as dist has it.
func pack(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	must.Do(w.Write(content)).Or(t)
	must.NoError(t, w.Close())
	return b.Bytes()
}

func TestAPageIsSmall(t *testing.T) {
	files, outputs := bundle(t)
	var closure func(name string, into map[string]bool)
	closure = func(name string, into map[string]bool) {
		if into[name] {
			return
		}
		into[name] = true
		for _, i := range outputs[name].Imports {
			if i.Kind == "import-statement" {
				closure(distName(i.Path), into)
			}
		}
	}
	first := map[string]bool{}
	for name, o := range outputs {
		if o.EntryPoint == "main.tsx" {
			closure(name, first)
		}
	}
	pages := 0
	for name, o := range outputs {
		if !strings.HasPrefix(o.EntryPoint, "pages/") && o.EntryPoint != "palette.tsx" {
			continue
		}
		pages++
		all, size := map[string]bool{}, 0
		closure(name, all)
		for file := range all {
			if !first[file] {
				size += len(pack(t, files[file]))
			}
		}
		t.Logf("%s: %d bytes", o.EntryPoint, size)
		if size > chromium.PageBytes {
			t.Errorf("%s loads %d bytes, of at most %d", o.EntryPoint, size, chromium.PageBytes)
		}
	}
	if pages < 10 {
		t.Errorf("%d pages and parts of pages were found", pages)
	}
}

func TestTheBundleIsThatOfTheSources(t *testing.T) {
	want, _ := bundle(t)
	if *update {
		must.NoError(t, os.RemoveAll("dist"))
		for name, content := range want {
			err := os.MkdirAll(filepath.Dir("dist/"+name), 0o755)
			if err == nil {
				err = os.WriteFile("dist/"+name+".gz", pack(t, content), 0o644)
			}
			must.NoError(t, err)
		}
	}
	got := map[string][]byte{}
	err := fs.WalkDir(os.DirFS("dist"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		packed, err := os.Open(filepath.Join("dist", name))
		if err != nil {
			return err
		}
		defer packed.Close()
		r, err := gzip.NewReader(packed)
		if err != nil {
			return err
		}
		got[strings.TrimSuffix(name, ".gz")], err = io.ReadAll(r)
		return err
	})
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("dist is not that of web: run go generate ./adapters/console (%v)", err)
	}
}

// vendorSums are the checksums and origins of the vendored modules.
func vendorSums(t *testing.T) [][2]string {
	t.Helper()
	text := must.Do(os.ReadFile("web/vendor/preact.txt")).Or(t)
	var sums [][2]string
	for line := range strings.Lines(string(text)) {
		sum, from, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums = append(sums, [2]string{sum, from})
	}
	return sums
}

func TestVendoredModulesMatchTheirChecksums(t *testing.T) {
	var files []string
	for _, s := range vendorSums(t) {
		name := filepath.Base(s[1])
		files = append(files, name)
		content, err := os.ReadFile("web/vendor/preact/" + name)
		if err != nil || must.Sum(content) != s[0] {
			t.Errorf("%s is not %s: %v", name, s[1], err)
		}
	}
	for _, name := range vendored {
		if !slices.Contains(files, name) {
			t.Errorf("%s has no checksum", name)
		}
	}
}

func TestTheSourcesAreTyped(t *testing.T) {
	web := os.DirFS("web")
	var sources []string
	for _, pattern := range []string{"*.ts", "*.tsx", "pages/*.tsx"} {
		found := must.Do(fs.Glob(web, pattern)).Or(t)
		sources = append(sources, found...)
	}
	f := nodejs.InstallFrom(t, "the types of the console are not checked in this run", web, "tsconfig.json")
	for _, name := range sources {
		content := must.Do(fs.ReadFile(web, name)).Or(t)
		must.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(f.Dir, name)), 0o755))
		f.Write(name, content)
	}
	if out, err := f.Try(nil, "node", "node_modules/.bin/tsc", "--project", "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, s := range vendorSums(t) {
		_, file, _ := strings.Cut(s[1], "/")
		content, err := os.ReadFile(filepath.Join(f.Dir, "node_modules/preact", file))
		if err != nil || must.Sum(content) != s[0] {
			t.Errorf("%s of the registry is another one: %v", fmt.Sprint(s[1]), err)
		}
	}
}
