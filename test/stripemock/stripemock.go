// Package stripemock is the payment provider's own mock, which checks every request
// against the published description of its interface and keeps nothing.
package stripemock

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"

	"collab/test/must"
)

var handler = sync.OnceValues(func() (http.Handler, error) {
	spec, err := server.LoadSpec(embedded.OpenAPISpec, "")
	if err != nil {
		return nil, err
	}
	fixtures, err := server.LoadFixtures(embedded.OpenAPIFixtures, "")
	if err != nil {
		return nil, err
	}
	stub, err := server.NewStubServer(fixtures, spec, true, false)
	if err != nil {
		return nil, err
	}
	return &server.DoubleSlashFixHandler{Mux: http.HandlerFunc(stub.HandleRequest)}, nil
})

// Handler returns the mock, which is made once for all tests of a process.
func Handler(t testing.TB) http.Handler {
	t.Helper()
	return must.Do(handler()).Or(t)
}
