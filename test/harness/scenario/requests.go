package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric/noop"

	"collab/adapters/httpapi"
	"collab/adapters/httpapi/limit"
	"collab/adapters/memory"
	"collab/app/changes"
	"collab/app/idempotency"
	"collab/test/harness"
)

const (
	prefix      = "/api/v1"
	adminSecret = "operator-of-the-offline-harness"
)

// server is the API of the present server of a deployment.
type server struct {
	http.Handler
	feed  *changes.Feed
	ticks chan time.Time // on which the feed reads the log; nil: it was not started
}

// newServer returns the API of the deployment's server, which has no limits of rates.
func newServer(w *harness.Deployment) (s server, err error) {
	log := slog.New(slog.DiscardHandler)
	s.feed = changes.New(changes.Options{
		Store: w.Store, Epochs: w.Store, Bus: w.Bus, Clock: w.Clock, Alarms: &memory.Alarms{Clock: w.Clock}, Log: log,
		Reauthorizer: w.Access.Reauthorizer, Encode: httpapi.EncodeChange,
	})
	s.Handler, err = httpapi.New(httpapi.Options{
		Heartbeat: 30 * time.Second,
		Access:    w.Access, Onboarding: w.Onboarding, Members: w.Members, Teams: w.Teams, Workspaces: w.Workspaces, Tasks: w.Tasks,
		Webhooks: w.Webhooks, Operator: w.Operator, Idempotency: idempotency.New(w.Store, w.Sealer, w.Clock, w.Secrets),
		Objects: w.Objects, Feed: s.feed, Chats: w.Chats, Metering: w.Metering, Archives: w.Archives, Billing: w.Billing, Connectors: w.Connectors, Releases: w.Releases,
		Log: log, Meter: noop.Meter{}, PublicURL: harness.PublicURL, AdminSecret: adminSecret,
		Budgets: limit.Budgets{Anonymous: 64 << 20, Callers: 256 << 20, Spool: 64 << 20}, Connections: limit.NewBudget(64 << 20),
		Document: []byte("{}"), JWKS: []byte("{}"), Ready: func(context.Context) error { return nil }, Doctor: func(context.Context) []httpapi.Finding { return nil }, NewID: w.IDs.New, Now: w.Clock.Now,
	})
	return s, err
}

// close ends the feed.
func (s server) close() {
	if s.ticks != nil {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = s.feed.Close(ended) // which fails as subscribers are left
	}
}

// requestActs are the requests to the API, by their methods.
func requestActs() (all []*act) {
	for _, p := range []party{person, device, operator} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			all = append(all, &act{party: p, name: method, subject: "path", free: true, do: (*call).request})
		}
	}
	return all
}

