package stripepay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-mock/embedded"
	"pgregory.net/rapid"

	"collab/domain/plan"
	"collab/test/must"
)

func readSubscriptionBody(t testing.TB, body string) plan.Remote {
	t.Helper()
	var s subscription
	if err := decode([]byte(body), &s); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return s.remote(plansOf(prices))
}

func TestSubscriptionsOfEveryVersionAreRead(t *testing.T) {
	three := 3
	want := plan.Remote{
		ID: "sub_1", Customer: "cus_1", Org: org, Status: plan.RemoteStatusActive, Plan: plan.Premium, Seats: &three,
		PeriodStart: at(1790000000), PeriodEnd: at(1792000000), CancelAtPeriodEnd: true, HasPaymentMethod: true,
	}
	for _, name := range []string{"2023-10-16.json", "2025-03-31.json", "2025-09-30-expanded.json"} {
		body := must.Do(os.ReadFile(filepath.Join("testdata", "subscriptions", name))).Or(t)
		if diff := cmp.Diff(want, readSubscriptionBody(t, string(body))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestASubscriptionAtAFormerPriceHasThePlan(t *testing.T) {
	for price, want := range map[string]plan.Plan{"price_standard": plan.Standard, "price_before": plan.Standard, "price_premium": plan.Premium, "price_other": plan.None} {
		s := readSubscriptionBody(t, `{"id":"sub_1","status":"active","items":{"data":[{"id":"si_1","price":{"id":"`+price+`"}}]}}`)
		must.Is(t, want, s.Plan)
	}
}

func TestTheProvidersFixturesAreRead(t *testing.T) {
	var fixtures struct{ Resources map[string]json.RawMessage }
	must.NoError(t, json.Unmarshal(embedded.OpenAPIFixtures, &fixtures))
	s := readSubscriptionBody(t, string(fixtures.Resources["subscription"]))
	one := 1
	if diff := cmp.Diff(plan.Remote{
		ID: "sub_1OPouiJN5vQBdWExOgfg6t5C", Customer: "cus_PEHTIoPSgT0tXQ", Status: plan.RemoteStatusActive, Plan: plan.None, Seats: &one,
		PeriodStart: at(1234567890), PeriodEnd: at(1234567890), TrialEnd: at(1234567890), CancelAtPeriodEnd: true,
	}, s); diff != "" {
		t.Error(diff)
	}
	var c session
	if err := decode(fixtures.Resources["checkout.session"], &c); err != nil || !strings.HasPrefix(string(c.ID), "cs_test_") || c.Mode != "payment" || c.Status != "open" {
		t.Errorf("got %+v, %v", c, err)
	}
	var i invoice
	if err := decode(fixtures.Resources["invoice"], &i); err != nil || !isID(string(i.Customer.ID)) || i.subscription() != "" || i.periodEnd() != nil {
		t.Errorf("got %+v, %v", i, err)
	}
}

func TestPartsOfASubscription(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		want   plan.Remote
	}{
		"nothing more":               {``, plan.Remote{}},
		"an unknown status":          {`"status":"hibernating"`, plan.Remote{Status: "hibernating"}},
		"a status that is none":      {`"status":"Ada <ada@example.org>"`, plan.Remote{Status: "other"}},
		"an end that is set":         {`"cancel_at":1800000000`, plan.Remote{CancelAtPeriodEnd: true}},
		"an end with the period":     {`"cancel_at_period_end":true`, plan.Remote{CancelAtPeriodEnd: true}},
		"no end":                     {`"cancel_at":null,"cancel_at_period_end":false`, plan.Remote{}},
		"its payment method":         {`"default_payment_method":"pm_1"`, plan.Remote{HasPaymentMethod: true}},
		"its source":                 {`"default_source":"src_1"`, plan.Remote{HasPaymentMethod: true}},
		"its payment method, whole":  {`"default_payment_method":{"id":"pm_1","card":{}}`, plan.Remote{HasPaymentMethod: true}},
		"the customer's method":      {`"customer":{"id":"cus_1","invoice_settings":{"default_payment_method":"pm_1"}}`, plan.Remote{Customer: "cus_1", HasPaymentMethod: true}},
		"the customer's source":      {`"customer":{"id":"cus_1","default_source":"card_1"}`, plan.Remote{Customer: "cus_1", HasPaymentMethod: true}},
		"a customer without any":     {`"customer":{"id":"cus_1","invoice_settings":{"default_payment_method":null},"default_source":null}`, plan.Remote{Customer: "cus_1"}},
		"a customer that was erased": {`"customer":{"id":"cus_1","deleted":true}`, plan.Remote{Customer: "cus_1"}},
		"a customer that is no id":   {`"customer":"Ada Lovelace"`, plan.Remote{}},
		"a trial":                    {`"trial_end":1800000000`, plan.Remote{TrialEnd: at(1800000000)}},
		"somebody else's id":         {`"metadata":{"org_id":"acme"}`, plan.Remote{}},
		"an organisation":            {`"metadata":{"org_id":"` + string(org) + `","x":{}}`, plan.Remote{Org: org}},
		"a price":                    {`"items":{"data":[{"price":{"id":"price_premium"}}]}`, plan.Remote{Plan: plan.Premium}},
		"a price by its id":          {`"items":{"data":[{"price":"price_premium"}]}`, plan.Remote{Plan: plan.Premium}},
		"what was a price before":    {`"items":{"data":[{"price":null,"plan":{"id":"price_standard"}}]}`, plan.Remote{Plan: plan.Standard}},
		"another price first":        {`"items":{"data":[{"price":{"id":"price_x"},"current_period_end":1},{"price":{"id":"price_premium"},"current_period_end":2}]}`, plan.Remote{Plan: plan.Premium, PeriodEnd: at(2)}},
		"another price alone":        {`"items":{"data":[{"price":{"id":"price_x"},"current_period_end":1}]}`, plan.Remote{PeriodEnd: at(1)}},
		"senseless seats":            {`"items":{"data":[{"quantity":-1}]}`, plan.Remote{}},
		"seats beyond reason":        {`"items":{"data":[{"quantity":1000001}]}`, plan.Remote{}},
		"times beyond the calendar":  {`"trial_end":253402300800,"current_period_end":-1,"cancel_at":"soon"`, plan.Remote{}},
		"other types than ours":      {`"items":7,"metadata":[],"customer":{"id":{}},"cancel_at_period_end":"true","default_payment_method":3`, plan.Remote{}},
		"other types within":         {`"items":{"data":[3,{"price":[]},{"price":{"id":"price_premium"},"quantity":"3"}]}`, plan.Remote{Plan: plan.Premium}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want.Plan == "" {
				c.want.Plan = plan.None
			}
			c.want.ID = "sub_1"
			got := readSubscriptionBody(t, strings.TrimSuffix(`{"id":"sub_1",`+c.fields, ",")+"}")
			must.Equal(t, c.want, got)
		})
	}
}

func TestBothVersionsOfASubscriptionDecodeToTheSame(t *testing.T) {
	type object = map[string]any
	ids := rapid.StringMatching(`[a-z]{2,4}_[A-Za-z0-9]{1,20}`)
	seconds := rapid.Int64Range(1, maxTimestamp-1)
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.SampledFrom([]string{"price_standard", "price_premium", "price_other"}).Draw(t, "price")
		start, end := seconds.Draw(t, "start"), seconds.Draw(t, "end")
		ends, method, quantity := rapid.Bool().Draw(t, "ends"), rapid.Bool().Draw(t, "method"), rapid.IntRange(0, maxSeats).Draw(t, "quantity")
		id, customerID := ids.Draw(t, "id"), ids.Draw(t, "customer")
		status := rapid.SampledFrom([]plan.RemoteStatus{plan.RemoteStatusTrialing, plan.RemoteStatusActive, plan.RemoteStatusPastDue, plan.RemoteStatusUnpaid, plan.RemoteStatusPaused, plan.RemoteStatusCanceled, plan.RemoteStatusIncompleteExpired, plan.RemoteStatusIncomplete}).Draw(t, "status")
		older := object{
			"id": id, "status": status, "customer": customerID, "metadata": object{"org_id": org},
			"current_period_start": start, "current_period_end": end, "cancel_at_period_end": ends, "cancel_at": nil,
			"items": object{"data": []object{{"id": "si_1", "quantity": quantity, "price": object{"id": price}}}},
		}
		newer := object{
			"id": id, "status": status, "customer": object{"id": customerID, "object": "customer", "invoice_settings": object{"default_payment_method": nil}},
			"metadata": object{"org_id": org}, "cancel_at_period_end": false, "cancel_at": nil,
			"items": object{"data": []object{{"id": "si_1", "quantity": quantity, "price": object{"id": price}, "current_period_start": start, "current_period_end": end}}},
		}
		if ends {
			newer["cancel_at"] = end
		}
		if method {
			older["default_payment_method"] = "pm_1"
			newer["customer"].(object)["invoice_settings"] = object{"default_payment_method": object{"id": "pm_1"}}
		}
		read := func(o object) plan.Remote {
			text := must.Do(json.Marshal(o)).Or(t)
			var s subscription
			must.NoError(t, decode(text, &s))
			return s.remote(plansOf(prices))
		}
		is := read(older)
		must.Equal(t, is, read(newer))
		if is.ID != id || is.Status != status || *is.PeriodEnd != time.Unix(end, 0).UTC() || *is.Seats != quantity || is.CancelAtPeriodEnd != ends || is.HasPaymentMethod != method {
			t.Fatalf("got %+v", is)
		}
	})
}
