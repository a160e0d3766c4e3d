package analytics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/analytics"
	"collab/domain/id"
	"collab/test/must"

	"github.com/google/go-cmp/cmp"
)

const key = "phc_secret"

// captured is a request to the server.
type captured struct {
	after time.Duration // since the test began
	body  string
	batch []struct {
		Event      string         `json:"event"`
		UUID       string         `json:"uuid"`
		DistinctID string         `json:"distinct_id"`
		Timestamp  time.Time      `json:"timestamp"`
		Properties map[string]any `json:"properties"`
	}
}

// captureServer has PostHog's capture API. It is the transport of its client, so that time
// passes at once in a bubble of synctest.
type captureServer struct {
	*testing.T
	began    time.Time
	response func(n int, w http.ResponseWriter, r *http.Request) error // to the n-th request, from 1 on; nil: 200
	requests []captured
}

func (s *captureServer) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	var body struct {
		Key   string `json:"api_key"`
		Batch json.RawMessage
	}
	got := captured{after: time.Since(s.began), body: string(b)}
	if err != nil || json.Unmarshal(b, &body) != nil || body.Key != key || json.Unmarshal(body.Batch, &got.batch) != nil || len(got.batch) == 0 {
		s.Errorf("%s is no batch: %v", b, err)
	}
	for _, e := range got.batch {
		if _, ok := id.Parse[id.Request](e.UUID); !ok || e.DistinctID == "" || e.Event != "$ai_generation" || e.Timestamp.IsZero() {
			s.Errorf("%+v is no event", e)
		}
	}
	if r.Method != http.MethodPost || r.URL.String() != "https://example.com/in/batch/" || r.Header.Get("Content-Type") != "application/json" {
		s.Errorf("%s %s came", r.Method, r.URL)
	}
	s.requests = append(s.requests, got)
	w := httptest.NewRecorder()
	if s.response != nil {
		if err := s.response(len(s.requests), w, r); err != nil {
			return nil, err
		}
	}
	return w.Result(), nil
}

// clock is the clock of the bubble.
type clock struct{}

func (clock) Now() time.Time { return time.Now() }

// withPostHog runs a test in a bubble, with a PostHog that logs to log.
func withPostHog(t *testing.T, log io.Writer, response func(int, http.ResponseWriter, *http.Request) error, test func(t *testing.T, p *analytics.PostHog, s *captureServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &captureServer{T: t, began: time.Now(), response: response}
		p := must.Do(analytics.NewPostHog(analytics.Options{
			Key: key, URL: "https://example.com/in", Log: slog.New(slog.NewTextHandler(log, nil)), Client: &http.Client{Transport: s}, Clock: clock{},
		})).Or(t)
		test(t, p, s)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(ctx) // if the test has not
	})
}

// end closes p without a deadline.
func end(t *testing.T, p *analytics.PostHog) {
	t.Helper()
	must.NoError(t, p.Close(context.Background()))
}

func counts(t *testing.T, p *analytics.PostHog, sent, dropped int64) {
	t.Helper()
	if p.Sent() != sent || p.Dropped() != dropped {
		t.Errorf("%d sent and %d dropped, not %d and %d", p.Sent(), p.Dropped(), sent, dropped)
	}
}

func record(p *analytics.PostHog, n int) {
	for range n {
		p.Record(some())
	}
}

