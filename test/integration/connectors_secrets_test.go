package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"collab/test/authserver"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
	"collab/test/rows"
	"collab/test/toolserver"
)

// secretSet collects secrets with their descriptions.
type secretSet struct {
	mu  sync.Mutex
	all map[string]string // descriptions by secret
}

func (v *secretSet) add(what string, secrets ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range secrets {
		if len(s) >= 16 { // shorter ones are in everything
			v.all[s] = what
		}
	}
}

// of adds what an authorization server was sent.
func (v *secretSet) of(s *authserver.Server) {
	for _, e := range []authserver.Endpoint{authserver.Token, authserver.Revocation} {
		for _, r := range s.Requests(e) {
			for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret", "token"} {
				v.add(name, r.Form.Get(name))
			}
			head := r.Header.Get("Authorization")
			v.add("a header", strings.TrimPrefix(head, "Basic "))
			if plain, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(head, "Basic ")); err == nil {
				_, secret, _ := strings.Cut(string(plain), ":")
				v.add("client_secret", secret)
			}
		}
	}
}

// within looks for all secrets in a text, in the forms in which they might be there.
func (v *secretSet) within(t testing.TB, where string, text []byte) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for secret, what := range v.all {
		for _, form := range []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
			if at := bytes.Index(text, []byte(form)); at >= 0 {
				t.Errorf("%s has a secret (%s): %.400q", where, what, text[max(0, at-200):])
				break
			}
		}
	}
}

