package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"collab/test/chromium"
	"collab/test/must"
)

// Goals of the console.
var (
	consoleBytes    = atMost("console", "kB of the first load", "%.1f kB", chromium.FirstLoadBytes/1000)
	consoleRequests = atMost("console", "requests of the first load", "%.0f", chromium.FirstLoadRequests)
	consoleReady    = atMost("console", "until today's figures are shown", "%.0f ms", 1_000)
	consolePage     = atMost("console", "kB of the files of a further page", "%.1f kB", chromium.PageBytes/1000)
	consoleStall    = atMost("console", "longest stall", "%.0f ms", 50)
)

// The conditions of a first load: the network that Chromium's developer tools call Fast 4G, and a processor that
// is four times slower.
const (
	mobileLatency  = 165.0               // ms
	mobileDownload = 9_000_000 / 8 * 0.9 // bytes/s
	mobileUpload   = 1_500_000 / 8 * 0.9 // bytes/s
	slowdown       = 4.0
)

const (
	consoleTimeout = 10 * time.Minute       // limit of the time of the browser
	settled        = 500 * time.Millisecond // without requests, after which a page is loaded
	scrolledTasks  = 10_000
	costRepeats    = 300 // of the requests of a page, for the measurement of the server's processor time
)

// recordFigures makes a page record when it shows the figures of today, in milliseconds since the beginning of the
// navigation.
const recordFigures = `new MutationObserver((_, observer) => {
	if (document.querySelector("main")?.textContent.includes("Tokens today")) {
		window.shownAt = performance.now()
		observer.disconnect()
	}
}).observe(document, { childList: true, subtree: true, characterData: true })`

var figuresShown = chromedp.WaitVisible(`//h2[.="Tokens today"]`)
var nothingLoads = chromedp.WaitNotPresent(chromedp.CSS(`[aria-busy="true"]`))

// consoleTab is a tab of Chromium with the console of a server, without a cache.
type consoleTab struct {
	context.Context
	*collab
	traffic *chromium.Traffic
}

// console measures the console in Chromium for an organisation with many tasks. It does nothing if Chromium is not
// installed.
func (b *bench) console(ctx context.Context) {
	path := chromium.Find()
	if path == "" {
		fmt.Fprintln(b.out, "\nThe console is not measured: there is no Chromium.")
		return
	}
	server := b.startOnSQLite(ctx, "console", scrolledTasks)
	must.Do(server.call(ctx, "POST", "/api/v1/billing/trial", "application/json", "", nil)).Or(b)
	// A chat, so that there are figures.
	const morning = `{"message": "Good morning", "maxTokens": 5}`
	must.Do(server.call(ctx, "POST", "/api/v1/chat", "application/json", morning, nil)).Or(b)
	profile := must.Do(os.MkdirTemp(b.folder, "chromium-")).Or(b)
	browser, stop, err := chromium.Start(ctx, path, profile)
	must.NoError(b, err)
	b.cleanup(stop)
	limited, done := context.WithTimeout(browser, consoleTimeout)
	defer done()
	defer context.AfterFunc(ctx, done)()
	tab := consoleTab{Context: limited, collab: server.collab}
	tab.traffic = must.Do(chromium.Watch(browser)).Or(b)
	if err := tab.enter(); err != nil {
		b.Errorf("signing in: %w", err)
	}
	b.furtherPages(ctx, tab)
	b.scrolling(tab)
	b.firstLoads(tab)
}

// enter signs in to the console.
func (c consoleTab) enter() error {
	if _, err := chromedp.Call(c, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}); err != nil {
		return err
	}
	return chromedp.Do(c, chromedp.EmulateViewport(1280, 800), chromedp.Navigate("http://"+c.address+"/"),
		chromedp.Click(`//a[normalize-space()="Sign in"]`), chromedp.WaitVisible(`//button[normalize-space()="Sign in"]`),
		chromedp.Click(`//button[normalize-space()="Sign in"]`), figuresShown)
}

// home reloads the first page.
func (c consoleTab) home() error {
	return chromedp.Do(c, chromedp.Navigate("http://"+c.address+"/console"), figuresShown, nothingLoads)
}

// furtherPages measures the requests of each page of the navigation that is opened from the first page, and the
// processor time of the server for them.
func (b *bench) furtherPages(ctx context.Context, tab consoleTab) {
	must.NoError(b, tab.home())
	const textAndPath = `[...document.querySelectorAll("#pages a")].map((a) => [a.textContent, a.pathname])`
	links := must.Do(chromedp.Run(tab, chromedp.Evaluate[[][2]string](textAndPath))).Or(b)
	t := b.newTable(fmt.Sprintf("Pages of the console, opened from the first one; %d tasks", scrolledTasks),
		"", "kB of its files", "", "requests", "kB of all", "server's CPU ms")
	for _, link := range links {
		name, path := link[0], link[1]
		tab.traffic.Take()
		must.NoError(b, tab.home())
		if path != "/console" {
			tab.traffic.Take()
			if err := chromedp.Do(tab, chromedp.Click(fmt.Sprintf(`//nav//a[@href=%q]`, path)),
				chromedp.WaitVisible(fmt.Sprintf(`//nav//a[@href=%q and @aria-current="page"]`, path)), nothingLoads); err != nil {
				b.Errorf("opening %s: %w", name, err)
			}
		}
		all := must.Do(tab.traffic.Settle(tab, settled)).Or(b)
		cpu := b.cost(ctx, tab, all)
		files, verdict := "", ""
		if path != "/console" {
			kb := chromium.Bytes(all, chromium.ConsoleFiles) / 1000
			files, verdict = fmt.Sprintf("%.1f", kb), b.judge(consolePage, name, kb)
		}
		t.row(name, files, verdict, fmt.Sprint(len(all)), fmt.Sprintf("%.1f", chromium.Bytes(all, "")/1000), millis(float64(cpu)))
	}
	t.print()
}