func TestPostHogReceivesGenerations(t *testing.T) {
	withPostHog(t, io.Discard, nil, func(t *testing.T, p *analytics.PostHog, s *captureServer) {
		p.Record(some())
		p.Record(broken())
		end(t, p)
		got := s.requests[0].batch
		if len(got) != 2 {
			t.Fatalf("%d events", len(got))
		}
		e := got[0]
		if e.UUID != string(some().ID) || e.DistinctID != string(some().User) || !e.Timestamp.Equal(time.Date(2026, 1, 2, 3, 4, 7, 178e6, time.UTC)) {
			t.Errorf("the event is %+v", e)
		}
		if diff := cmp.Diff(map[string]any{
			"$lib": "collab", "$geoip_disable": true, "$groups": map[string]any{"company": "019a0000-0000-7000-8000-000000000002"},
			"$ai_trace_id": "019a0000-0000-7000-8000-000000000001", "$ai_model": "claude-sonnet-5-5", "$ai_provider": "anthropic",
			"$ai_latency": 1.5, "$ai_time_to_first_token": 0.25, "$ai_stream": true,
			"$ai_input_tokens": 1230., "$ai_output_tokens": 45., "$ai_cache_read_input_tokens": 200., "$ai_cache_creation_input_tokens": 30.,
			"$ai_cache_reporting_exclusive": false, "$ai_web_search_count": 2., "$ai_is_error": false, "$ai_stop_reason": "end_turn",
			"outcome": "completed", "usage_source": "provider", "tools": 3., "web_search": true, "attempts": 2.,
		}, e.Properties); diff != "" {
			t.Errorf("other properties (-want +got):\n%s", diff)
		}
		f := got[1].Properties
		if f["$ai_is_error"] != true || f["$ai_error"] != "overloaded" || f["$ai_time_to_first_token"] != nil || f["$ai_stop_reason"] != nil {
			t.Errorf("a failure has the properties %v", f)
		}
	})
}

func TestABatchIsSentWhenItIsFullOrAfterFiveSeconds(t *testing.T) {
	withPostHog(t, io.Discard, nil, func(t *testing.T, p *analytics.PostHog, s *captureServer) {
		idOf := func(n int) string { return fmt.Sprintf("019a0000-0000-7000-8000-%012d", n) }
		for n := range 250 {
			g := some()
			g.ID = id.Request(idOf(n))
			p.Record(g)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		n := 0
		for i, want := range []struct {
			size  int
			after time.Duration
		}{{100, 0}, {100, 0}, {50, 5 * time.Second}} {
			if r := s.requests[i]; len(r.batch) != want.size || r.after != want.after {
				t.Errorf("batch %d has %d events after %v", i, len(r.batch), r.after)
			}
			for _, e := range s.requests[i].batch {
				if e.UUID != idOf(n) {
					t.Fatalf("%s came as the event %d", e.UUID, n)
				}
				n++
			}
		}
		counts(t, p, 250, 0)
	})
}

func TestAnAttemptThatFailsIsRetriedAfterThePauseOfTheServer(t *testing.T) {
	withPostHog(t, io.Discard, func(n int, w http.ResponseWriter, _ *http.Request) error {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
		case 3:
			return io.ErrUnexpectedEOF // the connection is lost
		case 4:
			w.Header().Set("Retry-After", "10000000000")
			w.WriteHeader(http.StatusBadGateway)
		case 5:
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusRequestTimeout)
		}
		return nil
	}, func(t *testing.T, p *analytics.PostHog, s *captureServer) {
		record(p, 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		var seconds []int
		for _, r := range s.requests {
			seconds = append(seconds, int(r.after/time.Second))
			if r.body != s.requests[0].body {
				t.Errorf("%s came after %s", r.body, s.requests[0].body)
			}
		}
		must.Equal(t, []int{5, 6, 26, 36, 96, 156}, seconds)
		counts(t, p, 1, 0)
	})
}

func TestABatchIsDroppedAfterTheLastRetryBeforeTheNextIsSent(t *testing.T) {
	var log bytes.Buffer
	withPostHog(t, &log, func(n int, w http.ResponseWriter, _ *http.Request) error {
		if n <= 6 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return nil
	}, func(t *testing.T, p *analytics.PostHog, s *captureServer) {
		record(p, 102)
		time.Sleep(time.Hour)
		synctest.Wait()
		var sizes []int
		for _, r := range s.requests {
			sizes = append(sizes, len(r.batch))
		}
		must.Equal(t, []int{100, 100, 100, 100, 100, 100, 2}, sizes)
		counts(t, p, 2, 100)
		if !strings.Contains(log.String(), "calls=100") || !strings.Contains(log.String(), "status 500") {
			t.Errorf("the log has %q", log.String())
		}
	})
}

