package httpapi

import (
	"net/http"
	"sync"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/domain/org"
)

const (
	minutesKept = 60          // minutes of the counts
	sampleEvery = time.Second // interval of the samples
)

// minuteCounts are the counts of requests that ended in one minute, and its maxima of inProgress.
type minuteCounts struct {
	start    time.Time
	requests int64
	refused  int64 // answered 4xx
	failed   int64 // answered 5xx
	total    time.Duration
	inProgress
}

// inProgress has the numbers of concurrent things at one moment, or their maxima in some time.
type inProgress struct {
	feeds     int64
	calls     int64 // of models and providers; 0 without a limit of concurrency, as those below
	transfers int64
	waiting   int64 // requests, for permits
}

// recent counts the requests of the last minutesKept minutes.
type recent struct {
	mu      sync.Mutex
	minutes [minutesKept]minuteCounts // by the number of the minute, modulo; guarded by mu
}

// minuteAt returns the counts of the minute of a time, and resets them for a new minute. The caller holds mu.
func (r *recent) minuteAt(at time.Time) *minuteCounts {
	start := at.Truncate(time.Minute)
	m := &r.minutes[start.Unix()/60%minutesKept]
	if !m.start.Equal(start) {
		*m = minuteCounts{start: start}
	}
	return m
}

// add counts a request that ended.
func (r *recent) add(ended time.Time, took time.Duration, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.minuteAt(ended)
	m.requests++
	m.total += took
	switch {
	case status >= http.StatusInternalServerError:
		m.failed++
	case status >= http.StatusBadRequest:
		m.refused++
	}
}

// sample updates the maxima of the minute of a time.
func (r *recent) sample(at time.Time, now inProgress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.minuteAt(at)
	m.inProgress = inProgress{max(m.feeds, now.feeds), max(m.calls, now.calls), max(m.transfers, now.transfers), max(m.waiting, now.waiting)}
}

// list returns the counts of the last minutes with requests, the oldest first.
func (r *recent) list(now time.Time) (all []minuteCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := minutesKept - 1; n >= 0; n-- {
		start := now.Truncate(time.Minute).Add(-time.Duration(n) * time.Minute)
		if m := r.minutes[start.Unix()/60%minutesKept]; m.start.Equal(start) {
			all = append(all, m)
		}
	}
	return all
}

// sample records the present numbers.
func (a *api) sample() {
	now := inProgress{feeds: a.Feed.Stats().Subscribers}
	for kind, s := range a.shares.kinds() {
		stats := s.Stats()
		now.waiting += stats.Waiting
		switch kind {
		case "calls":
			now.calls = stats.Used
		case "transfers":
			now.transfers = stats.Used
		}
	}
	a.recent.sample(a.Now(), now)
}

type (
	healthView struct {
		Ready     bool                  `json:"ready"`
		Problem   *string               `json:"problem"`
		Version   string                `json:"version"`
		Schema    int64                 `json:"schema"`
		StartedAt jsonTime              `json:"startedAt"`
		Active    int64                 `json:"activeRequests"`
		Feeds     int64                 `json:"feeds"`
		Shares    map[string]shareView  `json:"shares"`
		Budgets   map[string]budgetView `json:"budgets"`
		Minutes   []minuteView          `json:"minutes"`
	}
	shareView struct {
		Used     int64 `json:"used"`
		Waiting  int64 `json:"waiting"`
		Refusals int64 `json:"refusals"`
	}
	budgetView struct {
		UsedBytes int64 `json:"usedBytes"`
		Refusals  int64 `json:"refusals"`
	}
	minuteView struct {
		Start     jsonTime `json:"start"`
		Requests  int64    `json:"requests"`
		Refused   int64    `json:"clientErrors"`
		Failed    int64    `json:"serverErrors"`
		Mean      float64  `json:"meanSeconds"`
		Feeds     int64    `json:"feeds"`
		Calls     int64    `json:"calls"`
		Transfers int64    `json:"transfers"`
		Waiting   int64    `json:"waiting"`
	}
)

// health replies with the state of this server and its counts of the last hour.
func (a *api) health(c *call, _ org.Actor) error {
	v := healthView{
		Ready: true, Version: a.Release, Schema: a.Schema, StartedAt: jsonTime(a.began), Active: a.active.Load(), Feeds: a.Feed.Stats().Subscribers,
		Shares: map[string]shareView{}, Budgets: map[string]budgetView{}, Minutes: []minuteView{},
	}
	if err := a.checkReady(); err != nil {
		v.Ready, v.Problem = false, textOrNull(err.Error())
	}
	for kind, s := range a.shares.kinds() {
		stats := s.Stats()
		v.Shares[kind] = shareView{stats.Used, stats.Waiting, stats.Refusals}
	}
	for name, b := range a.budgetsByName() {
		v.Budgets[name] = budgetView{b.Used(), b.Refusals()}
	}
	a.sample()
	for _, m := range a.recent.list(a.Now()) {
		v.Minutes = append(v.Minutes, minuteView{
			jsonTime(m.start), m.requests, m.refused, m.failed, m.total.Seconds() / float64(max(1, m.requests)),
			m.feeds, m.calls, m.transfers, m.waiting,
		})
	}
	c.Header()["Cache-Control"] = noStore
	return c.reply(http.StatusOK, v)
}

// kinds returns the shares by kind of work, or none without a limit of concurrency.
func (s shares) kinds() map[string]*limit.Shares {
	if s == (shares{}) {
		return nil
	}
	return map[string]*limit.Shares{"requests": s.requests, "streams": s.streams, "transfers": s.transfers, "calls": s.calls, "webhooks": s.webhooks}
}

// budgetsByName returns the budgets of requests and connections.
func (a *api) budgetsByName() map[string]*limit.Budget {
	return map[string]*limit.Budget{"anonymous": a.budgets.anonymous, "callers": a.budgets.callers, "connections": a.Connections, "spool": a.budgets.spool}
}
