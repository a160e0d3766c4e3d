package script

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
)

// conversationRun is one conversation in progress.
type conversationRun struct {
	server *server
	client *http.Client
	values values
	check  *contract // nil: nothing is held to the document

	streams map[string]*stream // by name
	looked  map[string]int     // how many of the questions with a message were looked at
}

var talks atomic.Int64

func newTalk(s *server, check *contract) *conversationRun {
	began := time.Now()
	t := &conversationRun{
		server:  s,
		check:   check,
		streams: map[string]*stream{},
		looked:  map[string]int{},
		values: values{
			known: map[string]string{},
			// Its digits contain no text that a conversation searches for.
			unique: fmt.Sprintf("k%dx%d", began.UnixMilli(), talks.Add(1)),
			base:   s.base,
			began:  began,
			isOpen: len(s.hosts) > 0,
		},
	}
	t.use(clientFrom(""))
	return t
}

// use has the client send the requests that follow, to the servers in turn if there are several.
func (t *conversationRun) use(client *http.Client) {
	if len(t.server.hosts) > 0 {
		client.Transport = &inTurn{through: client.Transport, hosts: t.server.hosts, origin: strings.TrimPrefix(t.server.base, "http://")}
	}
	t.client = client
}

// inTurn sends the requests to an address to several servers in turn, and those for development
// providers to the first.
type inTurn struct {
	through http.RoundTripper
	origin  string
	hosts   []string
	sent    atomic.Int64
}

func (i *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == i.origin && !strings.HasPrefix(r.URL.Path, "/dev/") {
		r = r.Clone(r.Context())
		r.Host = cmp.Or(r.Host, r.URL.Host)
		r.URL.Host = i.hosts[i.sent.Add(1)%int64(len(i.hosts))]
	}
	return i.through.RoundTrip(r)
}

// clientFrom returns a client that follows no redirects and calls from the
// address, or from any where it is empty.
func clientFrom(address string) *http.Client {
	dialer := &net.Dialer{}
	if address != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
}

// clientOverHTTP2 returns the same client for servers that a proxy would stand
// before, without TLS.
func clientOverHTTP2() *http.Client {
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	client := clientFrom("")
	client.Transport.(*http.Transport).Protocols = only
	return client
}

// mismatch is one thing that went otherwise than a conversation says. A final
// one leaves nothing to go on with.
type mismatch struct {
	line  int
	text  string
	final bool
}

// run runs the conversation.
func (t *conversationRun) run(c conversation) []mismatch {
	defer func() {
		for _, s := range t.streams {
			s.close()
		}
	}()
	var all []mismatch
	for _, s := range c.steps {
		var found []mismatch
		switch {
		case s.from != "":
			t.use(clientFrom(s.from))
		case s.http2:
			t.use(clientOverHTTP2())
		case s.signIn != nil:
			if err := t.signIn(*s.signIn); err != nil {
				found = []mismatch{{s.line, err.Error(), true}}
			}
		case s.frame != nil:
			found = t.follow(s.line, s.frame)
		case s.provider != nil:
			found = t.provide(s.line, s.provider)
		case s.request.stream != "":
			found = t.open(s.request, s.response)
		case s.request.until:
			found = t.exchange(s.request, s.response)
			for deadline := time.Now().Add(patience); len(found) > 0 && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond)
				found = t.exchange(s.request, s.response)
			}
		default:
			found = t.exchange(s.request, s.response)
		}
		all = append(all, found...)
		if slices.ContainsFunc(found, func(f mismatch) bool { return f.final }) {
			return all
		}
	}
	return all
}

// signIn gets an account at the development identity provider and exchanges its
// token for one of the service.
func (t *conversationRun) signIn(who signIn) error {
	unique := t.values.unique
	email := who.who + "-" + unique + "@example.com"
	form := url.Values{"email": {email}, "name": {strings.ToUpper(who.who[:1]) + who.who[1:]}}
	if who.org != "" {
		form.Set("org", who.org+"-"+unique)
		t.values.known["orgname:"+who.org] = who.org + "-" + unique
	}
	if who.role != "" {
		form.Set("role", who.role)
	}
	var account struct {
		IdentityToken string `json:"identityToken"`
	}
	if err := t.post("/dev/identity/token", "application/x-www-form-urlencoded", []byte(form.Encode()), &account); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"identityToken": account.IdentityToken})
	if err != nil {
		return err
	}
	var session struct {
		Token string               `json:"token"`
		User  struct{ ID string }  `json:"user"`
		Org   *struct{ ID string } `json:"org"`
	}
	if err := t.post("/api/v1/auth/exchange-token", "application/json", body, &session); err != nil {
		return err
	}
	var claims struct {
		Sub   string `json:"sub"`
		OrgID string `json:"org_id"`
		Org   struct {
			ID string `json:"id"`
		} `json:"o"`
	}
	parts := strings.Split(account.IdentityToken, ".")
	if len(parts) != 3 {
		return fmt.Errorf("the identity token is no JWT")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return fmt.Errorf("the identity token: %w", err)
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return fmt.Errorf("the identity token: %w", err)
	}
	known := map[string]string{
		"email": email, "identity": account.IdentityToken, "service": session.Token, "user": session.User.ID, "sub": claims.Sub,
	}
	for kind, value := range known {
		t.values.known[kind+":"+who.who] = value
	}
	if who.org != "" {
		if session.Org == nil {
			return fmt.Errorf("%s signed in to %s and is in no organisation", who.who, who.org)
		}
		t.values.known["org:"+who.org] = session.Org.ID
		t.values.known["orgsub:"+who.org] = claims.OrgID + claims.Org.ID
	}
	return nil
}

