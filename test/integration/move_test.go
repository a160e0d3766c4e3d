package integration

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/objectstore"
	"collab/test/postgres"
	"collab/test/race"
)

// movedResponses are the answers to a member's requests that a move must not change.
func movedResponses(t *testing.T, c collabd.Client, more ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range append([]string{
		"/tasks", "/tasks?tags=urgent", "/teams", "/workspaces", "/org/members", "/sync/manifest", "/sync/profile", "/billing/subscription", "/metering/org",
		"/metering/user", "/metering/quota", "/metering/storage", "/updates/releases", "/auth/me",
	}, more...) {
		status, body, err := c.Do("GET", path, nil)
		must.NoError(t, err)
		if status != 200 {
			t.Errorf("%s is %d: %s", path, status, body)
		}
		all[path] = string(body)
	}
	files := manifest(t, c)
	if len(files) < 3 {
		t.Errorf("there are the files %v", files)
	}
	for path, checksum := range files {
		all["content of "+path] = checksum
	}
	return all
}

// diffResponses reports what changed.
func diffResponses(t *testing.T, when string, got, want map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got[path] != want[path] {
			t.Errorf("%s %s is\n%s\nand was\n%s", when, path, got[path], want[path])
		}
	}
}

// cursorOf returns the position of the organisation's log.
func cursorOf(t *testing.T, c collabd.Client) string {
	t.Helper()
	return c.Send(t, "GET", "/sync/manifest", nil).Header.Get("X-Sync-Cursor")
}

