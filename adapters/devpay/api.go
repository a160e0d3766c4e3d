package devpay

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/devkit"
)

const (
	sessionLifetime    = 24 * time.Hour
	sessionPlaceholder = "{CHECKOUT_SESSION_ID}"

	maxKey           = 255 // bytes of an idempotency key
	maxText          = 5000
	maxReference     = 200
	maxQuantity      = 999_999
	maxMetadata      = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// operation serves a request to the API; id is the one in its path. Its changes are
// discarded if a parameter is invalid.
type operation func(t *tx, id string, f *form) (object, error)

// get serves an operation that only reads.
func (p *Provider) get(serve operation) http.HandlerFunc {
	return p.api(func(w http.ResponseWriter, r *http.Request) (body []byte, err error) {
		p.read(func(t *tx) { body, err = t.response(serve, r.PathValue("id"), r.URL.Query()) })
		return body, err
	})
}

// post serves an operation that changes the state. A repeated idempotency key gets the first
// response again. Errors are not stored.
func (p *Provider) post(serve operation) http.HandlerFunc {
	return p.api(func(w http.ResponseWriter, r *http.Request) (body []byte, err error) {
		fields, err := devkit.Form(r)
		if err != nil {
			return nil, err
		}
		key, digest := r.Header.Get("Idempotency-Key"), fingerprint(r, fields)
		if len(key) > maxKey {
			return nil, invalidParam("", "", "Idempotency keys can be at most %d characters", maxKey)
		}
		if r.Method == http.MethodDelete {
			key = "" // a deleted key
			maps.Copy(fields, r.URL.Query())
		}
		_, err = p.change(func(t *tx) (bool, error) {
			stored, ok := t.Responses[key]
			if ok && t.now.Before(stored.CreatedAt.Add(responseLifetime)) {
				if stored.Request != digest {
					return false, &apiError{
						status: http.StatusBadRequest, kind: "idempotency_error",
						message: "Keys for idempotent requests can only be used with the same parameters they were first used with",
					}
				}
				w.Header().Set("Idempotent-Replayed", "true")
				body = stored.Body
				return false, nil
			}
			if body, err = t.response(serve, r.PathValue("id"), fields); err != nil {
				return false, err
			}
			if key != "" {
				t.Responses[key] = storedResponse{Request: digest, Body: body, CreatedAt: t.now}
			}
			return true, nil
		})
		return body, err
	})
}

// response returns the response body of an operation. Only the customer can be expanded.
func (t *tx) response(serve operation, id string, fields url.Values) ([]byte, error) {
	f := &form{Values: fields}
	o, err := serve(t, id, f)
	if f.err != nil {
		return nil, f.err
	}
	if err != nil {
		return nil, err
	}
	for name, values := range fields {
		if !strings.HasPrefix(name, "expand[") {
			continue
		}
		customerID, has := o["customer"].(string)
		if !has || slices.ContainsFunc(values, func(v string) bool { return v != "customer" }) {
			return nil, invalidParam("expand", "", "This property cannot be expanded (%s).", strings.Join(values, ", "))
		}
		if c, ok := t.Customers[customerID]; ok {
			o["customer"] = customerObject(c)
		}
	}
	return json.Marshal(o)
}

// fingerprint returns a digest of method, path and parameters.
func fingerprint(r *http.Request, fields url.Values) string {
	sum := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + "\n" + fields.Encode()))
	return hex.EncodeToString(sum[:])
}

// api authenticates requests and writes responses in the form of the API.
func (p *Provider) api(serve func(w http.ResponseWriter, r *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Request-Id", "req_"+strings.ReplaceAll(p.options.IDs.New(), "-", ""))
		w.Header().Set("Stripe-Version", apiVersion)
		err := p.authorize(r)
		var body []byte
		if err == nil {
			body, err = serve(w, r)
		}
		if err != nil {
			p.replyError(w, r, err)
			return
		}
		p.site.Send(w, http.StatusOK, "application/json", body)
	}
}

// authorize checks the key, which is a bearer token.
func (p *Provider) authorize(r *http.Request) error {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(key), []byte(p.Key())) != 1 {
		return &apiError{status: http.StatusUnauthorized, message: "Invalid API Key provided"}
	}
	return nil
}

// unknown replies to a request for an unknown path.
func (p *Provider) unknown(w http.ResponseWriter, r *http.Request) {
	p.replyError(w, r, &apiError{
		status:  http.StatusNotFound,
		message: "Unrecognized request URL (" + r.Method + ": " + strings.TrimPrefix(r.URL.Path, Prefix) + ")",
	})
}

