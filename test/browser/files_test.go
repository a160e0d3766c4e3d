//go:build browser

package browser

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/must"
)

// record is a file as far as the tests read it.
type record struct {
	ID, Path, Content, MimeType string
	Size, Version               int64
}

// store stores a new file.
func (s *server) store(header, path, content, mimeType string) record {
	s.t.Helper()
	return decode[record](s.t, s.call("POST", "/sync/files", header, map[string]any{
		"path": path, "content": base64.StdEncoding.EncodeToString([]byte(content)), "encoding": "base64", "mimeType": mimeType,
	}, http.StatusCreated))
}

// stored returns the visible files by their paths.
func (s *server) stored(header string) map[string]record {
	s.t.Helper()
	found := map[string]record{}
	for _, r := range decode[[]record](s.t, s.call("GET", "/sync/files", header, nil, http.StatusOK)) {
		found[r.Path] = r
	}
	return found
}

// newTab opens another tab of the browser.
func (b *tab) newTab() *tab {
	b.t.Helper()
	context, closeTab := chromedp.NewContext(b)
	b.t.Cleanup(closeTab)
	other := &tab{Context: context, t: b.t}
	must.NoError(b.t, chromedp.Do(other))
	must.NoError(b.t, chromedp.Listen(other, other.record))
	call(other, network.Enable, network.EnableParams{})
	return other
}

// countRequests returns the number of requests since visit whose address has the suffix.
func (b *tab) countRequests(end string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests[b.before:] {
		if strings.HasSuffix(r, end) {
			n++
		}
	}
	return n
}

// visit opens a page of the console that follows the feed, and waits until the feed is connected.
func (b *tab) visit(address, heading string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank")) // the present page may be about to follow the feed
	b.mu.Lock()
	b.before = len(b.requests)
	b.mu.Unlock()
	b.do(chromedp.Navigate(address))
	b.waitConsole(heading)
	b.waitVisible(`//*[@data-feed="live"]`)
}

// click clicks the element of a path, two frames after the page was scrolled to it: in the frame in
// which a page becomes longer, Chromium may take back that the page was scrolled, and the click is lost.
func (b *tab) click(path string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(path), chromedp.ScrollIntoView(path))
	b.waitFrames()
	b.do(chromedp.Click(path))
}

// waitFrames waits until the browser has drawn the page as it is.
func (b *tab) waitFrames() {
	b.t.Helper()
	read(b, chromedp.Evaluate[int](`new Promise((done) => document.hidden ? done(0) : requestAnimationFrame(() => requestAnimationFrame(() => done(0))))`, chromedp.EvalAwaitPromise))
}

// run runs a script in the page.
func (b *tab) run(script string) {
	b.t.Helper()
	if _, err := chromedp.Run(b, chromedp.Evaluate[any](script+"; 0")); err != nil {
		b.fail(err)
	}
}

// upload selects files for the page, each with its name as content.
func (b *tab) upload(names ...string) {
	b.t.Helper()
	dir := b.t.TempDir()
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
		must.NoError(b.t, os.WriteFile(paths[len(paths)-1], []byte(name), 0o600))
	}
	b.do(chromedp.SetUploadFiles(`//label[starts-with(., "Upload files")]/input`, paths))
}

// drop drops files and directories onto the middle of an element.
func (b *tab) drop(on string, paths ...string) {
	b.t.Helper()
	at := read(b, chromedp.Evaluate[[2]float64](fmt.Sprintf(`((e) => (e.scrollIntoView({ block: "center" }), ((r) => [r.x + r.width / 2, r.y + r.height / 2])(e.getBoundingClientRect())))(document.querySelector(%q))`, on)))
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		b.waitFrames()
		data := &input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: 1}
		call(b, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: at[0], Y: at[1], Data: data})
	}
}

// entry returns the path of the link of the row with the name.
func entry(name string) string { return fmt.Sprintf(`//a[@data-row and contains(., %q)]`, name) }

// uploaded returns the path of an upload in a state.
func uploaded(path, state string) string {
	return fmt.Sprintf(`//li[@data-upload=%q and contains(., %q)]`, state, path)
}

// planned ends the next uploads in the planned way: "half" stops halfway, "cut" is a broken connection, and a number is
// the status of the response.
const planned = `{
	window.plans = []
	const real = XMLHttpRequest.prototype.send
	XMLHttpRequest.prototype.send = function (body) {
		const plan = body instanceof Blob && window.plans.shift()
		if (!plan) return real.call(this, body)
		if (plan === "half") return this.upload.onprogress({ loaded: body.size / 2 })
		if (plan === "cut") return void setTimeout(() => this.onerror())
		Object.defineProperties(this, {
			status: { value: plan }, response: { value: { message: "planned" } },
			getResponseHeader: { value: (name) => (name === "X-Request-Id" ? "request-7" : null) },
		})
		setTimeout(() => this.onload())
	}
}`

