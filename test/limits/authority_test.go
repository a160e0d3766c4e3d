package limits

import (
	"bufio"
	"cmp"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/rows"
)

// heldRequest is a request that the caller's rights are taken from while its body is held.
// In path and body, $name stands for the id of the record with that name.
type heldRequest struct {
	path    string
	body    string // empty: the row takes none; {}: it waits for one only under a key
	private bool   // it concerns the private team or its content
	headers string // more lines of the header

	contentType string // empty: JSON
}

// acts has one of each row that asks for a token, and of the one that takes it in
// its body. One that reads and has no parameter is tried with its path if it is not here.
var acts = map[string]heldRequest{
	"POST /api/v1/auth/refresh":             {path: "/auth/refresh", body: `{"token":"$token"}`},
	"DELETE /api/v1/auth/sessions":          {path: "/auth/sessions"},
	"DELETE /api/v1/auth/sessions/{id}":     {path: "/auth/sessions/$task"},
	"POST /api/v1/auth/onboarding-complete": {path: "/auth/onboarding-complete", body: `{}`},
	"POST /api/v1/auth/seed-onboarding":     {path: "/auth/seed-onboarding", body: `{}`},

	"PATCH /api/v1/org/members/{userId}/role": {path: "/org/members/$carl/role", body: `{"role":"VIEWER"}`},
	"DELETE /api/v1/org/members/{userId}":     {path: "/org/members/$carl"},
	"POST /api/v1/org/invite":                 {path: "/org/invite", body: `{"email":"erin@example.com","role":"MEMBER"}`},
	"POST /api/v1/org/invite/{id}/resend":     {path: "/org/invite/$invitation/resend", body: `{}`},
	"DELETE /api/v1/org/invite/{id}":          {path: "/org/invite/$invitation"},
	"POST /api/v1/org/export":                 {path: "/org/export", body: `{}`},
	"GET /api/v1/org/exports/{id}":            {path: "/org/exports/$task"},
	"GET /api/v1/org/exports/{id}/archive":    {path: "/org/exports/$task/archive"},

	"GET /api/v1/tasks":               {path: "/tasks?workspaceId=$workspace", private: true},
	"POST /api/v1/tasks":              {path: "/tasks", body: `{"title":"late","workspaceId":"$workspace"}`, private: true},
	"POST /api/v1/tasks/reorder":      {path: "/tasks/reorder", body: `{"taskIds":["$other","$task"]}`, private: true},
	"POST /api/v1/tasks/reprioritize": {path: "/tasks/reprioritize", body: `{"changes":[{"taskId":"$task","priority":"LOW","reason":"late"}]}`, private: true},
	"GET /api/v1/tasks/{id}":          {path: "/tasks/$task", private: true},
	"PATCH /api/v1/tasks/{id}":        {path: "/tasks/$task", body: `{"title":"late"}`, private: true},
	"DELETE /api/v1/tasks/{id}":       {path: "/tasks/$task", private: true},
	"GET /api/v1/tasks/{id}/history":  {path: "/tasks/$task/history", private: true},

	"POST /api/v1/teams":                         {path: "/teams", body: `{"name":"Late"}`},
	"GET /api/v1/teams/{id}":                     {path: "/teams/$team", private: true},
	"PATCH /api/v1/teams/{id}":                   {path: "/teams/$team", body: `{"name":"Late"}`, private: true},
	"DELETE /api/v1/teams/{id}":                  {path: "/teams/$team", private: true},
	"GET /api/v1/teams/{id}/members":             {path: "/teams/$team/members", private: true},
	"POST /api/v1/teams/{id}/members":            {path: "/teams/$team/members", body: `{"userId":"$ada"}`, private: true},
	"DELETE /api/v1/teams/{id}/members/{userId}": {path: "/teams/$team/members/$ben", private: true},

	"GET /api/v1/workspaces":            {path: "/workspaces?teamId=$team", private: true},
	"POST /api/v1/workspaces":           {path: "/workspaces", body: `{"name":"Late","teamId":"$team"}`, private: true},
	"PUT /api/v1/workspaces/order":      {path: "/workspaces/order", body: `{"order":["$workspace"]}`, private: true},
	"GET /api/v1/workspaces/{id}":       {path: "/workspaces/$workspace", private: true},
	"PATCH /api/v1/workspaces/{id}":     {path: "/workspaces/$workspace", body: `{"name":"Late"}`, private: true},
	"DELETE /api/v1/workspaces/{id}":    {path: "/workspaces/$workspace", private: true},
	"POST /api/v1/workspaces/{id}/move": {path: "/workspaces/$workspace/move", body: `{"targetTeamId":"$shared"}`, private: true},

	"PUT /api/v1/sync/profile":                                   {path: "/sync/profile", body: `{"late":true}`},
	"PUT /api/v1/sync/org-onboarding":                            {path: "/sync/org-onboarding", body: `{"late":true}`},
	"GET /api/v1/sync/memory/{scope}":                            {path: "/sync/memory/org"},
	"PUT /api/v1/sync/memory/{scope}":                            {path: "/sync/memory/org", body: `{"content":"late"}`},
	"GET /api/v1/sync/memory/workspace/{workspaceId}":            {path: "/sync/memory/workspace/$workspace", private: true},
	"GET /api/v1/sync/memory/workspace/{workspaceId}/{fileName}": {path: "/sync/memory/workspace/$workspace/notes.md", private: true},
	"PUT /api/v1/sync/memory/workspace/{workspaceId}/{fileName}": {path: "/sync/memory/workspace/$workspace/notes.md", body: `{"content":"late"}`, private: true},
	"GET /api/v1/sync/files":                                     {path: "/sync/files?workspaceId=$workspace", private: true},
	"POST /api/v1/sync/files":                                    {path: "/sync/files", body: "late", private: true},
	"GET /api/v1/sync/files/{id}":                                {path: "/sync/files/$file", private: true},
	"PUT /api/v1/sync/files/{id}":                                {path: "/sync/files/$file", body: "late", private: true},
	"DELETE /api/v1/sync/files/{id}":                             {path: "/sync/files/$file", private: true},
	"POST /api/v1/sync/batch":                                    {path: "/sync/batch", body: `{"op":"put","path":"late","content":"late"}`, contentType: "application/x-ndjson"},
	"POST /api/v1/sync/batch/read":                               {path: "/sync/batch/read", body: `{"files":[{"id":"$file"}]}`, private: true},
	"PATCH /api/v1/sync/files/{id}":                              {path: "/sync/files/$file", body: `{"path":"late"}`, private: true},
	"GET /api/v1/sync/files/{id}/versions":                       {path: "/sync/files/$file/versions", private: true},
	"DELETE /api/v1/sync/files/{id}/versions":                    {path: "/sync/files/$file/versions", private: true},
	"GET /api/v1/sync/files/{id}/versions/{version}":             {path: "/sync/files/$file/versions/1", private: true},
	"DELETE /api/v1/sync/files/{id}/versions/{version}":          {path: "/sync/files/$file/versions/1", private: true},
	"POST /api/v1/sync/files/{id}/restore":                       {path: "/sync/files/$file/restore", body: `{"version":1}`, private: true},
	"POST /api/v1/sync/move":                                     {path: "/sync/move", body: `{"from":"early","to":"late","kind":"ARTIFACT","scope":"SHARED","workspaceId":"$workspace"}`, private: true},
	"POST /api/v1/sync/uploads":                                  {path: "/sync/uploads", body: `{"path":"late","size":4,"checksum":"089001a35679a33ef3db0ca350db9b9a2f0136e0e327577b04b3b98127470961"}`},
	"POST /api/v1/sync/uploads/{id}/complete":                    {path: "/sync/uploads/none/complete", body: `{}`},
	"DELETE /api/v1/sync/uploads/{id}":                           {path: "/sync/uploads/none"},
	"POST /api/v1/sync/resumable-uploads":                        {path: "/sync/resumable-uploads?path=late&workspaceId=$workspace", headers: "Upload-Complete: ?0\r\nUpload-Length: 4\r\n", private: true},
	"GET /api/v1/sync/resumable-uploads":                         {path: "/sync/resumable-uploads"},
	"GET /api/v1/sync/resumable-uploads/{id}":                    {path: "/sync/resumable-uploads/$task"},
	"PATCH /api/v1/sync/resumable-uploads/{id}":                  {path: "/sync/resumable-uploads/$upload", body: "late", headers: "Upload-Complete: ?1\r\nUpload-Offset: 0\r\n", contentType: "application/partial-upload", private: true},
	"DELETE /api/v1/sync/resumable-uploads/{id}":                 {path: "/sync/resumable-uploads/$task"},

	"POST /api/v1/chat": {path: "/chat", body: `{"message":"late"}`},

	"POST /api/v1/billing/trial":     {path: "/billing/trial", body: `{}`},
	"POST /api/v1/billing/checkout":  {path: "/billing/checkout", body: `{"plan":"PREMIUM"}`},
	"POST /api/v1/billing/portal":    {path: "/billing/portal", body: `{}`},
	"POST /api/v1/billing/downgrade": {path: "/billing/downgrade", body: `{}`},

	"POST /api/v1/connectors":                          {path: "/connectors", body: `{"providerId":"time"}`},
	"GET /api/v1/connectors/{instanceId}/credentials":  {path: "/connectors/$connector/credentials"},
	"POST /api/v1/connectors/{instanceId}/credentials": {path: "/connectors/$connector/credentials", body: `{"credentials":{"apiKey":"late"}}`},
	"DELETE /api/v1/connectors/{instanceId}":           {path: "/connectors/$connector"},
	"POST /api/v1/mcp-oauth/start":                     {path: "/mcp-oauth/start", body: `{"instanceId":"$connector"}`},
	"GET /api/v1/mcp-oauth/poll":                       {path: "/mcp-oauth/poll?state=none"},

	"POST /api/v1/updates":                       {path: "/updates", body: `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://example.com/b.zip"}`},
	"PATCH /api/v1/updates/{id}":                 {path: "/updates/$release", body: `{"releaseNotes":"late"}`},
	"GET /api/v1/updates/releases/{id}/rollout":  {path: "/updates/releases/$release/rollout?clientIds=c"},
	"GET /api/v1/updates/releases/{id}/progress": {path: "/updates/releases/$release/progress"},
	"GET /api/v1/updates/releases/{id}/reports":  {path: "/updates/releases/$release/reports"},
}