// replyError writes an error in the form of the API.
func (p *Provider) replyError(w http.ResponseWriter, r *http.Request, err error) {
	refused := p.apiErrorOf(r, err)
	e := object{"type": "invalid_request_error", "message": refused.message}
	if refused.kind != "" {
		e["type"] = refused.kind
	}
	if refused.code != "" {
		e["code"] = refused.code
	}
	if refused.param != "" {
		e["param"] = refused.param
	}
	p.site.Reply(w, refused.status, object{"error": e})
}

// form has the parameters of a request, and the first error of reading them.
type form struct {
	url.Values
	err error
}

func (f *form) fail(param, code, format string, args ...any) {
	if f.err == nil {
		f.err = invalidParam(param, code, format, args...)
	}
}

// checkParameters refuses parameters other than the known ones. A name that ends in "[*" matches all
// names with its prefix. Parameters of Stripe that have no effect here are unknown, so that
// no caller relies on them.
func (f *form) checkParameters(known ...string) {
	known = append(known, "expand[*")
	for name, values := range f.Values {
		found := slices.ContainsFunc(known, func(k string) bool {
			prefix, below := strings.CutSuffix(k, "*")
			return name == k || below && strings.HasPrefix(name, prefix)
		})
		if !found {
			f.fail(name, "parameter_unknown", "Received unknown parameter: %s", name)
		}
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			f.fail(name, "", "Invalid request: %s was sent more than once", name)
		}
	}
}

// required returns the value of a required parameter.
func (f *form) required(name string) string {
	value := f.Get(name)
	if value == "" {
		f.fail(name, "parameter_missing", "Missing required param: %s.", name)
	}
	return value
}

// limited returns the value of a parameter of at most limit bytes.
func (f *form) limited(name string, limit int) string {
	value := f.Get(name)
	if len(value) > limit {
		f.fail(name, "", "%s can be at most %d characters", name, limit)
	}
	return value
}

// metadata returns the metadata in the parameters under a name.
func (f *form) metadata(name string) map[string]string {
	metadata := map[string]string{}
	for parameter := range f.Values {
		rest, ours := strings.CutPrefix(parameter, name+"[")
		if !ours {
			continue
		}
		key, closed := strings.CutSuffix(rest, "]")
		value := f.Get(parameter)
		switch {
		case !closed || key == "" || strings.ContainsAny(key, "[]"):
			f.fail(parameter, "", "Invalid metadata key: %s", parameter)
		case len(key) > maxMetadataKey || len(value) > maxMetadataValue:
			f.fail(parameter, "", "Metadata keys can be at most %d characters, values %d", maxMetadataKey, maxMetadataValue)
		case value != "":
			metadata[key] = value
		}
	}
	if len(metadata) > maxMetadata {
		f.fail(name, "", "Metadata can have at most %d keys", maxMetadata)
	}
	return metadata
}

// address returns a URL that browsers are redirected to.
func (f *form) address(name string) string {
	value := f.Get(name)
	if value == "" {
		return ""
	}
	u, err := url.Parse(strings.ReplaceAll(value, sessionPlaceholder, ""))
	// The host becomes part of a Content-Security-Policy.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(u.Host, ";,'\" ") || len(value) > maxText {
		f.fail(name, "url_invalid", "Not a valid URL")
	}
	return value
}

