package integration

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/must"
)

func TestChangesOnOneServerCountOnTheOther(t *testing.T) {
	servers := postgresDatabase(t).start(t, "COLLAB_BLOB_URL=file://"+t.TempDir())
	first := servers[0]
	ada, ben := first.SignIn(t, "ada@example.com", "Known", "owner"), first.SignIn(t, "ben@example.com", "Known", "member")

	var file, own struct{ ID, Content string }
	ada.Must(t, 201, "POST", "/sync/files", map[string]any{"path": "a.md", "content": "version 1"}, &file)
	ada.Must(t, 201, "POST", "/sync/files", map[string]any{"path": "own.md", "scope": "PERSONAL", "content": "my own"}, &own)
	for version := 1; version <= 20; version++ {
		want := fmt.Sprintf("version %d", version)
		if version > 1 {
			ada.At(by(servers, version)).Must(t, 200, "PUT", "/sync/files/"+file.ID, map[string]any{"content": want}, nil)
		}
		for _, s := range servers {
			for range 2 { // as it is now, and from memory
				file.Content = ""
				if ben.At(s).Must(t, 200, "GET", "/sync/files/"+file.ID, nil, &file); file.Content != want {
					t.Fatalf("the content is %q, want %q", file.Content, want)
				}
				ada.At(s).Must(t, 200, "GET", "/sync/files/"+own.ID, nil, nil)
				ben.At(s).Must(t, 404, "GET", "/sync/files/"+own.ID, nil, nil)
			}
		}
	}

	// A session that ended on one server has ended on the other.
	for i, s := range servers {
		lost := first.SignIn(t, "ben@example.com", "Known", "member")
		for _, at := range servers {
			lost.At(at).Must(t, 200, "GET", "/sync/files/"+file.ID, nil, nil)
		}
		ben.At(s).Must(t, 200, "DELETE", "/auth/sessions", nil, nil)
		lost.At(by(servers, i+1)).Must(t, 401, "GET", "/sync/files/"+file.ID, nil, nil)
		lost.At(s).Must(t, 401, "GET", "/sync/files/"+file.ID, nil, nil)
		ben.At(by(servers, i+1)).Must(t, 200, "GET", "/sync/files/"+file.ID, nil, nil)
	}

	// A member removed on one server is refused by the other, whatever it has cached.
	ada.At(servers[0]).Must(t, 200, "DELETE", "/org/members/"+ben.User, nil, nil)
	ben.At(servers[1]).Must(t, 403, "GET", "/sync/files/"+file.ID, nil, nil)

	ada.At(servers[1]).Must(t, 200, "DELETE", "/sync/files/"+file.ID, nil, nil)
	for _, s := range servers {
		ada.At(s).Must(t, 404, "GET", "/sync/files/"+file.ID, nil, nil)
	}
}

func TestAStopWritesWhenSessionsWereUsedLast(t *testing.T) {
	s := collabd.Start(t)
	ada := s.SignIn(t, "ada@example.com", "Known", "owner")
	s.Stop(t)
	db := must.Do(sql.Open("sqlite", filepath.Join(s.Dir, "collab.db"))).Or(t)
	defer db.Close()
	if _, err := db.Exec("UPDATE sessions SET last_used_at = 1"); err != nil { // long ago, so that a use is worth a note
		t.Fatal(err)
	}
	must.NoError(t, s.Restart())
	began := time.Now()
	ada.Must(t, 200, "GET", "/auth/me", nil, nil)
	s.Stop(t)
	var used int64
	if err := db.QueryRow("SELECT last_used_at FROM sessions").Scan(&used); err != nil || time.UnixMilli(used).Before(began.Add(-time.Second)) {
		t.Errorf("the session was used at %d, %v; want %d", used, err, began.UnixMilli())
	}
}
