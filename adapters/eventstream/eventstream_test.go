package eventstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers every request.
type server func(*http.Request) (*http.Response, error)

func (s server) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

func response(status int, kind, body string) server {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {kind}, "Location": {"http://elsewhere.invalid/"}, "X-Request-Id": {"req_7"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}

func client(t *testing.T, base string, s server) *Client {
	t.Helper()
	return must.Do(NewClient(base, http.Header{"X-Api-Key": {"sk-secret"}}, &http.Client{Transport: s})).Or(t)
}

// receiver collects events up to the one that is "end".
func receiver(events *[]string) Receiver {
	return Receiver{
		Open: func() {}, Wait: func() error { return nil }, Sent: func() {}, Alive: func() {},
		Event: func(data []byte) (bool, error) {
			*events = append(*events, string(data))
			return string(data) == `"end"`, nil
		},
	}
}

func TestARequestHasTheGivenHeadersAlone(t *testing.T) {
	for base, want := range map[string]string{
		"http://models.invalid": "http://models.invalid/v1/x", "http://models.invalid/": "http://models.invalid/v1/x",
		"http://models.invalid/proxy": "http://models.invalid/proxy/v1/x", "https://models.invalid/a%2Fb/?x=1#y": "https://models.invalid/a%2Fb/v1/x",
	} {
		var seen *http.Request
		var body []byte
		c := client(t, base, func(r *http.Request) (*http.Response, error) {
			seen = r
			body, _ = io.ReadAll(r.Body)
			return response(200, "Text/Event-Stream ; charset=utf-8", "data: \"end\"\n\n")(r)
		})
		var events []string
		must.NoError(t, c.Stream(t.Context(), "v1/x", map[string]string{"a": "<b>"}, receiver(&events)))
		if seen.URL.String() != want || seen.Method != "POST" || string(body) != `{"a":"<b>"}`+"\n" || seen.ContentLength != 12 || len(events) != 1 {
			t.Errorf("for %q: %s %s %s", base, seen.Method, seen.URL, body)
		}
		header := http.Header{"X-Api-Key": {"sk-secret"}, "User-Agent": {"collab"}, "Content-Type": {"application/json"}}
		must.Equal(t, header, seen.Header)
	}
}

func TestAnInvalidAddressIsRefused(t *testing.T) {
	for _, base := range []string{"", "localhost", "ftp://x", "http://", "http://a b"} {
		if _, err := NewClient(base, nil, http.DefaultClient); err == nil {
			t.Errorf("%q is taken", base)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	requests := 0
	c := client(t, "http://models.invalid", func(r *http.Request) (*http.Response, error) {
		requests++
		return response(307, "text/html", "")(r)
	})
	var events []string
	if err := c.Stream(t.Context(), "x", nil, receiver(&events)); !errors.Is(err, errProtocol) || requests != 1 {
		t.Errorf("after %d requests: %v", requests, err)
	}
}

func TestAStatusErrorHasOnlyIdentifiers(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"error","error":{"type":"overloaded_error","message":"secret"}}`: "status 529 overloaded_error - (request req_7)",
		`{"error":{"code":503,"type":null,"message":"secret"}}`:                   "status 529 - 503 (request req_7)",
		`{"error":{"code":"two words","type":"slow_down"}}`:                       "status 529 slow_down other (request req_7)",
		`{"error":"secret"}`: "status 529 - - (request req_7)",
		`{"error":{"type":"` + strings.Repeat("x", maxProblem): "status 529 - - (request req_7)",
		`secret`: "status 529 - - (request req_7)",
	} {
		c := client(t, "http://models.invalid", response(529, "application/json", body))
		var events []string
		err := c.Stream(t.Context(), "x", nil, receiver(&events))
		var refused *statusError
		if !errors.As(err, &refused) || err.Error() != want || Reason(err) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestAResponseWithoutAStreamIsAProtocolError(t *testing.T) {
	for _, s := range []server{response(200, "application/json", "{}"), response(204, "text/event-stream", "")} {
		var events []string
		must.FailIs(t, client(t, "http://models.invalid", s).Stream(t.Context(), "x", nil, receiver(&events)), errProtocol)
	}
	var events []string
	must.FailIs(t, client(t, "http://models.invalid", nil).Stream(t.Context(), "x", func() {}, receiver(&events)), errProtocol)
}

func TestAnIncompleteStreamIsTruncated(t *testing.T) {
	for name, body := range map[string]string{"between events": "data: 1\n\n", "within one": "data: {\"a\":", "at once": ""} {
		c := client(t, "http://models.invalid", response(200, "text/event-stream", body))
		to := receiver(new([]string))
		to.Event = func(data []byte) (bool, error) {
			if string(data) != "1" {
				return false, errors.New("no JSON")
			}
			return false, nil
		}
		if err := c.Stream(t.Context(), "x", nil, to); !errors.Is(err, errTruncated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnErrorOfTheReceiverIsReturnedUnchanged(t *testing.T) {
	mine := errors.New("mine")
	for name, change := range map[string]func(*Receiver){
		"an event": func(to *Receiver) { to.Event = func([]byte) (bool, error) { return false, mine } },
		"a wait":   func(to *Receiver) { to.Wait = func() error { return mine } },
	} {
		to := receiver(new([]string))
		change(&to)
		if err := client(t, "http://models.invalid", response(200, "text/event-stream", "data: 1\n\n")).Stream(t.Context(), "x", nil, to); err != mine {
			t.Errorf("of %s: %v", name, err)
		}
	}
}

func TestTheEndOfTheContextEndsTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t, "http://models.invalid", func(r *http.Request) (*http.Response, error) {
		cancel()
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	must.FailIs(t, c.Stream(ctx, "x", nil, receiver(new([]string))), context.Canceled)
}

func TestABodyThatContinuesAfterTheLastEventIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, w := io.Pipe()
		c := client(t, "http://models.invalid", func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		})
		go func() { _, _ = io.WriteString(w, "data: \"end\"\n\n") }()
		must.NoError(t, c.Stream(t.Context(), "x", nil, receiver(new([]string))))
	})
}

func TestMissingReturnsIDsWithoutAnEntryOrAResource(t *testing.T) {
	status := 0
	c := client(t, "http://models.invalid", func(r *http.Request) (*http.Response, error) {
		switch {
		case status != 0:
			return response(status, "application/json", "{}")(r)
		case r.Header["Content-Type"] != nil:
			t.Error("a request without a body has a type")
		case r.URL.String() == "http://models.invalid/models?limit=9":
			return response(200, "application/json", `{"data":[{"id":"a"}]}`)(r)
		case r.URL.String() == "http://models.invalid/models/b%2Fc":
			return response(200, "application/json", `{"id":"b/c-2026"}`)(r)
		}
		return response(404, "application/json", "{}")(r)
	})
	missing, _, err := c.Missing(t.Context(), "models?limit=9", "models/", []string{"a", "b/c", "d"})
	if diff := cmp.Diff([]string{"d"}, missing); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, status = range []int{401, 404, 500} {
		var refused *statusError
		if _, got, err := c.Missing(t.Context(), "models", "models/", []string{"a"}); !errors.As(err, &refused) || refused.Status != status || got != status {
			t.Errorf("with the status %d: %v", status, err)
		}
	}
}

func TestEventsAreThoseOfTheStream(t *testing.T) {
	stream := "retry: 3000\n: a comment\nid: 1-1\n\nid: 1-2\ndata: {\"a\":\ndata: 1}\n\n:\n\nevent: resync\r\nid: 1-3\r\ndata: x\r\n\r\ndata: cut"
	want := []Event{{ID: "1-1"}, {ID: "1-2", Data: []byte("{\"a\":\n1}")}, {ID: "1-3", Data: []byte("x")}}
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
		var got []Event
		var broken error
		for e, err := range Events(io.NopCloser(io.MultiReader(strings.NewReader(stream), iotest.ErrReader(end)))) {
			if broken = err; err == nil {
				e.Data = bytes.Clone(e.Data)
				got = append(got, e)
			}
		}
		must.Equal(t, want, got)
		if (broken == nil) != (end == io.EOF) || broken != nil && !errors.Is(broken, end) {
			t.Errorf("a stream that ends in %v ends in %v", end, broken)
		}
	}
}

func TestCommasInTextsDoNotCount(t *testing.T) {
	in := map[string]bool{`["` + strings.Repeat(`,\"`, maxCommas) + `,"]`: true, "[0" + strings.Repeat(",0", maxCommas) + "]": true, "[0" + strings.Repeat(",0", maxCommas+1) + "]": false}
	for data, want := range in {
		if got := Decode([]byte(data), new(any)); got != want {
			t.Errorf("%.5s… of %d bytes is decoded: %t", data, len(data), got)
		}
	}
}

func TestTheBufferGrowsOnlyWhileItIsFilled(t *testing.T) {
	event := "data: " + strings.Repeat("x", firstBuffer/2) + "\n\n"
	for want, body := range map[int]io.Reader{
		firstBuffer: io.MultiReader(strings.NewReader(event), strings.NewReader(event), strings.NewReader(event)),
		bufferSize:  strings.NewReader(strings.Repeat(event, 3)),
	} {
		r := newReader(body, func() error { return nil }, func() {})
		for range 3 {
			must.NoError(t, must.ErrorOf(r.next()))
		}
		must.Is(t, want, len(r.buffer))
	}
	long := `{"type":"` + strings.Repeat("x", 1<<20) + `"}`
	r := newReader(iotest.HalfReader(io.MultiReader(strings.NewReader("data: "+long+"\n\n"), strings.NewReader("data: {}\n\n"))), func() error { return nil }, func() {})
	for _, want := range []string{long, "{}"} {
		if got, err := r.next(); err != nil || string(got) != want {
			t.Fatalf("%d bytes came, error %v", len(got), err)
		}
	}
	if len(r.buffer) != bufferSize {
		t.Errorf("the buffer has %d bytes", len(r.buffer))
	}
	r = newReader(strings.NewReader(strings.Repeat("x", maxEvent+1)), func() error { return nil }, func() {})
	must.FailIs(t, must.ErrorOf(r.next()), errProtocol) // of an event without end
}

func TestALineOfAnEventIsNotCopiedWithAllBeforeIt(t *testing.T) {
	const lines = 1000
	event, want := []byte(strings.Repeat("data: {}\n", lines)), strings.TrimSuffix(strings.Repeat("{}\n", lines), "\n")
	before := bytes.Clone(event)
	if n := testing.AllocsPerRun(1, func() {
		if got := payload(event); string(got) != want || !bytes.Equal(event, before) {
			t.Errorf("of %d lines %d bytes are data", lines, len(got))
		}
	}); n > 50 {
		t.Errorf("%d lines take %.0f allocations", lines, n)
	}
}

func TestEventsDoNotDependOnReadSizes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{"data: a", "data:b", "data:  c", "event: x", ": comment", "", "", "data"})).Draw(rt, "lines")
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(rt, "end")
		body := strings.Join(lines, end) + rapid.SampledFrom([]string{"", end, end + end}).Draw(rt, "last")
		read := func(body io.Reader) (all []string) {
			r := newReader(body, func() error { return nil }, func() {})
			for {
				data, err := r.next()
				if err != nil {
					must.FailIs(rt, err, errTruncated)
					return all
				}
				if len(data) > 0 {
					all = append(all, string(data))
				}
			}
		}
		must.Equal(rt, read(strings.NewReader(body)), read(iotest.OneByteReader(strings.NewReader(body)))) // at once and byte by byte
	})
}
