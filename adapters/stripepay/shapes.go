package stripepay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"collab/domain/id"
	"collab/domain/plan"
)

// The types below have the fields that are used, of all versions of the API. Up to 2025-02 a period is in the
// subscription, and an invoice names its subscription; later a period is in the item, and
// the subscription in the invoice's parent.

const (
	maxID    = 255
	maxSeats = 1_000_000
)

type subscription struct {
	period
	ID                   text       `json:"id"`
	Status               text       `json:"status"`
	Customer             customer   `json:"customer"`
	Metadata             metadata   `json:"metadata"`
	Items                list[item] `json:"items"`
	TrialEnd             instant    `json:"trial_end"`
	CancelAtPeriodEnd    flag       `json:"cancel_at_period_end"`
	CancelAt             instant    `json:"cancel_at"`
	DefaultPaymentMethod reference  `json:"default_payment_method"`
	DefaultSource        reference  `json:"default_source"`
}

type period struct {
	Start instant `json:"current_period_start"`
	End   instant `json:"current_period_end"`
}

type item struct {
	period
	ID       text      `json:"id"`
	Price    reference `json:"price"`
	Plan     reference `json:"plan"` // the older form of a price, with the same id
	Quantity seats     `json:"quantity"`
}

type customer struct {
	ID              reference
	DefaultSource   reference
	InvoiceSettings invoiceSettings
}

type invoiceSettings struct {
	DefaultPaymentMethod reference `json:"default_payment_method"`
}

// session is a checkout session or a portal session.
type session struct {
	ID                text      `json:"id"`
	URL               text      `json:"url"`
	Mode              text      `json:"mode"`
	Status            text      `json:"status"`
	PaymentStatus     text      `json:"payment_status"`
	Customer          customer  `json:"customer"`
	Subscription      reference `json:"subscription"`
	ClientReferenceID text      `json:"client_reference_id"`
	Metadata          metadata  `json:"metadata"`
	ExpiresAt         instant   `json:"expires_at"`
}

type invoice struct {
	Customer            customer            `json:"customer"`
	Subscription        reference           `json:"subscription"`
	SubscriptionDetails subscriptionDetails `json:"subscription_details"`
	Parent              struct {
		SubscriptionDetails subscriptionDetails `json:"subscription_details"`
	} `json:"parent"`
	Lines list[line] `json:"lines"`
}

type subscriptionDetails struct {
	Subscription reference `json:"subscription"`
	Metadata     metadata  `json:"metadata"`
}

type line struct {
	Type         text      `json:"type"`
	Subscription reference `json:"subscription"`
	Parent       struct {
		Type text `json:"type"`
		Item struct {
			Subscription reference `json:"subscription"`
		} `json:"subscription_item_details"`
	} `json:"parent"`
	Period struct {
		End instant `json:"end"`
	} `json:"period"`
}

type metadata struct {
	Org  text `json:"org_id"`
	Plan text `json:"plan"`
}

type list[T any] struct {
	Data []T `json:"data"`
}

// item returns the item of the plan: the first with a configured price, else the first.
func (s subscription) item(plans map[string]plan.Plan) item {
	for _, i := range s.Items.Data {
		if plans[i.price()] != "" {
			return i
		}
	}
	if len(s.Items.Data) > 0 {
		return s.Items.Data[0]
	}
	return item{}
}

func (i item) price() string { return string(cmp.Or(i.Price, i.Plan)) }

// cancelsAtEnd reports whether the subscription is to be canceled, by either of two fields.
func (s subscription) cancelsAtEnd() bool { return bool(s.CancelAtPeriodEnd) || !s.CancelAt.IsZero() }

func (s subscription) remote(plans map[string]plan.Plan) plan.Remote {
	i := s.item(plans)
	r := plan.Remote{
		ID:                string(s.ID),
		Customer:          string(s.Customer.ID),
		Org:               orgOf(s.Metadata.Org),
		Status:            plan.RemoteStatus(word(string(s.Status))),
		Plan:              plan.None,
		Seats:             i.Quantity.n,
		PeriodStart:       cmp.Or(s.Start, i.Start).pointer(),
		PeriodEnd:         cmp.Or(s.End, i.End).pointer(),
		TrialEnd:          s.TrialEnd.pointer(),
		CancelAtPeriodEnd: s.cancelsAtEnd(),
		HasPaymentMethod:  cmp.Or(s.DefaultPaymentMethod, s.DefaultSource, s.Customer.InvoiceSettings.DefaultPaymentMethod, s.Customer.DefaultSource) != "",
	}
	if p, ok := plans[i.price()]; ok {
		r.Plan = p
	}
	return r
}