// cutFeeds makes feeds fail while window.cut is set. cutFeed sets it and ends the present feed.
const cutFeeds = `{
	const real = fetch
	let cutter = new AbortController()
	window.cutFeed = () => { window.cut = true; cutter.abort() }
	window.fetch = (address, init) => {
		if (!String(address).endsWith("/sync/changes")) return real(address, init)
		if (window.cut) return Promise.resolve(Response.json({ statusCode: 503, message: "busy", error: "Service Unavailable" }, { status: 503, headers: { "X-Request-Id": "request-9" } }))
		cutter = new AbortController()
		return real(address, { ...init, signal: AbortSignal.any([init.signal, cutter.signal]) })
	}
}`

func TestFiles(t *testing.T) {
	s, as := startOwned(t, "COLLAB_PLAN_STORAGE=NO_PLAN=1MiB,FREE=10GiB,STANDARD=100GiB,PREMIUM=1TiB")
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	shared := s.base + "/console/files?place=shared/artifacts"
	signedIn := func(t *testing.T) *tab {
		b := openTab(t)
		b.resize(1280, 800, "light")
		b.enterConsole(s, "Ada", "Analytical Engines")
		return b
	}

	t.Run("what another client does appears at once, and of two tabs one has the feed", func(t *testing.T) {
		b := signedIn(t)
		b.visit(shared, "Files")
		b.waitVisible(`//p[contains(., "Nothing is here yet")]`)
		other := b.newTab()
		other.visit(shared, "Files")
		s.store(as, "live/first.txt", "first", "text/plain")
		b.waitVisible(entry("live"))
		other.waitVisible(entry("live"))
		must.Is(t, 1, b.countRequests("/sync/changes")+other.countRequests("/sync/changes"))
		team := decode[record](t, s.call("POST", "/teams", as, map[string]string{"name": "Weavers"}, http.StatusCreated)).ID
		workspace := decode[record](t, s.call("POST", "/workspaces", as, map[string]string{"name": "Looms", "teamId": team}, http.StatusCreated)).ID
		b.run(`dispatchEvent(new Event("focus"))`)
		b.waitVisible(`//*[@role="treeitem" and contains(., "Looms")]`)
		s.call("DELETE", "/workspaces/"+workspace, as, nil, http.StatusOK)
		s.call("DELETE", "/teams/"+team, as, nil, http.StatusOK)
		b.checkProblems(s.base)
		other.checkProblems(s.base)
	})
	t.Run("a feed that is cut says so, and what happened meanwhile is there when it is back", func(t *testing.T) {
		b := signedIn(t)
		b.runInNewPages(cutFeeds)
		b.visit(shared, "Files")
		b.run(`cutFeed()`)
		b.waitVisible(`//*[@role="alert" and contains(., "Following changes failed") and contains(., "request-9")]`, `//*[@data-feed="down"]`)
		s.store(as, "meanwhile.txt", "x", "text/plain")
		b.run(`window.cut = false`)
		b.click(button("Try again"))
		b.waitVisible(`//*[@data-feed="live"]`, entry("meanwhile.txt"))
		b.do(chromedp.WaitNotPresent(`//*[@role="alert"]`))
	})
	t.Run("a place is shown as it is after two failures, a change while it was loaded, one that cannot be read, and many at once", func(t *testing.T) {
		b := signedIn(t)
		b.runInNewPages(holding)
		b.runInNewPages(`{
			const real = fetch
			window.refuse = ["manifest?limit=1", "manifest?limit=1"]
			window.fetch = (address, init) => {
				const at = refuse.findIndex((part) => String(address).includes(part))
				return at < 0 ? real(address, init) : (refuse.splice(at, 1), Promise.resolve(` + refusedBusy + `))
			}
		}`)
		b.visit(s.base+"/console/files?place=shared/templates", "Files")
		b.waitVisible(`//*[@role="alert" and contains(., "Loading the files failed")]`)
		b.retryAll()

		reads := func() string {
			return read(b, chromedp.Evaluate[string](`String(performance.getEntriesByType("resource").filter((r) => r.name.includes("manifest?since")).length)`))
		}
		before := reads()
		b.run(`hold = "GET /console/api/v1/sync/files"`)
		b.click(`//*[@role="treeitem" and contains(., "Shared files")]`)
		b.eventually("1", func() string { return read(b, chromedp.Evaluate[string](`String(held.length)`)) })
		s.store(as, "missed.txt", "x", "text/plain")
		b.eventually("true", func() string { return fmt.Sprint(reads() != before) })
		read(b, chromedp.Evaluate[int](`release()`, chromedp.EvalAwaitPromise))
		b.waitVisible(entry("missed.txt"))

		b.run(`refuse.push("manifest?since")`)
		s.store(as, "unread.txt", "x", "text/plain")
		b.waitVisible(entry("unread.txt"))
		const many = 30
		n, began := len(b.requested("manifest?since")), time.Now()
		for i := range many {
			s.store(as, fmt.Sprintf("many/%d.txt", i), "x", "text/plain")
		}
		b.waitVisible(fmt.Sprintf(`//*[@class="entry" and contains(., "%d files")]`, many))
		if n = len(b.requested("manifest?since")) - n; n > 2+int(time.Since(began).Seconds()) {
			t.Errorf("%d changes are read by %d requests in %v", many, n, time.Since(began))
		}
	})
	t.Run("many files, and folders, are uploaded with progress, can be cancelled, and tried again", func(t *testing.T) {
		b := signedIn(t)
		b.visit(shared+"&folder=up", "Files")
		b.run(planned)
		var names []string
		for i := range 12 {
			names = append(names, fmt.Sprintf("file-%02d.txt", i))
		}
		b.run(`plans.push(503)`)
		b.upload(names...)
		b.waitVisible(`//h2[.="11 of 12 files uploaded"]`, uploaded("up/file-00.txt", "failed"), `//*[@role="alert" and contains(., "The server is busy") and contains(., "request-7")]`)
		b.click(button("Try again"))
		b.waitVisible(`//h2[.="12 of 12 files uploaded"]`, entry("file-00.txt"), entry("file-11.txt"))
		b.click(button("Close"))

		b.run(`plans.push("half")`)
		b.upload("halfway.bin")
		b.waitVisible(uploaded("up/halfway.bin", "sending")+`[contains(., "50 % of 11 bytes")]//progress`, `//*[@aria-labelledby="uploads"]/progress`)
		b.click(`//button[@aria-label="Cancel up/halfway.bin"]`)
		b.waitVisible(uploaded("up/halfway.bin", "cancelled"))
		b.click(button("Close"))

		b.upload("file-00.txt", "file-01.txt")
		b.waitVisible(`//div[button[@aria-label="Keep both of up/file-00.txt"]]`+requestID, button("Replace all 2"))
		b.click(`//button[@aria-label="Keep both of up/file-00.txt"]`)
		b.waitVisible(entry("file-00 (2).txt"))
		b.click(`//button[@aria-label="Replace up/file-01.txt"]`)
		b.waitVisible(`//h2[.="2 of 2 files uploaded"]`)
		b.click(button("Close"))

		b.run(`{
			const input = document.querySelector("label:nth-of-type(2) input")
			if (!input.webkitdirectory) throw new Error("not for folders")
			const files = ["tree/a.md", "tree/deep/b.md"].map((path) => Object.defineProperty(new File([path], path.split("/").pop()), "webkitRelativePath", { value: path }))
			Object.defineProperty(input, "files", { value: files })
			input.dispatchEvent(new Event("change", { bubbles: true }))
		}`)
		b.waitVisible(`//h2[.="2 of 2 files uploaded"]`, entry("tree"))
		b.click(button("Close"))

		disk := t.TempDir()
		must.NoError(t, os.MkdirAll(filepath.Join(disk, "branch", "deep"), 0o700))
		for _, path := range []string{"leaf.md", "branch/one.md", "branch/deep/two.md"} {
			must.NoError(t, os.WriteFile(filepath.Join(disk, path), []byte(path), 0o600))
		}
		b.drop(".folder", filepath.Join(disk, "leaf.md"), filepath.Join(disk, "branch"))
		b.waitVisible(`//h2[.="3 of 3 files uploaded"]`, entry("branch"), entry("leaf.md"))
		b.click(button("Close"))

		b.upload("data.json")
		b.waitVisible(entry("data.json"))
		b.click(button("Close"))
		b.upload("data.json")
		b.click(`//button[@aria-label="Replace up/data.json"]`)
		b.waitVisible(`//h2[.="1 of 1 files uploaded"]`)
		b.click(button("Close"))

		b.run(`plans.push("cut")
			const input = document.querySelector("label:nth-of-type(1) input")
			Object.defineProperty(input, "files", { value: [new File([new Uint8Array(9_000_000)], "big.bin")] })
			input.dispatchEvent(new Event("change", { bubbles: true }))`)
		b.waitVisible(`//*[@role="alert" and contains(., "The server cannot be reached")]`)
		b.click(button("Try again"))
		b.waitVisible(`//h2[.="1 of 1 files uploaded"]`, entry("big.bin"))
		must.Is(t, 1, b.countRequests("/sync/changes"))
		found := s.stored(as)
		if _, there := found["up/halfway.bin"]; there || found["up/file-01.txt"].Version != 2 || found["up/file-00 (2).txt"].Version != 1 || found["up/tree/deep/b.md"].Version != 1 || found["up/big.bin"].Version != 1 {
			t.Errorf("the files are %v", found)
		}
		if r := found["up/data.json"]; r.MimeType != "application/json" || r.Size != int64(len("data.json")) || r.Version != 2 {
			t.Errorf("the file of JSON is %v", r)
		}
	})
	t.Run("full storage is said, nothing more is sent, and all is sent again once there is more", func(t *testing.T) {
		bob := s.signIn("bob@collab.example", "Full Engines", "")
		b := openTab(t)
		b.enterConsole(s, "Bob", "Full Engines")
		b.visit(shared, "Files")
		b.run(`{
			const input = document.querySelector("label:nth-of-type(1) input")
			Object.defineProperty(input, "files", { value: [0, 1, 2, 3, 4, 5].map((n) => new File([new Uint8Array(2_000_000)], "big-" + n + ".bin")) })
			input.dispatchEvent(new Event("change", { bubbles: true }))
		}`)
		b.waitVisible(uploaded("big-5.bin", "failed")+`[contains(., "The upload failed") and contains(., "Request")]`, button("Try all again"))
		b.checkText("0 of 6 files uploaded")
		s.grant(bearer(bob.Token), "PREMIUM")
		b.click(button("Try all again"))
		b.waitVisible(`//h2[.="6 of 6 files uploaded"]`)
	})
	t.Run("a file that was changed before it is replaced can be kept beside", func(t *testing.T) {
		r := s.store(as, "beside/both.txt", "x", "text/plain")
		b := signedIn(t)
		b.visit(shared+"&folder=beside", "Files")
		b.upload("both.txt")
		b.waitVisible(`//button[@aria-label="Replace beside/both.txt"]`)
		s.call("PUT", "/sync/files/"+r.ID, as, map[string]any{"content": "y"}, http.StatusOK)
		b.click(`//button[@aria-label="Replace beside/both.txt"]`)
		b.eventually("refused", func() string { // it was refused before, too
			return read(b, chromedp.Evaluate[string](fmt.Sprintf(`performance.getEntriesByType("resource").some((r) => r.responseStatus === 409 && r.name.includes("/sync/files/%s")) ? "refused" : ""`, r.ID)))
		})
		b.waitVisible(uploaded("beside/both.txt", "failed"))
		b.click(`//button[@aria-label="Keep both of beside/both.txt"]`)
		b.waitVisible(entry("both (2).txt"))
		s.store(as, "beside/.env", "x", "text/plain")
		b.upload(".env")
		b.click(`//button[@aria-label="Keep both of beside/.env"]`)
		b.waitVisible(entry(".env (2)"))
	})
	t.Run("contents are shown, and what is hostile in them does nothing", func(t *testing.T) {
		hostile := "# Plan\n\n<script>window.hacked = 1</script>\n<img src=x onerror=\"window.hacked = 1\">\n\n![leak](https://elsewhere.example/leak.png?secret)\n" +
			"[click](javascript:window.hacked=1) [data](data:text/html,x) [good](https://collab.example/good)\n\n- one\n  - two\n- [x] done\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n**bold** and `code`\n"
		svg := `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="window.hacked=1"><script>parent.hacked=1;window.hacked=1</script><image href="https://elsewhere.example/x.png"/><rect width="40" height="40"/></svg>`
		var picture bytes.Buffer
		must.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))))
		pdf := "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]>>endobj\ntrailer<</Root 1 0 R>>\n"
		s.store(as, "shown/plan.md", hostile, "text/markdown")
		s.store(as, "shown/page.html", "<script>window.hacked = 1</script>", "text/html")
		s.store(as, "shown/evil.svg", svg, "image/svg+xml")
		s.store(as, "shown/dot.png", picture.String(), "image/png")
		s.store(as, "shown/paper.pdf", pdf, "application/pdf")
		s.store(as, "shown/false.pdf", "<script>window.hacked = 1</script>", "application/pdf")
		s.store(as, "shown/data.bin", "\x00\x01", "application/octet-stream")
		b := signedIn(t)
		show := func(name string) {
			b.visit(shared+"&folder=shown", "Files")
			b.click(entry(name))
			b.waitVisible(fmt.Sprintf(`//h2[.=%q]`, name))
		}
		show("plan.md")
		b.waitVisible(`//*[@class="markdown"]//h3[.="Plan"]`, `//*[@class="markdown"]//strong[.="bold"]`, `//*[@class="markdown"]//td[.="2"]`, `//*[@class="markdown"]//li//li[.="two"]`)
		b.checkText("<script>window.hacked = 1</script>", `<img src=x onerror="window.hacked = 1">`, "Image: leak")
		links := read(b, chromedp.Evaluate[[]string](`[...document.querySelectorAll(".markdown a, .markdown img, .markdown script")].map((e) => e.href ?? e.tagName)`))
		if want := []string{"https://elsewhere.example/leak.png?secret", "https://collab.example/good"}; !slices.Equal(links, want) {
			t.Errorf("the text leads to %q", links)
		}
		b.click(button("Source"))
		b.waitVisible(`//pre[contains(., "![leak](https://elsewhere.example")]`)
		show("page.html")
		b.waitVisible(`//pre[.="<script>window.hacked = 1</script>"]`)
		show("evil.svg")
		b.waitVisible(`//img[@alt="evil.svg"]`)
		show("dot.png")
		b.waitVisible(`//img[@alt="dot.png" and starts-with(@src, "blob:")]`)
		must.Is(t, 8, read(b, chromedp.Evaluate[int](`document.querySelector("img.content").naturalWidth`)))
		show("paper.pdf")
		b.waitVisible(`//iframe[@title="paper.pdf" and starts-with(@src, "blob:")]`)
		show("false.pdf")
		b.waitVisible(`//p[contains(., "not that of such a file")]`)
		show("data.bin")
		b.waitVisible(`//p[contains(., "are not shown here")]`)
		show("evil.svg")
		b.waitVisible(`//img[@alt="evil.svg"]`)
		s.call("PATCH", "/sync/files/"+s.stored(as)["shown/evil.svg"].ID, as, map[string]any{"path": "shown/evil.pdf"}, http.StatusOK)
		b.waitVisible(`//h2[.="evil.pdf"]`, `//p[contains(., "not that of such a file")]`)
		if hacked := read(b, chromedp.Evaluate[bool](`"hacked" in window`)); hacked {
			t.Error("a script of a file has run")
		}
		b.checkProblems(s.base, "blob:"+s.base, "chrome-extension:")
	})
	t.Run("with the keyboard alone versions have addresses, are compared, and restored, which can be undone", func(t *testing.T) {
		r := s.store(as, "versions.txt", "one\ntwo\nthree\n", "text/plain")
		s.call("PUT", "/sync/files/"+r.ID, as, map[string]any{"content": "one\n2\nthree\n"}, http.StatusOK)
		b := signedIn(t)
		b.visit(shared+"&file="+r.ID, "Files")
		b.waitVisible(`//pre[contains(., "2")]`, `//a[.="Version 1"]`)
		b.enterOn("Version 1")
		b.waitVisible(`//*[@class="first" and contains(., "two")]`, `//*[@class="second" and contains(., "2")]`)
		b.do(chromedp.Reload())
		b.waitVisible(`//*[@class="first" and contains(., "two")]`)
		b.enterOn("Changes since")
		b.waitVisible(`//pre[contains(., "two")]`)
		b.enterOn("Restore this version")
		b.waitVisible(`//*[@data-open="true" and contains(., "version 1 is the present one now")]`, `//pre[contains(., "two")]`)
		b.tabTo("Rename")
		b.chord("z", chromedp.ModifierCtrl)
		b.waitVisible(`//pre[contains(., "2")]`, `//p[contains(., "version 4")]`)
		b.do(chromedp.Navigate(shared + "&version=3&file=" + r.ID))
		b.waitVisible(`//*[@class="first" and contains(., "two")]`)
		b.run(`{
			const real = fetch
			window.fetch = (address, init) => String(address).endsWith("/restore") ? (window.fetch = real, Promise.resolve(` + refusedBusy + `)) : real(address, init)
		}`)
		b.enterOn("Restore this version")
		b.waitVisible(`//*[@role="alert" and contains(., "Restoring the version failed")]`)
		s.call("PUT", "/sync/files/"+r.ID, as, map[string]any{"content": "other\n"}, http.StatusOK)
		b.waitVisible(`//p[contains(., "version 5")]`)
		b.enterOn("Try again")
		b.waitVisible(`//*[@data-open="true" and contains(., "version 3 is the present one now")]`, `//p[contains(., "version 6")]`)
		s.call("PUT", "/sync/files/"+r.ID, as, map[string]any{"content": "another\n"}, http.StatusOK)
		b.tabTo("Rename")
		b.chord("z", chromedp.ModifierCtrl)
		b.waitVisible(`//*[@role="alert" and contains(., "Restoring the version failed")]`, `//p[contains(., "version 7")]`)
		b.clearProblems() // of the 409
		long := s.store(as, "long.txt", strings.Repeat("one line\n", 116_500)+"first", "text/plain")
		s.call("PUT", "/sync/files/"+long.ID, as, map[string]any{"content": strings.Repeat("one line\n", 116_500) + "other"}, http.StatusOK)
		b.do(chromedp.Navigate(shared + "&version=1&file=" + long.ID))
		b.waitVisible(`//p[starts-with(., "1 MiB")]`, `//p[contains(., "Only the first 256 KiB of each are compared")]`, `//p[.="There is no difference."]`)
		b.checkProblems(s.base)
	})
	t.Run("with the keyboard alone a file is found in the tree, opened, renamed, deleted and restored, and others are uploaded", func(t *testing.T) {
		r := s.store(as, "keys/plan.txt", "x", "text/plain")
		b := signedIn(t)
		b.visit(shared, "Files")
		b.waitVisible(`//*[@role="treeitem" and .="keys"]`)
		b.tabTo("▾Shared files")
		b.keyTo(kb.ArrowDown, "keys")
		b.key(kb.ArrowLeft, kb.ArrowLeft)
		b.do(chromedp.WaitNotPresent(`//*[@role="treeitem" and .="keys"]`))
		b.key(kb.ArrowRight)
		b.waitVisible(`//*[@role="treeitem" and .="keys"]`)
		b.keyTo(kb.ArrowDown, "keys")
		b.key(kb.Enter)
		b.waitVisible(entry("plan.txt"))
		b.tabTo("Upload files")
		b.upload("new.txt")
		b.waitVisible(entry("new.txt"))
		b.tabTo("new.txt")
		b.keyTo(kb.ArrowDown, "plan.txt")
		b.key(kb.Enter)
		b.waitVisible(`//h2[.="plan.txt"]`)
		b.enterOn("Rename")
		b.tabTo("Path within its place")
		b.key("keys/notes.txt", kb.Enter)
		b.do(chromedp.WaitNotPresent(chromedp.CSS("dialog")))
		b.waitVisible(`//h2[.="notes.txt"]`)
		b.enterOn("Delete")
		b.waitVisible(`//*[@data-open="true" and contains(., "notes.txt was deleted")]`)
		b.chord("z", chromedp.ModifierCtrl)
		b.waitVisible(entry("notes.txt"))
		b.tabTo("new.txt")
		b.keyTo(kb.ArrowDown, "notes.txt")
		b.enterOn("Actions for notes.txt")
		b.waitVisible(choice("Delete"))
		b.key(kb.End, kb.Enter)
		b.do(chromedp.WaitNotPresent(entry("notes.txt")))
		b.enterOn("Deleted files")
		b.waitVisible(`//button[@aria-label="Restore keys/notes.txt"]`)
		b.enterOn("Restore keys/notes.txt")
		b.do(chromedp.WaitNotPresent(`//button[@aria-label="Restore keys/notes.txt"]`))
		if got := s.stored(as)["keys/notes.txt"]; got.ID != r.ID {
			t.Errorf("the restored file is %v", got)
		}
		b.enterOn("Shared files")
		b.waitVisible(entry("keys"))
		b.tabTo("Upload files")
		b.checkProblems(s.base)
	})
}