func (t *conversationRun) post(path, contentType string, body []byte, into any) error {
	answer, err := t.client.Post(t.server.base+path, contentType, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s: %s", path, answer.Status, text)
	}
	return json.Unmarshal(text, into)
}

// exchange sends a request and compares the reply with what is expected.
func (t *conversationRun) exchange(ask *request, want *response) []mismatch {
	r, body, err := t.prepare(ask)
	if err != nil {
		return []mismatch{{ask.line, err.Error(), true}}
	}
	answer, err := t.client.Do(r)
	if err != nil {
		return []mismatch{{ask.line, err.Error(), true}}
	}
	return t.judge(ask, want, r, body, answer)
}

// judge reads a response and compares it with what is expected.
func (t *conversationRun) judge(ask *request, want *response, r *http.Request, body []byte, answer *http.Response) []mismatch {
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return []mismatch{{ask.line, err.Error(), true}}
	}
	var wrong []string
	if answer.StatusCode != want.status {
		wrong = append(wrong, fmt.Sprintf("status: want %d, got %d", want.status, answer.StatusCode))
	} else {
		wrong = t.compare(want, answer, text)
	}
	ours := !t.server.tools.has(r.URL)
	if ours {
		wrong = append(wrong, manners(r, answer, text)...)
	}
	if ours && t.check != nil {
		wrong = append(wrong, t.check.exchange(r, body, answer, text)...)
	}
	if len(wrong) == 0 {
		return nil
	}
	if len(text) > 1000 {
		text = append(text[:1000:1000], "…"...)
	}
	return []mismatch{{line: want.line, text: fmt.Sprintf("%s %s\n\t%s\n\tanswer: %d %s", ask.method, ask.target, strings.Join(wrong, "\n\t"), answer.StatusCode, bytes.TrimSpace(text))}}
}

