package integration

import (
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"collab/test/collabd"
)

// envSoak names the variable that has the largest organisation filled to every
// limit. Without it lists that have no limit are shorter, and still several times
// larger than the memory that a request may take.
const envSoak = "COLLAB_SOAK"

// scaled returns how many records of a sort there are.
func scaled(full, ordinary int) int {
	if os.Getenv(envSoak) != "" {
		return full
	}
	return ordinary
}

// largest is a server with the largest organisation that the limits allow: each
// text is at its bound and of four-byte characters, each list at its cap.
type largest struct {
	*testing.T
	server     *collabd.Server
	ada        collabd.Client // the organisation's owner, who is in every team
	ben        collabd.Client // an owner of another organisation
	carl       collabd.Client // another member of the organisation
	start      string         // cursor of the log's beginning
	cursor     string         // of its end
	idle       int64          // anonymous memory of a server that has answered little, in bytes
	task       string         // whose history is long
	team       string         // with the most members
	workspace  string         // with all tasks and files
	file       string         // with the largest content
	connector  string         // with the largest credentials
	release    string
	invitation string
	tasks      []string // as many as one request may name, and as many of them with tags as it may move
	workspaces []string
	script     string // the name of the documents' renderer
	keys       int
}

// text returns n characters of four bytes.
func text(n int) string { return strings.Repeat("\U0001F600", n) }

// uuid is the expression of the id of record i. Each sort has ids of its own.
func uuid(sort string) string { return "printf('" + sort + "-0000-7000-8000-%012x', i)" }