func TestMemories(t *testing.T) {
	s, as := startOwned(t, "COLLAB_PLAN_VERSIONS=off") // so that a memory that is stored again begins with version 1
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	saved := func(content string, version int) {
		s.call("PUT", "/sync/memory/org", as, map[string]any{"content": content, "expectedVersion": version}, http.StatusOK)
	}
	now := func() record {
		return decode[record](t, s.call("GET", "/sync/memory/org", as, nil, http.StatusOK))
	}
	write := func(b *tab, text string) {
		b.t.Helper()
		b.do(chromedp.Focus(`//textarea[@id="text"]`), chromedp.SendKeys(`//textarea[@id="text"]`, text))
	}

	t.Run("of a conflict both sides are shown, and either can be kept", func(t *testing.T) {
		b := openPage(t, s, "Ada", "/console/memories?memory=org", "Memories")
		b.waitVisible(`//*[@data-feed="live"]`)
		b.checkText("Nothing is stored yet")
		write(b, "# Ours")
		b.click(button("Save"))
		b.waitVisible(`//p[contains(., "Version 1")]`)
		b.do(chromedp.WaitNotPresent(`//*[.="Not saved"]`))
		write(b, " and mine")
		saved("# Theirs", 1)
		b.waitVisible(`//*[@role="alert" and contains(., "Ada has changed this memory")]`, `//textarea[@id="theirs"]`, `//*[@class="second" and contains(., "mine")]`)
		must.Is(t, "# Ours and mine", b.value("text"))
		b.click(button("Save mine"))
		b.waitVisible(`//p[contains(., "Version 3")]`)
		if got := now(); got.Content != "# Ours and mine" {
			t.Errorf("stored is %q", got.Content)
		}
		b.do(chromedp.WaitNotPresent(`//*[.="Not saved"]`))
		write(b, ", more")
		saved("# Theirs again", 3)
		b.waitVisible(`//textarea[@id="theirs"]`)
		b.click(button("Take theirs"))
		b.do(chromedp.WaitNotPresent(`//textarea[@id="theirs"]`))
		if text := b.value("text"); text != "# Theirs again" || now().Version != 4 {
			t.Errorf("the text is %q, stored is %v", text, now())
		}
		write(b, " and mine")
		s.call("DELETE", "/sync/files/"+now().ID, as, nil, http.StatusOK)
		saved("# Theirs anew", 0)
		b.waitVisible(`//textarea[@id="theirs"]`)
		b.click(button("Save mine"))
		b.waitVisible(`//p[contains(., "Version 2")]`)
		b.do(chromedp.WaitNotPresent(`//textarea[@id="theirs"]`))
		must.Is(t, "# Theirs again and mine", now().Content)
		b.checkProblems(s.base)
	})
	t.Run("a memory whose place cannot be read says so, and follows it after another attempt", func(t *testing.T) {
		b := openTab(t)
		b.busyOnce("/sync/manifest?limit=1")
		b.enterPage(s, "Ada", "/console/memories?memory=org", "Memories")
		b.waitVisible(`//*[@role="alert" and contains(., "Following the memory failed") and contains(., "request-1")]`)
		b.click(button("Try again"))
		b.waitVisible(`//p[contains(., "Version 2") and contains(., "by Ada")]`)
		b.do(chromedp.WaitNotPresent(`//*[@role="alert"]`))
	})
	t.Run("what is saved again while it is saved is saved once", func(t *testing.T) {
		b := openTab(t)
		b.runInNewPages(holding)
		b.enterPage(s, "Ada", "/console/memories?memory=org", "Memories")
		before := now().Version
		write(b, " once")
		b.run(`hold = "PUT /console/api/v1/sync/memory/org"`)
		b.chord("s", chromedp.ModifierCtrl)
		b.chord("s", chromedp.ModifierCtrl)
		b.click(button("Save"))
		b.eventually("1", func() string { return read(b, chromedp.Evaluate[string](`String(held.length)`)) })
		read(b, chromedp.Evaluate[int](`release()`, chromedp.EvalAwaitPromise))
		b.waitVisible(fmt.Sprintf(`//p[contains(., "Version %d")]`, before+1))
		b.do(chromedp.WaitNotPresent(`//*[.="Not saved"]`))
		must.Is(t, before+1, now().Version)
		b.checkProblems(s.base) // such as 409
	})
	t.Run("a memory of a workspace is added by keyboard, and is in the tree of files", func(t *testing.T) {
		s.call("POST", "/auth/seed-onboarding", as, nil, http.StatusOK)
		name := decode[[]struct{ Name string }](t, s.call("GET", "/workspaces", as, nil, http.StatusOK))[0].Name
		b := openPage(t, s, "Ada", "/console/memories", "Memories")
		if each := b.requested("/sync/memory/workspace/"); len(each) > 0 {
			t.Errorf("workspaces are asked for their memories one by one: %v", each)
		}
		b.keyOn(fmt.Sprintf(`//summary[@aria-label="Add a memory of %s"]`, name), kb.Enter, kb.Tab)
		field := fmt.Sprintf(`//input[@aria-label="Name of a new memory of %s"]`, name)
		b.do(chromedp.SendKeys(field, "habits"), chromedp.Reload())
		b.waitConsole("Memories")
		b.do(chromedp.SendKeys(field, kb.Enter)) // the name is kept
		b.waitVisible(`//h2[.="habits.md"]`)
		write(b, "Short names.")
		b.click(button("Save"))
		b.waitVisible(`//p[contains(., "Version 1")]`, `//a[.="habits.md"]`)
		b.click(`//a[.="Versions"]`)
		b.waitVisible(`//*[@role="treeitem" and @aria-expanded="true" and contains(., "Memories")]`, fmt.Sprintf(`//*[@role="treeitem" and @aria-selected="true" and contains(., "Memory of %s")]`, name))
		b.keyOn(`//*[@role="treeitem" and contains(., "Memories")]`, kb.Enter)
		b.do(chromedp.WaitNotPresent(`//*[@role="treeitem" and contains(., "Memory of")]`))
		b.checkProblems(s.base)
	})
}

