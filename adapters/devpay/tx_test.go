package devpay

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/adapters/memory"
	"collab/test/must"
)

// TestActions checks invariants of a subscription and its events after random actions.
func TestActions(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		at := time.Unix(rapid.Int64Range(1_600_000_000, 2_000_000_000).Draw(r, "now"), 0).UTC()
		p := &Provider{options: Options{Clock: memory.NewClock(at), IDs: &memory.IDs{}, Prices: map[string]string{"price_s": "STANDARD"}}}
		b := &state{
			Customers: map[string]customer{"cus_1": {ID: "cus_1", Name: "Engines"}}, Subscriptions: map[string]subscription{},
			Sessions: map[string]session{"cs_1": {ID: "cs_1", Customer: "cus_1", Price: "price_s", Quantity: 1, ExpiresAt: at.Add(time.Hour)}},
		}
		page := must.Do(p.tx(b).pay("cs_1")).Or(r)
		id := page.Subscription
		for range rapid.IntRange(1, 12).Draw(r, "actions") {
			a := rapid.SampledFrom([]Action{Fail, Succeed, Schedule, Keep, Cancel, NextPeriod}).Draw(r, "action")
			was, sent := b.Subscriptions[id], len(b.Outbox)
			err := p.tx(b).act(id, a)
			is := b.Subscriptions[id]
			switch {
			case err != nil && len(b.Outbox) != sent:
				r.Fatalf("%s was refused and has an event", a)
			case err == nil && was.Status == canceled:
				r.Fatalf("%s happened to what is over", a)
			case err == nil && len(b.Outbox) == sent:
				r.Fatalf("%s has no event", a)
			case is.periodEnd().Before(was.periodEnd()):
				r.Fatalf("%s took a period away", a)
			case (is.Status == canceled) == is.EndedAt.IsZero():
				r.Fatalf("%s made it %s, ended at %s", a, is.Status, is.EndedAt)
			case (is.Status == pastDue) != is.Invoice.PaidAt.IsZero() && is.Status != canceled:
				r.Fatalf("%s made it %s with an invoice that was paid at %s", a, is.Status, is.Invoice.PaidAt)
			}
		}
		if last := lastSent(r, b); last != b.Subscriptions[id].Status {
			r.Fatalf("it is %s, and the last event says %s", b.Subscriptions[id].Status, last)
		}
	})
}

// lastSent returns the status in the last event with a subscription.
func lastSent(r *rapid.T, b *state) (status string) {
	for _, m := range b.Outbox {
		var e struct {
			Data struct {
				Object struct{ Object, Status string } `json:"object"`
			} `json:"data"`
		}
		must.NoError(r, json.Unmarshal(m.Body, &e))
		if e.Data.Object.Object == "subscription" {
			status = e.Data.Object.Status
		}
	}
	return status
}

// TestMonths checks the ends of periods.
func TestMonths(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		anchor := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(r, "anchor"), 0).UTC()
		n := rapid.IntRange(0, 600).Draw(r, "months")
		end := monthsAfter(anchor, n)
		first := time.Date(anchor.Year(), anchor.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		last := first.AddDate(0, 1, -1).Day()
		if end.Month() != first.Month() || end.Year() != first.Year() || end.Day() != min(anchor.Day(), last) || end.Hour() != anchor.Hour() {
			r.Fatalf("%d months after %s is %s", n, anchor, end)
		}
	})
}
