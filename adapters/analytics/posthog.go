package analytics

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"collab/adapters/outbound"
	"collab/adapters/retryqueue"
	"collab/domain/chat"
	"collab/ports"
)

// DefaultURL is PostHog's server.
const DefaultURL = "https://us.i.posthog.com"

const (
	capacity       = 8192 // calls in the queue
	batchSize      = 100
	interval       = 5 * time.Second // after which a batch that is not full is sent
	attemptTimeout = 10 * time.Second
	maxPause       = time.Minute // limits Retry-After
	maxResponse    = 64 << 10    // bytes read of a response
	maxLogged      = 200         // bytes logged of a response
)

// backoff has the pauses after failed attempts. The batch is dropped when the attempt after
// the last pause fails.
var backoff = []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

var _ ports.Generations = (*PostHog)(nil)

// Options configure NewPostHog.
type Options struct {
	Key    string // of the project
	URL    string // empty: PostHog's own
	Log    *slog.Logger
	Clock  ports.Clock
	Client *http.Client // nil: a new one
}

// PostHog sends generations to a server with PostHog's capture API, in the background and
// in batches.
type PostHog struct {
	Options
	address string
	queue   *retryqueue.Queue[chat.Generation]

	dropped, sent atomic.Int64
	overflow      atomic.Int64 // dropped because the queue was full, and not logged yet
}

// NewPostHog starts a worker, which Close stops.
func NewPostHog(o Options) (*PostHog, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, errors.New("COLLAB_POSTHOG_KEY: must not be empty")
	}
	if o.URL == "" {
		o.URL = DefaultURL
	}
	u, err := outbound.ParseAddress(o.URL)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_POSTHOG_URL: %w", err)
	}
	client := *cmp.Or(o.Client, outbound.NewConfigured(attemptTimeout))
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect would leak the key
	o.Client = &client
	p := &PostHog{Options: o, address: u.JoinPath("batch/").String()}
	p.queue = retryqueue.New(retryqueue.Options[chat.Generation]{
		Capacity: capacity, Batch: batchSize, Linger: interval, Backoff: backoff, InOrder: true,
		Now: o.Clock.Now, Deliver: p.deliver, Report: p.report,
	})
	return p, nil
}

// Record queues a generation. It drops it if the queue is full.
func (p *PostHog) Record(g chat.Generation) {
	if !p.queue.Add(g) {
		p.dropped.Add(1)
		p.overflow.Add(1)
	}
}

// Dropped returns the number of generations that were not sent, because the queue was full,
// the server refused them, or Close ran out of time.
func (p *PostHog) Dropped() int64 { return p.dropped.Load() }

// Sent returns the number of generations that the server has accepted.
func (p *PostHog) Sent() int64 { return p.sent.Load() }

// Close sends the queued generations and stops the worker. If ctx ends first, it drops the
// rest and returns the cause of ctx.
func (p *PostHog) Close(ctx context.Context) error {
	defer p.Client.CloseIdleConnections()
	left := p.queue.Close(ctx)
	if left == 0 {
		return nil
	}
	p.dropped.Add(int64(left))
	return context.Cause(ctx)
}

func (p *PostHog) report(batch []chat.Generation, _ int, err error, again bool) {
	switch {
	case err == nil:
		p.sent.Add(int64(len(batch)))
	case !again:
		p.dropped.Add(int64(len(batch)))
		p.Log.Error("analytics batch failed", "calls", len(batch), "reason", err)
	}
	if overflow := p.overflow.Swap(0); overflow > 0 {
		p.Log.Warn("analytics queue full", "calls", overflow)
	}
}

// deliver sends a batch once.
func (p *PostHog) deliver(ctx context.Context, batch []chat.Generation) retryqueue.Result {
	body, err := json.Marshal(p.batch(batch))
	if err != nil {
		return retryqueue.Result{Err: err, Permanent: true}
	}
	pause, again, err := p.attempt(ctx, body)
	return retryqueue.Result{Err: err, Permanent: !again, Pause: pause}
}

// attempt sends a body once. It reports whether the error may be temporary, and returns the
// pause of Retry-After.
func (p *PostHog) attempt(ctx context.Context, body []byte) (pause time.Duration, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.address, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.Client.Do(req)
	if err != nil {
		return 0, true, err
	}
	defer res.Body.Close()
	response, _ := io.ReadAll(io.LimitReader(res.Body, maxResponse)) // the connection can be reused after the end of the body
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return 0, false, nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		again = true
	}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		pause = min(time.Duration(min(seconds, 3600))*time.Second, maxPause)
	}
	response = bytes.ReplaceAll(response, []byte(p.Key), []byte("…"))
	return pause, again, fmt.Errorf("status %d: %s", res.StatusCode, bytes.ToValidUTF8(response[:min(len(response), maxLogged)], nil))
}

// A batch and its events, in the capture protocol.
type (
	batchBody struct {
		APIKey string  `json:"api_key"`
		Batch  []event `json:"batch"`
	}
	event struct {
		Event      string         `json:"event"`
		UUID       string         `json:"uuid"` // identifies duplicates
		DistinctID string         `json:"distinct_id"`
		Timestamp  string         `json:"timestamp"`
		Properties map[string]any `json:"properties"`
	}
)

func (p *PostHog) batch(calls []chat.Generation) batchBody {
	b := batchBody{APIKey: p.Key}
	for _, g := range calls {
		b.Batch = append(b.Batch, event{
			Event: "$ai_generation", UUID: string(g.ID), DistinctID: string(g.User),
			Timestamp:  g.StartedAt.Add(g.Duration).UTC().Format("2006-01-02T15:04:05.000Z"),
			Properties: properties(g),
		})
	}
	return b
}

// properties returns the properties of a generation by PostHog's names.
func properties(g chat.Generation) map[string]any {
	m := map[string]any{
		"$lib":           "collab",
		"$geoip_disable": true, // the address is this server's
		"$groups":        map[string]string{"company": string(g.Org)},

		"$ai_trace_id":                    string(g.ID),
		"$ai_model":                       g.Model,
		"$ai_provider":                    g.Provider,
		"$ai_latency":                     g.Duration.Seconds(),
		"$ai_stream":                      true,
		"$ai_input_tokens":                g.Usage.Input,
		"$ai_output_tokens":               g.Usage.Output,
		"$ai_cache_read_input_tokens":     g.Usage.CacheRead,
		"$ai_cache_creation_input_tokens": g.Usage.CacheCreated,
		"$ai_cache_reporting_exclusive":   false, // the input includes cache reads and writes
		"$ai_web_search_count":            g.Usage.Searches,
		"$ai_is_error":                    failed(g) != "",

		"outcome":      string(g.Outcome),
		"usage_source": string(g.Provenance),
		"tools":        g.Tools,
		"web_search":   g.WebSearch,
		"attempts":     g.Attempts,
	}
	if g.FirstChunk > 0 {
		m["$ai_time_to_first_token"] = g.FirstChunk.Seconds()
	}
	if f := failed(g); f != "" {
		m["$ai_error"] = f
	}
	if g.Stop != "" {
		m["$ai_stop_reason"] = reason(g.Stop)
	}
	return m
}
