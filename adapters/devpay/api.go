package devpay

import (
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
	minSessionLifetime = 30 * time.Minute
	sessionPlaceholder = "{CHECKOUT_SESSION_ID}"

	maxKey           = 255 // bytes of an idempotency key
	maxText          = 5000
	maxReference     = 200
	maxQuantity      = 999_999
	maxMetadata      = 50
	maxMetadataKey   = 40
	maxMetadataValue = 500
)

// operation serves a request to the API; id is the one in its path.
type operation func(t *tx, id string, fields url.Values) (object, error)

// get serves an operation that changes nothing.
func (p *Provider) get(serve operation) http.HandlerFunc {
	return p.api(func(w http.ResponseWriter, r *http.Request) (body []byte, err error) {
		err = p.read(func(t *tx) error {
			body, err = t.answer(serve, r.PathValue("id"), r.URL.Query())
			return err
		})
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
		key, print := r.Header.Get("Idempotency-Key"), fingerprint(r, fields)
		if len(key) > maxKey {
			return nil, invalidParam("", "", "Idempotency keys can be at most %d characters", maxKey)
		}
		if r.Method == http.MethodDelete {
			key = "" // what is gone is gone
			maps.Copy(fields, r.URL.Query())
		}
		_, err = p.change(func(t *tx) (bool, error) {
			before, known := t.Answers[key]
			if known && t.now.Before(before.CreatedAt.Add(answerLifetime)) {
				if before.Request != print {
					return false, &apiError{status: http.StatusBadRequest, kind: "idempotency_error", message: "Keys for idempotent requests can only be used with the same parameters they were first used with"}
				}
				w.Header().Set("Idempotent-Replayed", "true")
				body = before.Body
				return false, nil
			}
			if body, err = t.answer(serve, r.PathValue("id"), fields); err != nil {
				return false, err
			}
			if key != "" {
				t.Answers[key] = storedResponse{Request: print, Body: body, CreatedAt: t.now}
			}
			return true, nil
		})
		return body, err
	})
}