// TestConnectorSecretsAreInNoOutput makes authorizations, renewals and attempts that succeed
// or fail in all ways, at servers that repeat what they receive. No secret is in anything that they print or
// send, nor in the database unless it is sealed.
func TestConnectorSecretsAreInNoOutput(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	collector := recording(t)
	withConnectors(t, func(p *connectorTest) {
		v := &secretSet{all: map[string]string{}}
		v.add("an API key", toolsKey)
		v.add("client_secret", "secret-of-ours-9f3c")
		for _, s := range []*authserver.Server{p.auth, p.preferred} {
			s.Set(func(s *authserver.Script) {
				s.Answer = func(result map[string]any) {
					access, _ := result["access_token"].(string)
					refresh, _ := result["refresh_token"].(string)
					v.add("an access token", access)
					v.add("refresh_token", refresh)
				}
			})
		}
		var responses bytes.Buffer // error responses
		fails := func(c collabd.Client, method, path string, body any) {
			t.Helper()
			status, data, err := c.Do(method, path, body)
			if err != nil || status < 400 {
				t.Errorf("%s %.20s is %d, %v", method, path, status, err)
			}
			responses.Write(data)
		}
		// answers brings an authorization to its end, good or bad.
		answers := func(provider string, of *authserver.Server, want int, change func(back url.Values)) flow {
			t.Helper()
			f, b := p.start(p.ada, map[string]any{"providerId": provider}), newBrowser(t)
			v.add("state", f.State)
			back := p.approved(of, b, f)
			q := back.Query()
			v.add("code", q.Get("code"))
			v.add("a form's token", b.token)
			for _, cookie := range b.Jar.Cookies(back) {
				v.add("a cookie", cookie.Value)
			}
			change(q)
			back.RawQuery = q.Encode()
			responses.WriteString(p.finished(b, back.String(), p.server(1), want))
			status, data, err := p.ada.Do("GET", "/mcp-oauth/poll?state="+f.State, nil)
			if err != nil || status != 200 && status != 404 {
				t.Errorf("a poll is %d, %v", status, err)
			}
			responses.Write(data)
			return f
		}
		asItIs := func(url.Values) {}
		failing := func(code string) func(url.Values) { return func(q url.Values) { q.Set("error", code) } }

		// The successful cases.
		good := answers("notes", p.auth, 200, asItIs).InstanceID
		ours := answers("known", p.preferred, 200, asItIs).InstanceID
		for _, i := range []string{good, ours} {
			p.awaitStatus(p.ada, i, "CONNECTED")
			v.add("an access token", p.token(p.ada, i))
		}
		key := p.create(p.ada, map[string]any{"providerId": "search"}).ID
		p.ada.Must(t, 200, "POST", "/connectors/"+key+"/credentials", map[string]any{"credentials": map[string]any{"apiKey": toolsKey}}, nil)
		p.awaitStatus(p.ada, key, "CONNECTED")

		// The cases that fail.
		answers("notes", p.auth, 403, func(q url.Values) { q.Set("iss", "https://"+q.Get("code")+".example.com") })
		answers("notes", p.auth, 403, failing("access_denied"))
		answers("notes", p.auth, 403, func(q url.Values) { q.Set("error", q.Get("code")) })
		answers("notes", p.auth, 404, func(q url.Values) { q.Set("state", q.Get("code")) })
		answers("notes", p.auth, 400, func(q url.Values) { q.Add("code", q.Get("code")) })
		for _, f := range []struct {
			do   authserver.Fault
			want int
		}{
			{authserver.Echo(400, ""), 403}, {authserver.Echo(400, "invalid_grant"), 403}, {authserver.Echo(200, ""), 403}, {authserver.Echo(500, ""), 503},
			{authserver.Garble, 503}, {authserver.Cut, 503}, {authserver.Status(502), 503}, {authserver.Enormous, 503},
			{authserver.Redirect("http://10.0.0.1/"), 503}, {authserver.Echo(401, "invalid_client"), 403},
		} {
			p.auth.Fail(authserver.Token, f.do, 1)
			answers("notes", p.auth, f.want, asItIs)
		}
		for _, e := range []authserver.Endpoint{authserver.Registration, authserver.Metadata} {
			p.auth.Fail(e, authserver.Echo(400, ""), 3)
			p.change("DELETE FROM connector_clients")
			fails(p.ada, "POST", "/mcp-oauth/start", map[string]any{"providerId": "notes"})
			p.auth.Fail(e, nil, 0)
		}
		echoing := toolserver.Start(t)
		for _, b := range []toolserver.Behaviour{toolserver.Status(401), toolserver.Status(500), toolserver.Page} {
			echoing.On("", b)
			i := p.create(p.ada, map[string]any{"providerId": "elsewhere", "config": map[string]any{"url": echoing.HTTP()}})
			p.ada.Must(t, 200, "POST", "/connectors/"+i.ID+"/credentials", map[string]any{"credentials": map[string]any{"apiKey": toolsKey}}, nil)
			responses.WriteString(p.awaitStatus(p.ada, i.ID, "ERROR").error())
		}
		fails(p.ada, "POST", "/connectors/"+good+"/credentials", map[string]any{"credentials": map[string]any{"accessToken": toolsKey}})
		fails(p.ada, "POST", "/connectors/"+key+"/credentials", map[string]any{"credentials": map[string]any{toolsKey: toolsKey}})
		for _, f := range []authserver.Fault{authserver.Echo(500, "server_error"), authserver.Garble, authserver.Echo(400, "")} {
			p.auth.Fail(authserver.Token, f, -1)
			p.expire(good)
			fails(p.ada, "GET", "/connectors/"+good+"/credentials", nil)
			responses.WriteString(p.awaitStatus(p.ada, good, "ERROR").error())
		}
		p.auth.Fail(authserver.Token, nil, 0)
		p.preferred.Fail(authserver.Revocation, authserver.Echo(400, ""), 1)
		p.ada.Must(t, 200, "DELETE", "/connectors/"+ours, nil, nil)
		must.Wait(p, "the failure is noted", func() bool { return p.count("SELECT count(*) FROM connector_revocations WHERE attempts = 1") == 1 })

		v.of(p.auth)
		v.of(p.preferred)
		found := map[string]int{}
		for _, what := range v.all {
			found[what]++
		}
		for _, what := range []string{"an API key", "client_secret", "state", "code", "a cookie", "a form's token", "code_verifier", "an access token", "refresh_token", "a header"} {
			if found[what] == 0 {
				t.Errorf("there is no secret that is %s: %v", what, found)
			}
		}

		for _, path := range []string{"/connectors", "/org/audit"} {
			_, data, err := p.ada.Do("GET", path, nil)
			if err != nil || len(data) < 10 {
				t.Errorf("%s is %s, %v", path, data, err)
			}
			v.within(t, path, data)
		}
		v.within(t, "what clients are told", responses.Bytes())
		for n, s := range p.servers {
			v.within(t, "/metrics", []byte(s.Metrics(t)))
			s.Stop(t) // which sends what waits
			v.within(t, fmt.Sprintf("the log of server %d", n), []byte(s.Log()))
		}
		traces := collector.all(t)
		if !bytes.Contains(traces, []byte("mcp-oauth")) {
			t.Error("no trace tells of an authorization")
		}
		v.within(t, "the traces", traces)
		v.within(t, "the database", p.dump())
	}, "COLLAB_LOG_LEVEL=debug", "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip")
}

// dump is all that is in the database, as it is kept.
func (p *connectorTest) dump() []byte {
	p.Helper()
	if p.postgres {
		return []byte(strings.Join(rows.All(p, p.rows), "\n"))
	}
	var all bytes.Buffer
	files, err := filepath.Glob(strings.TrimPrefix(p.database.url, "sqlite://") + "*")
	if err != nil || len(files) == 0 {
		p.Fatalf("the database has the files %v: %v", files, err)
	}
	for _, name := range files {
		text := must.Do(os.ReadFile(name)).Or(p)
		all.Write(text)
	}
	return all.Bytes()
}
