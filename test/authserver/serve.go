package authserver

import (
	"bytes"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/manage"
)

// maxBody is the limit of a request body in bytes.
const maxBody = 1 << 20

// serve records the request and replies to it, with the endpoint's fault if there is one.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	e, ok := s.endpoint(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.ParseForm(); err != nil {
		http.Error(w, "malformed", http.StatusBadRequest)
		return
	}
	request := Request{Endpoint: e, Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Form: r.Form}
	if e == Registration {
		request.Body = body
	}
	do, script := s.record(request)
	switch {
	case do != nil:
		do(s, w, r)
	case e == Metadata:
		s.metadata(w, r, script)
	case e == Authorization:
		s.authorize(w, r, script)
	case e == Token:
		s.token(w, r)
	case e == Registration:
		s.register(w, body, script)
	default:
		s.revoke(w, r)
	}
}

// record records the request, and returns the fault to apply to it, or nil.
func (s *Server) record(r Request) (Fault, Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	f := s.faults[r.Endpoint]
	if f == nil || f.times == 0 {
		return nil, s.script
	}
	f.times--
	return f.do, s.script
}

func (s *Server) endpoint(path string) (Endpoint, bool) {
	for place := range s.places() {
		if path == place {
			return Metadata, true
		}
	}
	for _, e := range []Endpoint{Authorization, Token, Registration, Revocation} {
		if path == s.path+"/"+string(e) {
			return e, true
		}
	}
	return "", false
}

// places returns the places by their paths. One path may be several places.
func (s *Server) places() map[string][]Place {
	all := map[string][]Place{}
	for place, path := range map[Place]string{
		Inserted:     "/.well-known/oauth-authorization-server" + s.path,
		OIDCInserted: "/.well-known/openid-configuration" + s.path,
		OIDCAppended: s.path + "/.well-known/openid-configuration",
	} {
		all[path] = append(all[path], place)
	}
	return all
}

func (s *Server) metadata(w http.ResponseWriter, r *http.Request, script Script) {
	if !slices.ContainsFunc(s.places()[r.URL.Path], func(p Place) bool { return slices.Contains(script.MetadataPlaces, p) }) {
		http.NotFound(w, r)
		return
	}
	m := map[string]any{
		"issuer":                   s.Issuer,
		"authorization_endpoint":   s.endpointURL(Authorization),
		"token_endpoint":           s.endpointURL(Token),
		"registration_endpoint":    s.endpointURL(Registration),
		"response_types_supported": []string{"code"},
		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          script.Documents,
	}
	if script.Issuer != "" {
		m["issuer"] = script.Issuer
	}
	for name, list := range map[string][]string{
		"code_challenge_methods_supported":      script.Challenges,
		"token_endpoint_auth_methods_supported": script.Methods,
		"scopes_supported":                      script.Scopes,
	} {
		if list != nil {
			m[name] = list
		}
	}
	if script.Revokes {
		m["revocation_endpoint"] = s.endpointURL(Revocation)
	}
	if script.Metadata != nil {
		script.Metadata(m)
	}
	reply(w, http.StatusOK, m)
}

func (s *Server) endpointURL(e Endpoint) string { return s.Issuer + "/" + string(e) }

