package stripepay

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/plan"
	"collab/ports"
)

const (
	// HeaderSignature has the signature of a message.
	HeaderSignature = "Payment-Signature"
	// ProviderSignature is the provider's default name of the header.
	ProviderSignature = "Stripe-Signature"

	secretPrefix  = "whsec_"
	tolerance     = 5 * time.Minute // of a message's timestamp, both ways
	maxSignature  = 4096            // bytes of the header
	maxSignatures = 16              // in it
)

var _ ports.PaymentEvents = (*Events)(nil)

// Events implements ports.PaymentEvents.
type Events struct {
	secrets []string
	plans   map[string]plan.Plan
	clock   ports.Clock
}

// NewEvents returns Events that accept messages signed with any of the secrets, so that
// secrets can be rotated. Empty ones are skipped; without secrets every message is refused.
func NewEvents(secrets []string, prices map[plan.Plan][]string, clock ports.Clock) *Events {
	e := &Events{plans: plansOf(prices), clock: clock}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); s != "" && s != secretPrefix {
			e.secrets = append(e.secrets, s)
		}
	}
	return e
}

// Sign returns the signature header of a message that is sent at the time.
func Sign(secret string, at time.Time, body []byte) string {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	return "t=" + timestamp + ",v1=" + hex.EncodeToString(sign(secret, timestamp, body))
}

func sign(secret, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// Read verifies the signature over the raw body and translates the message.
func (e *Events) Read(header func(name string) string, body []byte) (plan.Event, error) {
	sent, err := e.verify(header, body)
	if err != nil {
		return plan.Event{}, err
	}
	return e.translate(sent, body)
}

// verify checks the signature and returns the time at which the message was sent.
func (e *Events) verify(header func(name string) string, body []byte) (time.Time, error) {
	signature := cmp.Or(header(HeaderSignature), header(ProviderSignature))
	if signature == "" {
		return time.Time{}, fault.New(fault.Invalid, "The %s header is required", HeaderSignature)
	}
	bad := fault.New(fault.Invalid, "The webhook's signature is not valid")
	timestamp, given, ok := parse(signature)
	if !ok {
		return time.Time{}, bad
	}
	seconds, err := strconv.ParseUint(timestamp, 10, 40)
	if err != nil {
		return time.Time{}, bad
	}
	sent, now := time.Unix(int64(seconds), 0).UTC(), e.clock.Now()
	if now.Sub(sent) > tolerance || sent.Sub(now) > tolerance {
		return time.Time{}, fault.New(fault.Invalid, "The webhook's timestamp is too far from the present")
	}
	for _, secret := range e.secrets {
		want := sign(secret, timestamp, body)
		if slices.ContainsFunc(given, func(mac []byte) bool { return hmac.Equal(mac, want) }) {
			return sent, nil
		}
	}
	return time.Time{}, bad
}

// parse returns the timestamp of a signature header, and its signatures of version v1.
func parse(header string) (timestamp string, macs [][]byte, ok bool) {
	if len(header) > maxSignature {
		return "", nil, false
	}
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if timestamp != "" {
				return "", nil, false
			}
			timestamp = value
		case "v1":
			if mac, err := hex.DecodeString(value); err == nil {
				macs = append(macs, mac)
			}
		}
	}
	return timestamp, macs, len(macs) <= maxSignatures
}

// envelope has the fields of a message around its object.
type envelope struct {
	ID      text    `json:"id"`
	Type    text    `json:"type"`
	Created instant `json:"created"`
	Data    struct {
		Object json.RawMessage `json:"object"`
	} `json:"data"`
}

// eventReaders has the readers of the message types that have an effect.
var eventReaders = map[text]func(e *Events, object []byte, to *plan.Event) error{
	"checkout.session.completed":    readCheckout,
	"customer.subscription.created": readSubscription(plan.SubscriptionChanged),
	"customer.subscription.updated": readSubscription(plan.SubscriptionChanged),
	"customer.subscription.deleted": readSubscription(plan.SubscriptionEnded),
	"invoice.payment_failed":        readInvoice(plan.InvoiceFailed),
	"invoice.paid":                  readInvoice(plan.InvoicePaid),
}

// translate returns the event of a verified message.
func (e *Events) translate(sent time.Time, body []byte) (plan.Event, error) {
	var v envelope
	if err := decode(body, &v); err != nil {
		return plan.Event{}, fault.Field("body", "must be a JSON object")
	}
	if !isID(string(v.ID)) {
		return plan.Event{}, fault.Field("id", "must be an id of 1 to %d characters", maxID)
	}
	if v.Type == "" {
		return plan.Event{}, fault.Field("type", "must be a string that is not empty")
	}
	to := plan.Event{Message: string(v.ID), Type: word(string(v.Type)), At: v.Created.Time}
	if to.At.IsZero() || to.At.After(sent) {
		to.At = sent // the event happened before it was sent
	}
	if read, ok := eventReaders[v.Type]; ok {
		if err := read(e, v.Data.Object, &to); err != nil {
			return plan.Event{}, err
		}
	}
	return to, nil
}

func readCheckout(_ *Events, object []byte, to *plan.Event) error {
	var s session
	if err := decode(object, &s); err != nil {
		return fault.Field("data.object", "must be a JSON object")
	}
	if s.Mode != "subscription" {
		return nil
	}
	to.Kind = plan.CheckoutCompleted
	to.Org, to.Customer, to.Subscription = s.org(), string(s.Customer.ID), string(s.Subscription)
	to.Unpaid = s.PaymentStatus != "paid" && s.PaymentStatus != "no_payment_required"
	return nil
}

func readSubscription(kind plan.EventKind) func(*Events, []byte, *plan.Event) error {
	return func(e *Events, object []byte, to *plan.Event) error {
		var s subscription
		if err := decode(object, &s); err != nil {
			return fault.Field("data.object", "must be a JSON object")
		}
		if !isID(string(s.ID)) {
			return fault.Field("data.object.id", "must be an id of 1 to %d characters", maxID)
		}
		snapshot := s.remote(e.plans)
		to.Kind, to.Snapshot = kind, &snapshot
		to.Org, to.Customer, to.Subscription = snapshot.Org, snapshot.Customer, snapshot.ID
		return nil
	}
}

func readInvoice(kind plan.EventKind) func(*Events, []byte, *plan.Event) error {
	return func(_ *Events, object []byte, to *plan.Event) error {
		var i invoice
		if err := decode(object, &i); err != nil {
			return fault.Field("data.object", "must be a JSON object")
		}
		if i.subscription() == "" {
			return nil
		}
		to.Kind = kind
		to.Org, to.Customer, to.Subscription = i.org(), string(i.Customer.ID), i.subscription()
		if kind == plan.InvoicePaid {
			to.PeriodEnd = i.periodEnd()
		}
		return nil
	}
}
