package httpapi

import (
	"net/http"

	"github.com/gorilla/mux"

	"collab/domain/fault"
	"collab/domain/session"
)

// consolePrefix is the path prefix of the console.
const consolePrefix = "/console"

// Console is the web console below /console.
type Console interface {
	// IsFile reports whether the path is that of a file, which is the same for everyone and is
	// served without limits on how often.
	IsFile(path string) bool

	// Serve replies to a request of a client, or returns an error before anything was sent. ID is
	// the request's.
	Serve(w http.ResponseWriter, r *http.Request, from session.Client, id string) error
}

// routeConsole adds the console to the router, and the redirect of browsers from / to it.
func (a *api) routeConsole(root *mux.Router) {
	serve := func(c *call) error { return a.Console.Serve(c, c.r, c.client(), c.id) }
	series := a.newSeries(consolePrefix + "/*")
	file := &endpoint{row: row{Path: consolePrefix + "/*", Guard: unlimited, Handle: serve}, series: series}
	other := &endpoint{row: row{Path: consolePrefix + "/*", Guard: browser, Handle: serve}, series: series}
	front := &endpoint{row: row{Path: "/", Guard: unlimited, Handle: openConsole}, series: a.newSeries("/")}
	root.Path("/").HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.serveAt(front, w, r)
	})
	root.PathPrefix(consolePrefix).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Console.IsFile(r.URL.Path) {
			a.serveAt(file, w, r)
		} else {
			a.serveAt(other, w, r)
		}
	})
}

// openConsole redirects browsers to the console. Other clients get NotFound.
func openConsole(c *call) error {
	c.Header().Add("Vary", "Accept")
	if !c.prefersPage() {
		return fault.New(fault.NotFound, "There is no such endpoint")
	}
	c.redirect(http.StatusSeeOther, consolePrefix)
	return nil
}