// request sends a request: with a capital letter arguments are headers, else the query of GET
// and DELETE, and the fields of a JSON object of the other methods.
func (c *call) request() (any, error) {
	target, err := c.path(c.subject())
	if err != nil {
		return nil, err
	}
	header, query, fields := http.Header{}, url.Values{}, object{}
	for _, a := range c.step.args {
		text, err := c.value(a)
		if err != nil {
			return nil, err
		}
		first, _ := utf8.DecodeRuneInString(a.key)
		switch {
		case unicode.IsUpper(first) && text != nil:
			header.Set(a.key, *text)
		case unicode.IsUpper(first):
		case c.act.name == http.MethodGet || c.act.name == http.MethodDelete:
			if text == nil {
				text = new("null")
			}
			query.Set(a.key, *text)
		default:
			if fields[a.key], err = c.json(a, text); err != nil {
				return nil, err
			}
		}
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var body []byte
	if c.act.name != http.MethodGet && c.act.name != http.MethodDelete {
		if body, err = json.Marshal(fields); err != nil {
			return nil, err
		}
		header.Set("Content-Type", "application/json")
	}
	if target == "/sync/changes" || strings.HasPrefix(target, "/sync/changes?") {
		return nil, &misuse{"the response of GET /sync/changes does not end: write subscribe and events"}
	}
	if err := c.authenticate(header, target); err != nil {
		return nil, err
	}
	r, err := c.send(c.ctx, c.act.name, target, header, body)
	if err != nil || c.account == nil || target != "/auth/exchange-token" && target != "/auth/refresh" {
		return r, err
	}
	return r, c.keep(c.account, r)
}

// authenticate adds the credentials of the actor, who signs in where that is needed.
func (c *call) authenticate(header http.Header, target string) error {
	switch {
	case c.actor == string(operator):
		header.Set("X-Admin-Secret", adminSecret)
	case header.Get("Authorization") != "":
		header.Set("Authorization", "Bearer "+header.Get("Authorization"))
	case c.account != nil && target != "/auth/exchange-token" && target != "/auth/refresh":
		token, err := c.token(c.ctx, c.account)
		if err != nil {
			return err
		}
		header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// session is a service token that a person's application keeps.
type session struct {
	token   string
	expires time.Time
	active  *harness.Organisation // of the account when it was issued
}

// token returns the service token of a person, who signs in if there is none that is valid.
func (r *run) token(ctx context.Context, a *harness.Account) (string, error) {
	if s := r.sessions[a]; s.token == "" || s.active != a.Active || !r.Clock.Now().Before(s.expires) {
		if _, err := r.signIn(ctx, a); err != nil {
			return "", err
		}
	}
	return r.sessions[a].token, nil
}

// signIn exchanges a new token of the identity provider for a service token.
func (r *run) signIn(ctx context.Context, a *harness.Account) (result, error) {
	body, err := json.Marshal(object{"identityToken": r.Identity.Token(a)})
	if err != nil {
		return result{}, err
	}
	signedIn, err := r.send(ctx, http.MethodPost, "/auth/exchange-token", http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return result{}, err
	}
	return signedIn, r.keep(a, signedIn)
}

// keep keeps the service token of a response.
func (r *run) keep(a *harness.Account, of result) error {
	token := format(of.find([]part{{name: "token"}}))
	claims, err := r.Tokens.Read(token)
	if err != nil {
		return err
	}
	r.sessions[a] = session{token, claims.ExpiresAt, a.Active}
	return nil
}

// path puts ids in the place of names, which are whole segments of a path.
func (r *run) path(path string) (string, error) {
	if !strings.HasPrefix(path, "/") {
		return "", &misuse{"a path begins with a slash, such as /tasks"}
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "@") {
			v, err := r.lookup(p[1:])
			if err != nil {
				return "", err
			}
			if v == nil {
				v = new("none")
			}
			p = *v
		}
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/"), nil
}

// json returns the value of a field: what an unquoted text is as JSON, with ids in the place of
// names, and else the text.
func (r *run) json(w word, text *string) (any, error) {
	if text == nil {
		return nil, nil
	}
	v, ok := decode([]byte(*text))
	if w.quoted || !ok || strings.HasPrefix(w.text, "@") {
		return *text, nil
	}
	return r.resolve(v)
}

// resolve puts ids in the place of names in the texts of a list or an object.
func (r *run) resolve(v any) (any, error) {
	var err error
	switch of := v.(type) {
	case string:
		if strings.HasPrefix(of, "@") {
			return r.lookup(of[1:])
		}
	case []any:
		for i := range of {
			if of[i], err = r.resolve(of[i]); err != nil {
				return nil, err
			}
		}
	case object:
		for name := range of {
			if of[name], err = r.resolve(of[name]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// recorder keeps a response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	leaves bool // the client leaves after the first part of the body
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.leaves && w.body.Len() > 0 {
		return 0, errors.New("the client left")
	}
	return w.body.Write(p)
}

// send sends a request and returns the response. One with a status of 400 and above is a
// refusal.
func (r *run) send(ctx context.Context, method, target string, header http.Header, body []byte) (result, error) {
	req, err := http.NewRequestWithContext(ctx, method, harness.PublicURL+prefix+target, bytes.NewReader(body))
	if err != nil {
		return result{}, &misuse{err.Error()}
	}
	req.Header, req.RequestURI, req.RemoteAddr = header, req.URL.RequestURI(), "192.0.2.1:1024"
	w := &recorder{header: http.Header{}, leaves: r.leaves}
	r.leaves = false
	r.api.ServeHTTP(w, req)
	w.WriteHeader(http.StatusOK)
	got := result{header: w.header}
	switch media, _, _ := mime.ParseMediaType(w.header.Get("Content-Type")); media {
	case "application/json":
		got.value, _ = decode(w.body.Bytes())
	case "text/event-stream":
		got.value = streamed(w.body.String())
	default:
		got.value = w.body.String()
	}
	if w.status >= http.StatusBadRequest {
		return result{}, &refusal{status: fmt.Sprint(w.status), message: format(got.find([]part{{name: "message"}}))}
	}
	return got, nil
}

// streamed returns the events of a stream, and the text of those that have one.
func streamed(body string) object {
	events, text := []any{}, ""
	for frame := range strings.SplitSeq(body, "\n\n") {
		if e := event(frame); e != nil {
			events = append(events, e)
			if part, ok := e["text"].(string); ok {
				text += part
			}
		}
	}
	return object{"events": events, "text": text}
}

// event returns the data of an event with its type, if it has one, and its id; nil for a frame
// without data.
func event(frame string) (e object) {
	fields := object{}
	for line := range strings.SplitSeq(frame, "\n") {
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "event", "id":
			fields[name] = value
		case "data":
			v, _ := decode([]byte(value))
			e, _ = v.(object)
		}
	}
	if e != nil {
		for name, value := range fields {
			e[name] = value
		}
	}
	return e
}
