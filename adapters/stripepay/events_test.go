package stripepay

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v76/webhook"
	"pgregory.net/rapid"

	"collab/adapters/memory"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/test/must"
)

const (
	secret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_dGhpcnR5LXR3byBieXRlcyBvZiBhbm90aGVyIHNlY3JldA"
	ping        = `{"id":"evt_1","type":"ping","created":1789999990}`
)

var present = *at(1790000000)

// withHeader returns a message's headers with one of them.
func withHeader(name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return ""
	}
}

func events(secrets ...string) *Events { return NewEvents(secrets, prices, memory.NewClock(present)) }

// read signs a body and reads it.
func read(body string) (plan.Event, error) {
	return events(secret).Read(withHeader(HeaderSignature, Sign(secret, present, []byte(body))), []byte(body))
}

func TestSignaturesAreTheProvidersOwn(t *testing.T) {
	body := []byte(ping)
	theirs := webhook.ComputeSignature(present, body, secret)
	must.Is(t, Sign(secret, present, body), fmt.Sprintf("t=%d,v1=%s", present.Unix(), hex.EncodeToString(theirs)))
	must.NoError(t, webhook.ValidatePayloadIgnoringTolerance(body, Sign(secret, present, body), secret))
}

func TestOnlySignedMessagesAreRead(t *testing.T) {
	mac := strings.TrimPrefix(Sign(secret, present, []byte(ping)), "t=1790000000,v1=")
	others := strings.TrimPrefix(Sign(otherSecret, present, []byte(ping)), "t=1790000000,v1=")
	later := func(d time.Duration) string { return Sign(secret, present.Add(d), []byte(ping)) }
	one := []string{secret}
	for name, c := range map[string]struct {
		secrets   []string
		signature string
		body      string
		accepted  bool
	}{
		"valid":                      {one, later(0), ping, true},
		"five minutes old":           {one, later(-5 * time.Minute), ping, true},
		"older":                      {one, later(-5*time.Minute - time.Second), ping, false},
		"five minutes ahead":         {one, later(5 * time.Minute), ping, true},
		"further ahead":              {one, later(5*time.Minute + time.Second), ping, false},
		"two days ahead":             {one, later(48 * time.Hour), ping, false},
		"another body":               {one, later(0), ping + " ", false},
		"another time":               {one, "t=1790000001,v1=" + mac, ping, false},
		"the first of several":       {one, "t=1790000000,v1=" + mac + ",v1=" + others, ping, true},
		"the last of several":        {one, "t=1790000000,v1=" + others + ",v1=zz,v1=" + mac, ping, true},
		"the time last":              {one, "v1=" + mac + ",t=1790000000", ping, true},
		"another version beside":     {one, "t=1790000000,v0=" + others + ",v1=" + mac, ping, true},
		"another version alone":      {one, "t=1790000000,v0=" + mac, ping, false},
		"spaces between":             {one, "t=1790000000, v1=" + mac, ping, true},
		"upper case":                 {one, "t=1790000000,v1=" + strings.ToUpper(mac), ping, true},
		"the other secret":           {[]string{otherSecret}, later(0), ping, false},
		"one of two secrets":         {[]string{otherSecret, secret}, later(0), ping, true},
		"a secret with space around": {[]string{" " + secret + "\n"}, later(0), ping, true},
		"a secret beside none":       {[]string{"", secret}, later(0), ping, true},
		"no secrets":                 {nil, Sign("", present, []byte(ping)), ping, false},
		"an empty secret":            {[]string{""}, Sign("", present, []byte(ping)), ping, false},
		"a secret of spaces":         {[]string{"  "}, Sign("  ", present, []byte(ping)), ping, false},
		"an empty secret's prefix":   {[]string{"whsec_"}, Sign("whsec_", present, []byte(ping)), ping, false},
		"no header":                  {one, "", ping, false},
		"no time":                    {one, "v1=" + mac, ping, false},
		"an empty time":              {one, "t=,v1=" + mac, ping, false},
		"two times":                  {one, "t=1790000000,t=1790000000,v1=" + mac, ping, false},
		"an invalid time":            {one, "t=now,v1=" + mac, ping, false},
		"a time with a sign":         {one, "t=+1790000000,v1=" + mac, ping, false},
		"a negative time":            {one, "t=-1,v1=" + mac, ping, false},
		"a time beyond an integer":   {one, "t=99999999999999999999,v1=" + mac, ping, false},
		"no signature":               {one, "t=1790000000", ping, false},
		"an empty signature":         {one, "t=1790000000,v1=", ping, false},
		"half a signature":           {one, "t=1790000000,v1=" + mac[:32], ping, false},
		"a signature and more":       {one, "t=1790000000,v1=" + mac + "00", ping, false},
		"garbage":                    {one, "\x00=,,=;v1", ping, false},
		"too many signatures":        {one, "t=1790000000" + strings.Repeat(",v1="+others, maxSignatures) + ",v1=" + mac, ping, false},
		"too long a header":          {one, "t=1790000000,v1=" + mac + strings.Repeat(",", maxSignature), ping, false},
		"no body":                    {one, Sign(secret, present, nil), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, header := range []string{HeaderSignature, ProviderSignature} {
				got, err := events(c.secrets...).Read(withHeader(header, c.signature), []byte(c.body))
				if c.accepted && (err != nil || got.Message != "evt_1") || !c.accepted && !fault.Is(err, fault.Invalid) {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
}

func TestTheFirstHeaderCountsAlone(t *testing.T) {
	good := Sign(secret, present, []byte(ping))
	both := map[string]string{HeaderSignature: "t=1790000000,v1=" + strings.Repeat("0", 64), ProviderSignature: good}
	must.Fail(t, must.ErrorOf(events(secret).Read(func(name string) string { return both[name] }, []byte(ping))), fault.Invalid)
}

func TestEventsOfEveryVersionAreRead(t *testing.T) {
	three := 3
	happened := *at(1789999990)
	snapshot := plan.Remote{
		ID: "sub_1", Customer: "cus_1", Org: org, Status: plan.RemoteStatusActive, Plan: plan.Premium, Seats: &three,
		PeriodStart: at(1790000000), PeriodEnd: at(1792000000), CancelAtPeriodEnd: true, HasPaymentMethod: true,
	}
	over := snapshot
	over.Status = plan.RemoteStatusCanceled
	base := plan.Event{Message: "evt_1", At: happened, Org: org, Customer: "cus_1", Subscription: "sub_1"}
	with := func(change func(e *plan.Event)) plan.Event {
		e := base
		change(&e)
		return e
	}
	paid := with(func(e *plan.Event) { e.Kind, e.Type, e.PeriodEnd = plan.InvoicePaid, "invoice.paid", at(1792000000) })
	for name, want := range map[string]plan.Event{
		"checkout.session.completed": with(func(e *plan.Event) { e.Kind, e.Type = plan.CheckoutCompleted, "checkout.session.completed" }),
		"customer.subscription.updated": with(func(e *plan.Event) {
			e.Kind, e.Type, e.Snapshot = plan.SubscriptionChanged, "customer.subscription.updated", &snapshot
		}),
		"customer.subscription.deleted": with(func(e *plan.Event) {
			e.Kind, e.Type, e.Snapshot = plan.SubscriptionEnded, "customer.subscription.deleted", &over
		}),
		"invoice.paid-2023-10-16": paid,
		"invoice.paid-2025-03-31": paid,
	} {
		body := must.Do(os.ReadFile(filepath.Join("testdata", "events", name+".json"))).Or(t)
		got := must.Do(read(string(body))).Or(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func event(kind, object string) string {
	return `{"id":"evt_1","type":"` + kind + `","created":1789999990,"data":{"object":` + object + `}}`
}

func TestPartsOfAnEvent(t *testing.T) {
	const (
		completed = "checkout.session.completed"
		ours      = `"metadata":{"org_id":"` + string(org) + `"}`
		others    = `"metadata":{"org_id":"` + string(otherOrg) + `"}`
	)
	for name, c := range map[string]struct {
		kind, object string
		want         plan.Event
	}{
		"a checkout of something else": {completed, `{"mode":"payment","payment_status":"paid","customer":"cus_1"}`, plan.Event{}},
		"a checkout without a mode":    {completed, `{"payment_status":"paid"}`, plan.Event{}},
		"a checkout that was paid": {completed, `{"mode":"subscription","payment_status":"paid","customer":{"id":"cus_1"},"subscription":{"id":"sub_1"},"client_reference_id":"` + string(org) + `",` + others + `}`,
			plan.Event{Kind: plan.CheckoutCompleted, Org: org, Customer: "cus_1", Subscription: "sub_1"}},
		"a checkout that costs nothing": {completed, `{"mode":"subscription","payment_status":"no_payment_required","client_reference_id":"acme",` + others + `}`, plan.Event{Kind: plan.CheckoutCompleted, Org: otherOrg}},
		"a checkout that was not paid":  {completed, `{"mode":"subscription","payment_status":"unpaid"}`, plan.Event{Kind: plan.CheckoutCompleted, Unpaid: true}},
		"a checkout that does not say":  {completed, `{"mode":"subscription"}`, plan.Event{Kind: plan.CheckoutCompleted, Unpaid: true}},
		"a checkout that was paid late": {"checkout.session.async_payment_succeeded", `{"mode":"subscription"}`, plan.Event{}},
		"a subscription that was made": {"customer.subscription.created", `{"id":"sub_1","status":"incomplete",` + ours + `}`,
			plan.Event{Kind: plan.SubscriptionChanged, Org: org, Subscription: "sub_1", Snapshot: &plan.Remote{ID: "sub_1", Org: org, Status: plan.RemoteStatusIncomplete, Plan: plan.None}}},
		"a failed invoice": {"invoice.payment_failed", `{"customer":"cus_1","subscription":"sub_1","subscription_details":{` + ours + `},"lines":{"data":[{"type":"subscription","period":{"end":1800000000}}]}}`,
			plan.Event{Kind: plan.InvoiceFailed, Org: org, Customer: "cus_1", Subscription: "sub_1"}},
		"a failed invoice, newer": {"invoice.payment_failed", `{"customer":"cus_1","parent":{"subscription_details":{"subscription":{"id":"sub_1"},` + ours + `}}}`,
			plan.Event{Kind: plan.InvoiceFailed, Org: org, Customer: "cus_1", Subscription: "sub_1"}},
		"an invoice for something else": {"invoice.paid", `{"customer":"cus_1","subscription":null,"parent":null}`, plan.Event{}},
		"an invoice with a line of another": {"invoice.paid", `{"subscription":"sub_1","lines":{"data":[{"type":"subscription","subscription":"sub_2","period":{"end":1800000000}},{"type":"subscription","period":{"end":1700000000}}]}}`,
			plan.Event{Kind: plan.InvoicePaid, Subscription: "sub_1", PeriodEnd: at(1700000000)}},
		"an invoice without lines": {"invoice.paid", `{"subscription":"sub_1","lines":null,"period_end":1800000000}`, plan.Event{Kind: plan.InvoicePaid, Subscription: "sub_1"}},
		"something else":           {"charge.refunded", `"not even an object"`, plan.Event{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Message, c.want.Type, c.want.At = "evt_1", c.kind, *at(1789999990)
			got := must.Do(read(event(c.kind, c.object))).Or(t)
			must.Equal(t, c.want, got)
		})
	}
}

func TestAnEventHappenedBeforeItWasSent(t *testing.T) {
	for created, want := range map[string]time.Time{
		`1789000000`: *at(1789000000), `1790000000`: present, `1790000001`: present, `99999999999`: present,
		`null`: present, `"soon"`: present, `-1`: present, `1e9`: present, `1789000000.5`: present,
	} {
		got, err := read(`{"id":"evt_1","type":"ping","created":` + created + `}`)
		if err != nil || got.At != want {
			t.Errorf("%s gives %v, %v", created, got.At, err)
		}
	}
}

func TestInvalidTypesAreNotStored(t *testing.T) {
	for _, kind := range []string{strings.Repeat("x", 65), `Ada <ada@example.org>`, `a\nb`, `é`} {
		if got, err := read(`{"id":"evt_1","type":"` + kind + `"}`); err != nil || got.Type != "other" || got.Kind != plan.Unrelated {
			t.Errorf("%q gives %+v, %v", kind, got, err)
		}
	}
}

func TestErrorsOfInvalidBodiesNameTheField(t *testing.T) {
	for body, field := range map[string]string{
		``: "body", `null`: "body", `[]`: "body", `{"id":"evt_1"`: "body", `{} {}`: "body",
		`{}`: "id", `{"id":7,"type":"ping"}`: "id", `{"id":"","type":"ping"}`: "id", `{"id":"a b","type":"ping"}`: "id",
		`{"id":"` + strings.Repeat("a", 256) + `","type":"ping"}`: "id",
		`{"id":"evt_1"}`:                                                               "type",
		`{"id":"evt_1","type":{}}`:                                                     "type",
		`{"id":"evt_1","type":"invoice.paid"}`:                                         "data.object",
		`{"id":"evt_1","type":"invoice.paid","data":[]}`:                               "data.object",
		event("invoice.paid", `"in_1"`):                                                "data.object",
		event("checkout.session.completed", `null`):                                    "data.object",
		event("invoice.paid", strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)): "body",
		event("customer.subscription.updated", `[]`):                                   "data.object",
		event("customer.subscription.updated", `{}`):                                   "data.object.id",
		event("customer.subscription.deleted", `{"id":"../x"}`):                        "data.object.id",
	} {
		_, err := read(body)
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), field+" must") {
			t.Errorf("%s gives %v, want a complaint about %s", body, err, field)
		}
	}
}

func TestChangedMessagesAreRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "body")
		signature := Sign(secret, present, body)
		_, err := events(otherSecret, secret).Read(withHeader(HeaderSignature, signature), body)
		if err != nil && !strings.HasPrefix(err.Error(), "body must") && !strings.HasPrefix(err.Error(), "id must") {
			t.Fatalf("what is signed is refused: %v", err)
		}
		changed := append([]byte{}, body...)
		changed[rapid.IntRange(0, len(body)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		if _, err := events(otherSecret, secret).Read(withHeader(HeaderSignature, signature), changed); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "signature is not valid") {
			t.Fatalf("what was changed gives %v", err)
		}
	})
}

// storable returns an error if a field of an event cannot be stored.
func storable(e plan.Event) error {
	if !isID(e.Message) || e.Type == "" || len(e.Type) > maxIdentifier || e.At.IsZero() || e.At.After(present) {
		return fmt.Errorf("the message is %q of type %q at %v", e.Message, e.Type, e.At)
	}
	ids := []string{e.Customer, e.Subscription}
	orgs := []id.Org{e.Org}
	times := []*time.Time{e.PeriodEnd}
	if r := e.Snapshot; r != nil {
		ids, orgs = append(ids, r.ID, r.Customer), append(orgs, r.Org)
		times = append(times, r.PeriodStart, r.PeriodEnd, r.TrialEnd)
		if r.ID != e.Subscription || r.Seats != nil && (*r.Seats < 0 || *r.Seats > maxSeats) ||
			len(r.Status) > maxIdentifier {
			return fmt.Errorf("the snapshot is %+v", r)
		}
		if _, ok := plan.Parse(string(r.Plan)); !ok {
			return fmt.Errorf("the plan is %q", r.Plan)
		}
	}
	for _, s := range ids {
		if s != "" && !isID(s) {
			return fmt.Errorf("an id is %q", s)
		}
	}
	for _, o := range orgs {
		if _, ok := id.Parse[id.Org](string(o)); o != "" && !ok {
			return fmt.Errorf("an organisation is %q", o)
		}
	}
	for _, t := range times {
		if t != nil && (t.Unix() <= 0 || t.Year() > 9999) {
			return fmt.Errorf("a time is %v", t)
		}
	}
	return nil
}

func FuzzEvent(f *testing.F) {
	for _, directory := range []string{"events", "subscriptions"} {
		names, err := filepath.Glob(filepath.Join("testdata", directory, "*.json"))
		if err != nil || len(names) == 0 {
			f.Fatal("no examples", err)
		}
		for _, name := range names {
			body := must.Do(os.ReadFile(name)).Or(f)
			f.Add(body)
			f.Add([]byte(event("customer.subscription.updated", string(body))))
		}
	}
	for _, body := range []string{``, `{}`, ping, event("invoice.paid", `{"subscription":{"id":1},"lines":{"data":[[],{"parent":7}]}}`), event("customer.subscription.created", `{"id":"sub_1","items":[],"customer":[]}`)} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := read(string(body))
		switch {
		case err == nil:
			must.NoError(t, storable(got))
		case !fault.Is(err, fault.Invalid):
			t.Errorf("got %v", err)
		}
	})
}

