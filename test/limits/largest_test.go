package limits

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"collab/domain/object"
	"collab/domain/release"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/pages"
	"collab/test/soak"
)

// scaled returns how many records of a sort there are. A soak has the largest
// organisation filled to every limit. Without it lists that have no limit are shorter:
// on SQLite still several times larger than the memory that a request may take, on
// Postgres a quarter of that.
func (d *database) scaled(full, ordinary int) int {
	switch {
	case soak.Full():
		return full
	case d.url != "":
		return ordinary / 4
	}
	return ordinary
}

// largest is a server with the largest organisation that the limits allow: each
// text is at its bound and of four-byte characters, each list at its cap.
type largest struct {
	*testing.T
	server     *collabd.Server
	database   *database
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
	short      string         // one of which many are read together
	folder     string         // with as many files, and as long paths, as are moved at once
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

// fill fills the database of a server: one record of each sort is made through the
// interface, which so says what the bounds are, and multiplied in SQL.
func fill(t *testing.T, d *database) *largest {
	s := d.server
	w := &largest{T: t, server: s, database: d,
		ada: s.SignIn(t, "ada@example.com", "Largest", "owner"), ben: s.SignIn(t, "ben@example.com", "Other", "owner"),
		carl: s.SignIn(t, "carl@example.com", "Largest", "member"),
	}
	for _, c := range []collabd.Client{w.ada, w.ben} {
		c.Grant(t, "PREMIUM")
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
	w.release = made("/updates", map[string]any{"version": "1.0.0", "platform": "DARWIN", "arch": "ARM64", "downloadUrl": "https://example.com/a.zip", "sha512": strings.Repeat("a", 128), "releaseNotes": text(65_536), "signature": text(8192)})
	made("/updates", map[string]any{"version": "1.0.0", "platform": "LINUX", "arch": "X64", "downloadUrl": "https://example.com/a.AppImage.tar.gz", "releaseNotes": text(65_536), "signature": text(8192)})
	page := must.Do(http.Get(s.URL + "/docs")).Or(t)
	defer page.Body.Close()
	html := must.Do(io.ReadAll(page.Body)).Or(t)
	script := regexp.MustCompile(`scalar-[0-9a-f]+\.js`).Find(html)
	path := strings.Repeat(strings.Repeat("p", 200)+"/", 4) + "7777777777"
	stored := made("/sync/files", map[string]any{"path": path, "content": "small", "workspaceId": w.workspace})
	w.short = made("/sync/files", map[string]any{"path": strings.Repeat(strings.Repeat("s", 200)+"/", 4) + "s", "content": strings.Repeat("x", 16_700), "workspaceId": w.workspace})
	w.folder = strings.Repeat("m", object.MaxMovedPaths/object.MaxMoved/2-len("/7777777777"))
	moved := made("/sync/files", map[string]any{"path": w.folder + "/7777777777", "content": "small", "workspaceId": w.workspace})
	content := newNoise(100 << 20)
	a := send(t, w.ada, "POST", "/sync/files?path=large&mimeType=text/plain", content.left, content, "Content-Type: application/octet-stream")
	if a.StatusCode != 201 {
		t.Fatalf("the file is %d", a.StatusCode)
	}
	w.file = strings.TrimPrefix(a.Header.Get("Location"), "/api/v1/sync/files/")
	w.ada.Must(t, 200, "POST", "/chat", map[string]any{"message": "Good morning", "maxTokens": 5}, nil)
	w.ada.Must(t, 200, "GET", "/updates/check?version=0.9.0&platform=darwin&arch=arm64", nil, nil)
	s.Stop(t)

	db := d.open(t)
	f := recordCopier{t, d.dialect, db}
	const later = "created_at + i"
	const members = 20_000
	f.multiply("users", "id = '"+w.carl.User+"'", members, set{"id": f.id("00000001"), "provider_id": "'user_'||i", "email": "'member'||i||'@example.com'", "email_key": "'member'||i||'@example.com'", "name": f.text(200), "avatar_url": "'https://example.com/'||" + f.repeated("a", 2000)})
	f.multiply("memberships", "user_id = '"+w.carl.User+"'", members, set{"user_id": f.id("00000001"), "joined_at": "joined_at + i"})
	// Two more teams and workspaces are made, the last that there may be.
	f.multiply("teams", "id = '"+w.team+"'", 1000-5, set{"id": f.id("00000002"), "created_at": later})
	f.multiply("team_members", "team_id = '"+w.team+"'", 1000-5, set{"team_id": f.id("00000002")})
	f.multiply("team_members", "team_id = '"+w.team+"'", 10_000-1, set{"user_id": f.id("00000001"), "joined_at": "joined_at + i"})
	f.multiply("workspaces", "id = '"+w.workspace+"'", 2000-5, set{"id": f.id("00000003"), "created_at": later})
	f.multiply("invitations", "id = '"+w.invitation+"'", 500-2, set{"id": f.id("00000004"), "email": "'invited'||i||'@example.com'", "email_key": "'invited'||i||'@example.com'", "token_hash": "'hash'||i", "created_at": later})
	// Those that the identity provider made have no bound, and neither have organisations.
	email := f.repeated("a", 230) + "||i||'@example.com'"
	f.multiply("invitations", "id = '"+w.invitation+"'", d.scaled(100_000, 20_000), set{"id": f.id("0000000d"), "email": email, "email_key": email, "token_hash": "NULL", "provider_id": "'inv_'||i", "created_at": later})
	f.multiply("organisations", "id = '"+w.ben.Org+"'", d.scaled(100_000, 20_000), set{"id": f.id("0000000e"), "provider_id": "'org_'||i", "name": f.text(200), "slug": f.text(200)})
	f.multiply("sessions", "user_id = '"+w.ada.User+"'", 100-1, set{"id": f.id("0000000f"), "user_agent": f.text(200)})
	f.exec(`UPDATE connectors SET tools = '[{"name":"tool","description":"` + text(16_000) + `"}]' WHERE provider = 'time'`)
	f.multiply("connectors", "provider = 'time'", 200-4, set{"id": f.id("00000005"), "created_at": later})
	f.multiply("tasks", "id = '"+w.task+"'", d.scaled(5_000, 1_000), set{"id": f.id("00000006"), "sort_order": "sort_order + i"})
	if d.url == "" { // Postgres has no such table
		f.multiply("task_texts", "task_id = '"+w.task+"'", d.scaled(5_000, 1_000), set{"task_id": f.id("00000006")})
	}
	f.multiply("tasks", "id = '"+small+"'", d.scaled(100_000, 20_000), set{"id": f.id("00000007"), "sort_order": "sort_order + i"})
	f.multiply("task_history", "reason <> ''", d.scaled(200_000, 20_000), set{"id": f.id("00000008"), "at": "at + i"})
	f.multiply("audit", "org_id = '"+w.ada.Org+"'", d.scaled(300_000, 100_000), set{"id": f.id("00000009"), "at": "at + i"})
	// Each target has a release with texts at their bounds, which the server has in
	// memory, and some have more; those that no device is to have are short.
	const platform, arch, channel = "CASE i / 9 % 3 WHEN 0 THEN 'DARWIN' WHEN 1 THEN 'WIN32' ELSE 'LINUX' END", "CASE i / 3 % 3 WHEN 0 THEN 'X64' WHEN 1 THEN 'ARM64' ELSE 'UNIVERSAL' END", "CASE i % 3 WHEN 0 THEN 'STABLE' WHEN 1 THEN 'BETA' ELSE 'CANARY' END"
	version := func(major int) set {
		v := fmt.Sprintf("'%d.'||i||'.0-%s'", major, strings.Repeat("p", 110))
		return set{"version": v, "version_key": v, "platform": platform, "arch": arch, "channel": channel, "download_url": "'https://example.com/'||" + f.repeated("a", 2000) + "||'.zip'", "revision": "2 + i"}
	}
	long, short := d.scaled(release.MaxReleases-4, 400), version(0)
	whole := version(1)
	whole["id"], whole["sha1"], whole["min_os_version"] = f.id("0000000a"), f.repeated("0", 40), f.text(100)
	short["id"], short["notes"], short["signature"] = f.id("0000000c"), "NULL", "NULL"
	f.multiply("releases", "id = '"+w.release+"'", long, whole)
	if n := release.MaxReleases - 4 - long; n > 0 {
		f.multiply("releases", "id = '"+w.release+"'", n, short)
	}
	f.exec(fmt.Sprint("UPDATE release_revision SET n = ", release.MaxReleases))
	f.exec("INSERT INTO release_reports (release_id, hour, succeeded, failed) VALUES ('" + w.release + "', 0, 1, 1)")
	f.multiply("release_reports", "true", d.scaled(9_600, 9_600), set{"hour": "i * 3600000"})
	f.multiply("release_adoption", "true", d.scaled(400_000, 100_000), set{"day": fmt.Sprintf(d.day, "i % 400"), "version": "'0.'||i||'.0'"})
	files := d.scaled(100_000, 20_000)
	numbered := func(column string) string {
		return "replace(" + column + ", '7777777777', " + fmt.Sprintf(d.digits, "i") + ")"
	}
	copies := func(of, sort string, n, since int) {
		f.multiply("objects", "id = '"+of+"'", n, set{"id": f.id(sort), "path": numbered("path"), "storage_key": numbered("storage_key"), "folded_key": numbered("folded_key"), "blob": "blob||i", "n": fmt.Sprint(since, " + i")})
	}
	copies(stored, "0000000b", files, 1000)
	copies(moved, "00000010", object.MaxMoved-1, 1000+files)
	f.multiply("changes", "record LIKE '%"+stored+"%'", files, set{"n": "1000 + i", "record": "replace(" + numbered("record") + ", '" + stored + "', CAST(" + f.id("0000000b") + " AS TEXT))"})
	f.exec(fmt.Sprintf("UPDATE log_heads SET n = %[1]d, counted_n = %[1]d, shared_bytes = (SELECT SUM(size) FROM objects WHERE org_id = '%[2]s') WHERE org_id = '%[2]s'", 1000+files+object.MaxMoved, w.ada.Org))
	member := fmt.Sprintf(d.uuid, "00000001", "1 + i % 20000")
	const day = 24 * 60 * 60 * 1000
	f.multiply("usage_users", fmt.Sprint("unit = ", day), d.scaled(90, 15)*members, set{"user_id": member, "since": fmt.Sprintf("since + %d * (i / 20000 - 60)", day)})
	f.multiply("usage_users", fmt.Sprint("unit = ", 7*day), 5*members, set{"user_id": member, "since": fmt.Sprintf("since + %d * (i / 20000 - 3)", 7*day)})
	for query, list := range map[string]*[]string{
		"SELECT id FROM (SELECT id FROM tasks WHERE org_id = '%[1]s' AND tags IS NOT NULL LIMIT 300) AS a UNION ALL SELECT id FROM (SELECT id FROM tasks WHERE org_id = '%[1]s' AND tags IS NULL LIMIT 4700) AS b": &w.tasks,
		"SELECT id FROM workspaces WHERE org_id = '%s'": &w.workspaces,
	} {
		rows := must.Do(db.Query(fmt.Sprintf(query, w.ada.Org))).Or(t)
		for rows.Next() {
			var id string
			must.NoError(t, rows.Scan(&id))
			*list = append(*list, id)
		}
		must.NoError(t, rows.Err())
	}
	f.exec("ANALYZE")
	if d.url == "" {
		f.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	}
	must.NoError(t, db.Close())
	d.keep(t)
	w.restart()
	t.Logf("an idle server takes %d MiB", w.idle>>20)
	a = send(t, w.ada, "GET", "/sync/manifest?limit=1", 0, nil)
	w.script = string(script)
	w.cursor = a.Header.Get("X-Sync-Cursor")
	w.start = strings.TrimRight(w.cursor, "0123456789") + "0"
	return w
}

// reset has a new process on the database as it was filled.
func (w *largest) reset() {
	w.Helper()
	w.server.Kill()
	w.database.restore(w)
	w.restart()
}

// restart has a new process on the database as it is.
func (w *largest) restart() {
	w.Helper()
	w.server.Kill()
	must.NoError(w, w.server.Restart())
	for range 3 { // what the first requests need for good is no growth
		for _, c := range []collabd.Client{w.ada, w.ben} {
			c.Must(w, 200, "GET", "/auth/me", nil, nil)
			c.Must(w, 201, "POST", "/tasks", map[string]any{"title": "warm"}, nil)
		}
	}
	w.idle = anonymous(w, w.server.PID(), "VmRSS")
}

// anonymous is the memory of a process that is no file's, in bytes: as it is now
// by VmRSS, or at most since it was reset by VmHWM.
func anonymous(t testing.TB, pid int, field string) int64 {
	t.Helper()
	figures := processMemory(t, pid)
	return figures[field] - figures["RssFile"] - figures["RssShmem"]
}

// routeTable reads the rows that docs/routes.md has, and the guard of each.
func routeTable(t testing.TB) (rows []string, guards map[string]string) {
	t.Helper()
	guards = map[string]string{}
	for _, r := range pages.Routes(t) {
		row := r.Method + " " + r.Path
		rows, guards[row] = append(rows, row), r.Guard
	}
	return rows, guards
}

// callers are the guards that ask for a token.
var callers = []string{"caller", "member", "writer", "manager", "owner"}

// plainRead returns the path of a row below /api/v1, or with another slash before it, and reports whether the
// row reads and has no parameter.
func plainRead(row string) (path string, plain bool) {
	path, plain = strings.CutPrefix(row, "GET ")
	if below, versioned := strings.CutPrefix(path, "/api/v1"); versioned {
		return below, plain && !strings.Contains(row, "{")
	}
	return "/" + path, plain && !strings.Contains(row, "{")
}
