package devpay

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"collab/adapters/atomicfile"
)

// maxRecords limits the records of each kind in the state.
const maxRecords = 1000

// customer is a paying customer.
type customer struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
}

// session is a checkout session. Its id is the secret of its URL.
type session struct {
	ID                   string            `json:"id"`
	Customer             string            `json:"customer"`
	Price                string            `json:"price"`
	Quantity             int               `json:"quantity"`
	Reference            string            `json:"reference,omitempty"`
	Metadata             map[string]string `json:"metadata,omitempty"`
	SubscriptionMetadata map[string]string `json:"subscriptionMetadata,omitempty"`
	SuccessURL           string            `json:"successUrl"`
	CancelURL            string            `json:"cancelUrl,omitempty"`
	Subscription         string            `json:"subscription,omitempty"` // empty: not paid
	CreatedAt            time.Time         `json:"createdAt"`
	ExpiresAt            time.Time         `json:"expiresAt"`
	Expired              bool              `json:"expired,omitempty"` // by request
}

// The statuses of a session.
const (
	open     = "open"
	complete = "complete"
	expired  = "expired"
)

func (s session) status(now time.Time) string {
	switch {
	case s.Subscription != "":
		return complete
	case s.Expired || !now.Before(s.ExpiresAt):
		return expired
	}
	return open
}

// The statuses of a subscription.
const (
	incomplete = "incomplete"
	active     = "active"
	pastDue    = "past_due"
	canceled   = "canceled"
)

// subscription is a plan that is paid every month. Its periods are counted from the anchor:
// those of a subscription from the 31st end on the last day of each month.
type subscription struct {
	ID                string            `json:"id"`
	Item              string            `json:"item"`
	PaymentMethod     string            `json:"paymentMethod"`
	Customer          string            `json:"customer"`
	Price             string            `json:"price"`
	Quantity          int               `json:"quantity"`
	Metadata          map[string]string `json:"metadata,omitempty"`
	Status            string            `json:"status"`
	Anchor            time.Time         `json:"anchor"`
	Month             int               `json:"month"` // of the present period
	CancelAtPeriodEnd bool              `json:"cancelAtPeriodEnd,omitempty"`
	EndedAt           time.Time         `json:"endedAt,omitzero"`
	Invoice           invoice           `json:"invoice"` // the last one
}

func (s subscription) periodStart() time.Time { return monthsAfter(s.Anchor, s.Month) }
func (s subscription) periodEnd() time.Time   { return monthsAfter(s.Anchor, s.Month+1) }

// monthsAfter returns the same day n months later, or the last day of a shorter month.
func monthsAfter(t time.Time, n int) time.Time {
	later := t.AddDate(0, n, 0)
	if later.Day() != t.Day() {
		later = later.AddDate(0, 0, -later.Day())
	}
	return later
}

// invoice is the invoice of a subscription for a period.
type invoice struct {
	ID     string    `json:"id"`
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"`
	PaidAt time.Time `json:"paidAt,omitzero"` // zero: it is not paid
}

// portalSession is a session of the customer portal. Its key is the secret of its URL.
type portalSession struct {
	ID        string    `json:"id"`
	Customer  string    `json:"customer"`
	Back      string    `json:"back"`
	CreatedAt time.Time `json:"createdAt"`
}

// portalLifetime is how long a portal session is valid.
const portalLifetime = 24 * time.Hour

// storedResponse is the response to a request with an idempotency key.
type storedResponse struct {
	Request   string          `json:"request"` // fingerprint of the request
	Body      json.RawMessage `json:"body"`
	CreatedAt time.Time       `json:"createdAt"`
}

// responseLifetime is how long a response is stored.
const responseLifetime = 24 * time.Hour

// message is an event in the outbox.
type message struct {
	ID   string          `json:"id"`
	Body json.RawMessage `json:"body"`
}

// state has the provider's records by id, and its outbox.
type state struct {
	Key            string                    `json:"key"` // of the API
	Customers      map[string]customer       `json:"customers"`
	Sessions       map[string]session        `json:"sessions"`
	Subscriptions  map[string]subscription   `json:"subscriptions"`
	PortalSessions map[string]portalSession  `json:"visits"`
	Responses      map[string]storedResponse `json:"answers"`
	Outbox         []message                 `json:"outbox"`
}

// subscriptionsOf returns the customer's subscriptions, the newest first.
func (b *state) subscriptionsOf(customer string) []subscription {
	var list []subscription
	for _, s := range b.Subscriptions {
		if s.Customer == customer {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y subscription) int { return cmp.Or(y.Anchor.Compare(x.Anchor), cmp.Compare(y.ID, x.ID)) })
	return list
}

// prune removes records that are no longer used, the oldest first, down to maxRecords of
// each kind. It fails if more than that are used.
func (b *state) prune(now time.Time) error {
	maps.DeleteFunc(b.PortalSessions, func(_ string, v portalSession) bool { return !now.Before(v.CreatedAt.Add(portalLifetime)) })
	maps.DeleteFunc(b.Responses, func(_ string, a storedResponse) bool { return !now.Before(a.CreatedAt.Add(responseLifetime)) })
	used := map[string]bool{}
	for _, s := range b.Subscriptions {
		used[s.Customer] = used[s.Customer] || s.Status != canceled
	}
	for _, s := range b.Sessions {
		used[s.Customer] = used[s.Customer] || s.status(now) == open
	}
	trim(b.PortalSessions, func(portalSession) bool { return true }, func(v portalSession) time.Time { return v.CreatedAt })
	trim(b.Responses, func(storedResponse) bool { return true }, func(a storedResponse) time.Time { return a.CreatedAt })
	trim(b.Sessions, func(s session) bool { return s.status(now) != open }, func(s session) time.Time { return s.CreatedAt })
	trim(b.Subscriptions, func(s subscription) bool { return s.Status == canceled }, func(s subscription) time.Time { return s.Anchor })
	trim(b.Customers, func(c customer) bool { return !used[c.ID] }, func(c customer) time.Time { return c.CreatedAt })
	if len(b.Sessions) > maxRecords || len(b.Subscriptions) > maxRecords || len(b.Customers) > maxRecords || len(b.Outbox) > maxRecords {
		return errFull
	}
	return nil
}

// trim removes the oldest records for which unused is true until maxRecords remain.
func trim[T any](records map[string]T, unused func(T) bool, since func(T) time.Time) {
	if len(records) <= maxRecords {
		return
	}
	var old []string
	for key, r := range records {
		if unused(r) {
			old = append(old, key)
		}
	}
	slices.SortFunc(old, func(x, y string) int {
		return cmp.Or(since(records[x]).Compare(since(records[y])), cmp.Compare(x, y))
	})
	for _, key := range old[:min(len(old), len(records)-maxRecords)] {
		delete(records, key)
	}
}

// check returns an error if the state was not written by this package.
func (b state) check() error {
	if b.Key == "" || b.Customers == nil || b.Sessions == nil || b.Subscriptions == nil || b.PortalSessions == nil || b.Responses == nil {
		return errors.New("the key, customers, sessions, subscriptions, visits or answers are missing")
	}
	return nil
}

// openState reads the file, or creates one with the API key.
func openState(path, key string) (*atomicfile.Document[state], error) {
	initial := state{
		Key: key, Customers: map[string]customer{}, Sessions: map[string]session{}, Subscriptions: map[string]subscription{},
		PortalSessions: map[string]portalSession{}, Responses: map[string]storedResponse{},
	}
	return atomicfile.OpenDocument(path, initial, state.check)
}
