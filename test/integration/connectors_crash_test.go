package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/test/authserver"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
	"collab/test/soak"
	"collab/test/toolserver"
)

// crashWithin is the longest time after which a server is killed during an authorization.
const crashWithin = 60 * time.Millisecond

// crashRounds is the number of such kills.
var crashRounds = soak.Count(50)

// TestServersThatCrashWhileTheyAuthorise kills a server at any moment of an
// authorization and of a concurrent renewal. Its records must be consistent.
func TestServersThatCrashWhileTheyAuthorise(t *testing.T) {
	race.Skip(t, "what a crash leaves is on the disk")
	t.Parallel()
	random := rand.New(rand.NewPCG(seeded(t), 0))
	p := newConnectorTest(t, postgresDatabase(t))
	states := map[string]int{}
	for round := range crashRounds {
		victim, other := p.server(round), p.server(round+1)
		old := p.authorised(p.ada.At(other), map[string]any{"providerId": "notes"})
		i := p.create(p.ada.At(other), map[string]any{"providerId": "notes"}).ID
		p.change("UPDATE connectors SET expires_at = 2000, renew_at = 1000, due_at = 1000 WHERE id = '" + old + "'")
		var group sync.WaitGroup
		after := time.Duration(random.Int64N(int64(crashWithin)))
		group.Go(func() {
			<-time.After(after)
			victim.Kill()
		})
		group.Go(func() { p.attempt(victim, i) })
		group.Go(func() { _, _, _ = p.ada.At(victim).Do("GET", "/connectors/"+old+"/credentials", nil) }) // which renews its token, or does not
		group.Wait()
		must.NoError(t, victim.Restart())

		ready := p.count("SELECT count(*) FROM connector_flows WHERE status = 'ready' AND connector_id = '" + i + "'")
		kept := p.count("SELECT count(*) FROM connectors c JOIN connector_credentials s ON s.org_id = c.org_id AND s.connector_id = c.id AND s.version = c.version WHERE c.id = '" + i + "'")
		version := p.count("SELECT version FROM connectors WHERE id = '" + i + "'")
		now := p.get(p.ada.At(victim), i)
		if ready != kept || version != kept || now.HasCredentials != (kept == 1) || (now.Status == "DISCONNECTED") != (kept == 0) {
			t.Fatalf("round %d: %d flows are ready, there are %d credentials of version %d, and the connector is %+v", round, ready, kept, version, now)
		}
		states[now.Status]++
		if kept == 1 {
			p.change("UPDATE connectors SET due_at = 1000 WHERE due_at IS NOT NULL AND id = '" + i + "'") // its server has crashed
			p.awaitStatus(p.ada.At(victim), i, "CONNECTED")
			if token := p.token(p.ada.At(victim), i); !p.auth.Valid(token) {
				t.Errorf("round %d: the token does not let in", round)
			}
		}
		// Connectors in every state can be authorised again.
		for _, i := range []string{i, old} {
			p.authorised(p.ada.At(victim), map[string]any{"instanceId": i})
			if token := p.token(p.ada.At(other), i); !p.auth.Valid(token) {
				t.Errorf("round %d: the token does not let in", round)
			}
			p.ada.At(other).Must(p, 200, "DELETE", "/connectors/"+i, nil, nil)
		}
	}
	t.Logf("connectors were left %v", states)
	for _, s := range p.servers {
		if strings.Contains(s.Log(), "panic") {
			t.Errorf("a log has %s", s.Log())
		}
	}
}

// attempt goes through an authorization until the server is killed.
func (p *connectorTest) attempt(s *collabd.Server, instance string) {
	status, data, err := p.ada.At(s).Do("POST", "/mcp-oauth/start", map[string]any{"instanceId": instance})
	var f flow
	if err != nil || status != 200 || json.Unmarshal(data, &f) != nil {
		return
	}
	b := newBrowser(p)
	to, err := b.confirm(f.AuthURL, s, s)
	if err != nil {
		return
	}
	var back *url.URL
	if back, err = p.auth.Approve(to.String()); err == nil {
		_, _, _ = b.finish(back.String(), s) // the server may have crashed
	}
}

// TestAServerStopsWhileToolServersHang stops a server that waits for a tool server and for a new
// token.
func TestAServerStopsWhileToolServersHang(t *testing.T) {
	t.Parallel()
	p := newConnectorTest(t, sqliteDatabase(t))
	renewed := p.authorised(p.ada, map[string]any{"providerId": "notes"})
	p.auth.Fail(authserver.Token, authserver.Hang, -1)
	hung := toolserver.Start(t)
	hung.On("", toolserver.Hang)
	called := p.create(p.ada, map[string]any{"providerId": "elsewhere", "config": map[string]any{"url": hung.HTTP()}}).ID
	p.ada.Must(p, 200, "POST", "/connectors/"+called+"/credentials", map[string]any{"credentials": map[string]any{"apiKey": "key"}}, nil)
	requests := len(p.auth.Requests(authserver.Token))
	p.expire(renewed)
	must.Wait(p, "both are called", func() bool {
		return len(hung.Requests()) > 0 && len(p.auth.Requests(authserver.Token)) > requests
	})
	p.first.Stop(p) // which fails unless the server exits with 0
	if strings.Contains(p.first.Log(), "not drained") {
		t.Errorf("the log has %s", p.first.Log())
	}
	claimed := fmt.Sprint(time.Now().Add(connector.ClaimDuration / 2).UnixMilli())
	if n := p.count("SELECT count(*) FROM connectors WHERE status != 'ERROR' AND due_at < " + claimed); n != 2 {
		t.Errorf("the claims of %d connectors are released, want 2", n)
	}
}

func TestAddressesThatAreNotPublicAreNotCalled(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	tools := toolserver.Start(t)
	s := collabd.Start(t)
	ada := s.SignIn(t, "ada@example.com", "Plant", "owner")
	p := &connectorTest{TB: t}
	config := map[string]any{"url": strings.Replace(tools.HTTP(), "127.0.0.1", "localhost", 1)}
	var i instance
	ada.Must(t, 201, "POST", "/connectors", map[string]any{"providerId": "custom-http", "config": config}, &i)
	ada.Must(t, 200, "POST", "/connectors/"+i.ID+"/credentials", map[string]any{"credentials": map[string]any{"apiKey": "key"}}, nil)
	if got := p.awaitStatus(ada, i.ID, "ERROR"); got.error() == "" {
		t.Errorf("the connector is %+v", got)
	}
	ada.Must(t, 201, "POST", "/connectors", map[string]any{"providerId": "custom-oauth", "config": config}, &i)
	ada.Must(t, 400, "POST", "/mcp-oauth/start", map[string]any{"instanceId": i.ID}, nil)
	if n := len(tools.Requests()); n != 0 {
		t.Errorf("a server at a private address was asked %d times", n)
	}
}
