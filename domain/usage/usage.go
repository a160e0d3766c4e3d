// Package usage holds the ledger of the usage of requests to models, and the
// summaries that are derived from it.
package usage

import (
	"time"

	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/plan"
)

// Entry is the usage of one request. Entries of the ledger are never changed or removed.
type Entry struct {
	ID         id.Request
	Org        id.Org
	User       id.User
	At         time.Time // when the request was admitted; it counts for that day
	Model      string
	Provider   string
	Tokens     chat.Usage
	Provenance chat.Provenance
	Outcome    chat.Outcome
}

// Sum returns the sum of the entry alone.
func (e Entry) Sum() Sum { return Sum{e.Tokens.Input, e.Tokens.Output, 1} }

// Period is the time from Start up to, but not including, End.
type Period struct {
	Start time.Time
	End   time.Time
}

// PeriodOf returns the billing period that a subscription is in at now: the
// subscription's own while it has one, else the calendar month, in UTC.
func PeriodOf(s plan.Subscription, now time.Time) Period {
	if s.Plan != plan.None && s.Plan != plan.Free && s.CurrentPeriodStart != nil && s.CurrentPeriodEnd != nil &&
		!now.Before(*s.CurrentPeriodStart) && now.Before(*s.CurrentPeriodEnd) {
		return Period{*s.CurrentPeriodStart, *s.CurrentPeriodEnd}
	}
	now = now.UTC()
	start := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return Period{start, start.AddDate(0, 1, 0)}
}

// Sum is a number of requests and the tokens that they used.
type Sum struct {
	Input    int64
	Output   int64
	Requests int64
}

// Plus returns the sum of both.
func (s Sum) Plus(t Sum) Sum {
	return Sum{s.Input + t.Input, s.Output + t.Output, s.Requests + t.Requests}
}

// Part is the sum of one model, day or user.
type Part struct {
	Of string
	Sum
}

// Summary is the usage of a period. The parts are in the order of Of, those of
// users and of days with nothing left out.
type Summary struct {
	Period
	Sum
	ByModel []Part
	ByDay   []Part
}

// Daily is the sum of one model or one user on one day.
type Daily struct {
	Day   calendar.Day
	Model string  // "" in the sum of a user
	User  id.User // "" in the sum of a model of all users
	Sum
}

// Breakdown selects daily sums of the days from First to Last, both included.
type Breakdown struct {
	First, Last calendar.Day
	ByUser      bool    // sums of users rather than of models
	User        id.User // whose models; "": those of all users. Not together with ByUser
}