// pending is a request of which the last byte is missing.
type pending struct {
	net.Conn
	responses *bufio.Reader
	name      string
	sent      string // all of it
}

// revocation takes rights from ada.
type revocation struct {
	name   string
	role   string                                 // ada's before
	tried  func(guard string, a heldRequest) bool // the rows that it takes from her
	change func(t *testing.T, w *revocationOrg)
}

// revocationOrg is the organisation of one revocation.
type revocationOrg struct {
	server         *collabd.Server
	ada, ben       collabd.Client // who is tried, and an owner
	again          collabd.Client // ada in another session
	provider, team string         // the organisation's id at the identity provider, and the private team
}

var revocations = []revocation{
	{"removal", "owner", func(string, heldRequest) bool { return true }, func(t *testing.T, w *revocationOrg) {
		w.ben.Must(t, 200, "DELETE", "/org/members/"+w.ada.User, nil, nil)
	}},
	{"demotion", "owner", func(guard string, _ heldRequest) bool {
		return slices.Contains([]string{"writer", "manager", "owner"}, guard)
	}, func(t *testing.T, w *revocationOrg) {
		w.ben.Must(t, 200, "PATCH", "/org/members/"+w.ada.User+"/role", map[string]string{"role": "VIEWER"}, nil)
	}},
	{"team", "member", func(_ string, a heldRequest) bool { return a.private }, func(t *testing.T, w *revocationOrg) {
		w.ben.Must(t, 200, "DELETE", "/teams/"+w.team+"/members/"+w.ada.User, nil, nil)
	}},
	{"closure", "owner", func(string, heldRequest) bool { return true }, func(t *testing.T, w *revocationOrg) {
		body := fmt.Sprintf(`{"object":"event","type":"organization.deleted","timestamp":%d,"data":{"object":"organization","id":%q,"deleted":true}}`, time.Now().UnixMilli(), w.provider)
		if status, response, err := w.server.Deliver("msg_closed", body); err != nil || status != 200 {
			t.Fatalf("the webhook is answered with %d %s, %v", status, response, err)
		}
	}},
	{"session", "owner", func(string, heldRequest) bool { return true }, func(t *testing.T, w *revocationOrg) {
		w.again.Must(t, 200, "DELETE", "/auth/sessions", nil, nil)
	}},
}

