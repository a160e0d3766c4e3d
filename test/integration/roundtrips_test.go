package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
	"collab/domain/connector"
	"collab/test/collabd"
	"collab/test/must"
)

// roundTrip is a row of roundTrips.
type roundTrip struct {
	request, body string
	trips         int
	once          bool // it can succeed only once
}

// roundTrips has for each endpoint how often a request that succeeds waits for Postgres, with the
// caches of steady use. The responses of POST /chat and GET /sync/changes count until they begin.
//
// Work that a change of a connector or a release starts in the background may count as well.
//
// A parameter of a path or a body in braces stands for the id of a new record, {n} for a number
// that is used once. A request is sent once before it is counted, unless it can succeed only once.
var roundTrips = []roundTrip{
	{"POST /auth/exchange-token", `{"identityToken": "{identity}"}`, 14, false},
	{"POST /auth/refresh", `{"token": "{token}"}`, 7, false},
	{"POST /auth/device", `{"client_name": "device {n}"}`, 1, false},
	{"GET /auth/device?{decision}", "", 2, false},
	{"POST /auth/device/decision", "{decision}", 4, true},
	{"POST /auth/device/token", `{"device_code": "{allowed}"}`, 10, true},
	{"POST /auth/webhook", `{"object": "event", "type": "organizationMembership.created", "timestamp": {now}000, "data": {"id": "orgmem_{n}", "role": "org:admin",
		"organization": {"id": "org_{n}", "name": "Hooks", "created_at": {now}000, "updated_at": {now}000},
		"public_user_data": {"user_id": "user_{n}", "first_name": "Ben", "last_name": "Hur", "identifier": "hook-{n}@rounds.example"},
		"created_at": {now}000, "updated_at": {now}000}}`, 9, true},
	{"GET /auth/me", "", 1, false},
	{"GET /auth/organisations", "", 3, false},
	{"GET /auth/sessions", "", 2, false},
	{"DELETE /auth/sessions", "", 6, false},
	{"DELETE /auth/sessions/{session}", "", 10, true},
	{"POST /auth/onboarding-complete", "", 5, false},
	{"POST /auth/seed-onboarding", "", 5, false},
	{"GET /org/members", "", 1, false},
	{"GET /org/members/former", "", 2, false},
	{"PATCH /org/members/{userId}/role", `{"role": "VIEWER"}`, 9, true},
	{"DELETE /org/members/{userId}", "", 11, true},
	{"GET /org/invites", "", 2, false},
	{"POST /org/invite", `{"email": "guest-{n}@rounds.example", "role": "MEMBER"}`, 14, false},
	{"POST /org/invite/{invitation}/resend", "", 11, true},
	{"DELETE /org/invite/{invitation}", "", 7, true},
	{"GET /org/audit", "", 2, false},
	{"POST /org/export", "", 11, true},
	{"GET /org/exports", "", 2, false},
	{"GET /org/exports/{export}", "", 2, false},
	{"GET /org/exports/{export}/archive", "", 2, false},
	{"GET /tasks?status=TODO&limit=50", "", 1, false},
	{"POST /tasks", `{"title": "Task {n}"}`, 1, false},
	{"POST /tasks/reorder", `{"taskIds": ["{task}"]}`, 6, false},
	{"POST /tasks/reprioritize", `{"changes": [{"taskId": "{task}", "reason": "r", "priority": "HIGH"}]}`, 8, false},
	{"GET /tasks/{task}", "", 1, false},
	{"PATCH /tasks/{task}", `{"title": "Task {n}"}`, 1, false},
	{"DELETE /tasks/{task}", "", 8, true},
	{"GET /tasks/{task}/history", "", 3, false},
	{"GET /teams", "", 1, false},
	{"POST /teams", `{"name": "Team {n}"}`, 9, false},
	{"GET /teams/{team}", "", 2, false},
	{"PATCH /teams/{team}", `{"name": "Team {n}"}`, 6, false},
	{"DELETE /teams/{team}", "", 16, true},
	{"GET /teams/{team}/members", "", 3, false},
	{"POST /teams/{team}/members", `{"userId": "{userId}"}`, 15, true},
	{"DELETE /teams/{teammate}", "", 8, true},
	{"GET /workspaces", "", 2, false},
	{"POST /workspaces", `{"name": "Workspace {n}", "teamId": "{team}"}`, 8, false},
	{"PUT /workspaces/order", `{"order": ["{workspace}"]}`, 7, false},
	{"GET /workspaces/{workspace}", "", 3, false},
	{"PATCH /workspaces/{workspace}", `{"name": "Workspace {n}"}`, 8, false},
	{"DELETE /workspaces/{workspace}", "", 12, true},
	{"POST /workspaces/{workspace}/move", `{"targetTeamId": "{team}"}`, 13, true},
	{"GET /sync/profile", "", 1, false},
	{"PUT /sync/profile", `{"n": {n}}`, 3, false},
	{"GET /sync/org-onboarding", "", 1, false},
	{"PUT /sync/org-onboarding", `{"n": {n}}`, 3, false},
	{"GET /sync/memory/user", "", 1, false},
	{"PUT /sync/memory/user", `{"content": "{n}"}`, 3, false},
	{"GET /sync/memory/workspace/{workspace}", "", 2, false},
	{"GET /sync/memory/workspace/{workspace}/notes.md", "", 1, false},
	{"PUT /sync/memory/workspace/{workspace}/notes.md", `{"content": "{n}"}`, 3, false},
	{"GET /sync/files", "", 2, false},
	{"POST /sync/files", `{"path": "file-{n}.md", "content": "{n}"}`, 7, false},
	{"GET /sync/files/{file}", "", 1, false},
	{"PUT /sync/files/{file}", `{"content": "{n}"}`, 2, false},
	{"DELETE /sync/files/{file}", "", 11, true},
	{"PATCH /sync/files/{file}", `{"path": "moved-{n}.md"}`, 10, false},
	{"POST /sync/move", `{"from": "d", "to": "e{n}", "kind": "ARTIFACT", "scope": "SHARED"}`, 9, true},
	{"GET /sync/files/{replaced}/versions", "", 2, false},
	{"GET /sync/files/{replaced}/versions/1", "", 2, false},
	{"DELETE /sync/files/{replaced}/versions/1", "", 9, true},
	{"DELETE /sync/files/{replaced}/versions", "", 9, true},
	{"POST /sync/files/{replaced}/restore", `{"version": 1}`, 12, true},
	{"POST /sync/resumable-uploads?path=resumed-{n}.md&checksum={sum}", "rest", 27, false},
	{"GET /sync/resumable-uploads", "", 2, false},
	{"GET /sync/resumable-uploads/{upload}", "", 2, false},
	{"PATCH /sync/resumable-uploads/{upload}", "rest", 21, true},
	{"DELETE /sync/resumable-uploads/{upload}", "", 7, true},
	{"GET /sync/manifest", "", 5, false},
	{"GET /sync/changes", "", 1, false},
	{"POST /chat", `{"message": "Hello {n}", "model": "local-1", "maxTokens": 16}`, 1, false},
	{"GET /models", "", 1, false},
	{"GET /billing/status", "", 3, false},
	{"GET /billing/plans", "", 1, false},
	{"GET /billing/subscription", "", 3, false},
	{"POST /billing/trial", "", 9, true},
	{"POST /billing/checkout", `{"plan": "STANDARD"}`, 13, false},
	{"GET /billing/checkout/success?session_id={checkout}", "", 0, false},
	{"GET /billing/checkout/cancel", "", 0, false},
	{"POST /billing/portal", "", 3, false},
	{"POST /billing/downgrade", "", 9, true},
	{"POST /billing/webhook", `{"id": "evt_{n}", "type": "customer.subscription.updated", "created": {now}, "data": {"object": {"id": "sub_{n}", "customer": "cus_{n}", "status": "active",
		"metadata": {"org_id": "{org}"}, "current_period_start": {now}, "current_period_end": 4102444800, "items": {"data": [{"price": {"id": "price_premium"}, "quantity": 7}]}}}}`, 10, true},
	{"GET /metering/org", "", 3, false},
	{"POST /sync/batch", `{"op": "put", "path": "batch/{n}/a.md", "content": "{n}"}` + "\n" + `{"op": "put", "path": "batch/{n}.md", "content": "{n}"}`, 13, false},
	{"POST /sync/batch/read", `{"files": [{"id": "{file}"}, {"id": "{replaced}"}]}`, 2, false},
	{"GET /sync/limits", "", 4, false},
	{"GET /metering/user", "", 3, false},
	{"GET /metering/daily", "", 2, false},
	{"GET /metering/quota", "", 1, false},
	{"GET /metering/storage", "", 4, false},
	{"GET /connector-providers", "", 0, false},
	{"GET /connectors", "", 2, false},
	{"POST /connectors", `{"providerId": "shell"}`, 9, true},
	{"GET /connectors/{keyed}/credentials", "", 8, false},
	{"POST /connectors/{connector}/credentials", `{"credentials": {"apiKey": "{n}"}}`, 14, false},
	{"DELETE /connectors/{connector}", "", 11, true},
	{"GET /mcp-oauth/client-metadata.json", "", 0, false},
	{"GET /mcp-oauth/client-metadata/{issuer}", "", 0, false},
	{"GET /updates/check?version=1.0.0&platform=linux&arch=x64", "", 0, false},
	{"POST /updates", `{"version": "1.0.{n}", "platform": "linux", "arch": "x64", "downloadUrl": "https://dl.example.com/collab.zip"}`, 12, false},
	{"PATCH /updates/{release}", `{"rolloutPercentage": 50}`, 5, false},
	{"GET /updates/releases", "", 4, false},
	{"GET /updates/releases/{release}/rollout?clientIds=a", "", 2, false},
	{"GET /updates/releases/{release}/progress", "", 4, false},
	{"GET /updates/releases/{release}/reports", "", 3, false},
	{"POST /updates/reports", `{"version": "1.0.0", "platform": "linux", "arch": "x64", "outcome": "success"}`, 0, false},
	{"GET /updates/adoption", "", 2, false},
	{"GET /updates/feeds/electron/latest.yml", "", 0, false},
	{"GET /updates/feeds/squirrel/darwin/arm64/1.0.0", "", 0, false},
	{"GET /updates/feeds/squirrel/win32/x64/1.0.0/RELEASES", "", 0, false},
	{"GET /updates/feeds/tauri/darwin/arm64/1.0.0", "", 0, false},
	{"GET /updates/feeds/sparkle/appcast.xml", "", 0, false},
	{"GET /admin/health", "", 3, false},
	{"GET /admin/organisations", "", 11, false},
	{"GET /admin/doctor", "", 12, false}, // it connects by itself, whose statements vary
	{"GET /admin/organisations/{org}", "", 6, false},
	{"GET /admin/organisations/{org}/members", "", 3, false},
	{"PUT /admin/organisations/{org}/subscription", `{"plan": "PREMIUM"}`, 9, false},
	{"PUT /admin/organisations/{org}/members/{userId}/role", `{"role": "ADMIN"}`, 11, true},
	{"GET /openapi.json", "", 0, false},
}

