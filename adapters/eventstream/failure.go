package eventstream

import (
	"errors"
	"net/http"
)

// Kinds has the caller's value of each kind of failure.
type Kinds[K any] struct{ Overloaded, RateLimited, Network, Truncated, Broken K }

// Status returns the kind of an HTTP status. 502 and 504 are Network, because a gateway sends
// them if it does not reach the server.
func (k Kinds[K]) Status(status int) K {
	switch status {
	case http.StatusServiceUnavailable, 529:
		return k.Overloaded
	case http.StatusTooManyRequests:
		return k.RateLimited
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return k.Network
	}
	return k.Broken
}

// Classify returns the kind of an error of Stream. Refused decides about a *statusError.
func (k Kinds[K]) Classify(err error, refused func(status int, p Problem) K) K {
	if status, ok := errors.AsType[*statusError](err); ok {
		return refused(status.Status, status.Problem)
	}
	switch {
	case errors.Is(err, errTruncated):
		return k.Truncated
	case errors.Is(err, errProtocol):
		return k.Broken
	}
	return k.Network
}