func (s session) org() id.Org { return orgOf(s.ClientReferenceID, s.Metadata.Org) }

func (s session) plan() plan.Plan {
	if p, ok := plan.Parse(string(s.Metadata.Plan)); ok {
		return p
	}
	return plan.None
}

// subscription returns the id of the invoice's subscription; empty if it has none.
func (i invoice) subscription() string {
	return string(cmp.Or(i.Subscription, i.Parent.SubscriptionDetails.Subscription, i.SubscriptionDetails.Subscription))
}

func (i invoice) org() id.Org {
	return orgOf(i.SubscriptionDetails.Metadata.Org, i.Parent.SubscriptionDetails.Metadata.Org)
}

// periodEnd returns the end of the period that the invoice pays for, which is that of a
// line: the invoice's own period is the one before.
func (i invoice) periodEnd() *time.Time {
	var end instant
	for _, l := range i.Lines.Data {
		ofSubscription := l.Type == "subscription" || l.Parent.Type == "subscription_item_details"
		subscriptionID := cmp.Or(l.Subscription, l.Parent.Item.Subscription)
		if ofSubscription && (subscriptionID == "" || string(subscriptionID) == i.subscription()) && l.Period.End.After(end.Time) {
			end = l.Period.End
		}
	}
	return end.pointer()
}

// orgOf returns the first text that is an organisation's id; empty if none is.
func orgOf(texts ...text) id.Org {
	for _, t := range texts {
		if o, ok := id.Parse[id.Org](string(t)); ok {
			return o
		}
	}
	return ""
}

var errNotObject = errors.New("no JSON object")

// decode decodes a JSON object. Fields of another type are left unset.
func decode(data []byte, v any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return errNotObject
	}
	var mismatch *json.UnmarshalTypeError
	if err := json.Unmarshal(data, v); err != nil && !errors.As(err, &mismatch) {
		return errNotObject
	}
	return nil
}

// isID reports whether s has the form of an id of the provider.
func isID(s string) bool {
	allowed := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	return s != "" && len(s) <= maxID && !strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) })
}

// text is a string. Any other JSON value decodes to "".
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	*t = ""
	if data[0] == '"' {
		return json.Unmarshal(data, (*string)(t))
	}
	return nil
}

// flag is true for the JSON value true.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	*f = string(data) == "true"
	return nil
}

// reference is an id. In JSON it is a string, or the id field of an expanded object.
type reference string

func (r *reference) UnmarshalJSON(data []byte) error {
	var object struct {
		ID text `json:"id"`
	}
	var err error
	switch data[0] {
	case '"':
		err = json.Unmarshal(data, &object.ID)
	case '{':
		err = decode(data, &object)
	}
	if *r = ""; isID(string(object.ID)) {
		*r = reference(object.ID)
	}
	return err
}

func (c *customer) UnmarshalJSON(data []byte) error {
	*c = customer{}
	if data[0] == '{' {
		var object struct {
			DefaultSource   reference       `json:"default_source"`
			InvoiceSettings invoiceSettings `json:"invoice_settings"`
		}
		if err := decode(data, &object); err != nil {
			return err
		}
		c.DefaultSource, c.InvoiceSettings = object.DefaultSource, object.InvoiceSettings
	}
	return c.ID.UnmarshalJSON(data)
}

// seats is a quantity, nil if it is missing or invalid.
type seats struct{ n *int }

func (s *seats) UnmarshalJSON(data []byte) error {
	s.n = nil
	if n, err := strconv.Atoi(string(data)); err == nil && n >= 0 && n <= maxSeats {
		s.n = &n
	}
	return nil
}

// instant is a time in seconds since 1970. Any other JSON value decodes to the zero time.
type instant struct{ time.Time }

const maxTimestamp = 253402300800 // the year 10000, which RFC 3339 cannot represent

func (t *instant) UnmarshalJSON(data []byte) error {
	t.Time = time.Time{}
	if n, err := strconv.ParseInt(string(data), 10, 64); err == nil && n > 0 && n < maxTimestamp {
		t.Time = time.Unix(n, 0).UTC()
	}
	return nil
}

func (t instant) pointer() *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t.Time
}