// preparations have what a row's request needs beside its parameters.
var preparations = map[string]func(*ownerClient){
	"POST /billing/portal":    func(v *ownerClient) { v.checkout() },
	"POST /billing/downgrade": func(v *ownerClient) { v.Must(v.t, 200, "POST", "/billing/trial", nil, nil) },
}

// uncounted are the endpoints that need a browser at the identity provider, an object store that
// signs addresses, or an authorization server of a tool server.
var uncounted = []string{
	"GET /auth/cli-auth", "GET /auth/cli-callback",
	"POST /sync/uploads", "POST /sync/uploads/{id}/complete", "DELETE /sync/uploads/{id}",
	"POST /mcp-oauth/start", "GET /mcp-oauth/poll", "GET /mcp-oauth/authorize", "POST /mcp-oauth/authorize", "GET /mcp-oauth/callback", "GET /mcp-oauth/callback/{issuer}",
}

// busiest are the endpoints that clients are assumed to call most and that wait at most once. Eight
// are of the working day in docs/scale.md: lists of tasks, a task, other reads as a profile, a new
// task, a change of one, a file, a chat, and the check for updates. The change feed is what its users
// with an open stream have, and the last three are sent by clients when they start, and beside a chat.
//
// The rest of that day waits more than once: new content of a file twice, a new file, a task's history
// and the sum of a month as often as roundTrips says.
var busiest = []string{
	"GET /tasks", "GET /tasks/{task}", "GET /sync/profile", "POST /tasks", "PATCH /tasks/{task}", "GET /sync/files/{file}", "POST /chat", "GET /updates/check",
	"GET /sync/changes", "GET /auth/me", "GET /models", "GET /metering/quota",
}