// fill starts a server and fills its database: one record of each sort is made
// through the interface, which so says what the bounds are, and multiplied in SQL.
func fill(t *testing.T) *largest {
	var memory syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &memory); err == nil && memory.Bavail*uint64(memory.Bsize) > 8<<30 {
		t.Setenv("TMPDIR", "/dev/shm") // the database is large, and copied often
	}
	s := collabd.Start(t, "COLLAB_ADMIN_SECRET="+adminSecret, "COLLAB_IDENTITY_WEBHOOK_SECRETS="+webhookSecret, "COLLAB_STRIPE_WEBHOOK_SECRETS="+paymentSecret)
	w := &largest{T: t, server: s,
		ada: s.SignIn(t, "ada@example.com", "Largest", "owner"), ben: s.SignIn(t, "ben@example.com", "Other", "owner"),
		carl: s.SignIn(t, "carl@example.com", "Largest", "member"),
	}
	for _, c := range []collabd.Client{w.ada, w.ben} {
		grant(t, c, "PREMIUM")
	}
	made := func(path string, body map[string]any) string {
		t.Helper()
		var r struct{ ID string }
		w.ada.Must(t, 201, "POST", path, body, &r)
		return r.ID
	}
	w.ada.Must(t, 200, "POST", "/auth/seed-onboarding", nil, nil)
	w.team = made("/teams", map[string]any{"name": text(200), "description": text(10_000)})
	w.workspace = made("/workspaces", map[string]any{"name": text(200), "description": text(10_000), "teamId": w.team})
	tags := make([]string, 50)
	for i := range tags {
		tags[i] = fmt.Sprintf("%s%02d", text(62), i)
	}
	w.task = made("/tasks", map[string]any{
		"title": text(200), "description": text(10_000), "workspaceId": w.workspace, "tags": tags,
		"metadata": map[string]string{"a": strings.Repeat("x", 65_536-len(`{"a":""}`))},
	})
	small := made("/tasks", map[string]any{"title": "small", "workspaceId": w.workspace})
	w.ada.Must(t, 200, "POST", "/tasks/reprioritize", map[string]any{"changes": []any{map[string]any{"taskId": w.task, "priority": "HIGH", "reason": text(1000)}}}, nil)
	w.invitation = made("/org/invite", map[string]any{"email": "dora@example.com", "role": "MEMBER"})
	made("/connectors", map[string]any{"providerId": "time", "name": text(200), "config": map[string]string{"a": strings.Repeat("x", 16<<10-len(`{"a":""}`))}})
	w.connector = made("/connectors", map[string]any{"providerId": "brave-search", "name": text(200)})
	w.ada.Must(t, 200, "POST", "/connectors/"+w.connector+"/credentials", map[string]any{"credentials": map[string]string{"apiKey": strings.Repeat("x", 65_000)}}, nil)
	w.release = made("/updates", map[string]any{"version": "1.0.0", "platform": "DARWIN", "arch": "ARM64", "downloadUrl": "https://example.com/a.zip", "sha512": strings.Repeat("a", 128), "releaseNotes": text(65_536), "signature": strings.Repeat("x", 8192)})
	made("/updates", map[string]any{"version": "1.0.0", "platform": "LINUX", "arch": "X64", "downloadUrl": "https://example.com/a.AppImage.tar.gz", "releaseNotes": text(65_536), "signature": strings.Repeat("x", 8192)})
	page, err := http.Get(s.URL + "/docs")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	html, err := io.ReadAll(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile(`scalar-[0-9a-f]+\.js`).Find(html)
	path := strings.Repeat(strings.Repeat("p", 200)+"/", 4) + "7777777777"
	stored := made("/sync/files", map[string]any{"path": path, "content": "small", "workspaceId": w.workspace})
	content := newNoise(100 << 20)
	a := send(t, w.ada, "POST", "/sync/files?path=large&mimeType=text/plain", content.left, content, "Content-Type: application/octet-stream")
	if a.StatusCode != 201 {
		t.Fatalf("the file is %d", a.StatusCode)
	}
	w.file = strings.TrimPrefix(a.Header.Get("Location"), "/api/v1/sync/files/")
	hear(t, w.ada, map[string]any{"message": "Good morning", "maxTokens": 5}, false)
	w.ada.Must(t, 200, "GET", "/updates/check?version=0.9.0&platform=darwin&arch=arm64", nil, nil)
	s.Stop(t)

	db, err := sql.Open("sqlite", w.database()+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=cache_size(-200000)&_pragma=temp_store(FILE)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	f := filler{t, db}
	const later = "created_at + i"
	members := scaled(20_000, 20_000)
	f.multiply("users", "id = '"+w.carl.User+"'", members, set{"id": uuid("00000001"), "provider_id": "'user_'||i", "email": "'member'||i||'@example.com'", "email_key": "'member'||i||'@example.com'", "name": f.text(200), "avatar_url": "'https://example.com/'||hex(zeroblob(1000))"})
	f.multiply("memberships", "user_id = '"+w.carl.User+"'", members, set{"user_id": uuid("00000001"), "joined_at": "joined_at + i"})
	f.multiply("teams", "id = '"+w.team+"'", 1000-4, set{"id": uuid("00000002"), "created_at": later})
	f.multiply("team_members", "team_id = '"+w.team+"'", 1000-4, set{"team_id": uuid("00000002")})
	f.multiply("team_members", "team_id = '"+w.team+"'", 10_000-1, set{"user_id": uuid("00000001"), "joined_at": "joined_at + i"})
	f.multiply("workspaces", "id = '"+w.workspace+"'", 2000-4, set{"id": uuid("00000003"), "created_at": later})
	f.multiply("invitations", "id = '"+w.invitation+"'", 500-2, set{"id": uuid("00000004"), "email": "'invited'||i||'@example.com'", "email_key": "'invited'||i||'@example.com'", "token_hash": "lower(hex(randomblob(32)))", "created_at": later})
	f.exec("UPDATE connectors SET tools = ? WHERE provider = 'time'", `[{"name":"tool","description":"`+text(16_000)+`"}]`)
	f.multiply("connectors", "provider = 'time'", 200-4, set{"id": uuid("00000005"), "created_at": later})
	f.multiply("tasks", "id = '"+w.task+"'", scaled(5_000, 1_000), set{"id": uuid("00000006"), "sort_order": "sort_order + i"})
	f.multiply("task_texts", "task_id = '"+w.task+"'", scaled(5_000, 1_000), set{"task_id": uuid("00000006")})
	f.multiply("tasks", "id = '"+small+"'", scaled(100_000, 20_000), set{"id": uuid("00000007"), "sort_order": "sort_order + i"})
	f.multiply("task_history", "reason <> ''", scaled(200_000, 20_000), set{"id": uuid("00000008"), "at": "at + i"})
	f.multiply("audit", "org_id = '"+w.ada.Org+"'", scaled(300_000, 100_000), set{"id": uuid("00000009"), "at": "at + i"})
	// All releases are in the memory of an idle server, and are no organisation's.
	f.multiply("releases", "id = '"+w.release+"'", 10, set{"id": uuid("0000000a"), "version": "'0.1.'||i", "version_key": "'0.1.'||i"})
	f.multiply("release_adoption", "true", scaled(400_000, 100_000), set{"day": "date('now', '-'||(i % 400)||' day')", "version": "'0.'||i||'.0'"})
	files := scaled(100_000, 20_000)
	const marker = "printf('%010d', i)"
	numbered := func(column string) string { return "replace(" + column + ", '7777777777', " + marker + ")" }
	f.multiply("objects", "id = '"+stored+"'", files, set{"id": uuid("0000000b"), "path": numbered("path"), "storage_key": numbered("storage_key"), "folded_key": numbered("folded_key"), "blob": "blob||i", "n": "1000 + i"})
	f.multiply("changes", "record LIKE '%7777777777%'", files, set{"n": "1000 + i", "record": "replace(" + numbered("record") + ", '" + stored + "', " + uuid("0000000b") + ")"})
	f.exec("UPDATE log_heads SET n = ? WHERE org_id = ?", 1000+files, w.ada.Org)
	member := "printf('00000001-0000-7000-8000-%012x', 1 + i % 20000)"
	const day = 24 * 60 * 60 * 1000
	f.multiply("usage_users", fmt.Sprint("unit = ", day), scaled(90, 15)*members, set{"user_id": member, "since": fmt.Sprintf("since + %d * (i / 20000 - 60)", day)})
	f.multiply("usage_users", fmt.Sprint("unit = ", 7*day), 5*members, set{"user_id": member, "since": fmt.Sprintf("since + %d * (i / 20000 - 3)", 7*day)})
	for query, list := range map[string]*[]string{"SELECT id FROM (SELECT id FROM tasks WHERE org_id = ?1 AND tags IS NOT NULL LIMIT 300) UNION ALL SELECT id FROM (SELECT id FROM tasks WHERE org_id = ?1 AND tags IS NULL LIMIT 4700)": &w.tasks, "SELECT id FROM workspaces WHERE org_id = ?": &w.workspaces} {
		rows, err := db.Query(query, w.ada.Org)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			*list = append(*list, id)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	f.exec("ANALYZE")
	f.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	copied(t, w.database(), w.database()+".filled")
	info, err := os.Stat(w.database())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the database has %d MiB", info.Size()>>20)
	w.reset()
	a = send(t, w.ada, "GET", "/sync/manifest?limit=1", 0, nil)
	w.script = string(script)
	w.cursor = a.Header.Get("X-Sync-Cursor")
	w.start = strings.TrimRight(w.cursor, "0123456789") + "0"
	return w
}

func (w *largest) database() string { return filepath.Join(w.server.Dir, "collab.db") }

// reset has a new process on the database as it was filled.
func (w *largest) reset() {
	w.Helper()
	w.server.Kill()
	for _, end := range []string{"-wal", "-shm"} {
		if err := os.Remove(w.database() + end); err != nil && !os.IsNotExist(err) {
			w.Fatal(err)
		}
	}
	copied(w, w.database()+".filled", w.database())
	if err := w.server.Restart(); err != nil {
		w.Fatal(err)
	}
	for range 3 { // what the first requests need for good is no growth
		for _, c := range []collabd.Client{w.ada, w.ben} {
			c.Must(w, 200, "GET", "/auth/me", nil, nil)
			c.Must(w, 201, "POST", "/tasks", map[string]any{"title": "warm"}, nil)
		}
	}
	w.idle = anonymous(w, w.server.PID(), "VmRSS")
}

func copied(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// filler multiplies records.
type filler struct {
	testing.TB
	db *sql.DB
}

// set has the expressions of columns that differ between copies; i is the copy's
// number, from 1 on.
type set map[string]string

func (f filler) exec(statement string, args ...any) {
	f.Helper()
	if _, err := f.db.Exec(statement, args...); err != nil {
		f.Fatalf("%v in %s", err, statement)
	}
}

// text is the expression of n characters of four bytes.
func (filler) text(n int) string {
	return fmt.Sprintf("replace(hex(zeroblob(%d)), '0', '\U0001F600')", n/2)
}

// multiply adds copies of the one record that the condition selects.
func (f filler) multiply(table, where string, copies int, differ set) {
	f.Helper()
	f.exec("CREATE TEMP TABLE template AS SELECT * FROM " + table + " WHERE " + where + " LIMIT 1")
	rows, err := f.db.Query("SELECT name FROM pragma_table_info(?)", table)
	if err != nil {
		f.Fatal(err)
	}
	var columns, values []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			f.Fatal(err)
		}
		columns = append(columns, name)
		if value, ok := differ[name]; ok {
			values = append(values, value)
		} else {
			values = append(values, name)
		}
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
	done, err := f.db.Exec("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?) INSERT INTO "+table+" ("+strings.Join(columns, ", ")+
		") SELECT "+strings.Join(values, ", ")+" FROM template, c", copies)
	if err != nil {
		f.Fatalf("%s: %v", table, err)
	}
	if n, err := done.RowsAffected(); err != nil || n != int64(copies) {
		f.Fatalf("%s: %d records instead of %d, %v", table, n, copies, err)
	}
	f.exec("DROP TABLE template")
}

// anonymous is the memory of a process that is no file's, in bytes: as it is now
// by VmRSS, or at most since it was reset by VmHWM.
func anonymous(t testing.TB, pid int, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var kib int64
		if _, err := fmt.Sscanf(line, "%s %d kB", &name, &kib); err == nil {
			figures[strings.TrimSuffix(name, ":")] = kib << 10
		}
	}
	return figures[field] - figures["RssFile"] - figures["RssShmem"]
}

// routeTable reads the rows that docs/routes.md has.
func routeTable(t testing.TB) (rows []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/routes.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) == 3 && strings.Contains(cells[1], "`") {
			rows = append(rows, strings.TrimPrefix(cells[0], "| ")+" "+strings.Trim(cells[1], "`"))
		}
	}
	if len(rows) < 100 {
		t.Fatalf("docs/routes.md has %d rows", len(rows))
	}
	return rows
}

// differences compares the rows with those that requests are known of.
func differences(rows []string, known map[string]func(*largest) []request) (missing, stale []string) {
	for _, row := range rows {
		if known[row] == nil {
			missing = append(missing, row)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(known)) {
		if !slices.Contains(rows, row) {
			stale = append(stale, row)
		}
	}
	return missing, stale
}