// page asks for consent. Tests without a browser post to the same address.
var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><title>Consent</title><link rel="icon" href="data:,">
<h1>Authorization server of the tests</h1>
<form method="post">
{{range $name, $values := .}}{{range $values}}<input type="hidden" name="{{$name}}" value="{{.}}">
{{end}}{{end}}<button>Allow</button> <button name="deny" value="1">Deny</button>
</form></html>
`))

// authorize is the authorization endpoint. It shows the page, and accepts its form.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, script Script) {
	c, ok := s.lookUpClient(r.Context(), r.FormValue("client_id"), script.Documents)
	if !ok || !slices.Contains(c.redirects, r.FormValue("redirect_uri")) {
		// RFC 6749, section 4.1.2.1: no redirect to an address that the client has not registered.
		http.Error(w, "unknown client or redirect_uri", http.StatusBadRequest)
		return
	}
	for name, values := range r.URL.Query() {
		if len(values) > 1 {
			http.Error(w, name+" is there more than once", http.StatusBadRequest)
			return
		}
	}
	request, err := s.protocol.ValidationAuthorizeRequest(r)
	switch {
	case err != nil:
		s.redirectToClient(w, r, map[string]any{"error": err.Error()})
	case r.FormValue(resource) == "":
		s.redirectToClient(w, r, map[string]any{"error": "invalid_target"})
	case r.Method != http.MethodPost:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, r.URL.Query()) // an error means that the connection is closed
	case r.PostFormValue("deny") != "":
		s.redirectToClient(w, r, map[string]any{"error": "access_denied"})
	default:
		request.UserID = "somebody"
		s.mu.Lock()
		t, err := s.protocol.GetAuthorizeToken(r.Context(), request)
		s.mu.Unlock()
		if err != nil {
			s.redirectToClient(w, r, map[string]any{"error": "server_error"})
			return
		}
		s.redirectToClient(w, r, map[string]any{"code": t.GetCode()})
	}
}

// redirectToClient redirects the browser to the client, with iss (RFC 9207).
func (s *Server) redirectToClient(w http.ResponseWriter, r *http.Request, result map[string]any) {
	to, err := url.Parse(r.FormValue("redirect_uri"))
	if err != nil {
		http.Error(w, "malformed redirect_uri", http.StatusBadRequest)
		return
	}
	q := to.Query()
	for name, value := range result {
		q.Set(name, value.(string))
	}
	if state := r.FormValue("state"); state != "" {
		q.Set("state", state)
	}
	q.Set("iss", s.Issuer)
	to.RawQuery = q.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

// token is the token endpoint. It serves one request at a time.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	status, result := s.exchange(r)
	s.mu.Unlock()
	reply(w, status, result)
}

func (s *Server) exchange(r *http.Request) (int, map[string]any) {
	script := s.script
	refresh := script.Refreshing != NoRefreshTokens
	s.manager.SetAuthorizeCodeTokenCfg(&manage.Config{AccessTokenExp: script.Lifetime, IsGenerateRefresh: refresh})
	s.manager.SetRefreshTokenCfg(&manage.RefreshingConfig{
		AccessTokenExp:    script.Lifetime,
		IsGenerateRefresh: script.Refreshing == RotateToken, IsRemoveAccess: true, IsRemoveRefreshing: true,
	})
	if !s.authenticated(r) {
		return http.StatusUnauthorized, map[string]any{"error": "invalid_client"}
	}
	kind, request, err := s.protocol.ValidationTokenRequest(r)
	if err != nil {
		return s.failure(err)
	}
	if kind == oauth2.Refreshing {
		if of, ok := s.tokens.used[request.Refresh]; ok {
			s.reused++
			if script.RevokesOnReuse {
				s.tokens.end(of)
			}
			return http.StatusBadRequest, map[string]any{"error": "invalid_grant"}
		}
	}
	from, ok := s.tokens.byCode[request.Code]
	if kind == oauth2.Refreshing {
		from, ok = s.tokens.byRefresh[request.Refresh]
	}
	switch {
	case !ok, from.ClientID != request.ClientID:
		return http.StatusBadRequest, map[string]any{"error": "invalid_grant"}
	case r.PostFormValue(resource) != from.Extension.Get(resource):
		return http.StatusBadRequest, map[string]any{"error": "invalid_target"}
	}
	t, err := s.protocol.GetAccessToken(r.Context(), kind, request)
	if err != nil {
		return s.failure(err)
	}
	if kind != oauth2.Refreshing {
		s.redeemed = append(s.redeemed, request.Code)
	}
	result := s.protocol.GetTokenData(t)
	if script.Refreshing == RepeatToken && kind == oauth2.Refreshing {
		result["refresh_token"] = request.Refresh
	}
	if script.Lifetime == 0 {
		delete(result, "expires_in")
	}
	if script.Answer != nil {
		script.Answer(result)
	}
	return http.StatusOK, result
}

func (s *Server) failure(err error) (int, map[string]any) {
	result, status, _ := s.protocol.GetErrorData(err)
	return status, result
}

// registration is client metadata (RFC 7591), in a registration request or a client ID metadata document.
type registration struct {
	ID        string   `json:"client_id"`
	Redirects []string `json:"redirect_uris"`
	Method    string   `json:"token_endpoint_auth_method"`
	Kind      string   `json:"application_type"`
}

func (s *Server) register(w http.ResponseWriter, body []byte, script Script) {
	var requested registration
	if err := json.Unmarshal(body, &requested); err != nil || len(requested.Redirects) == 0 || requested.Kind == "" {
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	c := s.addClient(requested, script)
	result := map[string]any{
		"client_id": c.id, "client_id_issued_at": time.Now().Unix(),
		"redirect_uris": c.redirects, "token_endpoint_auth_method": c.method,
	}
	if c.secret != "" {
		result["client_secret"], result["client_secret_expires_at"] = c.secret, 0
		if !script.SecretEnds.IsZero() {
			result["client_secret_expires_at"] = script.SecretEnds.Unix()
		}
	}
	reply(w, http.StatusCreated, result)
}

// revoke is the revocation endpoint. It revokes all tokens of the authorization that the token belongs to. It
// accepts an unknown token, as RFC 7009 requires.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.authenticated(r) {
		reply(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	token := r.PostFormValue("token")
	s.revoked = append(s.revoked, token)
	if t, ok := s.tokens.byRefresh[token]; ok {
		s.tokens.end(t.Extension.Get(family))
	}
	if t, ok := s.tokens.byAccess[token]; ok {
		s.tokens.end(t.Extension.Get(family))
	}
	w.WriteHeader(http.StatusOK)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the connection is closed
}

// Approve approves the authorization request at the address as a user does, and returns the URL of the redirect.
func (s *Server) Approve(address string) (*url.URL, error) {
	client := &http.Client{
		Transport:     s.http.Client().Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r, err := client.Post(address, "application/x-www-form-urlencoded", strings.NewReader(""))
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return r.Location()
}