// forms are the variants of a held request, by their names.
func (a heldRequest) forms(row string, of collabd.Client, ids *strings.Replacer, key string) (all []pending) {
	method, _, _ := strings.Cut(row, " ")
	form := func(name, path, contentType, body string, keyed bool) {
		head := method + " /api/v1" + ids.Replace(path) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + of.Token + "\r\n" + a.headers
		if keyed {
			head += "Idempotency-Key: " + key + "-" + name + "\r\n"
			name += ", with a key"
		}
		if body = ids.Replace(body); body == "{}" && !keyed {
			body = ""
		}
		if body != "" {
			head += fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n", contentType, len(body))
		}
		all = append(all, pending{name: row + name, sent: head + "\r\n" + body})
	}
	for _, keyed := range []bool{false, true} {
		if keyed && method != "POST" {
			break
		}
		if a.body == "" || row != "POST /api/v1/sync/files" && row != "PUT /api/v1/sync/files/{id}" {
			form("", a.path, cmp.Or(a.contentType, "application/json"), a.body, keyed)
			continue
		}
		query, inForm, inJSON := "", "", ""
		if method == "POST" {
			query = "?path=late&workspaceId=$workspace"
			inForm = "\r\n--b\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\nlate\r\n--b\r\nContent-Disposition: form-data; name=\"workspaceId\"\r\n\r\n$workspace"
			inJSON = `,"path":"late","workspaceId":"$workspace"`
		}
		form(" raw", a.path+query, "application/octet-stream", a.body, keyed)
		form(" form", a.path, "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"+a.body+inForm+"\r\n--b--", keyed)
		form(" json", a.path, "application/json", `{"content":"`+a.body+`"`+inJSON+`}`, keyed)
	}
	return all
}

