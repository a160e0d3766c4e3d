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

// DefaultURL is PostHog's server.
const DefaultURL = "https://us.i.posthog.com"

const (
	capacity       = 8192 // calls in the queue
	batchSize      = 100
	interval       = 5 * time.Second // after which a batch that is not full is sent
	attemptTimeout = 10 * time.Second
	maxPause       = time.Minute // limits Retry-After
	maxResponse    = 64 << 10    // bytes of a response that are read
	maxLogged      = 200         // bytes of it that are logged
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
	Client *http.Client // nil: one of its own

	After func(time.Duration) <-chan time.Time // nil: time.After
}

// PostHog sends generations to a server with PostHog's capture API, in the background and
// in batches.
type PostHog struct {
	Options
	address string

	ctx     context.Context // of all attempts
	cancel  context.CancelFunc
	wake    chan struct{} // has one element when the queue has grown
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the worker has ended

	mu       sync.Mutex
	queue    []chat.Generation
	closed   bool
	dropped  int64
	sent     int64
	overflow int64 // dropped because the queue was full, and not logged yet
}

// NewPostHog starts a worker, which Close stops.
func NewPostHog(o Options) (*PostHog, error) {
	if o.Key = strings.TrimSpace(o.Key); o.Key == "" {
		return nil, errors.New("COLLAB_POSTHOG_KEY: must not be empty")
	}
	if o.URL == "" {
		o.URL = DefaultURL
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
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.work()
	return p, nil
}

// Record queues a generation. It drops it if the queue is full.
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

// Dropped returns the number of generations that were not sent, because the queue was full,
// the server refused them, or Close ran out of time.
func (p *PostHog) Dropped() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Sent returns the number of generations that the server has accepted.
func (p *PostHog) Sent() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// Close sends what is queued and stops the worker. If ctx ends first, it drops the rest and
// returns the cause of ctx.
func (p *PostHog) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
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

// work sends batches, one at a time.
func (p *PostHog) work() {
	defer close(p.done)
	defer p.cancel()
	for p.waitForBatch() {
		batch := p.nextBatch()
		err := p.deliver(batch)
		overflow := p.count(len(batch), err)
		if err != nil {
			p.Log.Error("analytics batch failed", "calls", len(batch), "reason", err)
		}
		if overflow > 0 {
			p.Log.Warn("analytics queue full", "calls", overflow)
		}
	}
	p.mu.Lock()
	p.dropped += int64(len(p.queue))
	p.queue = nil
	p.mu.Unlock()
}

// count counts the generations of a batch as sent or dropped. It returns how many were
// dropped meanwhile because the queue was full.
func (p *PostHog) count(calls int, err error) (overflow int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.dropped += int64(calls)
	} else {
		p.sent += int64(calls)
	}
	overflow, p.overflow = p.overflow, 0
	return overflow
}

func (p *PostHog) queued() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

// waitForBatch waits until the queue has a full batch, or the interval since its first
// element is over. It reports whether there is a batch to send.
func (p *PostHog) waitForBatch() bool {
	var late <-chan time.Time
	for {
		n := p.queued()
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
		case <-p.closing:
			return p.queued() > 0 && p.ctx.Err() == nil
		}
	}
}

func (p *PostHog) nextBatch() []chat.Generation {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.queue), batchSize)
	batch := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil // releases the memory
	}
	return batch
}

// deliver sends a batch. It retries after errors that may be temporary.
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

// attempt sends a body once. It reports whether the error may be temporary, and returns the
// pause that the server asks for.
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
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxResponse)) // to its end, so that the connection can be used again
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return 0, false, nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		again = true
	}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		pause = min(time.Duration(min(seconds, 3600))*time.Second, maxPause)
	}
	answer = bytes.ReplaceAll(answer, []byte(p.Key), []byte("…"))
	return pause, again, fmt.Errorf("status %d: %s", res.StatusCode, bytes.ToValidUTF8(answer[:min(len(answer), maxLogged)], nil))
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
			Timestamp:  g.Began.Add(g.Took).UTC().Format("2006-01-02T15:04:05.000Z"),
			Properties: properties(g),
		})
	}
	return b
}

// properties returns the properties of a generation by PostHog's names.
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
