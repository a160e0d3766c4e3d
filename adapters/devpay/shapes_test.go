package devpay_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-mock/embedded"

	"collab/adapters/devpay"
)

// schemas are the schemas of Stripe's API in APIVersion.
var schemas = sync.OnceValues(func() (openapi3.Schemas, error) {
	doc, err := openapi3.NewLoader().LoadFromData(embedded.OpenAPISpec)
	if err != nil {
		return nil, err
	}
	return doc.Components.Schemas, nil
})

// checkSchema checks a JSON object and the objects in it against their schemas. All fields
// of a schema must be present.
func checkSchema(t *testing.T, text []byte) {
	t.Helper()
	known, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	name, _ := value["object"].(string)
	schema := known[name]
	if schema == nil {
		t.Fatalf("there is no object %q: %s", name, text)
	}
	if err := schema.Value.VisitJSON(value, openapi3.MultiErrors()); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for field := range value {
		if schema.Value.Properties[field] == nil && !legacy[name+"."+field] {
			t.Errorf("%s has a field %s, which Stripe's has not", name, field)
		}
	}
}

// legacy are fields that Stripe sends without describing them.
var legacy = map[string]bool{"subscription.plan": true, "subscription.quantity": true}

// TestShapes checks responses and events against Stripe's schemas.
func TestShapes(t *testing.T) {
	st := newFixture(t, t.TempDir())
	if devpay.APIVersion != stripe.APIVersion {
		t.Errorf("the version is %s, that of the library %s", devpay.APIVersion, stripe.APIVersion)
	}
	answered := func(method, path, form string) string {
		t.Helper()
		p, body := st.ask(method, path, form)
		if p.StatusCode != 200 {
			t.Fatalf("%s %s answered %s: %s", method, path, p.Status, p.text)
		}
		checkSchema(t, []byte(p.text))
		id, _ := body["id"].(string)
		return id
	}
	c := answered("POST", "/v1/customers", "name=Engines&metadata[org_id]=org-1")
	form := "mode=subscription&customer=" + c + "&line_items[0][price]=price_s&success_url=http://localhost/s&metadata[org_id]=org-1"
	closed := answered("POST", "/v1/checkout/sessions", form)
	answered("POST", "/v1/checkout/sessions/"+closed+"/expire", "")
	answered("GET", "/v1/checkout/sessions/"+closed, "")
	page := answered("POST", "/v1/checkout/sessions", form+"&cancel_url=http://localhost/c&client_reference_id=org-1&line_items[0][quantity]=2&expand[]=customer")
	st.pay(page)
	answered("GET", "/v1/checkout/sessions/"+page, "")
	done, _ := st.sessions().Get(page, nil)
	s := done.Subscription.ID
	answered("GET", "/v1/subscriptions/"+s+"?expand[0]=customer", "")
	item := st.subscription(s).Items.Data[0].ID
	answered("POST", "/v1/subscriptions/"+s, "items[0][id]="+item+"&items[0][price]=price_p&proration_behavior=always_invoice")
	for _, a := range []devpay.Action{devpay.NextPeriod, devpay.Fail, devpay.Succeed, devpay.Schedule, devpay.Keep, devpay.Schedule} {
		st.act(s, a)
		answered("GET", "/v1/subscriptions/"+s, "")
	}
	answered("POST", "/v1/billing_portal/sessions", "customer="+c)
	answered("DELETE", "/v1/subscriptions/"+s, "")
	events := st.service.await(t, 4+2+2+2+2+1+1+1+1)
	for _, e := range events {
		checkSchema(t, e.Data.Raw)
	}
	st.service.expect(t, "")
}
