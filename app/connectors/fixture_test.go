package connectors_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/connectors"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/directory"
	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var startTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	issuer   = "https://auth.example.com"
	callback = "https://collab.example.com/callback"
)

// redirect is our redirect address for the issuer.
var redirect = connector.Redirect(callback, issuer)

// providers are the entries of the tests' catalog.
var providers = []connector.Provider{
	{ID: "notes", Name: "Notes", Auth: connector.ServerMediated, Transport: connector.HTTP, URL: "https://notes.example.com/mcp", Enabled: true},
	{ID: "calendar", Name: "Calendar", Auth: connector.RemoteOAuth, Transport: connector.HTTP, URL: "https://calendar.example.com/mcp", Enabled: true},
	{ID: "search", Name: "Search", Auth: connector.APIKey, Transport: connector.HTTP, URL: "https://search.example.com/mcp", Fields: []connector.Field{{Name: "apiKey"}}, Enabled: true},
	{ID: "shell", Name: "Shell", Auth: connector.APIKey, Transport: connector.Stdio, Fields: []connector.Field{{Name: "apiKey"}}, Enabled: true},
	{ID: "weather", Name: "Weather", Auth: connector.NoAuth, Transport: connector.HTTP, URL: "https://weather.example.com/mcp", Enabled: true},
	{ID: "elsewhere", Name: "Elsewhere", Auth: connector.NoAuth, Transport: connector.HTTP, Enabled: true},
	{ID: "retired", Name: "Retired", Auth: connector.NoAuth, Transport: connector.HTTP, URL: "https://retired.example.com/mcp"},
}

// fixture is an organisation with members, and scripted tool and authorization servers.
type fixture struct {
	directory.Directory
	store       *memory.Store
	clock       *memory.Clock
	ids         *memory.IDs
	secrets     *memory.Secrets
	sealer      *sealer
	authorizer  *authorizer
	toolServers *servers
	log         *must.Log
	pauses      atomic.Int64 // calls of Pause
	clients     map[string]connector.Client

	org            org.Actor // the owner
	member, viewer org.Actor
	stranger       org.Actor // of another organisation
	connectors     *connectors.Connectors
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{
		store: memory.NewStore(), clock: memory.NewClock(startTime), ids: &memory.IDs{}, secrets: &memory.Secrets{}, sealer: &sealer{key: 1}, toolServers: &servers{}, log: &must.Log{},
	}
	w.authorizer = &authorizer{clock: w.clock, valid: map[string]bool{}, server: connector.AuthServer{
		Issuer: issuer, Authorization: issuer + "/authorize", Token: issuer + "/token", Registration: issuer + "/register", ReturnsIssuer: true,
	}, lifetime: time.Hour}
	w.Directory = directory.Directory{TB: t, Store: w.store, Clock: w.clock, IDs: w.ids}
	w.connectors = w.newServer()
	own, other := w.Organisation(), w.Organisation()
	w.org, w.member, w.viewer = w.Member(own, org.Owner), w.Member(own, org.Member), w.Member(own, org.Viewer)
	w.stranger = w.Member(other, org.Owner)
	return w
}

// newServer returns the use cases of another server on the same store.
func (w *fixture) newServer() *connectors.Connectors {
	a := access.New(access.Options{Store: w.store, Epochs: w.store, Clock: w.clock, IDs: w.ids})
	c := connectors.New(connectors.Options{
		Reauthorize: a.Reauthorize, Locked: a.Locked, Atomic: a.Atomic, Origin: access.Origin,
		Store: w.store, Catalog: connector.NewCatalog(providers, w.clients), Servers: w.toolServers, Authorizer: w.authorizer, Sealer: w.sealer,
		Clock: w.clock, IDs: w.ids, Secrets: w.secrets, Log: slog.New(slog.NewJSONHandler(w.log, nil)),
		Page: "https://collab.example.com/authorize", Callback: callback, Document: "https://collab.example.com/client",
		Pause: func(ctx context.Context, _ int) error {
			w.pauses.Add(1)
			return ctx.Err()
		},
	})
	w.Cleanup(c.Wait)
	return c
}

// work does what is due and waits for it.
func (w *fixture) work() {
	w.Helper()
	w.Must(w.connectors.Work(w.Context()))
	w.connectors.Wait()
}

// create creates an instance of the provider.
func (w *fixture) create(provider string) connector.Instance {
	w.Helper()
	i := must.Do(w.connectors.Create(w.Context(), w.member, connector.Draft{Provider: provider})).Or(w)
	return i
}

