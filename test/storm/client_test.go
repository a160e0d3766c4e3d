package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"collab/test/feed"
	"collab/test/must"
)

const (
	attemptTimeout = 10 * time.Second
	retryDelay     = 100 * time.Millisecond
	callTimeout    = 20 * time.Second // of one call with its retries; its effect is unknown then
)

// journal records what the clients observe.
type journal struct {
	began time.Time

	mu           sync.Mutex
	responses    map[string]map[string]int // counts by kind and status; guarded by mu
	histories    map[string][]historyOp    // by object; guarded by mu
	made         map[string]map[string]outcome
	lifetimes    map[string]map[string]lifetime   // of the same records
	written      map[string][]feed.Write          // acknowledged changes of files, by organisation
	audited      map[string]map[string]entryRange // by organisation and request
	contents     map[string]bool                  // whether a digest may be in a change log
	trials       map[string]int                   // acknowledged, by organisation
	violations   []string
	undecided    []string
	acknowledged int // acknowledged writes
}

func newJournal() *journal {
	return &journal{
		began: time.Now(), responses: map[string]map[string]int{}, histories: map[string][]historyOp{}, made: map[string]map[string]outcome{}, lifetimes: map[string]map[string]lifetime{},
		written: map[string][]feed.Write{}, audited: map[string]map[string]entryRange{}, contents: map[string]bool{}, trials: map[string]int{},
	}
}

// now returns the time as histories have it.
func (j *journal) now() int64 { return int64(time.Since(j.began)) }

// violation reports that something is wrong.
func (j *journal) violation(format string, a ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.violations = append(j.violations, fmt.Sprintf(format, a...))
}

// record adds operations to the history of an object.
func (j *journal) record(object string, ops ...historyOp) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.histories[object] = append(j.histories[object], ops...)
}

// recordOutcome records the outcome of a call that creates or deletes a record.
func (j *journal) recordOutcome(kind, name string, f outcome, a response) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.made[kind] == nil {
		j.made[kind], j.lifetimes[kind] = map[string]outcome{}, map[string]lifetime{}
	}
	j.made[kind][name] = f
	j.lifetimes[kind][name] = j.lifetimes[kind][name].after(f, a.attempts[0].call, a.last().ret)
}

// audit records that a request was sent that has an entry in the audit log if it succeeds, and an
// entry for each of its attempts that succeeded unless it has an idempotency key.
func (j *journal) audit(org string, a response) {
	var e entryRange
	if a.ok() {
		e = entryRange{1, 1}
	}
	if a.mayHaveSucceeded() {
		e.Max = len(a.attempts)
	}
	if a.key {
		e.Max = min(e.Max, 1)
	}
	j.auditBetween(org, a, e)
}

// auditIfChanged is audit for a request that has no entry if it changes nothing.
func (j *journal) auditIfChanged(org string, a response) {
	j.auditBetween(org, a, entryRange{0, len(a.attempts)})
}

func (j *journal) auditBetween(org string, a response, e entryRange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.audited[org] == nil {
		j.audited[org] = map[string]entryRange{}
	}
	j.audited[org][a.request] = e
}

// trial records that the trial of an organisation was started.
func (j *journal) trial(org string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trials[org]++
}

// acknowledgeWrite records an acknowledged change of a file.
func (j *journal) acknowledgeWrite(org string, w feed.Write) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written[org] = append(j.written[org], w)
}

// content records whether a content may be in the change log, and returns its digest.
func (j *journal) content(text string, sent bool) string {
	sum := must.Sum(text)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.contents[sum] = sent
	return sum
}

func (j *journal) count(kind, status string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.responses[kind] == nil {
		j.responses[kind] = map[string]int{}
	}
	j.responses[kind][status]++
}

// person is a user with a service token.
type person struct {
	email, user, org string

	mu    sync.Mutex
	token string // guarded by mu
}

func (p *person) bearer() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token
}

func (p *person) renew(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
}

// call is a request to the API.
type call struct {
	kind   string // in the report
	method string
	path   string
	body   any // sent as JSON; a string as it is, as a text unless the header has another type
	by     *person
	header http.Header
	key    bool // it has an Idempotency-Key
	once   bool // it is not repeated
	expect []int
}

// attempt is one attempt of a call.
type attempt struct {
	call, ret int64
	unknown   bool // it may have had its effect, or will
}

// response is the response to a call: of the last attempt.
type response struct {
	status   int
	body     []byte
	header   http.Header
	request  string // its id
	key      bool   // it had an Idempotency-Key
	attempts []attempt
}

func (a response) last() attempt { return a.attempts[len(a.attempts)-1] }
func (a response) ok() bool      { return !a.last().unknown && a.status/100 == 2 }

// mayHaveSucceeded reports whether an attempt without a response may have had its effect.
func (a response) mayHaveSucceeded() bool {
	return slices.ContainsFunc(a.attempts, func(t attempt) bool { return t.unknown })
}