func TestRoundTripsToPostgres(t *testing.T) {
	counter := newTripCounter(t, collabd.Postgres(t))
	catalog := filepath.Join(t.TempDir(), "connectors.json")
	err := os.WriteFile(catalog, []byte(`{"providers": [{"serverId": "shell", "displayName": "Shell", "description": "Runs.", "authMode": "API_KEY",
		"mcpTransport": "STDIO", "command": ["shell"], "credentials": [{"name": "apiKey", "label": "Key"}], "env": {"SHELL_KEY": "{apiKey}"}}]}`), 0o600)
	must.NoError(t, err)
	s := collabd.Start(t, "COLLAB_DATABASE_URL="+counter.url, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_CONNECTORS_FILE="+catalog,
		"COLLAB_IDENTITY_WEBHOOK_SECRETS="+collabd.WebhookSecret, "COLLAB_STRIPE_WEBHOOK_SECRETS="+collabd.PaymentSecret)
	for i, row := range roundTrips {
		// Work in the background and statements that a connection has not prepared yet count as
		// well: the request's number is the least.
		least := row.trips + 1
		for n := 0; least > row.trips && n < 10; n++ {
			v := &ownerClient{t: t, s: s, counter: counter, name: fmt.Sprintf("Rounds-%d-%d", i, n)}
			v.Client = v.joined("owner")
			if !strings.Contains(row.request, "/billing/") {
				v.Grant(t, "ENTERPRISE")
			}
			v.Must(t, 200, "POST", "/auth/seed-onboarding", nil, nil)
			if trips := v.trips(row); n == 0 || trips < least {
				least = trips
			}
		}
		t.Logf("%2d %s", least, row.request)
		if least > row.trips {
			t.Errorf("%s waits for %d round trips, and the table says %d", row.request, least, row.trips)
		}
	}

	t.Run("the table has every endpoint", func(t *testing.T) {
		var document struct {
			Paths map[string]map[string]json.RawMessage
		}
		collabd.Client{Base: s.URL}.Must(t, 200, "GET", "/openapi.json", nil, &document)
		for path, methods := range document.Paths {
			path, versioned := strings.CutPrefix(path, "/api/v1")
			for method := range methods {
				endpoint := strings.ToUpper(method) + " " + path
				counts := func(row roundTrip) bool { return matches(endpoint, row.request) }
				if versioned && method != "parameters" && !slices.ContainsFunc(roundTrips, counts) && !slices.Contains(uncounted, endpoint) {
					t.Errorf("%s is missing", endpoint)
				}
			}
		}
	})
	t.Run("the busiest endpoints wait once", func(t *testing.T) {
		for _, endpoint := range busiest {
			found := false
			for _, row := range roundTrips {
				if matches(endpoint, row.request) {
					if found = true; row.trips > 1 {
						t.Errorf("%s waits for %d round trips", endpoint, row.trips)
					}
				}
			}
			if !found {
				t.Errorf("%s is not in the table", endpoint)
			}
		}
	})
}