// FuzzSignature checks that a header is accepted only with the signature of the secret.
func FuzzSignature(f *testing.F) {
	mac := strings.TrimPrefix(Sign(secret, present, []byte(ping)), "t=1790000000,v1=")
	for _, header := range []string{
		Sign(secret, present, []byte(ping)), Sign(otherSecret, present, []byte(ping)), "t=1790000000,v1=" + strings.ToUpper(mac), "v1=" + mac + ",t=1790000000",
		"t=1790000000,v0=" + mac, "t=1790000000,t=1,v1=" + mac, "t=,v1=", "t=1790000000;v1=" + mac, ",,,", "=", "t=1790000000,v1=" + mac + ",v1=" + mac,
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		_, err := events(secret).Read(withHeader(HeaderSignature, header), []byte(ping))
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("got %v", err)
		}
		if err != nil {
			return
		}
		timestamp, _, ok := parse(header)
		seconds, parseErr := strconv.ParseInt(timestamp, 10, 64)
		if !ok || parseErr != nil {
			t.Fatalf("%q is accepted without a time", header)
		}
		right := strings.SplitN(Sign(secret, time.Unix(seconds, 0), []byte(ping)), "v1=", 2)[1]
		if !strings.Contains(strings.ToLower(header), "v1="+right) && timestamp == strconv.FormatInt(seconds, 10) {
			t.Errorf("%q is accepted", header)
		}
	})
}