// get returns the stored instance.
func (w *fixture) get(i id.Connector) connector.Instance {
	w.Helper()
	now := must.Do(w.store.Connections().Connectors().Get(w.Context(), w.org.Org, i)).Or(w)
	return now
}

// wantStatus checks an instance's status and last error, and returns the instance.
func (w *fixture) wantStatus(i id.Connector, status connector.Status, lastError string) connector.Instance {
	w.Helper()
	now := w.get(i)
	if now.Status() != status || now.LastError != lastError {
		w.Errorf("the connector is %s %q, want %s %q", now.Status(), now.LastError, status, lastError)
	}
	return now
}

// wantDue checks the time until an instance is due; negative: it is never due.
func (w *fixture) wantDue(i id.Connector, in time.Duration) {
	w.Helper()
	now := w.get(i)
	switch {
	case in < 0 && now.DueAt == nil:
	case now.DueAt == nil || in < 0 || now.DueAt.Sub(w.clock.Now()) != in:
		w.Errorf("the connector is due at %v, want in %v after %v", now.DueAt, in, w.clock.Now())
	}
}

// confirm starts and confirms an authorization, and returns it with the browser's secret.
func (w *fixture) confirm(instance id.Connector, provider string) (connectors.Authorization, string) {
	w.Helper()
	b := must.Do(w.connectors.Start(w.Context(), w.member, instance, provider)).Or(w)
	browser := "the browser of " + b.State
	must.Do(w.connectors.Confirm(w.Context(), b.State, browser)).Or(w)
	return b, browser
}

// authorise returns an instance with authorised credentials, which is not tested yet.
func (w *fixture) authorise(provider string) id.Connector {
	w.Helper()
	b, browser := w.confirm("", provider)
	w.finish(b, browser)
	return b.Instance
}

// finish finishes an authorization with a valid response in the browser.
func (w *fixture) finish(b connectors.Authorization, browser string) {
	w.Helper()
	w.Must(w.connectors.Finish(w.Context(), response(b), browser))
}

// newFixtureWithExpiredToken returns a fixture and a connector whose token has expired.
func newFixtureWithExpiredToken(t *testing.T) (*fixture, id.Connector) {
	t.Helper()
	w := newFixture(t)
	i := w.authorise("notes")
	w.work()
	w.clock.Advance(time.Hour)
	return w, i
}

// before has do be called before the calls of the authorization server that begin with call.
func (w *fixture) before(call string, do func()) {
	w.authorizer.set(func() {
		w.authorizer.before = func(made string) {
			if strings.HasPrefix(made, call) {
				do()
			}
		}
	})
}

// auditLog returns the actions and details of the audit log, the oldest first.
func (w *fixture) auditLog() []string {
	w.Helper()
	var acts []string
	for _, e := range slices.Backward(directory.AuditLog(w, w.store, w.org.Org)) {
		if e.Actor == "" || e.Target == "" {
			w.Errorf("an entry without actor or target: %+v", e)
		}
		acts = append(acts, string(e.Action)+" "+e.Detail)
	}
	return acts
}

// servers implements ports.ToolServers by the function do.
type servers struct {
	mu    sync.Mutex
	do    func(context.Context, connector.Access) ([]connector.Tool, error)
	asked []connector.Access
}

func (s *servers) Tools(ctx context.Context, a connector.Access) ([]connector.Tool, error) {
	s.mu.Lock()
	s.asked = append(s.asked, a)
	do := s.do
	s.mu.Unlock()
	if do == nil {
		return []connector.Tool{{Name: "echo"}}, nil
	}
	return do(ctx, a)
}

