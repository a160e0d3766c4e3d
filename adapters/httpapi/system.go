package httpapi

import (
	"context"
	"net/http"
	"time"

	"collab/domain/fault"
)

type stateView struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

// alive answers as long as the process does.
func (a *api) alive(c *call) error {
	c.Header()["Cache-Control"] = noStore
	return c.reply(http.StatusOK, stateView{"ok", a.Release})
}

// readyWithin is how long it may take to find out: who asks does not wait for
// a database that takes connections and then says nothing.
const readyWithin = 5 * time.Second

// ready answers whether requests can be served.
func (a *api) ready(c *call) error {
	c.Header()["Cache-Control"] = noStore
	ctx, cancel := context.WithTimeout(c.r.Context(), readyWithin)
	defer cancel()
	if err := a.Ready(ctx); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The service is not ready")
	}
	return c.reply(http.StatusOK, stateView{"ready", a.Release})
}

// metrics hands over to the measurements' own handler, nil where there is none.
func (a *api) metrics() handler {
	if a.Metrics == nil {
		return nil
	}
	return func(c *call) error {
		a.Metrics.ServeHTTP(c, c.r)
		return nil
	}
}

var shared = []string{"public, max-age=300"}

func (a *api) keys(c *call) error {
	c.public(shared)
	c.send(http.StatusOK, a.JWKS)
	return nil
}

func (a *api) document(c *call) error {
	c.public(shared)
	if c.unchanged(a.documentTag) {
		return nil
	}
	c.set("Etag", a.documentTag)
	c.send(http.StatusOK, a.Document)
	return nil
}
