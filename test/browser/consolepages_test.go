//go:build browser

package browser

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/collabd"
	"collab/test/must"
)

var update = flag.Bool("update", false, "write the pictures of docs/console")

// pictures is the directory of the screenshots of the console's pages.
const pictures = "../../docs/console"

// largestPicture is the limit of the size of a screenshot in bytes.
const largestPicture = 100_000

// pictureScreens are the screens of the screenshots.
var pictureScreens = []struct {
	name          string
	width, height int64
	colours       string
}{{"light", 1280, 800, "light"}, {"dark", 1280, 800, "dark"}, {"narrow", 360, 740, "light"}}

// consolePage is a page of the console.
type consolePage struct{ path, name string }

// file returns the name of the file of a screenshot.
func (p consolePage) file(screen string) string {
	return filepath.Join(pictures, strings.ReplaceAll(strings.ToLower(p.name), " ", "-")+"-"+screen+".webp")
}

// consolePages returns the pages that the console lists.
func consolePages(t *testing.T) (all []consolePage) {
	t.Helper()
	source := must.Do(os.ReadFile("../../adapters/console/web/pages.tsx")).Or(t)
	for _, m := range regexp.MustCompile(`\{ path: "([^"]+)", name: "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		all = append(all, consolePage{m[1], m[2]})
	}
	if len(all) < 2 {
		t.Fatalf("the console has the pages %v", all)
	}
	return all
}

// media emulates a media feature.
func (b *tab) media(feature, value string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
}

// open opens a page of the console and waits until it is loaded.
func (b *tab) open(s *server, p consolePage) {
	b.t.Helper()
	b.do(chromedp.Navigate(s.base + p.path))
	b.waitVisible(`//main//h1`)
	b.do(chromedp.WaitNotPresent(chromedp.CSS(`[aria-busy="true"], [data-feed]:not([data-feed="live"])`)))
}

// savePicture writes a screenshot of the visible part of the page.
func (b *tab) savePicture(file string) {
	b.t.Helper()
	quality := int64(80)
	shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
	must.NoError(b.t, os.WriteFile(file, shot.Data, 0o644))
}

// Scripts that return descriptions of elements that the pages must not have.
const (
	// moving returns animated elements.
	moving = `[...document.querySelectorAll("*")].filter((e) => {
		const s = getComputedStyle(e)
		return [s.transitionDuration, s.animationDuration].some((all) => all.split(",").some((d) => parseFloat(d) > 0.01))
	}).map((e) => e.outerHTML.slice(0, 80))`
	// vague returns controls that look like text, and chosen ones that look like others, with forced colours, which remove
	// backgrounds.
	vague = `[...document.querySelectorAll("button, .button, input, select, textarea, [aria-pressed=true], [aria-selected=true], a[aria-current]")].filter((e) => {
		const s = getComputedStyle(e)
		return e.checkVisibility() && e.type !== "checkbox" && e.type !== "radio" && (e.matches("[aria-pressed=true], [aria-selected=true], [aria-current]")
			? s.forcedColorAdjust !== "none" || s.backgroundColor === getComputedStyle(document.body).backgroundColor
			: !["Top", "Right", "Bottom", "Left"].some((side) => parseFloat(s["border" + side + "Width"]) > 0))
	}).map((e) => e.outerHTML.slice(0, 80))`
	// cut returns elements outside of the page with text of twice the size.
	cut = `(() => {
		document.documentElement.style.fontSize = "200%"
		const beside = document.documentElement.scrollWidth - innerWidth
		document.documentElement.style.fontSize = ""
		return beside > 0 ? ["the page scrolls sideways by " + beside] : []
	})()`
)

// payments returns the path of the payment provider's page for an operation of Ada.
func (s *server) payments(organisation, operation string, body any) string {
	s.t.Helper()
	as := bearer(s.signIn("ada@larkspur.example", organisation, "").Token)
	page := decode[struct{ URL string }](s.t, s.call("POST", "/billing/"+operation, as, body, http.StatusOK)).URL
	return strings.TrimPrefix(page, s.base)
}

// checkPreferences checks the page with reduced motion, forced colours and large text.
func (b *tab) checkPreferences() {
	b.t.Helper()
	for about, check := range map[string]struct{ feature, value, script string }{
		"with reduced motion": {"prefers-reduced-motion", "reduce", moving},
		"with forced colours": {"forced-colors", "active", vague},
		"with text of 200 %":  {"prefers-color-scheme", "light", cut},
	} {
		b.media(check.feature, check.value)
		for _, found := range read(b, chromedp.Evaluate[[]string](check.script)) {
			b.t.Errorf("%s: %s", about, found)
		}
	}
}

func TestConsolePages(t *testing.T) {
	demo := collabd.StartProgram(t, collabd.Program("demo"), "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)
	s := &server{t, demo.URL}
	b := openTab(t)
	b.resize(1280, 800, "light")
	if *update {
		must.NoError(t, os.MkdirAll(pictures, 0o755))
	}
	signIn := consolePage{"/console", "Sign-in"}
	organisations := decode[[]struct{ ID string }](t, s.call("GET", "/admin/organisations?search=Larkspur", "X-Admin-Secret: "+collabd.AdminSecret, nil, http.StatusOK))
	operatorSignIn := consolePage{"/console/operator", "Operator sign-in"}
	all := slices.Concat([]consolePage{signIn}, consolePages(t), []consolePage{
		operatorSignIn, {"/console/operator", "Operator health"}, {"/console/operator/organisations", "Operator organisations"},
		{"/console/operator/organisations?id=" + organisations[0].ID, "Operator organisation"}, {"/console/operator/setup", "Operator setup"},
		{"/dev/identity/sign-in", "Development sign-in"}, {"", "Development checkout"}, {"", "Development portal"},
	})
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			b.t = t
			switch p.name { // whose address is made when it is needed
			case "Development checkout":
				p.path = s.payments("Fernwood Instruments", "checkout", map[string]string{"plan": "PREMIUM"})
			case "Development portal":
				p.path = s.payments("Larkspur Instruments", "portal", nil)
			}
			b.open(s, p)
			switch p.name { // which is empty at first
			case "Chat":
				b.write("Write three lines for the newsletter about our new thermometer.")
				b.key(kb.Enter)
				b.waitVisible(answer("done", "tokens"))
			case "Export":
				b.do(chromedp.Click(button("Make an archive")), chromedp.WaitVisible(`//li[@data-export="READY"]`))
			case "Files":
				b.do(chromedp.Click(`//*[@role="treeitem" and contains(., "Shared files")]`), chromedp.WaitVisible(`//a[@data-row]`))
			}
			if p != signIn && p != operatorSignIn {
				b.checkProblems(s.base, icon)
			}
			b.checkPreferences()
			for _, screen := range pictureScreens {
				if *update {
					b.resize(screen.width, screen.height, screen.colours)
					b.savePicture(p.file(screen.name))
				}
				if picture, err := os.Stat(p.file(screen.name)); err != nil || picture.Size() > largestPicture {
					t.Errorf("the page needs a picture of at most %d bytes, which -update takes: %v, %v", largestPicture, picture, err)
				}
			}
			b.resize(1280, 800, "light")
		})
		if p == signIn {
			b.t = t
			b.enterConsole(s, "Ada", "Larkspur Instruments")
			b.clearProblems() // of 401 before the sign-in
		}
		if p == operatorSignIn {
			b.t = t
			b.enterOperator(s, "/console/operator", "Setup")
			b.clearProblems() // of 401 before the sign-in
		}
	}
	t.Run("there is no picture of a page that is gone", func(t *testing.T) {
		known := map[string]bool{}
		for _, p := range all {
			for _, screen := range pictureScreens {
				known[p.file(screen.name)] = true
			}
		}
		files := must.Do(filepath.Glob(pictures + "/*.webp")).Or(t)
		for _, file := range files {
			if !known[file] {
				t.Errorf("%s is of no page", file)
			}
		}
	})
}