// matches reports whether a request is one to an endpoint, whose path may have parameters.
func matches(endpoint, request string) bool {
	request, _, _ = strings.Cut(request, "?")
	a, b := strings.Split(endpoint, "/"), strings.Split(strings.Replace(request, "{teammate}", "{team}/members/{userId}", 1), "/")
	return slices.EqualFunc(a, b, func(a, b string) bool { return a == b || strings.HasPrefix(a, "{") })
}

// ownerClient sends requests as the owner of its own organisation.
type ownerClient struct {
	collabd.Client
	t       *testing.T
	s       *collabd.Server
	counter *tripCounter
	name    string
	cookies string // of a browser, sent with each counted request
}

// joined returns a session of the owner, or of a new member.
func (v *ownerClient) joined(role string) collabd.Client {
	email := v.name + "@rounds.example"
	if role != "owner" {
		email = fmt.Sprintf("member-%d@rounds.example", used.Add(1))
	}
	return v.s.SignIn(v.t, email, v.name, role)
}

// used makes the numbers that are used once.
var used atomic.Int64

// trips returns how often the request of a row waits for Postgres.
func (v *ownerClient) trips(row roundTrip) int {
	if prepare := preparations[row.request]; prepare != nil {
		prepare(v)
	}
	method, path, _ := strings.Cut(row.request, " ")
	path, body := v.filled(path), v.filled(row.body)
	numbered := func(text string) string { return strings.ReplaceAll(text, "{n}", fmt.Sprint(used.Add(1))) }
	if !row.once {
		v.send(method, numbered(path), numbered(body))
	}
	v.Must(v.t, 200, "GET", "/models", nil, nil) // the actor is in the cache, at the present epoch
	return v.send(method, numbered(path), numbered(body))
}

