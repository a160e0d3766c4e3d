package limits

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
)

// TestDeletionsThatAreKilledAreFinishedByTheirRepetition kills the server between two of the transactions that a
// large deletion takes.
func TestDeletionsThatAreKilledAreFinishedByTheirRepetition(t *testing.T) {
	race.Skip(t, "what a crash leaves is on the disk")
	const files = 20_000
	s := collabd.Start(t, "COLLAB_IDENTITY_WEBHOOK_SECRETS="+collabd.WebhookSecret)
	ada, carl := s.SignIn(t, "ada@example.com", "Deletions", "owner"), s.SignIn(t, "carl@example.com", "Deletions", "member")
	var team, other, workspace, of record
	ada.Must(t, 201, "POST", "/teams", map[string]any{"name": "Crew"}, &team)
	ada.Must(t, 201, "POST", "/teams", map[string]any{"name": "Office"}, &other)
	ada.Must(t, 201, "POST", "/workspaces", map[string]any{"name": "Desk", "teamId": other.ID}, &workspace)
	db := must.Do(sql.Open("sqlite", filepath.Join(s.Dir, "collab.db")+"?_pragma=busy_timeout(60000)")).Or(t)
	defer db.Close()
	number := func(query string, args ...any) (n int) {
		t.Helper()
		if err := db.QueryRow(query, args...).Scan(&n); err != nil {
			t.Fatalf("%v in %s", err, query)
		}
		return n
	}
	var provider string
	must.NoError(t, db.QueryRow("SELECT provider_id FROM users WHERE id = ?", carl.User).Scan(&provider))
	deleted := fmt.Sprintf(`{"object":"event","type":"user.deleted","timestamp":%d,"data":{"object":"user","id":%q,"deleted":true}}`, time.Now().UnixMilli(), provider)
	asked := func(path string) func() (int, error) {
		return func() (int, error) {
			status, _, err := ada.Do("DELETE", path, nil)
			return status, err
		}
	}
	for n, c := range []struct {
		about  string
		whose  collabd.Client
		file   map[string]any
		delete func() (int, error)
		beside int // changes in the log beside those of files
	}{
		{"a workspace", ada, map[string]any{"workspaceId": workspace.ID}, asked("/workspaces/" + workspace.ID), 0},
		{"a team", ada, map[string]any{"kind": "TEAM_MEMORY", "teamId": team.ID}, asked("/teams/" + team.ID), 1},
		{"a user", carl, map[string]any{"scope": "PERSONAL"}, func() (int, error) {
			status, _, err := s.Deliver("msg_deleted", deleted)
			return status, err
		}, 0},
	} {
		c.file["path"], c.file["content"] = "7777777777.md", "small"
		c.whose.Must(t, 201, "POST", "/sync/files", c.file, &of)
		start := 100_000 * (n + 1)
		numbered := func(column string) string { return "replace(" + column + ", '7777777777', printf('%010d', i))" }
		f := recordCopier{t, sqliteDialect, db}
		f.multiply("objects", "id = '"+of.ID+"'", files-1, set{
			"id": f.id(fmt.Sprintf("0000000%d", n)), "path": numbered("path"), "storage_key": numbered("storage_key"), "folded_key": numbered("folded_key"),
			"blob": "blob||i", "n": fmt.Sprint(start, " + i"),
		})
		f.exec("UPDATE log_heads SET n = ? WHERE org_id = ?", start+files, ada.Org)
		const left = "SELECT count(*) FROM objects"

		answered := make(chan error, 1)
		go func() {
			status, err := c.delete()
			if err == nil {
				err = fmt.Errorf("answered with %d", status)
			}
			answered <- err
		}()
		for began := time.Now(); number(left) == files; {
			if time.Since(began) > patience {
				t.Fatalf("%s: nothing is deleted, %v", c.about, <-answered)
			}
		}
		s.Kill()
		<-answered
		must.NoError(t, s.Restart())
		n := number(left)
		if n == 0 || n == files {
			t.Errorf("%s: of %d files %d are left, so that nothing was broken off", c.about, files, n)
		}
		t.Logf("%s: of %d files %d were left when the server was killed", c.about, files, n)
		if status, err := c.delete(); err != nil || status != 200 {
			t.Errorf("%s: again it is %d, %v", c.about, status, err)
		}
		if n := number(left); n != 0 {
			t.Errorf("%s: %d files are left", c.about, n)
		}
		if n := number("SELECT count(*) FROM changes WHERE org_id = ? AND n > ?", ada.Org, start+files); n != files+c.beside {
			t.Errorf("%s: the log has %d changes, want %d", c.about, n, files+c.beside)
		}
	}
	if n := number("SELECT count(*) FROM audit WHERE action = 'member.removed'"); n != 1 {
		t.Errorf("the removal is in the audit log %d times", n)
	}
	carl.Must(t, 401, "GET", "/auth/me", nil, nil)
	if status, _, err := s.Deliver("msg_deleted", deleted); err != nil || status != 200 {
		t.Errorf("once more it is %d, %v", status, err)
	}
	must.Is(t, 1, number("SELECT count(*) FROM inbox WHERE message = 'msg_deleted'"))
}
