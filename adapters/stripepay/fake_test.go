package stripepay

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"collab/domain/id"
	"collab/domain/plan"
	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secretKey = "sk_test_verysecret"
	org       = id.Org("0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b")
	otherOrg  = id.Org("0198a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2c")
)

var prices = map[plan.Plan][]string{plan.Standard: {"price_standard", "price_before"}, plan.Premium: {"price_premium"}}

// request is a request to the provider.
type request struct {
	method, path, key string
	form              url.Values
	header            http.Header
}

// handlerClient is a client that calls a handler in the caller's goroutine, so that a
// synctest bubble is idle while the SDK sleeps.
func handlerClient(h http.Handler) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fake is a provider that gives its answers in order and repeats the last. A response is a
// status, "!" if it is a replay, and a body; "lost" is a missing response.
type fake struct {
	mu        sync.Mutex
	responses map[string][]string // by "METHOD /path"
	requests  []request
}

// readRequest reads a request, whose body can be read again.
func readRequest(r *http.Request) (request, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return request{}, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, err := url.ParseQuery(string(body) + "&" + r.URL.RawQuery)
	return request{r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), form, r.Header}, err
}

func (f *fake) take(r *http.Request) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := readRequest(r)
	if err != nil {
		return "400 " + err.Error()
	}
	f.requests = append(f.requests, q)
	name := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v1")
	all := f.responses[name]
	switch len(all) {
	case 0:
		return `404 {"error":{"type":"invalid_request_error","message":"Unrecognized request URL"}}`
	case 1:
		return all[0]
	}
	f.responses[name] = all[1:]
	return all[0]
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body, _ := strings.Cut(f.take(r), " ")
	if status == "lost" {
		return nil, io.ErrUnexpectedEOF
	}
	res := &http.Response{Header: http.Header{"Request-Id": {"req_1"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
	if strings.HasSuffix(status, "!") {
		res.Header.Set("Idempotent-Replayed", "true")
	}
	_, _ = fmt.Sscan(strings.TrimSuffix(status, "!"), &res.StatusCode)
	res.Status = http.StatusText(res.StatusCode)
	return res, nil
}

// keys returns the idempotency keys of the requests and how often each was used.
func (f *fake) keys() (keys []string, used map[string]int) {
	used = map[string]int{}
	for _, r := range f.requests {
		if used[r.key]++; used[r.key] == 1 {
			keys = append(keys, r.key)
		}
	}
	return keys, used
}

func payments(t testing.TB, client *http.Client, log io.Writer) *Payments {
	t.Helper()
	p := must.Do(New(Options{
		SecretKey: secretKey, URL: "http://provider.invalid", Prices: prices, Client: client,
		SuccessURL: "https://collab.example/api/v1/billing/checkout/success", CancelURL: "https://collab.example/api/v1/billing/checkout/cancel",
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})).Or(t)
	return p
}

func newFake(t testing.TB, responses map[string][]string) (*Payments, *fake, *bytes.Buffer) {
	f, log := &fake{responses: responses}, &bytes.Buffer{}
	return payments(t, &http.Client{Transport: f}, log), f, log
}

func at(seconds int64) *time.Time {
	t := time.Unix(seconds, 0).UTC()
	return &t
}