// part returns the response to one operation of a call as that to a call by itself. The call has an
// idempotency key: it was carried out at most once, unless a server ended meanwhile.
func (a response) part(status int, body []byte) response {
	unknown := status >= 500 || status == http.StatusConflict && a.mayHaveSucceeded()
	return response{status: status, body: body, request: a.request, key: a.key, attempts: []attempt{{a.attempts[0].call, a.last().ret, unknown}}}
}

func (a response) decode(into any) error { return json.Unmarshal(a.body, into) }

// client is one of the clients of the load, for one goroutine.
type client struct {
	*journal
	url  string
	http *http.Client
	n    int // its number
	sent int // calls
}

// do sends a call, and repeats it as documented until it has a response that is not due to a fault.
// Other statuses than those that are expected are violations.
func (c *client) do(ctx context.Context, q call) (a response) {
	c.sent++
	a.request, a.key = fmt.Sprintf("storm-%d-%d", c.n, c.sent), q.key
	began := time.Now()
	for {
		t := attempt{call: c.now()}
		status, err := c.attempt(ctx, q, &a)
		t.ret, t.unknown = c.now(), err != nil || status >= 500
		a.attempts = append(a.attempts, t)
		label := strconv.Itoa(status)
		if err != nil {
			label = "no answer"
		}
		c.count(q.kind, label)
		if status == http.StatusInternalServerError {
			c.violation("%s %s is 500 in the request %s: %s", q.method, q.path, a.request, a.body)
		}
		running := q.key && status == http.StatusConflict && bytes.Contains(a.body, []byte("still running"))
		if !t.unknown && !running {
			// An attempt before may have made what the last one finds to be there.
			done := q.key && status == http.StatusConflict && a.mayHaveSucceeded()
			if !done && !slices.Contains(q.expect, status) {
				c.violation("%s %s is %d in the request %s: %.300s", q.method, q.path, status, a.request, a.body)
			} else if status/100 == 2 && q.method != http.MethodGet {
				c.mu.Lock()
				c.acknowledged++
				c.mu.Unlock()
			}
			return a
		}
		delay := retryDelay
		if running {
			a.attempts[len(a.attempts)-1].unknown = true // the first attempt goes on
			delay *= 10
		}
		if q.once || time.Since(began) > callTimeout || ctx.Err() != nil {
			return a
		}
		pause(ctx, delay)
	}
}

func (c *client) attempt(ctx context.Context, q call, a *response) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	a.status, a.body, a.header = 0, nil, nil
	var body io.Reader
	text, plain := q.body.(string)
	switch {
	case plain:
		body = strings.NewReader(text)
	case q.body != nil:
		data, err := json.Marshal(q.body)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, q.method, c.url+"/api/v1"+q.path, body)
	if err != nil {
		return 0, err
	}
	switch {
	case plain:
		r.Header.Set("Content-Type", "text/plain")
	case q.body != nil:
		r.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(r.Header, q.header)
	r.Header.Set("X-Request-Id", a.request)
	if q.by != nil {
		r.Header.Set("Authorization", "Bearer "+q.by.bearer())
	}
	if q.key {
		r.Header.Set("Idempotency-Key", a.request)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if a.body, err = io.ReadAll(response.Body); err != nil {
		return 0, err
	}
	a.status, a.header = response.StatusCode, response.Header
	return a.status, nil
}

// writes returns the operations of a call that writes a value: those of its attempts without a response, and
// of the last one.
func (c *client) writes(a response, value string) (ops []historyOp) {
	if a.ok() && a.header.Get("Idempotent-Replayed") != "" { // an attempt before the last one has written
		return []historyOp{{Client: c.n, Kind: "write", Value: value, Call: a.attempts[0].call, Return: a.last().ret}}
	}
	for _, t := range a.attempts {
		if t.unknown || a.ok() {
			ops = append(ops, historyOp{Client: c.n, Kind: "write", Value: value, Unknown: t.unknown, Call: t.call, Return: t.ret})
		}
	}
	return ops
}

// changes returns the operations of a call that replaces an expected value.
func (c *client) changes(a response, expected, value string) (ops []historyOp) {
	for _, t := range a.attempts {
		ops = append(ops, historyOp{Client: c.n, Kind: "change", Expected: expected, Value: value, Unknown: t.unknown, Refused: !t.unknown && !a.ok(), Call: t.call, Return: t.ret})
	}
	return ops
}

// reads returns the operation of a call that read a value.
func (c *client) reads(a response, value string) historyOp {
	return historyOp{Client: c.n, Kind: "read", Value: value, Call: a.last().call, Return: a.last().ret}
}

// outcomeOf returns the outcome of a call that creates a record.
func outcomeOf(a response) outcome {
	switch {
	case a.ok():
		return exists
	case a.mayHaveSucceeded():
		return indeterminate
	}
	return absent
}

// outcomeOfDeletion returns the outcome of a call that deletes a record.
func outcomeOfDeletion(a response) outcome {
	if a.ok() || !a.last().unknown && a.status == http.StatusNotFound {
		return absent
	}
	return indeterminate
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