// headers returns what a request has beside the token.
func (v *ownerClient) headers(method, path, body string) []string {
	now := time.Now()
	switch path, _, _ = strings.Cut(path, "?"); {
	case body == "" && v.cookies == "":
		return nil
	case v.cookies != "":
		return []string{"Content-Type: application/x-www-form-urlencoded", "Cookie: " + v.cookies}
	case path == "/sync/batch":
		return []string{"Content-Type: application/x-ndjson"}
	case path == "/sync/resumable-uploads":
		return []string{"Content-Type: text/markdown", "Upload-Complete: ?1"}
	case method == "PATCH" && strings.HasPrefix(path, "/sync/resumable-uploads/"):
		return []string{"Content-Type: application/partial-upload", "Upload-Complete: ?1", "Upload-Offset: 0"}
	case path == "/auth/webhook":
		id := fmt.Sprint("msg_", used.Add(1))
		signature := must.Do(standardwebhooks.Sign(collabd.WebhookSecret, id, now, []byte(body))).Or(v.t)
		return []string{"Content-Type: application/json", "webhook-id: " + id, fmt.Sprint("webhook-timestamp: ", now.Unix()), "webhook-signature: " + signature}
	case path == "/billing/webhook":
		return []string{"Content-Type: application/json", "Stripe-Signature: " + stripepay.Sign(collabd.PaymentSecret, now, []byte(body))}
	}
	return []string{"Content-Type: application/json"}
}

