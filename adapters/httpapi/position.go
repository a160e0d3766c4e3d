package httpapi

import (
	"net/http"
	"strings"
)

// positionHeader has a position of the store, from which lists may be read that may be stale (see
// ports.Store.From).
const positionHeader = "Collab-Position"

// unlisted are the beginnings of paths whose changes no such list shows.
var unlisted = []string{prefix + "/tasks", prefix + "/teams", prefix + "/workspaces", prefix + "/sync/"}

// position returns the position that the request has, or "".
func (a *api) position(c *call) string {
	if v := c.r.Header[positionHeader]; a.Position != nil && len(v) == 1 {
		return v[0]
	}
	return ""
}

// stale returns the handler of a list that may be stale. Requests without a position of the store are
// handled by present, and get one for the next request.
func (a *api) stale(present, list handler) handler {
	return func(c *call) error {
		if a.Position == nil {
			return present(c)
		}
		if err := c.enter(); err != nil {
			return err
		}
		known := a.position(c)
		at, err := a.Position(c.r.Context(), known)
		if err != nil {
			return err
		}
		c.Set(positionHeader, at)
		if at != known {
			return present(c)
		}
		return list(c)
	}
}

// givePosition has the answer to a change get the position after it if lists show the change that may
// be old.
func (a *api) givePosition(c *call, e *endpoint) {
	switch e.Guard {
	case free, browser, signed:
		return
	}
	if a.Position == nil || e.Method == http.MethodGet {
		return
	}
	for _, beginning := range unlisted {
		if strings.HasPrefix(e.Path, beginning) {
			return
		}
	}
	c.position = func() string {
		at, err := a.Position(c.r.Context(), "")
		if err != nil {
			return "unknown" // no position of the store: the client's next list is of the present
		}
		return at
	}
}