func TestADeploymentIsMovedToAFleetAndBack(t *testing.T) {
	race.Skip(t, "commands of the program move the data")
	store := objectstore.StartS3(t)
	p := newConnectorTest(t, sqliteDatabase(t), store.Credentials...)
	s, ada := p.first, p.ada
	var team, space, task struct{ ID string }
	ada.Must(t, 201, "POST", "/teams", map[string]string{"name": "Movers ✓"}, &team)
	ada.Must(t, 201, "POST", "/workspaces", map[string]string{"name": "Boxes", "teamId": team.ID}, &space)
	for _, body := range []map[string]any{
		{"title": "Small", "tags": []string{"urgent", "é"}, "workspaceId": space.ID, "dueDate": "2026-02-03"},
		{"title": "Long", "description": strings.Repeat("A long text. ", 200), "metadata": map[string]any{"a": []any{1, nil, "🙂"}}, "assigneeId": ada.User},
	} {
		ada.Must(t, 201, "POST", "/tasks", body, &task)
	}
	ada.Must(t, 200, "PATCH", "/tasks/"+task.ID, map[string]string{"status": "DONE"}, nil)
	ada.Must(t, 200, "PUT", "/sync/profile", map[string]string{"theme": "dark"}, nil)
	for path, content := range map[string]string{"empty.txt": "", "a/small.txt": "small", "large.bin": strings.Repeat("0123456789abcdef", 6<<20/16)} {
		ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": path, "content": content}, nil)
	}
	var deleted record
	ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "deleted.txt", "content": "deleted"}, &deleted)
	ada.Must(t, 200, "DELETE", "/sync/files/"+deleted.ID, nil, nil)
	search := p.create(ada, map[string]any{"providerId": "search"})
	ada.Must(t, 200, "POST", "/connectors/"+search.ID+"/credentials", map[string]any{"credentials": map[string]string{"apiKey": toolsKey}}, nil)
	p.awaitStatus(ada, search.ID, "CONNECTED")
	token := p.authorised(ada, map[string]any{"providerId": "notes"})
	bearer := p.token(ada, token)
	const key = "Idempotency-Key: move-once"
	once := map[string]string{"title": "Only once"}
	var first struct{ ID string }
	ada.Must(t, 201, "POST", "/tasks", once, &first, key)
	cursor := cursorOf(t, ada)
	ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "later.txt", "content": "later"}, nil)
	more := []string{
		"/connectors/" + search.ID + "/credentials", "/tasks/" + task.ID, "/tasks/" + task.ID + "/history",
		"/sync/files?deleted=true", "/sync/files/" + deleted.ID + "/versions/1", "/metering/storage",
	}
	want := movedResponses(t, ada, more...)

	postgresURL := postgres.URL(t)
	args := []string{"move", "--to", postgresURL, "--blobs", store.Address}
	if output := ran(t, s, false, args...); !strings.Contains(output, "another server runs") {
		t.Errorf("a server that runs is moved: %s", output)
	}
	s.Stop(t)

	// The first attempt is killed while it reads content.
	later := contentPath(t, s, ada.Org, "later.txt")
	must.NoError(t, os.Rename(later, later+".real"))
	c, _, pipe := startReading(t, s, later, args...)
	must.NoError(t, c.Process.Kill())
	_ = c.Wait()
	pipe.Close()
	must.NoError(t, os.Rename(later+".real", later))
	if _, err := s.Command(t, []string{"migrate"}, "COLLAB_DATABASE_URL="+postgresURL).Output(); err == nil {
		t.Error("a server opens the incomplete target")
	}
	there := ran(t, s, true, args...)
	if strings.Contains(there, "DIFFERENT") || !strings.Contains(there, "The target is complete") {
		t.Fatal(there)
	}

	fleet := s.Peer(t, "COLLAB_DATABASE_URL="+postgresURL, "COLLAB_BLOB_URL="+store.Address)
	at := ada.At(fleet)
	diffResponses(t, "after the move", movedResponses(t, at, more...), want)
	var again struct{ ID string }
	at.Must(t, 201, "POST", "/tasks", once, &again, key)
	if again != first {
		t.Errorf("the request of %v makes %v", first, again)
	}
	if got := firstLine(t, at, cursor, "event:", "data:"); !strings.Contains(got, "later.txt") {
		t.Errorf("a client that was at %s gets %q; the log is at %s", cursor, got, cursorOf(t, at))
	}
	if got := p.token(at, token); got != bearer {
		t.Error("a sealed token is another one")
	}
	fleet.Stop(t)

	folder := filepath.Join(t.TempDir(), "back")
	back := ran(t, s, true, "move", "--from", postgresURL, "--from-blobs", store.Address, "--to", folder)
	if strings.Contains(back, "DIFFERENT") {
		t.Fatal(back)
	}
	home := s.Peer(t, "COLLAB_DATA_DIR="+folder, "COLLAB_DATABASE_URL=", "COLLAB_BLOB_URL=")
	diffResponses(t, "after the way back", movedResponses(t, ada.At(home), more...), want)
	if got := firstLine(t, ada.At(home), cursor, "event:", "data:"); !strings.Contains(got, "later.txt") {
		t.Errorf("a client that was at %s gets %q; the log is at %s", cursor, got, cursorOf(t, ada.At(home)))
	}
}

// TestAMoveThatIsKilledWhileItCopiesRecords kills the command after each table that has records.
func TestAMoveThatIsKilledWhileItCopiesRecords(t *testing.T) {
	race.Skip(t, "commands of the program move the data")
	s := collabd.Start(t)
	ada := s.SignIn(t, "ada@example.com", "Movers", "owner")
	ada.Must(t, 201, "POST", "/tasks", map[string]string{"title": "A task"}, nil)
	s.Stop(t)
	to := postgres.URL(t)
	for killed := 0; ; killed++ {
		c := s.Command(t, []string{"move", "--to", to}, "COLLAB_LOG_FORMAT=json")
		progress := must.Do(c.StderrPipe()).Or(t)
		must.NoError(t, c.Start())
		tables := 0
		for lines := bufio.NewScanner(progress); lines.Scan(); {
			var line struct{ Msg string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "table copied" {
				if tables++; tables == 2*killed+1 {
					_ = c.Process.Kill()
				}
			}
		}
		if c.Wait() == nil {
			if killed < 3 {
				t.Errorf("it was killed %d times", killed)
			}
			break
		}
	}
}