func (s *servers) set(do func(context.Context, connector.Access) ([]connector.Tool, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

// failWith has every call fail with err.
func (s *servers) failWith(err error) {
	s.set(func(context.Context, connector.Access) ([]connector.Tool, error) { return nil, err })
}

func (s *servers) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// authorizer is an authorization server that accepts every code and rotates refresh tokens.
type authorizer struct {
	clock *memory.Clock

	mu        sync.Mutex
	server    connector.AuthServer
	lifetime  time.Duration // of tokens; zero: not stated
	noRefresh bool          // tokens cannot be renewed
	secretIn  time.Duration // in which secrets of clients end; zero: never
	fail      error         // of everything
	before    func(call string)
	n         int
	valid     map[string]bool // the renewals that are
	reused    int
	calls     []string
	verifier  string // that codes are redeemed with
}

// record records a call. It fails if ctx has ended.
func (a *authorizer) record(ctx context.Context, call string) error {
	a.mu.Lock()
	a.calls = append(a.calls, call)
	before := a.before
	a.mu.Unlock()
	if before != nil {
		before(call)
	}
	if ctx.Err() != nil {
		return fault.Wrap(fault.Unavailable, ctx.Err(), "The authorization server cannot be reached")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fail
}

func (a *authorizer) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// count returns the number of calls that begin with call.
func (a *authorizer) count(call string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, c := range a.calls {
		if strings.HasPrefix(c, call) {
			n++
		}
	}
	return n
}

func (a *authorizer) Discover(ctx context.Context, _ connector.Provider, address string) (connector.AuthServer, error) {
	err := a.record(ctx, "discover "+address)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.server, err
}

func (a *authorizer) Register(ctx context.Context, _ connector.AuthServer, _ string) (connector.Client, *time.Time, error) {
	if err := a.record(ctx, "register"); err != nil {
		return connector.Client{}, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	c := connector.Client{ID: fmt.Sprint("client-", a.n), Secret: "client-secret", Method: "client_secret_basic"}
	if a.secretIn == 0 {
		return c, nil, nil
	}
	ends := a.clock.Now().Add(a.secretIn)
	return c, &ends, nil
}

func (a *authorizer) AuthCodeURL(s connector.AuthServer, c connector.Client, _, state, _ string) (string, error) {
	return s.Authorization + "?client_id=" + c.ID + "&state=" + state, a.record(context.Background(), "page")
}

func (a *authorizer) Exchange(ctx context.Context, _ connector.AuthServer, c connector.Client, _, code, verifier string) (connector.Credentials, error) {
	if err := a.record(ctx, "redeem "+c.ID); err != nil {
		return connector.Credentials{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verifier = verifier
	return a.grant(), nil
}

// grant makes credentials; the caller holds mu.
func (a *authorizer) grant() connector.Credentials {
	a.n++
	c := connector.Credentials{Entries: fmt.Sprintf(`{"accessToken":"access-%d"}`, a.n), Renewal: fmt.Sprint("renewal-", a.n), Renewable: !a.noRefresh}
	a.valid[c.Renewal] = true
	if a.lifetime > 0 {
		ends := a.clock.Now().Add(a.lifetime)
		c.ExpiresAt = &ends
	}
	return c
}

func (a *authorizer) Renew(ctx context.Context, renewal string) (connector.Credentials, error) {
	if err := a.record(ctx, "renew "+renewal); err != nil {
		return connector.Credentials{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.valid[renewal] {
		a.reused++
		return connector.Credentials{}, fault.New(fault.Forbidden, "The authorization server refuses the authorization")
	}
	delete(a.valid, renewal)
	return a.grant(), nil
}

func (a *authorizer) Revoke(ctx context.Context, renewal string) error {
	if err := a.record(ctx, "revoke "+renewal); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.valid, renewal)
	return nil
}

// sealer seals with its present key, and opens with every key unless they are lost.
type sealer struct {
	ports.Sealer // nil; the methods that connectors use are below
	mu           sync.Mutex
	key          byte
	lost         bool // earlier keys are not available
}

func (s *sealer) set(key byte, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.lost = key, lost
}

func (s *sealer) Seal(plain, bound []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(bound)
	return append(append([]byte{s.key}, sum[:]...), flipBits(plain)...), nil
}

func (s *sealer) Open(sealed, bound []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(bound)
	if len(sealed) < 33 || s.lost && sealed[0] != s.key || !bytes.Equal(sealed[1:33], sum[:]) {
		return nil, fault.New(fault.Invalid, "It cannot be opened")
	}
	return flipBits(sealed[33:]), nil
}

func (s *sealer) OldKey(sealed []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sealed[0] != s.key
}

// flipBits makes text unreadable; a second call reverses it.
func flipBits(text []byte) []byte {
	out := slices.Clone(text)
	for i := range out {
		out[i] ^= 0x5a
	}
	return out
}

var errDown = fault.New(fault.Unavailable, "The authorization server cannot be reached")

// errInternal is an error without a message for users.
var errInternal = errors.New("out of memory")

// list returns the connectors that the actor sees.
func (w *fixture) list(actor org.Actor) (all []connector.Instance, err error) {
	err = w.connectors.List(w.Context(), actor, id.Position[id.Connector]{}, 0, func(i connector.Instance) error {
		all = append(all, i)
		return nil
	})
	return all, err
}
