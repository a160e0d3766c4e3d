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
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"collab/adapters/outbound"
	"collab/domain/chat"
	"collab/ports"
)

const (
	capacity       = 8192 // calls that wait to be told
	batchSize      = 100
	interval       = 5 * time.Second // that a batch waits to become full
	attemptTimeout = 10 * time.Second
	maxPause       = time.Minute // that is waited when we are told to
	maxAnswer      = 64 << 10    // bytes of an answer that are read
	maxSaid        = 200         // bytes of it that are logged
	cloud          = "https://us.i.posthog.com"
)

// backoff is how long a batch waits after each attempt that failed; after the
// attempt that follows the last of them it is given up.
var backoff = []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

var _ ports.Generations = (*PostHog)(nil)

// Options say where to tell of calls. The passages of time are injected.
type Options struct {
	Key    string // of the project
	URL    string // empty: PostHog's own
	Log    *slog.Logger
	Client *http.Client // nil: one of its own

	After func(time.Duration) <-chan time.Time // nil: time.After
}

// PostHog tells a server that speaks PostHog's capture protocol, in the
// background.
type PostHog struct {
	Options
	address string

	ctx    context.Context // of all attempts
	cancel context.CancelFunc
	wake   chan struct{} // holds one when the queue has changed
	ending chan struct{} // closed by Close
	done   chan struct{} // closed when the worker has ended

	mu       sync.Mutex
	queue    []chat.Generation
	closed   bool
	dropped  int64
	told     int64
	overflow int64 // what was dropped for want of room and is not in the log yet
}

// NewPostHog returns what tells PostHog and starts its worker, which Close ends.
func NewPostHog(o Options) (*PostHog, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, errors.New("COLLAB_POSTHOG_KEY: must not be empty")
	}
	if o.URL == "" {
		o.URL = cloud
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("COLLAB_POSTHOG_URL: must be an http or https address without a query")
	}
	if o.After == nil {
		o.After = time.After
	}
	client := *cmp.Or(o.Client, outbound.NewConfigured(attemptTimeout))
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it would take the key along
	o.Client = &client
	p := &PostHog{
		Options: o, address: u.JoinPath("batch/").String(),
		wake: make(chan struct{}, 1), ending: make(chan struct{}), done: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.work()
	return p, nil
}

// Record queues a call. What there is no room for is dropped.
func (p *PostHog) Record(g chat.Generation) {
	p.mu.Lock()
	if p.closed || len(p.queue) >= capacity {
		p.dropped++
		p.overflow++
		p.mu.Unlock()
		return
	}
	p.queue = append(p.queue, g)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Dropped returns how many calls were not told: for want of room, because the
// server would not have them, or because the time to close was over.
func (p *PostHog) Dropped() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Told returns how many calls the server has taken.
func (p *PostHog) Told() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told
}

// Close takes no more calls, tells of those that wait and ends. When ctx ends
// first, the rest is dropped, and the error is ctx's cause.
func (p *PostHog) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.ending)
	}
	p.mu.Unlock()
	defer p.Client.CloseIdleConnections()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.cancel()
	<-p.done
	return context.Cause(ctx)
}

// work tells of batches, one at a time.
func (p *PostHog) work() {
	defer close(p.done)
	defer p.cancel()
	for p.gather() {
		batch := p.take()
		err := p.deliver(batch)
		overflow := p.settle(len(batch), err)
		if err != nil {
			p.Log.Error("analytics: calls not delivered", "calls", len(batch), "reason", err)
		}
		if overflow > 0 {
			p.Log.Warn("analytics: calls dropped for want of room", "calls", overflow)
		}
	}
	p.mu.Lock()
	p.dropped += int64(len(p.queue))
	p.queue = nil
	p.mu.Unlock()
}

// settle counts what became of a batch, and returns how many calls were dropped
// meanwhile.
func (p *PostHog) settle(calls int, err error) (overflow int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.dropped += int64(calls)
	} else {
		p.told += int64(calls)
	}
	overflow, p.overflow = p.overflow, 0
	return overflow
}

func (p *PostHog) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// gather waits for a batch: a full one, or what has come within the interval
// after the first. It reports whether there is one.
func (p *PostHog) gather() bool {
	var late <-chan time.Time
	for {
		n := p.waiting()
		if n >= batchSize {
			return p.ctx.Err() == nil
		}
		if n > 0 && late == nil {
			late = p.After(interval)
		}
		select {
		case <-p.wake:
		case <-late:
			return true
		case <-p.ending:
			return p.waiting() > 0 && p.ctx.Err() == nil
		}
	}
}

func (p *PostHog) take() []chat.Generation {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), batchSize)
	batch := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil // so that what was told does not stay in memory
	}
	return batch
}

// deliver sends a batch, again where it may help.
func (p *PostHog) deliver(batch []chat.Generation) error {
	body, err := json.Marshal(p.batch(batch))
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		pause, again, err := p.attempt(body)
		if err == nil || !again || attempt == len(backoff) {
			return err
		}
		select {
		case <-p.After(max(pause, backoff[attempt])):
		case <-p.ctx.Done():
			return err
		}
	}
}

// attempt sends a body once. It returns whether to try again, and how long the
// server asks to wait before.
func (p *PostHog) attempt(body []byte) (pause time.Duration, again bool, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, attemptTimeout)
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
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // to its end, so that the connection can be used again
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return 0, false, nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		again = true
	}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		pause = min(time.Duration(min(seconds, 3600))*time.Second, maxPause)
	}
	said = bytes.ReplaceAll(said, []byte(p.Key), []byte("…"))
	return pause, again, fmt.Errorf("status %d: %s", res.StatusCode, bytes.ToValidUTF8(said[:min(len(said), maxSaid)], nil))
}

// A batch and its events, in the capture protocol.
type (
	batchBody struct {
		APIKey string  `json:"api_key"`
		Batch  []event `json:"batch"`
	}
	event struct {
		Event      string         `json:"event"`
		UUID       string         `json:"uuid"` // by which an event that came twice is known
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
			Timestamp:  g.Began.Add(g.Took).UTC().Format("2006-01-02T15:04:05.000Z"),
			Properties: properties(g),
		})
	}
	return b
}

// properties returns what PostHog calls the figures of a call.
func properties(g chat.Generation) map[string]any {
	m := map[string]any{
		"$lib":           "collab",
		"$geoip_disable": true, // the address is the server's
		"$groups":        map[string]string{"company": string(g.Org)},

		"$ai_trace_id":                    string(g.ID),
		"$ai_model":                       g.Model,
		"$ai_provider":                    g.Provider,
		"$ai_latency":                     g.Took.Seconds(),
		"$ai_stream":                      true,
		"$ai_input_tokens":                g.Usage.Input,
		"$ai_output_tokens":               g.Usage.Output,
		"$ai_cache_read_input_tokens":     g.Usage.CacheRead,
		"$ai_cache_creation_input_tokens": g.Usage.CacheMade,
		"$ai_cache_reporting_exclusive":   false, // the input has what the cache took and gave
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