// cost returns the processor time of the server for the reads among a page's requests, without the feed, which
// does not end. They are repeated with the browser's session.
func (b *bench) cost(ctx context.Context, c consoleTab, page []chromium.Transfer) time.Duration {
	own := network.GetCookiesParams{URLs: []string{"http://" + c.address}}
	held := must.Do(chromedp.Call(c, network.GetCookies, own)).Or(b)
	before := must.Do(c.cpu()).Or(b)
	for range costRepeats {
		for _, transfer := range page {
			if transfer.Method != http.MethodGet || !strings.HasPrefix(transfer.Address, "http://"+c.address) || strings.HasSuffix(transfer.Address, "/sync/changes") {
				continue
			}
			request := must.Do(http.NewRequestWithContext(ctx, transfer.Method, transfer.Address, nil)).Or(b)
			for _, cookie := range held.Cookies {
				request.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
			}
			request.Header.Set("Sec-Fetch-Site", "same-origin")
			request.Header.Set("Accept-Encoding", "gzip")
			_, _, err := send(http.DefaultClient, request)
			must.NoError(b, err)
		}
	}
	return (must.Do(c.cpu()).Or(b) - before) / costRepeats
}

// slow makes the page's processor slower by the factor.
func (c consoleTab) slow(times float64) error {
	_, err := chromedp.Call(c, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: times})
	return err
}

// scrolling measures the longest stall while the list of tasks is scrolled to the end.
func (b *bench) scrolling(tab consoleTab) {
	t := b.newTable(fmt.Sprintf("Scrolling through a list of %d tasks, 900 pixels in each frame", scrolledTasks), "", "longest stall", "")
	for _, times := range []float64{1, slowdown} {
		var stalls []float64
		for range b.rounds {
			must.NoError(b, errors.Join(tab.slow(1), chromedp.Do(tab, chromedp.Navigate("http://"+tab.address+"/console/tasks"),
				chromedp.WaitVisible(`//*[@data-row]`), nothingLoads), tab.slow(times)))
			got := must.Do(chromedp.Run(tab, chromedp.Evaluate[[]float64](chromium.ScrollList, chromedp.EvalAwaitPromise))).Or(b)
			if got[1] < scrolledTasks {
				b.Errorf("the list has %.0f rows after scrolling", got[1])
			}
			stalls = append(stalls, got[0])
		}
		name, middle := fmt.Sprintf("processor %.0f times slower", times), median(stalls, identity)
		verdict := ""
		if times == 1 {
			name = "this processor"
			verdict = b.judge(consoleStall, fmt.Sprintf("%d tasks scroll", scrolledTasks), middle)
		}
		t.row(name, fmt.Sprintf("%.0f ms", middle), verdict)
	}
	t.print()
	must.NoError(b, tab.slow(1))
}

// firstLoad is one load of the console with an empty cache.
type firstLoad struct {
	shown    float64 // ms
	requests int
	bytes    float64 // transferred, of the responses
}

// firstLoads measures loads of the first page on a slow network and a slow processor.
func (b *bench) firstLoads(tab consoleTab) {
	_, err := chromedp.Call(tab, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Latency: mobileLatency, DownloadThroughput: mobileDownload, UploadThroughput: mobileUpload}},
	})
	_, err2 := chromedp.Call(tab, cdppage.Enable, cdppage.EnableParams{})
	_, err3 := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: recordFigures})
	must.NoError(b, errors.Join(err, err2, err3, tab.home(), tab.slow(slowdown)))
	var all []firstLoad
	for range b.rounds {
		tab.traffic.Take()
		must.NoError(b, chromedp.Do(tab, chromedp.Reload(), figuresShown, nothingLoads))
		shown := must.Do(chromedp.Run(tab, chromedp.Evaluate[float64](`window.shownAt`))).Or(b)
		loaded := must.Do(tab.traffic.Settle(tab, settled)).Or(b)
		all = append(all, firstLoad{shown, len(loaded), chromium.Bytes(loaded, "")})
	}
	t := b.newTable(fmt.Sprintf("First load of the console, %.0f ms and %.1f Mbit/s, a processor %.0f times slower", mobileLatency, mobileDownload*8/1e6, slowdown),
		"requests", "", "kB", "", "figures shown after", "")
	requests := float64(median(all, func(l firstLoad) int { return l.requests }))
	kb := median(all, func(l firstLoad) float64 { return l.bytes }) / 1000
	ready := median(all, func(l firstLoad) float64 { return l.shown })
	const load = "Fast 4G, processor 4 times slower"
	t.row(fmt.Sprintf("%.0f", requests), b.judge(consoleRequests, load, requests), fmt.Sprintf("%.1f", kb), b.judge(consoleBytes, load, kb),
		fmt.Sprintf("%.0f ms", ready), b.judge(consoleReady, load, ready))
	t.print()
}
