package integration

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/postgres"
)

func TestListsFromReplicas(t *testing.T) {
	ctx := context.Background()
	primary := postgres.Own(t, postgres.Options{NoSync: true, Settings: map[string]string{"synchronous_commit": "local"}})
	address := must.Do(primary.Database(ctx, "replicated")).Or(t)
	standby := primary.OwnStandby(t)
	replica := strings.Replace(address, primary.Host(), standby.Host(), 1)
	s := collabd.Start(t, "COLLAB_DATABASE_URL="+address, "COLLAB_DATABASE_REPLICA_URLS="+replica, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)
	owner := s.SignIn(t, "owner@replicas.example", "Replicas", "owner")
	guest := s.SignIn(t, "guest@replicas.example", "Replicas", "member")
	owner.Grant(t, "ENTERPRISE")

	// send returns the status, body and position of a response.
	send := func(c collabd.Client, method, path, body, position string) (int, string, string) {
		t.Helper()
		headers := []string{"Content-Type: application/json"}
		if position != "" {
			headers = append(headers, "Collab-Position: "+position)
		}
		response := c.Send(t, method, path, strings.NewReader(body), headers...)
		text := must.Do(io.ReadAll(response.Body)).Or(t)
		return response.StatusCode, string(text), response.Header.Get("Collab-Position")
	}
	// changed sets the guest's role and returns the position after it.
	changed := func(role string) string {
		t.Helper()
		status, text, position := send(owner, "PATCH", "/org/members/"+guest.User+"/role", `{"role": "`+role+`"}`, "")
		if status != 200 || position == "" {
			t.Fatalf("%d at %q: %s", status, position, text)
		}
		return position
	}
	// roleAt returns the guest's role in the list of members.
	roleAt := func(position string) string {
		t.Helper()
		status, text, _ := send(owner, "GET", "/org/members", "", position)
		var all []struct{ UserID, Role string }
		if err := json.Unmarshal([]byte(text), &all); err != nil || status != 200 {
			t.Fatalf("%d: %s", status, text)
		}
		for _, m := range all {
			if m.UserID == guest.User {
				return m.Role
			}
		}
		return ""
	}
	// onReplica reports how many lists the replica has answered.
	onReplica := func() string {
		t.Helper()
		for line := range strings.Lines(s.Metrics(t)) {
			if strings.HasPrefix(line, `collab_replica_reads_total{source="replica"}`) {
				return strings.TrimSpace(line[strings.Index(line, "}")+1:])
			}
		}
		t.Fatal("there is no number of reads")
		return ""
	}

	first := changed("ADMIN")
	before := onReplica()
	must.Wait(t, "the replica answers", func() bool {
		if role := roleAt(first); role != "ADMIN" {
			t.Fatalf("the role is %q", role)
		}
		return onReplica() != before
	})
	conn := must.Do(pgx.Connect(ctx, replica)).Or(t)
	defer conn.Close(ctx)
	must.Do(conn.Exec(ctx, "SELECT pg_wal_replay_pause()")).Or(t)
	must.Wait(t, "the replica pauses", func() (paused bool) {
		must.NoError(t, conn.QueryRow(ctx, "SELECT pg_get_wal_replay_pause_state() = 'paused'").Scan(&paused))
		return paused
	})
	second := changed("VIEWER")
	if role := roleAt(first); role != "ADMIN" {
		t.Errorf("at the first position the role is %q, which a replica that pauses has not", role)
	}
	if role := roleAt(second); role != "VIEWER" {
		t.Errorf("after a change the role is %q", role)
	}
	if role := roleAt(""); role != "VIEWER" {
		t.Errorf("without a position the role is %q", role)
	}
	if _, _, position := send(owner, "GET", "/org/members", "", ""); position < second {
		t.Errorf("a list without a position gives the position %q, which is before %q", position, second)
	}
	if _, _, position := send(owner, "POST", "/tasks", `{"title": "T"}`, ""); position != "" {
		t.Errorf("a new task has the position %q", position)
	}
	if status, text, _ := send(guest, "GET", "/org/audit", "", first); status != 403 {
		t.Errorf("a former admin reads the audit log: %d %s", status, text)
	}
	if status, text, _ := send(owner, "DELETE", "/org/members/"+guest.User, "", ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if status, text, _ := send(guest, "GET", "/org/members", "", first); status != 403 {
		t.Errorf("a removed member reads the members: %d %s", status, text)
	}
	must.NoError(t, standby.Stop())
	if role := roleAt(first); role != "" {
		t.Errorf("without the replica a removed member has the role %q", role)
	}
	if response, err := http.Get(s.URL + "/readyz"); err != nil || response.StatusCode != 200 {
		t.Errorf("without the replica the server is not ready: %v", err)
	}
}
