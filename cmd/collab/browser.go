package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// openTimeout bounds how long a command whose work is done waits for the browser.
const openTimeout = 10 * time.Second

var errOpenedTwice = errors.New("the page was opened twice, so another program may know its address: run the command again")

// browse opens an address in the browser and returns what wait returns, or nil once the page
// is open if wait is nil. The address may be a secret, and other users of the machine see the
// arguments of programs, so the browser is given another one, of this process, which leads to it
// once, and on Linux for this user alone. When it is opened again, the context of wait ends
// with errOpenedTwice.
func (a *app) browse(ctx context.Context, address string, wait func(context.Context) error) error {
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return fmt.Errorf("%q is no address of a page", address)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	path, opened := "/"+rand.Text(), make(chan struct{})
	var served atomic.Bool
	stop := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet || r.URL.Path != path || !isOwnConnection(r.RemoteAddr, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()):
			http.NotFound(w, r)
		case !served.CompareAndSwap(false, true):
			cancel(errOpenedTwice)
			http.Error(w, errOpenedTwice.Error(), http.StatusGone)
		default:
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Referrer-Policy", "no-referrer")
			http.Redirect(w, r, address, http.StatusSeeOther)
			close(opened)
		}
	}), listener)
	defer stop()
	if err := a.startBrowser("http://" + listener.Addr().String() + path); err != nil {
		a.printErrf("open it yourself: %v", err)
	} else if wait == nil {
		wait = func(ctx context.Context) error {
			select {
			case <-opened:
			case <-ctx.Done():
			case <-time.After(openTimeout):
			}
			return context.Cause(ctx)
		}
	}
	if wait == nil {
		return nil
	}
	return wait(ctx)
}

// serve serves HTTP until stop is called, which waits at most a second for requests to end.
func serve(handler http.Handler, listeners ...net.Listener) (stop func()) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	for _, l := range listeners {
		go func() { _ = server.Serve(l) }() // until Shutdown
	}
	return func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(end)
	}
}

// startBrowser starts the program that opens pages.
func (a *app) startBrowser(address string) error {
	if program := a.env("BROWSER"); program != "" {
		return exec.Command(program, address).Start()
	}
	switch runtime.GOOS {
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", address).Start()
	case "darwin":
		return exec.Command("open", address).Start()
	}
	return exec.Command("xdg-open", address).Start()
}