func TestFilesAndMemoriesAreAccessible(t *testing.T) {
	s, as := startOwned(t)
	s.call("POST", "/billing/trial", as, nil, http.StatusOK)
	s.call("POST", "/auth/seed-onboarding", as, nil, http.StatusOK)
	r := s.store(as, "plans/plan.md", "# Plan\n\n- [x] one\n\n| a |\n|---|\n| 1 |\n\n    code\n", "text/markdown")
	s.call("PUT", "/sync/files/"+r.ID, as, map[string]any{"content": "# Plan\n\n- [ ] one\n"}, http.StatusOK)
	s.store(as, "plain.txt", "text", "text/plain")
	deleted := s.store(as, "deleted.txt", "text", "text/plain")
	s.call("DELETE", "/sync/files/"+deleted.ID, as, nil, http.StatusOK)
	shared := s.base + "/console/files?place=shared/artifacts"

	b := openTab(t)
	b.resize(1280, 800, "light")
	b.bypassPolicy()
	b.enterConsole(s, "Ada", "Analytical Engines")
	b.visit(s.base+"/console/files", "Files")
	b.axe("files-empty")
	b.visit(shared, "Files")
	b.run(planned)
	b.run(`plans.push(503, "half")`)
	b.upload("a.txt", "b.txt", "plain.txt", "d.txt")
	b.waitVisible(uploaded("d.txt", "done"), uploaded("a.txt", "failed"), uploaded("b.txt", "sending"), `//button[@aria-label="Replace plain.txt"]`)
	b.axe("files")
	b.keyOn(entry("plain.txt"), kb.F2)
	b.waitVisible(`//dialog//input`)
	b.axe("files-rename")
	b.closeDialog()
	b.click(`//button[@aria-label="Cancel b.txt"]`)
	b.visit(shared+"&deleted=1", "Files")
	b.waitVisible(`//button[@aria-label="Restore deleted.txt"]`)
	b.axe("files-deleted")
	b.visit(shared+"&folder=plans&file="+r.ID, "Files")
	b.waitVisible(`//*[@class="markdown"]`)
	b.axe("file")
	b.visit(shared+"&folder=plans&file="+r.ID+"&version=1", "Files")
	b.waitVisible(`//*[@class="first"]`)
	b.axe("file-version")
	var picture bytes.Buffer
	must.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8))))
	s.store(as, "dot.png", picture.String(), "image/png")
	s.store(as, "paper.pdf", "%PDF-1.4\n", "application/pdf")
	for name, content := range map[string]string{"dot.png": `//img[@alt="dot.png"]`, "paper.pdf": `//iframe[@title="paper.pdf"]`} {
		b.visit(shared+"&file="+s.stored(as)[name].ID, "Files")
		b.waitVisible(content)
		b.axe(name)
	}
	b.visit(s.base+"/console/memories", "Memories")
	b.do(chromedp.SendKeys(`//textarea[@id="text"]`, "# Mine"))
	s.call("PUT", "/sync/memory/user", as, map[string]any{"content": "# Theirs"}, http.StatusOK)
	b.waitVisible(`//textarea[@id="theirs"]`)
	b.click(button("Preview"))
	b.axe("memories")
	b.visit(shared, "Files")
	b.resize(320, 800, "light") // where the menu opens within every screen
	b.click(`//button[@aria-label="Actions for plain.txt"]`)
	b.waitVisible(choice("Delete"))
	b.axe("file-menu")
}