func TestARefusedBatchIsNotSentAgainAndTheKeyStaysSecret(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusTemporaryRedirect} {
		var log bytes.Buffer
		withPostHog(t, &log, func(n int, w http.ResponseWriter, _ *http.Request) error {
			if n == 1 {
				w.Header().Set("Location", "/in/batch/")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, strings.Repeat("x", 195)+key+strings.Repeat(" long", 50_000))
			}
			return nil
		}, func(t *testing.T, p *analytics.PostHog, s *captureServer) {
			record(p, 200)
			end(t, p)
			counts(t, p, 100, 100)
			if len(s.requests) != 2 || !strings.Contains(log.String(), fmt.Sprint("status ", status)) || strings.Contains(log.String(), "phc_") || log.Len() > 1000 {
				t.Errorf("after %d requests the log has %q", len(s.requests), log.String())
			}
		})
	}
}

// silent is a server that never answers.
func silent(_ int, _ http.ResponseWriter, r *http.Request) error {
	<-r.Context().Done()
	return r.Context().Err()
}

func TestAFullQueueDropsGenerations(t *testing.T) {
	var log bytes.Buffer
	withPostHog(t, &log, func(n int, w http.ResponseWriter, r *http.Request) error {
		if n == 1 {
			return silent(n, w, r) // until the attempt times out
		}
		return nil
	}, func(t *testing.T, p *analytics.PostHog, _ *captureServer) {
		record(p, 100)
		synctest.Wait() // the worker is busy from here on
		const room = 8192
		record(p, room)
		counts(t, p, 0, 0)
		record(p, 7)
		counts(t, p, 0, 7)
		end(t, p)
		counts(t, p, 100+room, 7)
		if strings.Count(log.String(), "analytics queue full") != 1 || !strings.Contains(log.String(), "calls=7") {
			t.Errorf("the log has %q", log.String())
		}
	})
}

func TestCloseSendsQueuedGenerationsAndAcceptsNoMore(t *testing.T) {
	withPostHog(t, io.Discard, nil, func(t *testing.T, p *analytics.PostHog, s *captureServer) {
		record(p, 130)
		end(t, p)
		record(p, 3)
		end(t, p)
		counts(t, p, 130, 3)
		if len(s.requests) != 2 || s.requests[1].after != 0 {
			t.Errorf("the requests are %+v", s.requests)
		}
	})
}

func TestCloseEndsWithTheCauseOfItsContext(t *testing.T) {
	outOfTime := errors.New("no time left")
	for about, response := range map[string]func(int, http.ResponseWriter, *http.Request) error{
		"a server that does not answer": silent,
		"a server that is down": func(_ int, w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusServiceUnavailable)
			return nil
		},
	} {
		withPostHog(t, io.Discard, response, func(t *testing.T, p *analytics.PostHog, _ *captureServer) {
			record(p, 250)
			synctest.Wait()
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(outOfTime)
			if err := p.Close(ctx); err != outOfTime {
				t.Errorf("%s: %v came, not the cause", about, err)
			}
			counts(t, p, 0, 250)
		})
	}
}

func TestEveryGenerationThatIsRecordedDuringCloseCounts(t *testing.T) {
	withPostHog(t, io.Discard, nil, func(t *testing.T, p *analytics.PostHog, _ *captureServer) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { record(p, 500) })
		}
		end(t, p)
		all.Wait()
		if n := p.Sent() + p.Dropped(); n != 4000 {
			t.Errorf("%d sent and %d dropped of 4000", p.Sent(), p.Dropped())
		}
	})
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for want, o := range map[string]analytics.Options{
		"COLLAB_POSTHOG_KEY": {Key: " ", URL: "https://example.com"},
		"COLLAB_POSTHOG_URL": {Key: key, URL: "example.com"},
	} {
		if _, err := analytics.NewPostHog(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	for _, url := range []string{"ftp://example.com", "https://", "https://example.com?key=1", "https://example.com#a", "://"} {
		if _, err := analytics.NewPostHog(analytics.Options{Key: key, URL: url}); err == nil || !strings.Contains(err.Error(), "COLLAB_POSTHOG_URL") {
			t.Errorf("%v for %s", err, url)
		}
	}
}