// answer returns the response body of an operation. Only the customer can be expanded.
func (t *tx) answer(serve operation, id string, fields url.Values) ([]byte, error) {
	o, err := serve(t, id, fields)
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
		if c, known := t.Customers[customerID]; known {
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
		w.Header().Set("Stripe-Version", APIVersion)
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

// authorize checks the key, which is a bearer token or the user name of basic credentials.
func (p *Provider) authorize(r *http.Request) error {
	key, isBasic := "", false
	if key, _, isBasic = r.BasicAuth(); !isBasic {
		key, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	if subtle.ConstantTimeCompare([]byte(key), []byte(p.Key())) != 1 {
		return &apiError{status: http.StatusUnauthorized, message: "Invalid API Key provided"}
	}
	return nil
}

// unknown answers a request that is not of the API.
func (p *Provider) unknown(w http.ResponseWriter, r *http.Request) {
	p.replyError(w, r, &apiError{status: http.StatusNotFound, message: "Unrecognized request URL (" + r.Method + ": " + strings.TrimPrefix(r.URL.Path, Prefix) + ")"})
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

// checkParams returns an error for parameters other than the known ones. A name that ends in
// "[*" stands for all names below it. Parameters of Stripe that would have no effect here
// are unknown, so that nobody relies on them.
func checkParams(fields url.Values, known ...string) error {
	known = append(known, "expand[*")
	for name, values := range fields {
		found := slices.ContainsFunc(known, func(k string) bool {
			prefix, below := strings.CutSuffix(k, "*")
			return name == k || below && strings.HasPrefix(name, prefix)
		})
		if !found {
			return invalidParam(name, "parameter_unknown", "Received unknown parameter: %s", name)
		}
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			return invalidParam(name, "", "Invalid request: %s was sent more than once", name)
		}
	}
	return nil
}

// requireParam returns the value of a required parameter.
func requireParam(fields url.Values, name string) (string, error) {
	value := fields.Get(name)
	if value == "" {
		return "", invalidParam(name, "parameter_missing", "Missing required param: %s.", name)
	}
	return value, nil
}

// metadataOf returns what the parameters say of metadata under a name, on top of
// what there was. An empty value takes a key away.
func metadataOf(fields url.Values, name string, was map[string]string) (map[string]string, error) {
	is := map[string]string{}
	for key, value := range was {
		is[key] = value
	}
	for parameter := range fields {
		rest, ours := strings.CutPrefix(parameter, name+"[")
		if !ours {
			continue
		}
		key, closed := strings.CutSuffix(rest, "]")
		value := fields.Get(parameter)
		switch {
		case !closed || key == "" || strings.ContainsAny(key, "[]"):
			return nil, invalidParam(parameter, "", "Invalid metadata key: %s", parameter)
		case len(key) > maxMetadataKey || len(value) > maxMetadataValue:
			return nil, invalidParam(parameter, "", "Metadata keys can be at most %d characters, values %d", maxMetadataKey, maxMetadataValue)
		case value == "":
			delete(is, key)
		default:
			is[key] = value
		}
	}
	if len(is) > maxMetadata {
		return nil, invalidParam(name, "", "Metadata can have at most %d keys", maxMetadata)
	}
	return is, nil
}

func checkLengths(fields url.Values, names ...string) error {
	for _, name := range names {
		if len(fields.Get(name)) > maxText {
			return invalidParam(name, "", "%s can be at most %d characters", name, maxText)
		}
	}
	return nil
}

func createCustomer(t *tx, _ string, fields url.Values) (object, error) {
	if err := checkParams(fields, "name", "email", "description", "metadata[*"); err != nil {
		return nil, err
	}
	if err := checkLengths(fields, "name", "email", "description"); err != nil {
		return nil, err
	}
	meta, err := metadataOf(fields, "metadata", nil)
	if err != nil {
		return nil, err
	}
	c := customer{
		ID: t.newID("cus_"), Name: fields.Get("name"), Email: fields.Get("email"), Description: fields.Get("description"),
		Metadata: meta, CreatedAt: t.now,
	}
	t.Customers[c.ID] = c
	return customerObject(c), nil
}

// requireCustomer returns the id of the customer in the parameters.
func (t *tx) requireCustomer(fields url.Values) (string, error) {
	id, err := requireParam(fields, "customer")
	if err != nil {
		return "", err
	}
	if _, known := t.Customers[id]; !known {
		return "", invalidParam("customer", "resource_missing", "No such customer: '%s'", id)
	}
	return id, nil
}

// price returns the price and the quantity that the parameters name, or those
// that there were.
func (t *tx) price(fields url.Values, prefix, price string, quantity int) (string, int, error) {
	if asked := fields.Get(prefix + "[price]"); asked != "" {
		price = asked
		if _, known := t.p.options.Prices[price]; !known {
			return "", 0, invalidParam(prefix+"[price]", "resource_missing", "No such price: '%s'", price)
		}
	}
	if asked := fields.Get(prefix + "[quantity]"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 1 || n > maxQuantity {
			return "", 0, invalidParam(prefix+"[quantity]", "parameter_invalid_integer", "Invalid integer: %s", asked)
		}
		quantity = n
	}
	return price, quantity, nil
}

// address returns a URL that browsers are redirected to.
func address(fields url.Values, name string) (string, error) {
	value := fields.Get(name)
	if value == "" {
		return "", nil
	}
	u, err := url.Parse(strings.ReplaceAll(value, sessionPlaceholder, ""))
	// The host becomes part of a Content-Security-Policy.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(u.Host, ";,'\" ") || len(value) > maxText {
		return "", invalidParam(name, "url_invalid", "Not a valid URL")
	}
	return value, nil
}

func createSession(t *tx, _ string, fields url.Values) (object, error) {
	err := checkParams(fields, "mode", "customer", "line_items[0][price]", "line_items[0][quantity]", "success_url", "cancel_url",
		"client_reference_id", "metadata[*", "subscription_data[metadata][*", "expires_at")
	if err != nil {
		return nil, err
	}
	s := session{ID: "cs_test_" + t.p.options.Secrets.Secret(), Reference: fields.Get("client_reference_id"), CreatedAt: t.now, ExpiresAt: t.now.Add(sessionLifetime)}
	if fields.Get("mode") != "subscription" {
		return nil, invalidParam("mode", "", "Invalid mode: must be subscription")
	}
	if s.Customer, err = t.requireCustomer(fields); err != nil {
		return nil, err
	}
	if _, err = requireParam(fields, "line_items[0][price]"); err != nil {
		return nil, err
	}
	if s.Price, s.Quantity, err = t.price(fields, "line_items[0]", "", 1); err != nil {
		return nil, err
	}
	if _, err = requireParam(fields, "success_url"); err != nil {
		return nil, err
	}
	if s.SuccessURL, err = address(fields, "success_url"); err != nil {
		return nil, err
	}
	if s.CancelURL, err = address(fields, "cancel_url"); err != nil {
		return nil, err
	}
	if len(s.Reference) > maxReference {
		return nil, invalidParam("client_reference_id", "", "client_reference_id can be at most %d characters", maxReference)
	}
	if s.Metadata, err = metadataOf(fields, "metadata", nil); err != nil {
		return nil, err
	}
	if s.SubscriptionMetadata, err = metadataOf(fields, "subscription_data[metadata]", nil); err != nil {
		return nil, err
	}
	if asked := fields.Get("expires_at"); asked != "" {
		seconds, err := strconv.ParseInt(asked, 10, 64)
		s.ExpiresAt = time.Unix(seconds, 0).UTC()
		if err != nil || s.ExpiresAt.Before(t.now.Add(minSessionLifetime)) || s.ExpiresAt.After(t.now.Add(sessionLifetime)) {
			return nil, invalidParam("expires_at", "", "The timestamp must be between 30 minutes and 24 hours from the creation of the Checkout Session")
		}
	}
	t.Sessions[s.ID] = s
	return t.sessionObject(s), nil
}

func readSession(t *tx, id string, fields url.Values) (object, error) {
	s, known := t.Sessions[id]
	if !known {
		return nil, notFound("checkout.session", id)
	}
	return t.sessionObject(s), checkParams(fields)
}

func expireSession(t *tx, id string, fields url.Values) (object, error) {
	if err := checkParams(fields); err != nil {
		return nil, err
	}
	s, known := t.Sessions[id]
	if !known {
		return nil, notFound("checkout.session", id)
	}
	if status := s.status(t.now); status != open {
		return nil, invalidParam("", "", "Only Checkout Sessions with a status in [\"open\"] can be expired. This Checkout Session has a status of %s.", status)
	}
	s.Expired = true
	t.Sessions[id] = s
	return t.sessionObject(s), nil
}

func readSubscription(t *tx, id string, fields url.Values) (object, error) {
	s, known := t.Subscriptions[id]
	if !known {
		return nil, notFound("subscription", id)
	}
	return t.subscriptionObject(s), checkParams(fields)
}

func updateSubscription(t *tx, id string, fields url.Values) (object, error) {
	err := checkParams(fields, "items[0][id]", "items[0][price]", "items[0][quantity]", "proration_behavior", "cancel_at_period_end", "metadata[*")
	if err != nil {
		return nil, err
	}
	s, known := t.Subscriptions[id]
	if !known {
		return nil, notFound("subscription", id)
	}
	if s.Status == canceled {
		return nil, invalidParam("", "", "A canceled subscription can only update its cancellation_details and metadata.")
	}
	was := s
	switch item := fields.Get("items[0][id]"); {
	case item == "" && (fields.Has("items[0][price]") || fields.Has("items[0][quantity]")):
		return nil, invalidParam("items[0][id]", "parameter_missing", "A subscription has one item here, which must be named")
	case item != "" && item != s.Item:
		return nil, invalidParam("items[0][id]", "resource_missing", "No such subscription item: '%s'", item)
	}
	if s.Price, s.Quantity, err = t.price(fields, "items[0]", s.Price, s.Quantity); err != nil {
		return nil, err
	}
	prorated := fields.Get("proration_behavior")
	if prorated != "" && !slices.Contains([]string{"always_invoice", "create_prorations", "none"}, prorated) {
		return nil, invalidParam("proration_behavior", "", "Invalid proration_behavior: must be one of always_invoice, create_prorations, or none")
	}
	switch ends := fields.Get("cancel_at_period_end"); ends {
	case "":
	case "true", "false":
		t.schedule(&s, ends == "true")
	default:
		return nil, invalidParam("cancel_at_period_end", "", "Invalid boolean: %s", ends)
	}
	if s.Metadata, err = metadataOf(fields, "metadata", s.Metadata); err != nil {
		return nil, err
	}
	charged := prorated == "always_invoice" && s.Status == active && (s.Price != was.Price || s.Quantity != was.Quantity)
	if charged {
		t.addInvoice(&s, "subscription_update", t.now)
		t.charge(&s, true)
	}
	if err := t.put(s); err != nil {
		return nil, err
	}
	if charged {
		err = t.addEvent("invoice.paid", id, t.invoiceObject(s), nil)
	}
	return t.subscriptionObject(s), err
}

func cancelSubscription(t *tx, id string, fields url.Values) (object, error) {
	if err := checkParams(fields); err != nil {
		return nil, err
	}
	s, known := t.Subscriptions[id]
	if !known || s.Status == canceled {
		return nil, notFound("subscription", id)
	}
	if err := t.end(s); err != nil {
		return nil, err
	}
	return t.subscriptionObject(t.Subscriptions[id]), nil
}

func createPortalSession(t *tx, _ string, fields url.Values) (object, error) {
	err := checkParams(fields, "customer", "return_url")
	if err != nil {
		return nil, err
	}
	v := portalSession{ID: t.newID("bps_"), CreatedAt: t.now}
	if v.Customer, err = t.requireCustomer(fields); err != nil {
		return nil, err
	}
	if v.Back, err = address(fields, "return_url"); err != nil {
		return nil, err
	}
	if v.Back == "" {
		v.Back = t.p.options.AppURL
	}
	secret := t.p.options.Secrets.Secret()
	t.Visits[secret] = v
	return t.portalSessionObject(v, secret), nil
}
