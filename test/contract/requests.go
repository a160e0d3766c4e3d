package contract

import (
	"testing"

	"collab/ports"
	"collab/test/must"
)

// Requests is the suite of ports.Requests.
func Requests(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"requests of a minute are added up, of each organisation": func(w *fixture) {
			o := w.org().ID
			resultOf(w.Requests().Add(w.ctx, o, at(0), 7)).is(w, 7)
			resultOf(w.Requests().Add(w.ctx, o, at(0), 5)).is(w, 12)
			resultOf(w.Requests().Add(w.ctx, o, at(60_000), 1)).is(w, 1)
			resultOf(w.Requests().Add(w.ctx, o, at(0), 0)).is(w, 12)
			resultOf(w.Requests().Add(w.ctx, w.org().ID, at(0), 5)).is(w, 5)
		},
		"none of concurrent additions is lost": func(w *fixture) {
			o := w.org().ID
			w.allOK(concurrently(concurrent, func(int) error { return must.ErrorOf(w.Requests().Add(w.ctx, o, at(0), 3)) }))
			resultOf(w.Requests().Add(w.ctx, o, at(0), 0)).is(w, 3*concurrent)
		},
		"a transaction that fails adds nothing": func(w *fixture) {
			o := w.org().ID
			w.rolledBack(func(r ports.Records) error { return must.ErrorOf(r.Usage().Requests().Add(w.ctx, o, at(0), 3)) })
			resultOf(w.Requests().Add(w.ctx, o, at(0), 1)).is(w, 1)
		},
		"prune removes the counts of minutes before the time": func(w *fixture) {
			o := w.org().ID
			resultOf(w.Requests().Add(w.ctx, o, longAgo(99), 7)).is(w, 7)
			resultOf(w.Requests().Add(w.ctx, o, longAgo(100), 7)).is(w, 7)
			w.ok(w.Requests().Prune(w.ctx, longAgo(100)))
			resultOf(w.Requests().Add(w.ctx, o, longAgo(99), 1)).is(w, 1)
			resultOf(w.Requests().Add(w.ctx, o, longAgo(100), 1)).is(w, 8)
		},
	}.run(t, open)
}
