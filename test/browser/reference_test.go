//go:build browser

package browser

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"collab/test/must"
)

// operation is an operation of the OpenAPI document.
type operation struct {
	ID      string `json:"operationId"`
	Summary string
	Tags    []string

	method, path string
}

// anchor returns the fragment of the operation on the page.
func (o operation) anchor() string { return "tag/" + strings.ToLower(o.Tags[0]) + "/" + o.ID }

// operations returns the operations of the server's document, by their tags.
func (s *server) operations() []operation {
	s.t.Helper()
	var all []operation
	for path, methods := range decode[struct {
		Paths map[string]map[string]json.RawMessage
	}](s.t, s.call("GET", "/openapi.json", "", nil, http.StatusOK)).Paths {
		for method, text := range methods {
			if method == "parameters" {
				continue
			}
			o := decode[operation](s.t, text)
			o.method, o.path = strings.ToUpper(method), path
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return cmp.Compare(a.anchor(), b.anchor()) })
	return all
}

// await waits until a JavaScript expression is truthy, and returns its value.
func (b *tab) await(what, expression string) string {
	b.t.Helper()
	// chromedp.Poll may still evaluate the expression in the previous page.
	found, err := chromedp.Run(b, chromedp.Evaluate[string](fmt.Sprintf(`new Promise((done) => {
		const look = () => { const found = %s; found ? done(found) : setTimeout(look, 50) }
		look()
	})`, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return found
}

// view stores a picture of the visible part of the page among the test's artifacts.
func (b *tab) view(name string) {
	b.t.Helper()
	png := read(b, chromedp.CaptureScreenshot())
	must.NoError(b.t, os.WriteFile(filepath.Join(b.t.ArtifactDir(), name+".png"), png, 0o600))
}

// reference opens the page of the document at an operation.
func (b *tab) reference(s *server, anchor string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(s.base+"/docs#"+anchor))
	b.section(anchor)
}

// section waits until an operation is shown, and returns its text.
func (b *tab) section(anchor string) string {
	b.t.Helper()
	return b.await(anchor, fmt.Sprintf(`document.querySelector("section[id$='/%s']")?.textContent`, anchor))
}

func TestReference(t *testing.T) {
	s := startServer(t)
	all := s.operations()
	if len(all) < 100 {
		t.Fatalf("the document has %d operations", len(all))
	}

	t.Run("operations of each part of the document are on the page", func(t *testing.T) {
		b := openTab(t)
		b.resize(1280, 800, "light")
		b.reference(s, all[0].anchor())
		part := ""
		for _, o := range all {
			if o.Tags[0] == part {
				continue
			}
			part = o.Tags[0]
			b.run("location.hash = " + strconv.Quote(o.anchor()))
			for _, want := range []string{strings.ToLower(o.method) + o.path, o.Summary} {
				if text := b.section(o.anchor()); !strings.Contains(text, want) {
					t.Errorf("%s does not say %q: %.500s", o.anchor(), want, text)
				}
			}
		}
		b.checkProblems(s.base)
	})

	t.Run("it fits every screen, and its renderer is fetched once", func(t *testing.T) {
		b := openTab(t)
		for i, screen := range screens {
			b.resize(screen.width, screen.height, screen.colours)
			b.reference(s, "tag/tasks/createTask")
			fetched := read(b, chromedp.Evaluate[int](`performance.getEntriesByType("resource").find(e => e.name.includes("/docs/scalar-")).transferSize`))
			if i > 0 && fetched != 0 || i == 0 && (fetched < 1<<20 || fetched > 2<<20) {
				t.Errorf("load %d fetched %d bytes of it, compressed", i, fetched)
			}
			b.view("reference-" + screen.name)
			if width := read(b, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`)); width > screen.width {
				t.Errorf("on %s it is %d pixels wide", screen.name, width)
			}
			if got := read(b, chromedp.Evaluate[bool](`document.body.classList.contains("dark-mode")`)); got != (screen.colours == "dark") {
				t.Errorf("on %s it is dark: %t", screen.name, got)
			}
		}
		b.checkProblems(s.base)
	})

	t.Run("requests can be tried, and the token is not kept", func(t *testing.T) {
		b := openTab(t)
		b.resize(1280, 800, "light")
		session := s.signIn("ada@collab.example", "Analytical Engines", "")
		b.reference(s, "tag/auth/getMe")
		const field = `document.querySelector("input[placeholder=Token]")`
		b.await("the field of the token", field+`?.placeholder`)
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
			%s.value = %q
			%[1]s.dispatchEvent(new Event("input", {bubbles: true}))
		}`, field, session.Token)))
		b.click(`//section[contains(@id, "/getMe")]//button[contains(., "Test Request")]`)
		b.await("sending", `(() => {
			const send = [...document.querySelectorAll("[role=dialog] button")].find(b => b.checkVisibility() && /^Send(?! Request)/.test(b.innerText.trim()))
			send?.click()
			return send?.innerText
		})()`)
		b.await("the answer", `document.querySelector("[role=dialog]").innerText.includes("ada@collab.example") && "it is there"`)
		b.view("reference-request")
		kept := read(b, chromedp.Evaluate[string](`JSON.stringify([localStorage, sessionStorage, document.cookie])`))
		if strings.Contains(kept, session.Token) {
			t.Errorf("the browser keeps %s", kept)
		}
		b.reference(s, "tag/auth/getMe")
		b.await("the field of the token", field+`?.placeholder`)
		must.Is(t, "", read(b, chromedp.Evaluate[string](field+`.value`)))
		b.checkProblems(s.base)
	})
}