// sendPart sends all but the last byte once the server waits for the body, so that the
// request was admitted. It reports whether it waits.
func (h *pending) sendPart(conn net.Conn) (bool, error) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	h.Conn, h.responses = conn, bufio.NewReader(conn)
	head, body, _ := strings.Cut(h.sent, "\r\n\r\n")
	if _, err := io.WriteString(conn, head+"\r\n\r\n"); err != nil {
		return false, err
	}
	first, err := h.responses.Peek(len("HTTP/1.1 100"))
	if err != nil || !strings.HasSuffix(string(first), " 100") {
		return false, err
	}
	if _, err := http.ReadResponse(h.responses, nil); err != nil {
		return false, err
	}
	_, err = io.WriteString(conn, body[:len(body)-1])
	return true, err
}

// end sends the last byte and returns the response.
func (h *pending) end() (int, string, error) {
	if _, err := io.WriteString(h.Conn, h.sent[len(h.sent)-1:]); err != nil {
		return 0, "", err
	}
	return h.response()
}

func (h *pending) response() (int, string, error) {
	a, err := http.ReadResponse(h.responses, nil)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(io.LimitReader(a.Body, 1000))
	return a.StatusCode, string(body), err
}

// fresh sends all of a request on a new connection and returns the response.
func (h *pending) fresh(conn net.Conn) (int, string, error) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	again := pending{Conn: conn, responses: bufio.NewReader(conn)}
	sent := strings.ReplaceAll(strings.Replace(h.sent, "Expect: 100-continue\r\n", "", 1), "Idempotency-Key: ", "Idempotency-Key: fresh-")
	if _, err := io.WriteString(conn, sent); err != nil {
		return 0, "", err
	}
	return again.response()
}

// refused reports whether a response is a refusal or NotFound.
func refused(status int, body string) bool {
	switch status {
	case 401, 403, 404:
		return true
	case 400:
		return strings.Contains(body, "that you can see")
	}
	return body == "[]\n" || strings.HasPrefix(body, `{"index":0,"status":404,`)
}

// notActs are the tables that are no act's: what is remembered of requests, and names
// of contents that were refused, which are collected later.
var notActs = []string{"sessions", "replays", "blob_names"}

// TestRightsAreThoseOfTheActOnEveryRow takes rights from a caller while the bodies of
// requests to every row are held: their responses are those of new requests, and
// nothing has changed.
func TestRightsAreThoseOfTheActOnEveryRow(t *testing.T) {
	_, guards := routeTable(t)
	for row, guard := range guards {
		if _, known := acts[row]; !known && slices.Contains(callers, guard) {
			path, plain := plainRead(row)
			if acts[row] = (heldRequest{path: path}); !plain {
				t.Errorf("%s (%s) is not tried", row, guard)
			}
		}
	}
	for row := range acts {
		if guards[row] == "" {
			t.Errorf("%s is no row", row)
		}
	}
	onEach(t, func(t *testing.T, d *database) {
		db := d.open(t)
		for n, way := range revocations {
			t.Run(way.name, func(t *testing.T) { way.try(t, d, db, guards, n) })
		}
	}, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_IDENTITY_WEBHOOK_SECRETS="+collabd.WebhookSecret,
		"COLLAB_CONCURRENCY=requests=100000,transfers=100000,calls=100000") // requests of one organisation are held
}