// quantity returns the quantity, by default 1.
func (f *form) quantity(name string) int {
	value := f.Get(name)
	if value == "" {
		return 1
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxQuantity {
		f.fail(name, "parameter_invalid_integer", "Invalid integer: %s", value)
	}
	return n
}

// customer returns the id of the customer in the parameters.
func (t *tx) customer(f *form) string {
	id := f.required("customer")
	if _, ok := t.Customers[id]; !ok {
		f.fail("customer", "resource_missing", "No such customer: '%s'", id)
	}
	return id
}

// price returns the price in the parameter, by default the old one.
func (t *tx) price(f *form, name, previous string) string {
	price := f.Get(name)
	if price == "" {
		return previous
	}
	if _, ok := t.p.options.Prices[price]; !ok {
		f.fail(name, "resource_missing", "No such price: '%s'", price)
	}
	return price
}

// find returns the record with an id.
func find[T any](records map[string]T, what, id string) (T, error) {
	r, ok := records[id]
	if !ok {
		return r, notFound(what, id)
	}
	return r, nil
}

func createCustomer(t *tx, _ string, f *form) (object, error) {
	f.checkParameters("name", "metadata[*")
	c := customer{ID: t.newID("cus_"), Name: f.limited("name", maxText), Metadata: f.metadata("metadata"), CreatedAt: t.now}
	t.Customers[c.ID] = c
	return customerObject(c), nil
}

func createSession(t *tx, _ string, f *form) (object, error) {
	f.checkParameters("mode", "customer", "line_items[0][price]", "line_items[0][quantity]", "success_url", "cancel_url",
		"client_reference_id", "metadata[*", "subscription_data[metadata][*")
	if f.Get("mode") != "subscription" {
		f.fail("mode", "", "Invalid mode: must be subscription")
	}
	s := session{
		ID: "cs_test_" + t.p.options.Secrets.Secret(), CreatedAt: t.now, ExpiresAt: t.now.Add(sessionLifetime),
		Customer: t.customer(f),
	}
	f.required("line_items[0][price]")
	s.Price, s.Quantity = t.price(f, "line_items[0][price]", ""), f.quantity("line_items[0][quantity]")
	f.required("success_url")
	s.SuccessURL, s.CancelURL = f.address("success_url"), f.address("cancel_url")
	s.Reference = f.limited("client_reference_id", maxReference)
	s.Metadata, s.SubscriptionMetadata = f.metadata("metadata"), f.metadata("subscription_data[metadata]")
	t.Sessions[s.ID] = s
	return t.sessionObject(s), nil
}

func readSession(t *tx, id string, f *form) (object, error) {
	s, err := find(t.Sessions, "checkout.session", id)
	f.checkParameters()
	return t.sessionObject(s), err
}

func expireSession(t *tx, id string, f *form) (object, error) {
	f.checkParameters()
	s, err := find(t.Sessions, "checkout.session", id)
	if err != nil {
		return nil, err
	}
	if status := s.status(t.now); status != open {
		return nil, invalidParam("", "", "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout Session has a status of %s.", status)
	}
	s.Expired = true
	t.Sessions[id] = s
	return t.sessionObject(s), nil
}

func readSubscription(t *tx, id string, f *form) (object, error) {
	s, err := find(t.Subscriptions, "subscription", id)
	f.checkParameters()
	return t.subscriptionObject(s), err
}

func updateSubscription(t *tx, id string, f *form) (object, error) {
	f.checkParameters("items[0][id]", "items[0][price]", "proration_behavior", "payment_behavior", "cancel_at_period_end")
	s, err := find(t.Subscriptions, "subscription", id)
	if err != nil {
		return nil, err
	}
	if s.Status == canceled {
		return nil, invalidParam("", "", "A canceled subscription can only update its cancellation_details and metadata.")
	}
	previous := s.Price
	switch item := f.Get("items[0][id]"); {
	case item == "" && f.Has("items[0][price]"):
		f.fail("items[0][id]", "parameter_missing", "A subscription has one item here, which must be named")
	case item != "" && item != s.Item:
		f.fail("items[0][id]", "resource_missing", "No such subscription item: '%s'", item)
	}
	s.Price = t.price(f, "items[0][price]", s.Price)
	if prorated := f.Get("proration_behavior"); s.Price != previous && prorated != "always_invoice" {
		f.fail("proration_behavior", "", "Invalid proration_behavior: must be always_invoice")
	}
	if behavior := f.Get("payment_behavior"); s.Price != previous && behavior != "error_if_incomplete" {
		f.fail("payment_behavior", "", "Invalid payment_behavior: must be error_if_incomplete")
	}
	switch ends := f.Get("cancel_at_period_end"); ends {
	case "":
	case "true", "false":
		s.CancelAtPeriodEnd = ends == "true"
	default:
		f.fail("cancel_at_period_end", "", "Invalid boolean: %s", ends)
	}
	if s.Status == pastDue && s.Price != previous {
		return nil, &apiError{status: http.StatusPaymentRequired, kind: "card_error", code: "card_declined", message: "Your card was declined."}
	}
	charged := s.Price != previous
	if charged {
		t.addInvoice(&s, t.now)
		t.markPaid(&s)
	}
	t.put(s)
	if charged {
		t.addEvent("invoice.paid", t.invoiceObject(s))
	}
	return t.subscriptionObject(s), nil
}

func cancelSubscription(t *tx, id string, f *form) (object, error) {
	f.checkParameters()
	s, ok := t.Subscriptions[id]
	if !ok || s.Status == canceled {
		return nil, notFound("subscription", id)
	}
	t.end(s)
	return t.subscriptionObject(t.Subscriptions[id]), nil
}

func createPortalSession(t *tx, _ string, f *form) (object, error) {
	f.checkParameters("customer", "return_url")
	v := portalSession{
		ID: t.newID("bps_"), CreatedAt: t.now, Customer: t.customer(f), Back: cmp.Or(f.address("return_url"), t.p.options.AppURL),
	}
	secret := t.p.options.Secrets.Secret()
	t.PortalSessions[secret] = v
	return t.portalSessionObject(v, secret), nil
}
