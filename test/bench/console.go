package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// consoleReady is the goal of the console's first load.
var consoleReady = atMost("console", "until today's figures are shown", "%.0f ms", 1_000)

// The conditions of a first load: those that Chromium's developer tools call Fast 4G, and a
// processor that takes four times as long.
const (
	mobileLatency  = 165.0               // ms
	mobileDownload = 9_000_000 / 8 * 0.9 // bytes/s
	mobileUpload   = 1_500_000 / 8 * 0.9 // bytes/s
	slowdown       = 4.0
)

// loadWithin bounds the browser's work, from its start to its end.
const loadWithin = 2 * time.Minute

// noteFigures has a page note when it shows the figures of today, in milliseconds since the
// navigation began.
const noteFigures = `new MutationObserver((_, observer) => {
	if (document.querySelector("main")?.textContent.includes("Tokens today")) {
		window.shownAt = performance.now()
		observer.disconnect()
	}
}).observe(document, { childList: true, subtree: true, characterData: true })`

// firstLoad is one load of the console with an empty cache.
type firstLoad struct {
	shown    float64 // ms
	requests int
	bytes    float64 // of the answers, as they were transferred
}

// console measures the first load of the console's first page by a person who is signed in, in
// Chromium. It measures nothing where there is none.
func (b *bench) console(ctx context.Context) (err error) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if browser, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		fmt.Fprintln(b.out, "\nThe console is not measured: there is no Chromium.")
		return nil
	}
	c, err := b.startCollab(ctx, "collabd-console", "sqlite")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if _, err := c.call(ctx, "POST", "/api/v1/billing/trial", "application/json", "", nil); err != nil {
		return err
	}
	profile, err := os.MkdirTemp(b.folder, "chromium-")
	if err != nil {
		return err
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(browser), chromedp.UserDataDir(filepath.Clean(profile))}
	for _, flag := range []string{"headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, release := chromedp.NewExecAllocator(context.WithoutCancel(ctx), options...)
	defer release()
	whole, _ := chromedp.NewContext(allocator)
	defer func() { err = errors.Join(err, chromedp.Cancel(whole)) }()
	// The browser lives as long as the first context that something runs with.
	if err := chromedp.Do(whole); err != nil {
		return err
	}
	tab, done := context.WithTimeout(whole, loadWithin)
	defer done()
	defer context.AfterFunc(ctx, done)()
	loads, err := firstLoads(tab, whole, "http://"+c.address, b.rounds)
	if err != nil {
		return err
	}
	shown := func(l firstLoad) float64 { return l.shown }
	t := b.newTable(fmt.Sprintf("First load of the console, %.0f ms and %.1f Mbit/s, a processor %.0f times slower", mobileLatency, mobileDownload*8/1e6, slowdown),
		"requests", "kB", "figures shown after", "target")
	middle := median(loads, shown)
	t.row(fmt.Sprint(median(loads, func(l firstLoad) int { return l.requests })), fmt.Sprintf("%.1f", median(loads, func(l firstLoad) float64 { return l.bytes })/1000),
		fmt.Sprintf("%.0f ms", middle), b.judge(consoleReady, "Fast 4G, processor 4 times slower", middle))
	t.print()
	return nil
}

// firstLoads signs in to the console of a server and loads it again and again, each time
// without a cache. The browser is that of whole, and tab has a time limit.
func firstLoads(tab, whole context.Context, server string, rounds int) (all []firstLoad, err error) {
	events := make(chan any, 1024)
	if err := chromedp.Listen(whole, func(event any) {
		switch event.(type) {
		case *network.EventRequestWillBeSent, *network.EventLoadingFinished:
			select {
			case events <- event:
			default: // more than any load has
			}
		}
	}); err != nil {
		return nil, err
	}
	if err := chromedp.Do(tab,
		chromedp.Navigate(server+"/"),
		chromedp.Click(`//a[normalize-space()="Sign in"]`), chromedp.WaitVisible(`//button[normalize-space()="Sign in"]`),
		chromedp.Click(`//button[normalize-space()="Sign in"]`), chromedp.WaitVisible(`//h2[.="Tokens today"]`),
	); err != nil {
		return nil, fmt.Errorf("signing in: %w", err)
	}
	_, err = chromedp.Call(tab, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(tab, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	_, err3 := chromedp.Call(tab, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Latency: mobileLatency, DownloadThroughput: mobileDownload, UploadThroughput: mobileUpload}},
	})
	_, err4 := chromedp.Call(tab, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: slowdown})
	_, err5 := chromedp.Call(tab, cdppage.Enable, cdppage.EnableParams{})
	_, err6 := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: noteFigures})
	if err := errors.Join(err, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	for range rounds {
		for len(events) > 0 {
			<-events
		}
		if err := chromedp.Do(tab, chromedp.Reload(), chromedp.WaitVisible(`//h2[.="Tokens today"]`), chromedp.WaitNotPresent(chromedp.CSS(`[aria-busy="true"]`))); err != nil {
			return nil, err
		}
		var l firstLoad
		if l.shown, err = chromedp.Run(tab, chromedp.Evaluate[float64](`window.shownAt`)); err != nil {
			return nil, err
		}
		for len(events) > 0 {
			switch e := (<-events).(type) {
			case *network.EventRequestWillBeSent:
				l.requests++
			case *network.EventLoadingFinished:
				l.bytes += e.EncodedDataLength
			}
		}
		all = append(all, l)
	}
	return all, nil
}