func (t *conversationRun) prepare(ask *request) (*http.Request, []byte, error) {
	target, err := t.values.fill(ask.target)
	if err != nil {
		return nil, nil, err
	}
	base := t.server.base
	if u, err := url.Parse(target); err == nil && u.IsAbs() {
		target = u.RequestURI() // of a Link or Location, which has the public address
		if t.server.tools.has(u) {
			base = u.Scheme + "://" + u.Host
		}
	}
	text := ask.body
	if slices.ContainsFunc(ask.headers, func(h header) bool {
		return strings.EqualFold(h.name, "Content-Type") && strings.HasPrefix(h.value, "multipart/")
	}) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if text, err = t.values.fill(text); err != nil {
		return nil, nil, err
	}
	body := []byte(text)
	r, err := http.NewRequest(ask.method, base+target, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	switch {
	case ask.as == "operator":
		r.Header.Set("X-Admin-Secret", adminSecret)
	case ask.as != "":
		kind := "service"
		if ask.identity {
			kind = "identity"
		}
		token, ok := t.values.known[kind+":"+ask.as]
		if !ok {
			return nil, nil, fmt.Errorf("%s has not signed in", ask.as)
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if d := ask.delivery; d != nil {
		if err := t.sign(r, *d, body); err != nil {
			return nil, nil, err
		}
	}
	for _, h := range ask.headers {
		value, err := t.values.fill(h.value)
		if err != nil {
			return nil, nil, err
		}
		if strings.EqualFold(h.name, "Host") {
			r.Host = value
		}
		r.Header.Set(h.name, value)
	}
	return r, body, nil
}

// sign makes the headers of a webhook message, which is new to every run and
// the same for the same id within a conversation.
func (t *conversationRun) sign(r *http.Request, d delivery, body []byte) error {
	secret := map[string]string{"": webhookSecret, "old": oldWebhookSecret, "wrong": wrongWebhookSecret}[d.secret]
	message := "msg_" + d.id + "_" + t.values.unique
	at := time.Now().Add(d.shift)
	if d.payment {
		header := stripepay.HeaderSignature
		if d.stripe {
			header = stripepay.ProviderSignature
		}
		r.Header.Set(header, stripepay.Sign(secret, at, body))
		return nil
	}
	signature, err := standardwebhooks.Sign(secret, message, at, body)
	if err != nil {
		return err
	}
	prefix := "webhook-"
	if d.svix {
		prefix = "svix-"
	}
	r.Header.Set(prefix+"id", message)
	r.Header.Set(prefix+"timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set(prefix+"signature", signature)
	t.values.known["word:signature"] = signature // for headers with several
	return nil
}

func (t *conversationRun) compare(want *response, answer *http.Response, body []byte) []string {
	var wrong []string
	for _, h := range want.headers {
		got := answer.Header.Values(h.name)
		if h.absent {
			if len(got) > 0 {
				wrong = append(wrong, fmt.Sprintf("header %s: want none, got %q", h.name, got))
			}
			continue
		}
		if len(got) == 0 {
			wrong = append(wrong, fmt.Sprintf("header %s: want %s, got none", h.name, h.value))
			continue
		}
		first := ""
		for _, value := range got {
			differs := t.values.match(h.value, value)
			if differs == "" {
				first = ""
				break
			}
			if first == "" {
				first = differs
			}
		}
		if first != "" {
			wrong = append(wrong, fmt.Sprintf("header %s: %s", h.name, first))
		}
	}
	for _, text := range want.contains {
		filled, err := t.values.fill(text)
		if err != nil {
			return append(wrong, err.Error())
		}
		if !bytes.Contains(body, []byte(filled)) {
			wrong = append(wrong, fmt.Sprintf("the body does not say %q", filled))
		}
	}
	for _, pattern := range want.finds {
		if differs := t.values.match("..."+pattern+"...", string(body)); differs != "" {
			wrong = append(wrong, fmt.Sprintf("the body has nothing like %s", t.values.explain(pattern)))
		}
	}
	if want.is != nil {
		filled, err := t.values.fill(*want.is)
		if err != nil {
			return append(wrong, err.Error())
		}
		if string(body) != filled {
			wrong = append(wrong, fmt.Sprintf("the body is not %q", filled))
		}
	}
	if want.events != nil {
		wrong = append(wrong, t.compareEvents(want.events, body)...)
	}
	if want.field != "" {
		if message := messageOf(body); !names(message, want.field) {
			wrong = append(wrong, fmt.Sprintf("the message does not name %s: %s", want.field, message))
		}
	}
	if want.body != "" {
		wrong = append(wrong, t.values.matchJSON(want.body, body)...)
	}
	return wrong
}

// names reports whether the message has the field's name as a word of its own.
func names(message, field string) bool {
	return slices.Contains(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,:;\"'()", r) }), field)
}

func messageOf(body []byte) string {
	var e struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return ""
	}
	return e.Message
}

// deviceErrors are the errors of a device's poll that are no status's names.
var deviceErrors = []string{"authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_grant"}

// manners are what holds for every response of the interface, whatever was asked.
func manners(r *http.Request, answer *http.Response, body []byte) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	h := answer.Header
	if !strings.HasPrefix(r.URL.Path, "/dev/") && h.Get("X-Request-Id") == "" {
		say("there is no X-Request-Id")
	}
	if answer.StatusCode >= 500 {
		say("a %d is never the answer here", answer.StatusCode)
	}
	if answer.StatusCode == http.StatusTooManyRequests && h.Get("Retry-After") == "" {
		say("a 429 has no Retry-After")
	}
	if answer.StatusCode == http.StatusMethodNotAllowed && h.Get("Allow") == "" {
		say("a 405 has no Allow")
	}
	if answer.StatusCode < 400 || r.Method == http.MethodHead || strings.Contains(r.Header.Get("Accept"), "text/html") {
		return wrong
	}
	if media := h.Get("Content-Type"); media != "application/json" {
		say("an error's Content-Type is %q", media)
	}
	shape, err := decode(body)
	fields, ok := shape.(map[string]any)
	if err != nil || !ok {
		say("an error is not a JSON object: %.200s", body)
		return wrong
	}
	if names := slices.Sorted(maps.Keys(fields)); !slices.Equal(names, []string{"error", "message", "statusCode"}) {
		say("an error has the fields %v", names)
	}
	if code, ok := fields["statusCode"].(json.Number); !ok || code.String() != strconv.Itoa(answer.StatusCode) {
		say("statusCode is %v in a %d", fields["statusCode"], answer.StatusCode)
	}
	refusal, _ := fields["error"].(string)
	ofDevice := r.URL.Path == "/api/v1/auth/device/token" && slices.Contains(deviceErrors, refusal)
	if refusal != http.StatusText(answer.StatusCode) && !(ofDevice && answer.StatusCode == http.StatusBadRequest) {
		say("error is %v in a %d", fields["error"], answer.StatusCode)
	}
	if message, ok := fields["message"].(string); !ok || message == "" || strings.Contains(message, "\n") {
		say("message is %v", fields["message"])
	}
	return wrong
}