func (way revocation) try(t *testing.T, d *database, db *sql.DB, guards map[string]string, n int) {
	s, name := d.server, "Sweep "+way.name
	w := &revocationOrg{server: s, ben: s.SignIn(t, "ben@example.com", name, "owner"), ada: s.SignIn(t, "ada@example.com", name, way.role), again: s.SignIn(t, "ada@example.com", name, way.role)}
	carl := s.SignIn(t, "carl@example.com", name, "member")
	made := func(path string, body map[string]any) string {
		t.Helper()
		var r struct{ ID string }
		w.ben.Must(t, 201, "POST", path, body, &r)
		return r.ID
	}
	must.NoError(t, db.QueryRowContext(t.Context(), "SELECT provider_id FROM organisations WHERE id = '"+w.ada.Org+"'").Scan(&w.provider))
	w.ben.Grant(t, "PREMIUM") // which may invite
	// The first team is the shared one; ada's seeding is not the first.
	w.ben.Must(t, 200, "POST", "/auth/seed-onboarding", nil, nil)
	var teams []struct{ ID string }
	w.ben.Must(t, 200, "GET", "/teams", nil, &teams)
	w.team = made("/teams", map[string]any{"name": "Private"})
	w.ben.Must(t, 200, "POST", "/teams/"+w.team+"/members", map[string]any{"userId": w.ada.User}, nil)
	workspace := made("/workspaces", map[string]any{"name": "Private", "teamId": w.team})
	task := func() string { return made("/tasks", map[string]any{"title": "early", "workspaceId": workspace}) }
	w.ben.Must(t, 200, "PUT", "/sync/memory/workspace/"+workspace+"/notes.md", map[string]any{"content": "early"}, nil)
	// An upload that is complete shows its file again.
	var upload struct{ ID string }
	w.ada.Must(t, 201, "POST", "/sync/resumable-uploads?path=sent&workspaceId="+workspace+"&checksum=089001a35679a33ef3db0ca350db9b9a2f0136e0e327577b04b3b98127470961", nil, &upload, "Upload-Complete: ?0", "Upload-Length: 4")
	w.ada.Must(t, 201, "PATCH", "/sync/resumable-uploads/"+upload.ID, strings.NewReader("late"), nil, "Content-Type: application/partial-upload", "Upload-Complete: ?1", "Upload-Offset: 0")
	ids := strings.NewReplacer("$token", w.ada.Token, "$ada", w.ada.User, "$ben", w.ben.User, "$carl", carl.User, "$team", w.team, "$shared", teams[0].ID,
		"$workspace", workspace, "$upload", upload.ID, "$task", task(), "$other", task(),
		"$file", made("/sync/files", map[string]any{"path": "early", "content": "early", "workspaceId": workspace}),
		"$connector", made("/connectors", map[string]any{"providerId": "brave-search"}),
		"$invitation", made("/org/invite", map[string]any{"email": "dora@example.com", "role": "MEMBER"}),
		"$release", made("/updates", map[string]any{"version": fmt.Sprintf("1.0.%d", n), "platform": "LINUX", "arch": "X64", "downloadUrl": "https://example.com/a.zip"}))
	w.ben.Grant(t, "FREE") // whose trial may begin
	w.ada.Must(t, 200, "GET", "/auth/me", nil, nil)

	var all []pending
	for row, a := range acts {
		if way.tried(guards[row], a) {
			all = append(all, a.forms(row, w.ada, ids, way.name+fmt.Sprint(len(all)))...)
		}
	}
	waiting := 0
	for i := range all {
		h := &all[i]
		if !strings.Contains(h.sent, "Expect: ") {
			continue
		}
		if waits, err := h.sendPart(dial(t, s)); err != nil || !waits {
			t.Errorf("%s does not wait for its body: %v", h.name, err)
			h.Conn = nil
			continue
		}
		waiting++
	}
	way.change(t, w)
	before := rows.All(t, db, notActs...)
	var ends sync.WaitGroup
	for _, h := range all {
		conn := dial(t, s)
		ends.Go(func() {
			status, body, err := h.fresh(conn)
			if err != nil || !refused(status, body) {
				t.Errorf("%s: a new request is answered with %d %s, %v", h.name, status, body, err)
			}
			if h.Conn == nil {
				return
			}
			if late, response, err := h.end(); err != nil || late != status || response != body {
				t.Errorf("%s: the held request is answered with %d %s, %v instead of %d %s", h.name, late, response, err, status, body)
			}
		})
	}
	ends.Wait()
	must.Equal(t, before, rows.All(t, db, notActs...))
	t.Logf("%d requests, %d of them held", len(all), waiting)
}
