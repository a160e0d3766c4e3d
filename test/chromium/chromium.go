// Package chromium starts Chromium without a screen, and measures in it what tests and the bench hold to the
// same limits.
package chromium

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Find returns the path of an installed browser, empty if there is none.
func Find() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// flags are those that each browser is started with.
var flags = []string{
	"headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update",
	"disable-sync", "disable-dev-shm-usage",
}

// Start starts the browser at a path with its profile in a folder. The browser lives until stop is called; the
// end of ctx does not end it. Contexts of its tabs are derived from the one that is returned.
func Start(ctx context.Context, path, profile string, more ...chromedp.ExecAllocatorOption) (browser context.Context, stop func() error, err error) {
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(profile)}
	for _, flag := range flags {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, release := chromedp.NewExecAllocator(context.WithoutCancel(ctx), append(options, more...)...)
	browser, _ = chromedp.NewContext(allocator)
	stop = func() error {
		defer release()
		return chromedp.Cancel(browser)
	}
	// The browser lives as long as the first context that something runs with.
	if err := chromedp.Do(browser); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return browser, stop, nil
}

// Transfer is one request of a tab.
type Transfer struct {
	Method, Address string
	Bytes           float64 // of the response, as it was transferred; 0 until it has ended
}

// Traffic has the requests of a tab in their order.
type Traffic struct {
	mu   sync.Mutex
	all  []*Transfer
	by   map[network.RequestID]*Transfer
	last time.Time // a request began or ended
}

// Watch returns the traffic of a tab from now on.
func Watch(tab context.Context) (*Traffic, error) {
	t := &Traffic{by: map[network.RequestID]*Transfer{}, last: time.Now()}
	if err := chromedp.Listen(tab, t.record); err != nil {
		return nil, err
	}
	_, err := chromedp.Call(tab, network.Enable, network.EnableParams{MaxTotalBufferSize: new(int64(1))}) // contents that are kept for developer tools would have the page's memory collected more often
	return t, err
}

// record records an event of the network.
func (t *Traffic) record(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		t.by[e.RequestID] = &Transfer{Method: e.Request.Method, Address: e.Request.URL}
		t.all = append(t.all, t.by[e.RequestID])
		t.last = time.Now()
	case *network.EventLoadingFinished:
		if transfer := t.by[e.RequestID]; transfer != nil {
			transfer.Bytes += e.EncodedDataLength
			t.last = time.Now()
		}
	}
}

// Take returns the requests since it was called last.
func (t *Traffic) Take() []Transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Transfer, len(t.all))
	for i, transfer := range t.all {
		all[i] = *transfer
	}
	t.all = nil
	clear(t.by)
	return all
}

// Settle waits until no request has begun or ended for a while, and returns the requests as Take does.
func (t *Traffic) Settle(ctx context.Context, while time.Duration) ([]Transfer, error) {
	for {
		t.mu.Lock()
		left := time.Until(t.last.Add(while))
		t.mu.Unlock()
		if left <= 0 {
			return t.Take(), nil
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Bytes returns the bytes of the transfers whose addresses contain part.
func Bytes(all []Transfer, part string) (sum float64) {
	for _, transfer := range all {
		if strings.Contains(transfer.Address, part) {
			sum += transfer.Bytes
		}
	}
	return sum
}
