package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

// rates are rate limits that no measurement reaches.
const rates = "caller=1000000/s,address=1000000/s,chat=1000000/s,credentials=1000000/s,webhook=1000000/s"

// launchCollab starts the server with its state in the folder and all settings at their defaults except the
// database, the address, the rate limits, and those of more as NAME=value.
func (b *bench) launchCollab(name, folder, database string, more ...string) *process {
	address := must.Do(freeAddress()).Or(b)
	environ := []string{
		"COLLAB_LISTEN=" + address, "COLLAB_PUBLIC_URL=http://" + address,
		"COLLAB_DATA_DIR=" + folder, "COLLAB_DATABASE_URL=" + database, "COLLAB_RATE_LIMITS=" + rates,
	}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "COLLAB_") && !strings.HasPrefix(v, "OTEL_") {
			environ = append(environ, v)
		}
	}
	return b.launch(name, b.folder, address, b.binary, append(environ, more...))
}

// collab is a running server with a member of one of its organisations.
type collab struct {
	*process
	token     string
	user, org string
	workspace string // the one that all members share
}

// startCollab starts the server on a database and signs in an owner. It is stopped at the end of the scope.
func (b *bench) startCollab(ctx context.Context, name, database string, more ...string) *collab {
	folder := must.Do(os.MkdirTemp(b.folder, "data-")).Or(b)
	if database == "sqlite" {
		database = "sqlite://" + filepath.Join(folder, "collab.db")
	}
	p := b.launchCollab(name, folder, database, more...)
	p.folder = folder
	c := &collab{process: p}
	must.Do(p.ready(ctx)).Or(b)
	must.NoError(b, c.signIn(ctx))
	return c
}

// servers are a server on SQLite, one on Postgres, and the bare server.
type servers struct {
	sqlite, pg *collab
	bare       *process
	conn       *pgx.Conn // to the database of pg
}

// startServers starts new servers with further settings as NAME=value.
func (b *bench) startServers(ctx context.Context, name string, more ...string) (s servers) {
	s.sqlite = b.startCollab(ctx, "collabd-"+name+"-sqlite", "sqlite", more...)
	database, conn := b.database(ctx, name)
	s.conn = conn
	s.pg = b.startCollab(ctx, "collabd-"+name+"-postgres", database, more...)
	s.bare = b.startBare(ctx, "")
	return s
}

// session is the response to an exchange of a token.
type session struct {
	Token string              `json:"token"`
	User  struct{ ID string } `json:"user"`
	Org   struct{ ID string } `json:"org"`
}

// exchange is exchangeIn for the organisation that all parts share.
func (c *collab) exchange(ctx context.Context, name, role string, s *session) error {
	return c.exchangeIn(ctx, "Bench", name, role, s)
}

// exchangeIn exchanges a token of the development provider, for a user of an organisation, for a service token.
func (c *collab) exchangeIn(ctx context.Context, org, name, role string, s *session) error {
	var identity struct {
		IdentityToken string `json:"identityToken"`
	}
	form := url.Values{"email": {name + "@bench.example"}, "name": {name}, "org": {org}, "role": {role}}
	_, err := c.call(ctx, "POST", "/dev/identity/token", "application/x-www-form-urlencoded", form.Encode(), &identity)
	if err != nil {
		return err
	}
	body, err := json.Marshal(identity)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, "POST", "/api/v1/auth/exchange-token", "application/json", string(body), s)
	return err
}

// signIn signs an owner in, and creates the records of the onboarding.
func (c *collab) signIn(ctx context.Context) error {
	var s session
	if err := c.exchange(ctx, "ada", "owner", &s); err != nil {
		return err
	}
	c.token, c.user, c.org = s.Token, s.User.ID, s.Org.ID
	if _, err := c.call(ctx, "POST", "/api/v1/auth/seed-onboarding", "application/json", "", nil); err != nil {
		return err
	}
	var workspaces []struct{ ID, Name string }
	if _, err := c.call(ctx, "GET", "/api/v1/workspaces", "", "", &workspaces); err != nil {
		return err
	}
	for _, w := range workspaces {
		if w.Name == "Shared Workspace" {
			c.workspace = w.ID
			return nil
		}
	}
	return fmt.Errorf("no shared workspace among %v", workspaces)
}

// call sends a request that is not measured and decodes its response.
func (c *collab) call(ctx context.Context, method, path, kind, body string, response any) (http.Header, error) {
	header, text, err := fetch(ctx, method, "http://"+c.address+path, c.token, kind, body)
	if err != nil || response == nil {
		return header, err
	}
	return header, json.Unmarshal(text, response)
}

// metrics returns the present metrics by their names and labels.
func (c *collab) metrics(ctx context.Context) (map[string]float64, error) {
	_, text, err := fetch(ctx, "GET", "http://"+c.address+"/metrics", "", "", "")
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil && at > 0 {
			all[line[:at]] = v
		}
	}
	return all, err
}

// fetch sends a request that is not measured and returns its response. Other statuses than 2xx are errors. An
// empty token or content type is not sent.
func fetch(ctx context.Context, method, address, token, kind, body string) (http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return send(http.DefaultClient, request)
}

// send sends a request and returns its response. Other statuses than 2xx are errors.
func send(client *http.Client, request *http.Request) (http.Header, []byte, error) {
	got, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s\n%s", request.Method, request.URL, got.Status, text)
	}
	return got.Header, text, err
}