// send sends a request and returns how often it waited.
func (v *ownerClient) send(method, path, body string) int {
	v.t.Helper()
	headers := append(v.headers(method, path, body), "X-Admin-Secret: "+collabd.AdminSecret)
	r := must.Do(v.Request(v.t.Context(), method, path, strings.NewReader(body), headers...)).Or(v.t)
	before := v.counter.n.Load()
	response := must.Do(http.DefaultClient.Do(r)).Or(v.t)
	defer response.Body.Close()
	begun := int(v.counter.n.Load() - before)
	if path == "/sync/changes" {
		return begun
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 {
		v.t.Errorf("%s %s: %s, %v: %s", method, path, response.Status, err, text)
	}
	if path == "/chat" {
		return begun
	}
	return int(v.counter.n.Load() - before)
}

// filled returns a text with ids of new records in place of its parameters.
func (v *ownerClient) filled(text string) string {
	for name, made := range map[string]func() string{
		"{task}": func() string { return v.added("/tasks", `{"title": "T"}`) },
		"{team}": func() string { return v.added("/teams", `{"name": "T"}`) },
		"{workspace}": func() string {
			return v.added("/workspaces", fmt.Sprintf(`{"name": "W", "teamId": %q}`, v.filled("{team}")))
		},
		"{file}": func() string { return v.added("/sync/files", `{"path": "a.md", "content": "a"}`) },
		"{replaced}": func() string {
			file := v.added("/sync/files", `{"path": "d/a.md", "content": "a"}`)
			v.Must(v.t, 200, "PUT", "/sync/files/"+file, json.RawMessage(`{"content": "b"}`), nil)
			return file
		},
		"{invitation}": func() string { return v.added("/org/invite", `{"email": "g@rounds.example", "role": "MEMBER"}`) },
		"{connector}":  func() string { return v.added("/connectors", `{"providerId": "shell"}`) },
		"{release}": func() string {
			return v.added("/updates", fmt.Sprintf(`{"version": "2.0.%d", "platform": "linux", "arch": "x64", "downloadUrl": "https://dl.example.com/collab.zip"}`, used.Add(1)))
		},
		"{teammate}": func() string {
			team, user := v.filled("{team}"), v.filled("{userId}")
			v.Must(v.t, 200, "POST", "/teams/"+team+"/members", map[string]string{"userId": user}, nil)
			return team + "/members/" + user
		},
		"{keyed}": func() string {
			connector := v.filled("{connector}")
			v.Must(v.t, 200, "POST", "/connectors/"+connector+"/credentials", json.RawMessage(`{"credentials": {"apiKey": "k"}}`), nil)
			return connector
		},
		"{upload}": func() string {
			var made struct{ ID string }
			v.Must(v.t, 201, "POST", fmt.Sprintf("/sync/resumable-uploads?path=resumed-%d.md&checksum=%s", used.Add(1), must.Sum("rest")), nil, &made, "Upload-Complete: ?0", "Upload-Length: 4")
			return made.ID
		},
		"{export}": func() string {
			id := strings.TrimPrefix(startExport(v.t, v.Client), "/org/exports/")
			must.Wait(v.t, "the archive is ready", func() bool {
				var export struct{ Status string }
				v.Must(v.t, 200, "GET", "/org/exports/"+id, nil, &export)
				return export.Status == "READY"
			})
			return id
		},
		"{decision}": func() string {
			_, form, cookies := v.device()
			v.cookies = cookies
			return form
		},
		"{allowed}": func() string {
			code, form, cookies := v.device()
			v.Must(v.t, 200, "POST", "/auth/device/decision", strings.NewReader(form), nil, "Content-Type: application/x-www-form-urlencoded", "Cookie: "+cookies)
			return code
		},
		"{sum}":      func() string { return must.Sum("rest") },
		"{checkout}": v.checkout,
		"{issuer}":   func() string { return connector.IssuerKey("https://issuer.example") },
		"{now}":      func() string { return fmt.Sprint(time.Now().Unix()) },
		"{org}":      func() string { return v.Org },
		"{token}":    func() string { return v.Token },
		"{userId}":   func() string { return v.joined("member").User },
		"{identity}": v.identity,
		"{session}":  v.session,
	} {
		if strings.Contains(text, name) {
			text = strings.ReplaceAll(text, name, made())
		}
	}
	return text
}

// added returns the id of a new record.
func (v *ownerClient) added(path, body string) string {
	v.t.Helper()
	var made struct{ ID string }
	v.Must(v.t, 201, "POST", path, json.RawMessage(body), &made)
	return made.ID
}

// session returns the id of another session of the visitor.
func (v *ownerClient) session() string {
	v.joined("owner")
	var all []struct {
		ID      string
		Current bool
	}
	v.Must(v.t, 200, "GET", "/auth/sessions", nil, &all)
	for _, s := range all {
		if !s.Current {
			return s.ID
		}
	}
	v.t.Fatal("there is no other session")
	return ""
}

// checkout returns the id of a new session at the payment provider.
func (v *ownerClient) checkout() string {
	var page struct{ URL string }
	v.Must(v.t, 200, "POST", "/billing/checkout", map[string]string{"plan": "STANDARD"}, &page)
	return path.Base(page.URL)
}

// hidden are the fields of a form that the page has filled in.
var hidden = regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`)

// device starts the sign-in of a device and signs somebody in at its page. It returns the device's
// code, the form that allows the device, and the cookies that belong to the form.
func (v *ownerClient) device() (code, form, cookies string) {
	var started struct {
		Code string `json:"device_code"`
		Page string `json:"verification_uri_complete"`
	}
	v.Must(v.t, 200, "POST", "/auth/device", nil, &started)
	browser := &http.Client{Jar: must.Do(cookiejar.New(nil)).Or(v.t)}
	filled := func(page *http.Response, more url.Values) url.Values {
		defer page.Body.Close()
		text := must.Do(io.ReadAll(page.Body)).Or(v.t)
		for _, field := range hidden.FindAllStringSubmatch(string(text), -1) {
			if !more.Has(field[1]) {
				more.Set(field[1], field[2])
			}
		}
		return more
	}
	page := must.Do(browser.Get(started.Page)).Or(v.t)
	n := used.Add(1)
	person := url.Values{"account": {"new"}, "email": {fmt.Sprintf("device-%d@rounds.example", n)}, "name": {"D"}, "org": {"new"}, "orgName": {fmt.Sprintf("Device %d", n)}, "role": {"owner"}, "action": {"sign-in"}}
	page = must.Do(browser.PostForm(page.Request.URL.String(), filled(page, person))).Or(v.t)
	decision := filled(page, url.Values{"decision": {"allow"}})
	if !decision.Has("token") {
		v.t.Fatalf("the page at %s has no form about a device", page.Request.URL)
	}
	for _, c := range browser.Jar.Cookies(page.Request.URL) {
		cookies += c.Name + "=" + c.Value + "; "
	}
	return started.Code, decision.Encode(), cookies
}

// identity returns a token of the identity provider.
func (v *ownerClient) identity() string {
	return must.Do(collabd.IdentityToken(v.Base, v.name+"@rounds.example", v.name, v.name, "owner")).Or(v.t)
}

// tripCounter passes connections on to Postgres, and counts how often a client waits: it sends
// after it has received, or for the first time.
type tripCounter struct {
	url string
	n   atomic.Int64
}

func newTripCounter(t *testing.T, address string) *tripCounter {
	u := must.Do(url.Parse(address)).Or(t)
	listener := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(t)
	target := u.Host
	u.Host = listener.Addr().String()
	counter := &tripCounter{url: u.String()}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { counter.pass(client, target) })
		}
	})
	return counter
}

// pass passes on what a client and the server send until one of them ends.
func (c *tripCounter) pass(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	var answered atomic.Bool
	answered.Store(true)
	var both sync.WaitGroup
	both.Go(func() {
		defer client.Close()
		_, _ = io.Copy(hookWriter{client, func() { answered.Store(true) }}, server)
	})
	_, _ = io.Copy(hookWriter{server, func() {
		if answered.Swap(false) {
			c.n.Add(1)
		}
	}}, client)
	server.Close()
	both.Wait()
}

// hookWriter is a writer that calls a function before it writes.
type hookWriter struct {
	io.Writer
	before func()
}

func (w hookWriter) Write(b []byte) (int, error) {
	w.before()
	return w.Writer.Write(b)
}
