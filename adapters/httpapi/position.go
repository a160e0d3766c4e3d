package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// positionHeader is the header with a position of the store from which lists that may be stale can be read (see
// ports.Store.From).
const positionHeader = "Collab-Position"

// primaryPaths are the prefixes of the paths of records that no list reads from a replica.
var primaryPaths = []string{prefix + "/tasks", prefix + "/teams", prefix + "/workspaces", prefix + "/sync/"}

// position returns the position in the request, or "".
func (a *api) position(c *call) string {
	if v := c.r.Header[positionHeader]; a.Position != nil && len(v) == 1 {
		return v[0]
	}
	return ""
}

// fromReplica returns the handler of a list that may be stale. Requests without a position of the store get
// one for the next request.
func (a *api) fromReplica(list handler) handler { return a.fromReplicaOr(list, list) }

// fromReplicaOr is fromReplica with another handler, primary, of requests without a position of the store.
func (a *api) fromReplicaOr(primary, replica handler) handler {
	return func(c *call) error {
		if a.Position == nil {
			return primary(c)
		}
		if err := c.acquirePermit(); err != nil {
			return err
		}
		known := a.position(c)
		at, err := a.Position(c.r.Context(), known)
		if err != nil {
			return err
		}
		c.Set(positionHeader, at)
		if at != known {
			return primary(c)
		}
		return replica(c)
	}
}

// returnsPosition reports whether the responses of the endpoint have the position after its change, because lists that
// may be stale show the change.
func (r row) returnsPosition() bool {
	switch r.Guard {
	case unlimited, browser, webhook:
		return false
	}
	return r.Method != http.MethodGet &&
		!slices.ContainsFunc(primaryPaths, func(start string) bool { return strings.HasPrefix(r.Path, start) })
}

// currentPosition returns a position after all committed changes.
func (a *api) currentPosition(ctx context.Context) string {
	at, err := a.Position(ctx, "")
	if err != nil {
		return "unknown" // not a position of the store, so that the next list is not stale
	}
	return at
}
