package integration

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"collab/adapters/gormdb"
	"collab/adapters/mcp"
	inmemory "collab/adapters/memory"
	"collab/adapters/system"
	"collab/adapters/vault"
	"collab/app/access"
	"collab/app/connectors"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/authserver"
	"collab/test/postgres"
	"collab/test/soak"
	"collab/test/tempdir"
	"collab/test/toolserver"
)

// refreshRounds is how often two servers refresh a token at the same instant.
var refreshRounds = soak.Count(1000)

// open is tool servers that let everybody in.
type open struct{}

func (open) Tools(context.Context, connector.Access) ([]connector.Tool, error) { return nil, nil }

// TestTwoServersRefreshAtTheSameInstant has a token expire again and again while it is read
// by two servers of each store, and both do the work that is due. The authorization server
// takes the authorization back when a refresh token is used twice.
func TestTwoServersRefreshAtTheSameInstant(t *testing.T) {
	t.Parallel()
	twice := func(t *testing.T, url string) (stores [2]ports.Store) {
		for n := range stores {
			stores[n] = opened(t, url)
		}
		return stores
	}
	for name, stores := range map[string]func(t *testing.T) [2]ports.Store{
		"memory": func(*testing.T) [2]ports.Store {
			s := inmemory.NewStore()
			return [2]ports.Store{s, s}
		},
		"SQLite": func(t *testing.T) [2]ports.Store {
			return twice(t, "sqlite://"+filepath.Join(tempdir.New(t), "collab.db"))
		},
		"Postgres": func(t *testing.T) [2]ports.Store { return twice(t, postgres.URL(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			both := stores(t)
			auth, tools := authserver.Start(t, ""), toolserver.Start(t)
			auth.Set(func(s *authserver.Script) { s.Refreshing, s.Punishes = authserver.Rotates, true })
			tools.Protect(auth.Issuer)
			tools.RequireBearer(auth.Valid)
			clock := inmemory.NewClock(time.Now())
			key, err := vault.Generate()
			if err != nil {
				t.Fatal(err)
			}
			sealer, err := vault.New(key)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
			t.Cleanup(client.CloseIdleConnections)
			catalog := connector.NewCatalog([]connector.Provider{{
				ID: "notes", Name: "Notes", Auth: connector.ServerMediated, Transport: connector.HTTP, URL: tools.HTTP(), Enabled: true,
			}}, nil)
			var servers [2]*connectors.Connectors
			for n := range servers {
				a := access.New(access.Options{Store: both[n], Epochs: both[n].(ports.Epochs), Clock: clock, IDs: system.IDs{}})
				servers[n] = connectors.New(connectors.Options{
					Reauthorize: a.Reauthorize, Locked: a.Locked, Atomic: a.Atomic, Origin: access.Origin,
					Store: both[n], Catalog: catalog, Servers: open{}, Sealer: sealer, Clock: clock, IDs: system.IDs{}, Secrets: system.Secrets{}, Log: slog.New(slog.DiscardHandler),
					Authorizer: mcp.NewAuthorizer(mcp.AuthorizerOptions{Client: client, Blocked: func(error) bool { return false }, Clock: clock, Plain: true, Name: "Collab"}),
					Page:       "http://localhost/authorize", Callback: "http://localhost/callback",
					Pause: func(ctx context.Context, _ int) error { return ctx.Err() },
				})
				t.Cleanup(servers[n].Wait)
			}
			if db, ok := both[0].(*gormdb.DB); ok {
				if err := db.Migrate(ctx); err != nil {
					t.Fatal(err)
				}
			}
			who := joined(t, both[0])
			b, err := servers[0].Start(ctx, who, "", "notes")
			if err != nil {
				t.Fatal(err)
			}
			const browser = "a secret of the browser"
			page, err := servers[1].Confirm(ctx, b.State, browser)
			if err != nil {
				t.Fatal(err)
			}
			back, err := auth.Approve(page)
			if err != nil {
				t.Fatal(err)
			}
			q := back.Query()
			if err := servers[0].Finish(ctx, connectors.AuthorizationResponse{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Redirect: back.Scheme + "://" + back.Host + back.Path}, browser); err != nil {
				t.Fatal(err)
			}
			for round := range refreshRounds {
				clock.Advance(time.Hour)
				var group sync.WaitGroup
				for n := range 4 {
					group.Go(func() {
						s := servers[n%2]
						if n < 2 {
							if err := s.Work(ctx); err != nil {
								t.Error(err)
							}
							return
						}
						for {
							c, err := s.Read(ctx, who, b.Instance)
							if fault.Is(err, fault.Unavailable) {
								continue // it did not wait any longer
							}
							if err != nil || c.ExpiresAt == nil || !c.ExpiresAt.After(clock.Now()) {
								t.Errorf("round %d: %v, %v", round, c.ExpiresAt, err)
							}
							return
						}
					})
				}
				group.Wait()
				for _, s := range servers {
					s.Wait()
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			all := auth.Refreshes()
			for token, n := range all {
				if n != 1 {
					t.Errorf("%s was used %d times", token, n)
				}
			}
			if auth.Reused() != 0 || len(all) != refreshRounds {
				t.Errorf("%d refreshes in %d rounds, %d of them with what was used up", len(all), refreshRounds, auth.Reused())
			}
		})
	}
}

// joined is a member of an organisation of a store.
func joined(t *testing.T, s ports.Store) org.Actor {
	t.Helper()
	ctx, ids := t.Context(), system.IDs{}
	o := org.Organisation{ID: id.Org(ids.New()), Name: "Office"}
	u := org.User{ID: id.User(ids.New()), Name: "Ada", Email: "ada@example.com"}
	o.ProviderID, u.ProviderID = string(o.ID), string(u.ID)
	if _, err := s.Directory().Organisations().Upsert(ctx, o, func(o org.Organisation) (org.Organisation, error) { return o, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Directory().Users().Upsert(ctx, u, func(u org.User) (org.User, error) { return u, nil }); err != nil {
		t.Fatal(err)
	}
	err := s.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, o.ID); err != nil {
			return err
		}
		return r.Directory().Members().Put(ctx, o.ID, org.Membership{Org: o.ID, User: u.ID, Role: org.Member, JoinedAt: time.Now().UTC()})
	})
	if err != nil {
		t.Fatal(err)
	}
	return org.Actor{Org: o.ID, User: u.ID, Role: org.Member}
}
