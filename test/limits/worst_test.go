package limits

import (
	"bufio"
	"bytes"
	"cmp"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
	"collab/domain/connector"
	"collab/domain/object"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
	"collab/test/soak"
	"collab/test/tempdir"
)

const (
	// maxGrowth is how much memory a request may take above that of a server that has
	// answered little, in bytes.
	maxGrowth = 64 << 20
	// maxDelay is how long a small request of another organisation may take meanwhile,
	// without the longest time that a thread of the server waits for a processor. It may
	// take maxDelayRatio times what a bareTransaction takes, on machines where that is more.
	maxDelay      = 500 * time.Millisecond
	maxDelayRatio = 3
	// attempts is how often a request is measured that is above a bound: the machine
	// has other work as well.
	attempts = 5
)

// request is one that a row of the route table is tried with.
type request struct {
	path    string                    // with its query
	as      collabd.Client            // without a token: nobody
	body    []byte                    // nil: what content returns
	content func() (io.Reader, int64) // and its length
	headers []string
	status  int    // 0: 200
	until   string // the beginning of the last line that is read; empty: the response is read to its end

	exclusive bool // others wait for it, as docs/security.md says
}

// many returns a body with these fields and as many others as it has room for.
func many(fields map[string]any) []byte {
	return padded(fields, func(i int) string { return fmt.Sprintf(`"%x":0`, i) })
}

// deep returns one with fields that are nested as deeply as they may.
func deep(fields map[string]any) []byte {
	nested := strings.Repeat("[", 63) + strings.Repeat("]", 63)
	return padded(fields, func(i int) string { return fmt.Sprintf(`"%x":%s`, i, nested) })
}

func padded(fields map[string]any, pad func(i int) string) []byte {
	b, separator := []byte("{}"), ""
	if len(fields) > 0 {
		var err error
		if b, err = json.Marshal(fields); err != nil {
			panic(err) // the test's own
		}
		separator = ","
	}
	b = b[:len(b)-1]
	for i := 0; ; i++ {
		part := separator + pad(i)
		if len(b)+len(part)+1 > 1<<20 {
			return append(b, '}')
		}
		b = append(b, part...)
		separator = ","
	}
}

// write returns the requests of a row that takes a JSON body: with the fields and
// as much as there is room for, in two shapes, and under an idempotency key.
func (w *largest) write(path string, status int, fields ...map[string]any) (all []request) {
	for i, body := range [][]byte{many(fields[0]), deep(fields[len(fields)-1])} {
		r := request{path: path, as: w.ada, body: body, status: status, headers: []string{"Content-Type: application/json"}}
		if i > 0 {
			w.keys++
			r.headers = append(r.headers, fmt.Sprint("Idempotency-Key: key-", w.keys))
		}
		all = append(all, r)
	}
	return all
}

func (w *largest) get(paths ...string) (all []request) {
	for _, path := range paths {
		all = append(all, request{path: path, as: w.ada})
	}
	return all
}

func anybody(paths ...string) (all []request) {
	for _, path := range paths {
		all = append(all, request{path: path})
	}
	return all
}

// lists returns the requests of a list: all of it and the largest page.
func (w *largest) lists(path string) []request {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return w.get(path, path+separator+"limit=1000", path+separator+"limit=1")
}

// operating returns requests of an operator.
func operating(all ...request) []request {
	for i := range all {
		all[i].as = collabd.Client{}
		all[i].headers = append(all[i].headers, "X-Admin-Secret: "+collabd.AdminSecret)
	}
	return all
}

// status expects another status of requests.
func status(status int, all []request) []request {
	for i := range all {
		all[i].status = status
	}
	return all
}

// contents are the forms in which the largest file comes.
func (w *largest) contents(path, query string, status int) (all []request) {
	const size = 100 << 20
	head := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"
	tail := "\r\n--b\r\nContent-Disposition: form-data; name=\"path\"\r\n\r\nform\r\n--b--"
	around := func(head string, content io.Reader, n int64, tail string) func() (io.Reader, int64) {
		return func() (io.Reader, int64) {
			return io.MultiReader(strings.NewReader(head), content, strings.NewReader(tail)), int64(len(head)) + n + int64(len(tail))
		}
	}
	encoded := func() io.Reader {
		r, to := io.Pipe()
		go func() {
			e := base64.NewEncoder(base64.StdEncoding, to)
			_, err := io.Copy(e, newNoise(size-1))
			to.CloseWithError(errors.Join(err, e.Close()))
		}()
		return r
	}
	all = []request{
		{path: path + query, content: func() (io.Reader, int64) { return newNoise(size), size }, headers: []string{"Content-Type: application/octet-stream"}},
		{path: path, content: around(head, newNoise(size-1000), size-1000, tail), headers: []string{"Content-Type: multipart/form-data; boundary=b"}},
		{path: path, content: around(`{"content":"`, encoded(), (size-1+2)/3*4, `","encoding":"base64","path":"json"}`), headers: []string{"Content-Type: application/json"}},
	}
	for i := range all {
		all[i].as, all[i].status = w.ada, status
	}
	return all
}

// chats are the largest questions.
func (w *largest) chats() (all []request) {
	turn := func(content any) map[string]any { return map[string]any{"role": "user", "content": content} }
	blocks := make([]map[string]any, 200)
	for i := range blocks {
		blocks[i] = map[string]any{"type": "text", "text": "t"}
	}
	var small, turns []any
	for range 160 {
		small = append(small, turn(blocks))
	}
	for range 2000 {
		turns = append(turns, turn(strings.Repeat("h", 450)))
	}
	var tools []any
	for i := range 128 {
		tools = append(tools, map[string]any{"name": fmt.Sprint("t", i), "description": strings.Repeat("d", 7000), "inputSchema": map[string]any{"type": "object", "x": strings.Repeat("y", 500)}})
	}
	for _, body := range []map[string]any{
		{"message": text(100_000), "systemPrompt": text(100_000)},
		{"message": "m", "history": small}, {"message": "m", "history": turns}, {"message": "m", "tools": tools},
		{"message": strings.Repeat("m", 400_000), "history": []any{turn(strings.Repeat("h", 400_000))}, "systemPrompt": strings.Repeat("s", 200_000)},
	} {
		body["maxTokens"] = 10
		b, err := json.Marshal(body)
		if err != nil {
			panic(err) // the test's own
		}
		w.keys++
		for _, more := range [][]string{nil, {fmt.Sprint("Idempotency-Key: chat-", w.keys)}} {
			all = append(all, request{path: "/chat", as: w.ada, body: b, headers: append([]string{"Content-Type: application/json"}, more...)})
		}
	}
	return all
}

// shortened leaves out what of a padded body is beyond the bound of messages.
func shortened(body []byte) []byte {
	return append(body[:bytes.LastIndexByte(body[:512<<10-1], ',')], '}')
}

// identityEvents are the largest messages of the identity provider.
func (w *largest) identityEvents() (all []request) {
	event := fields{"object": "event", "type": "user.updated", "timestamp": time.Now().UnixMilli(), "data": fields{
		"id": "user_largest", "first_name": "Largest", "email_addresses": []any{}, "updated_at": time.Now().UnixMilli()}}
	for _, body := range [][]byte{many(event), deep(event)} {
		body = shortened(body)
		w.keys++
		id, now := fmt.Sprint("msg_", w.keys), time.Now()
		signature := must.Do(standardwebhooks.Sign(collabd.WebhookSecret, id, now, body)).Or(w)
		all = append(all, request{path: "/auth/webhook", body: body, headers: []string{"Content-Type: application/json", "svix-id: " + id, fmt.Sprint("svix-timestamp: ", now.Unix()), "svix-signature: " + signature}})
	}
	return all
}

// paymentEvents are the largest messages of the payment provider.
func (w *largest) paymentEvents() (all []request) {
	event := fields{"id": "evt_1", "object": "event", "type": "customer.created", "created": time.Now().Unix(), "data": fields{"object": fields{"id": "cus_1"}}}
	for _, body := range [][]byte{many(event), deep(event)} {
		body = shortened(body)
		all = append(all, request{path: "/billing/webhook", body: body, headers: []string{"Content-Type: application/json", "Stripe-Signature: " + stripepay.Sign(collabd.PaymentSecret, time.Now(), body)}})
	}
	return all
}

// ranges is a header that asks for as many parts of a file as one may.
func ranges() string {
	var parts []string
	for i := range 16 {
		parts = append(parts, fmt.Sprintf("%d-%d", i*6<<20, i*6<<20+5<<20))
	}
	return "Range: bytes=" + strings.Join(parts, ",")
}

type fields = map[string]any

// requests has what each row of the route table is tried with. One that reads and has no parameter is tried
// with its path if it is not here.
var requests = map[string]func(w *largest) []request{
	"GET /api/v1/auth/cli-auth": func(w *largest) []request {
		return status(302, anybody("/auth/cli-auth?port=4711&state="+strings.Repeat("s", 512)))
	},
	"GET /api/v1/auth/cli-callback": func(w *largest) []request {
		return status(400, anybody("/auth/cli-callback?port=4711&state="+strings.Repeat("s", 60_000)))
	},
	"POST /api/v1/auth/device": func(w *largest) []request {
		return w.write("/auth/device", 413, fields{"client_name": strings.Repeat("n", 500_000)})
	},
	"POST /api/v1/auth/device/token": func(w *largest) []request {
		return w.write("/auth/device/token", 413, fields{"device_code": strings.Repeat("c", 500_000)})
	},
	"GET /api/v1/auth/device": func(w *largest) []request {
		return status(404, anybody("/auth/device?user_code="+strings.Repeat("B", 60_000)))
	},
	"GET /device": func(w *largest) []request {
		return status(404, anybody("//device?user_code="+strings.Repeat("B", 60_000)))
	},
	"POST /api/v1/auth/device/decision": func(w *largest) []request {
		return []request{{path: "/auth/device/decision", body: []byte("token=" + strings.Repeat("t", 1<<20)), status: 413, headers: []string{"Content-Type: application/x-www-form-urlencoded"}}}
	},
	"POST /api/v1/auth/exchange-token": func(w *largest) []request {
		return status(401, w.write("/auth/exchange-token", 401, fields{"identityToken": strings.Repeat("a.", 300_000), "orgName": text(200)}))
	},
	"POST /api/v1/auth/refresh":             func(w *largest) []request { return w.write("/auth/refresh", 200, fields{"token": w.ada.Token}) },
	"DELETE /api/v1/auth/sessions":          func(w *largest) []request { return w.get("/auth/sessions") },
	"DELETE /api/v1/auth/sessions/{id}":     func(w *largest) []request { return status(404, w.get("/auth/sessions/"+w.task)) },
	"POST /api/v1/auth/onboarding-complete": func(w *largest) []request { return w.write("/auth/onboarding-complete", 200, nil) },
	"POST /api/v1/auth/seed-onboarding":     func(w *largest) []request { return w.write("/auth/seed-onboarding", 200, nil) },
	"POST /api/v1/auth/webhook":             func(w *largest) []request { return w.identityEvents() },

	"GET /api/v1/org/members":        func(w *largest) []request { return w.lists("/org/members") },
	"GET /api/v1/org/members/former": func(w *largest) []request { return w.lists("/org/members/former") },
	"PATCH /api/v1/org/members/{userId}/role": func(w *largest) []request {
		return w.write("/org/members/"+w.carl.User+"/role", 200, fields{"role": "VIEWER"})
	},
	"DELETE /api/v1/org/members/{userId}": func(w *largest) []request { return w.get("/org/members/" + w.carl.User) },
	"GET /api/v1/org/invites":             func(w *largest) []request { return w.lists("/org/invites") },
	"POST /api/v1/org/invite": func(w *largest) []request {
		return w.write("/org/invite", 409, fields{"email": "erin@example.com", "role": "MEMBER"}, fields{"email": "finn@example.com", "role": "MEMBER"})
	},
	"POST /api/v1/org/invite/{id}/resend": func(w *largest) []request { return w.write("/org/invite/"+w.invitation+"/resend", 200, nil) },
	"DELETE /api/v1/org/invite/{id}":      func(w *largest) []request { return w.get("/org/invite/" + w.invitation) },
	"GET /api/v1/org/audit": func(w *largest) []request {
		return append(w.lists("/org/audit"), w.lists("/org/audit?action=member&actor=operator&from=2020-01-01")...)
	},
	"POST /api/v1/org/export": func(w *largest) []request { // an owner has one at a time
		return []request{{path: "/org/export", as: w.carl, body: many(fields{}), status: 403, headers: []string{"Content-Type: application/json"}}}
	},
	"GET /api/v1/org/exports/{id}":         func(w *largest) []request { return status(404, w.get("/org/exports/"+w.task)) },
	"GET /api/v1/org/exports/{id}/archive": func(w *largest) []request { return status(404, w.get("/org/exports/"+w.task+"/archive")) },

	"GET /api/v1/tasks": func(w *largest) []request {
		return append(w.lists("/tasks"), append(w.lists("/tasks?workspaceId="+w.workspace), w.lists("/tasks?status=TODO&priority=HIGH&dueAfter=2020-01-01&tags="+text(62)+"00")...)...)
	},
	"POST /api/v1/tasks": func(w *largest) []request {
		return w.write("/tasks", 201, fields{"title": text(200), "description": text(10_000), "metadata": fields{"a": strings.Repeat("x", 65_000)}})
	},
	"POST /api/v1/tasks/reorder": func(w *largest) []request { return w.write("/tasks/reorder", 200, fields{"taskIds": w.tasks}) },
	"POST /api/v1/tasks/reprioritize": func(w *largest) []request {
		var changes []any
		for _, id := range w.tasks {
			changes = append(changes, fields{"taskId": id, "priority": "LOW", "reason": text(20)})
		}
		return w.write("/tasks/reprioritize", 200, fields{"changes": changes})
	},
	"GET /api/v1/tasks/{id}": func(w *largest) []request { return w.get("/tasks/" + w.task) },
	"PATCH /api/v1/tasks/{id}": func(w *largest) []request {
		return w.write("/tasks/"+w.task, 200, fields{"status": "DONE", "description": text(9_999)})
	},
	"DELETE /api/v1/tasks/{id}":      func(w *largest) []request { return w.get("/tasks/" + w.task) },
	"GET /api/v1/tasks/{id}/history": func(w *largest) []request { return w.lists("/tasks/" + w.task + "/history") },

	"GET /api/v1/teams": func(w *largest) []request { return w.lists("/teams") },
	"POST /api/v1/teams": func(w *largest) []request {
		return w.write("/teams", 201, fields{"name": text(200), "description": text(10_000)})
	},
	"GET /api/v1/teams/{id}":         func(w *largest) []request { return w.get("/teams/" + w.team) },
	"PATCH /api/v1/teams/{id}":       func(w *largest) []request { return w.write("/teams/"+w.team, 200, fields{"description": text(9_000)}) },
	"DELETE /api/v1/teams/{id}":      func(w *largest) []request { return status(409, w.get("/teams/"+w.team)) },
	"GET /api/v1/teams/{id}/members": func(w *largest) []request { return w.lists("/teams/" + w.team + "/members") },
	"POST /api/v1/teams/{id}/members": func(w *largest) []request {
		return w.write("/teams/"+w.team+"/members", 200, fields{"userId": w.ada.User})
	},
	"DELETE /api/v1/teams/{id}/members/{userId}": func(w *largest) []request {
		return w.get("/teams/" + w.team + "/members/00000001-0000-7000-8000-000000000001")
	},

	"GET /api/v1/workspaces": func(w *largest) []request {
		return append(w.lists("/workspaces"), w.lists("/workspaces?teamId="+w.team)...)
	},
	"POST /api/v1/workspaces": func(w *largest) []request {
		return w.write("/workspaces", 201, fields{"name": text(200), "description": text(10_000), "teamId": w.team})
	},
	"PUT /api/v1/workspaces/order": func(w *largest) []request { return w.write("/workspaces/order", 200, fields{"order": w.workspaces}) },
	"GET /api/v1/workspaces/{id}":  func(w *largest) []request { return w.get("/workspaces/" + w.workspace) },
	"PATCH /api/v1/workspaces/{id}": func(w *largest) []request {
		return w.write("/workspaces/"+w.workspace, 200, fields{"description": text(9_000)})
	},
	"DELETE /api/v1/workspaces/{id}": func(w *largest) []request { return w.get("/workspaces/" + w.workspace) },
	"POST /api/v1/workspaces/{id}/move": func(w *largest) []request {
		return w.write("/workspaces/"+w.workspace+"/move", 200, fields{"targetTeamId": "00000002-0000-7000-8000-000000000001"})
	},

	"PUT /api/v1/sync/profile":        func(w *largest) []request { return w.write("/sync/profile", 200, nil) },
	"PUT /api/v1/sync/org-onboarding": func(w *largest) []request { return w.write("/sync/org-onboarding", 200, nil) },
	"GET /api/v1/sync/memory/{scope}": func(w *largest) []request { return w.get("/sync/memory/org") },
	"PUT /api/v1/sync/memory/{scope}": func(w *largest) []request {
		return w.write("/sync/memory/org", 200, fields{"content": strings.Repeat("\x01", 150_000)})
	},
	"GET /api/v1/sync/memory/workspace/{workspaceId}":            func(w *largest) []request { return w.lists("/sync/memory/workspace/" + w.workspace) },
	"GET /api/v1/sync/memory/workspace/{workspaceId}/{fileName}": func(w *largest) []request { return w.get("/sync/memory/workspace/" + w.workspace + "/notes.md") },
	"PUT /api/v1/sync/memory/workspace/{workspaceId}/{fileName}": func(w *largest) []request {
		return w.write("/sync/memory/workspace/"+w.workspace+"/notes.md", 200, fields{"content": strings.Repeat("\x01", 150_000)})
	},
	"GET /api/v1/sync/files": func(w *largest) []request {
		return append(w.lists("/sync/files"), w.lists("/sync/files?kind=ARTIFACT&scope=SHARED&workspaceId="+w.workspace)...)
	},
	"POST /api/v1/sync/files": func(w *largest) []request {
		all := w.contents("/sync/files", "?path=raw", 201)
		for _, r := range w.contents("/sync/files", "?path=raw2", 201)[:1] {
			r.headers = append(r.headers, "Idempotency-Key: content")
			all = append(all, r)
		}
		return all
	},
	"GET /api/v1/sync/files/{id}": func(w *largest) []request {
		part := request{path: "/sync/files/" + w.file + "?raw=1", as: w.ada, status: 206, headers: []string{ranges()}}
		return append(w.get("/sync/files/"+w.file, "/sync/files/"+w.file+"?raw=1"), part)
	},
	"PUT /api/v1/sync/files/{id}":    func(w *largest) []request { return w.contents("/sync/files/"+w.file, "", 200)[:1] },
	"DELETE /api/v1/sync/files/{id}": func(w *largest) []request { return w.get("/sync/files/" + w.file) },
	"POST /api/v1/sync/batch": func(w *largest) []request {
		var body []byte
		for i := range 1000 {
			body = fmt.Appendf(body, `{"op":"put","path":"batch/%d","content":"%s"}`+"\n", i, strings.Repeat("x", 16_600))
		}
		return []request{{path: "/sync/batch", as: w.ada, body: body, status: 200, headers: []string{"Content-Type: application/x-ndjson"}}}
	},
	"POST /api/v1/sync/batch/read": func(w *largest) []request {
		files := make([]fields, 1000)
		for i := range files {
			files[i] = fields{"id": w.short, "expectedVersion": 1}
		}
		return w.write("/sync/batch/read", 200, fields{"files": files})
	},
	// Directories give out no addresses.
	"PATCH /api/v1/sync/files/{id}": func(w *largest) []request {
		return w.write("/sync/files/"+w.file, 200, fields{"path": "moved/" + strings.Repeat("a", 250)})
	},
	"GET /api/v1/sync/files/{id}/versions":    func(w *largest) []request { return w.lists("/sync/files/" + w.file + "/versions") },
	"DELETE /api/v1/sync/files/{id}/versions": func(w *largest) []request { return w.get("/sync/files/" + w.file + "/versions") },
	"GET /api/v1/sync/files/{id}/versions/{version}": func(w *largest) []request {
		return w.get("/sync/files/"+w.file+"/versions/1", "/sync/files/"+w.file+"/versions/1?raw=1")
	},
	"DELETE /api/v1/sync/files/{id}/versions/{version}": func(w *largest) []request {
		return status(404, w.get("/sync/files/"+w.file+"/versions/1"))
	},
	"POST /api/v1/sync/files/{id}/restore": func(w *largest) []request {
		return w.write("/sync/files/"+w.file+"/restore", 409, fields{"version": 1})
	},
	"POST /api/v1/sync/move": func(w *largest) []request {
		all := w.write("/sync/move", 200, fields{"from": w.folder, "to": strings.Repeat("n", len(w.folder)), "workspaceId": w.workspace})[:1]
		all[0].until, all[0].exclusive = fmt.Sprintf(`{"moved":%d,`, object.MaxMoved), w.database.url == ""
		return all
	},
	"POST /api/v1/sync/uploads": func(w *largest) []request {
		return w.write("/sync/uploads", 409, fields{"path": "late", "size": 1 << 20, "checksum": strings.Repeat("a", 64)})
	},
	"POST /api/v1/sync/uploads/{id}/complete": func(w *largest) []request {
		return w.write("/sync/uploads/"+strings.Repeat("A", 1_000)+"/complete", 404, nil)
	},
	"DELETE /api/v1/sync/uploads/{id}": func(w *largest) []request {
		return []request{{path: "/sync/uploads/" + strings.Repeat("A", 1_000), as: w.ada, status: 404}}
	},
	"POST /api/v1/sync/resumable-uploads": func(w *largest) []request {
		all := w.contents("/sync/resumable-uploads", "?path=resumed", 201)[:1]
		all[0].headers = append(all[0].headers, "Upload-Complete: ?0", fmt.Sprint("Upload-Length: ", 100<<20))
		return all
	},
	"GET /api/v1/sync/resumable-uploads": func(w *largest) []request { return w.get("/sync/resumable-uploads") },
	"GET /api/v1/sync/resumable-uploads/{id}": func(w *largest) []request {
		return []request{{path: "/sync/resumable-uploads/" + w.file, as: w.ada, status: 404}}
	},
	"PATCH /api/v1/sync/resumable-uploads/{id}": func(w *largest) []request {
		return []request{{path: "/sync/resumable-uploads/" + w.file, as: w.ada, status: 404, headers: []string{"Content-Type: application/partial-upload", "Upload-Complete: ?1", "Upload-Offset: 0"}}}
	},
	"DELETE /api/v1/sync/resumable-uploads/{id}": func(w *largest) []request {
		return []request{{path: "/sync/resumable-uploads/" + w.file, as: w.ada, status: 404}}
	},
	"GET /api/v1/sync/manifest": func(w *largest) []request {
		return append(w.lists("/sync/manifest"), w.get("/sync/manifest?since="+w.start)...)
	},
	"GET /api/v1/sync/changes": func(w *largest) []request {
		return []request{{path: "/sync/changes", as: w.ada, headers: []string{"Last-Event-ID: " + w.start}, until: "id: " + w.cursor}}
	},

	"POST /api/v1/chat": func(w *largest) []request { return w.chats() },

	"POST /api/v1/billing/trial":     func(w *largest) []request { return w.write("/billing/trial", 409, nil) },
	"POST /api/v1/billing/checkout":  func(w *largest) []request { return w.write("/billing/checkout", 409, fields{"plan": "PREMIUM"}) },
	"POST /api/v1/billing/portal":    func(w *largest) []request { return w.write("/billing/portal", 409, nil) },
	"POST /api/v1/billing/downgrade": func(w *largest) []request { return w.write("/billing/downgrade", 409, nil) },
	"GET /api/v1/billing/checkout/success": func(w *largest) []request {
		return status(404, anybody("/billing/checkout/success?session_id="+strings.Repeat("x", 255)))
	},
	"POST /api/v1/billing/webhook": func(w *largest) []request { return w.paymentEvents() },

	"GET /api/v1/metering/daily": func(w *largest) []request {
		from := "?from=" + time.Now().UTC().AddDate(0, 0, -390).Format(time.DateOnly)
		return append(w.lists("/metering/daily"+from), append(w.lists("/metering/daily"+from+"&by=user"), w.lists("/metering/daily"+from+"&userId="+w.ada.User)...)...)
	},

	"GET /api/v1/connectors": func(w *largest) []request { return w.lists("/connectors") },
	"POST /api/v1/connectors": func(w *largest) []request {
		return w.write("/connectors", 201, fields{"providerId": "time", "config": fields{"a": strings.Repeat("x", 16_000)}}, fields{"providerId": "time"})
	},
	"GET /api/v1/connectors/{instanceId}/credentials": func(w *largest) []request { return w.get("/connectors/" + w.connector + "/credentials") },
	"POST /api/v1/connectors/{instanceId}/credentials": func(w *largest) []request {
		return w.write("/connectors/"+w.connector+"/credentials", 200, fields{"credentials": fields{"apiKey": strings.Repeat("x", 65_000)}})
	},
	"DELETE /api/v1/connectors/{instanceId}": func(w *largest) []request { return w.get("/connectors/" + w.connector) },
	"POST /api/v1/mcp-oauth/start": func(w *largest) []request {
		return w.write("/mcp-oauth/start", 400, fields{"providerId": strings.Repeat("x", 500_000)})
	},
	"GET /api/v1/mcp-oauth/poll": func(w *largest) []request {
		return status(404, w.get("/mcp-oauth/poll?state="+strings.Repeat("s", 200)))
	},
	"GET /api/v1/mcp-oauth/authorize": func(w *largest) []request {
		return status(400, anybody("/mcp-oauth/authorize?state="+strings.Repeat("s", 60_000)))
	},
	"POST /api/v1/mcp-oauth/authorize": func(w *largest) []request {
		return []request{{path: "/mcp-oauth/authorize", body: []byte("state=" + strings.Repeat("s", 1<<20)), status: 413, headers: []string{"Content-Type: application/x-www-form-urlencoded"}}}
	},
	"GET /api/v1/mcp-oauth/callback": func(w *largest) []request {
		return status(400, anybody("/mcp-oauth/callback?state="+strings.Repeat("s", 60_000)))
	},
	"GET /api/v1/mcp-oauth/callback/{issuer}": func(w *largest) []request {
		return status(400, anybody("/mcp-oauth/callback/"+connector.IssuerKey("https://issuer.example")+"?state="+strings.Repeat("s", 60_000)))
	},
	"GET /api/v1/mcp-oauth/client-metadata/{issuer}": func(w *largest) []request {
		return anybody("/mcp-oauth/client-metadata/" + connector.IssuerKey("https://issuer.example"))
	},

	"GET /api/v1/updates/check": func(w *largest) []request {
		var all []request // each target's answer is kept
		for _, platform := range []string{"darwin", "win32", "linux"} {
			for _, arch := range []string{"x64", "arm64", "universal"} {
				for _, channel := range []string{"stable", "beta", "canary"} {
					all = append(all, anybody("/updates/check?version=0.0.1&platform="+platform+"&arch="+arch+"&channel="+channel+"&clientId="+strings.Repeat("c", 200))...)
				}
			}
		}
		return all
	},
	"POST /api/v1/updates": func(w *largest) []request {
		release := func(version string) fields {
			return fields{"version": version, "platform": "DARWIN", "arch": "ARM64", "downloadUrl": "https://example.com/b.zip", "releaseNotes": text(65_536)}
		}
		return w.write("/updates", 201, release("2.0.0"), release("2.0.1"))
	},
	"PATCH /api/v1/updates/{id}": func(w *largest) []request {
		return w.write("/updates/"+w.release, 200, fields{"releaseNotes": text(65_000)})
	},
	"GET /api/v1/updates/releases": func(w *largest) []request { return w.lists("/updates/releases") },
	"GET /api/v1/updates/releases/{id}/rollout": func(w *largest) []request {
		return w.get("/updates/releases/" + w.release + "/rollout?clientIds=" + strings.Repeat(strings.Repeat("c", 200)+",", 99) + "c")
	},
	"GET /api/v1/updates/releases/{id}/progress": func(w *largest) []request { return w.get("/updates/releases/" + w.release + "/progress") },
	"GET /api/v1/updates/releases/{id}/reports":  func(w *largest) []request { return w.lists("/updates/releases/" + w.release + "/reports") },
	"POST /api/v1/updates/reports": func(w *largest) []request {
		return status(413, []request{{path: "/updates/reports", body: []byte(`{"version":"` + strings.Repeat("1", 1<<20) + `"}`), headers: []string{"Content-Type: application/json"}}})
	},
	"GET /api/v1/updates/adoption": func(w *largest) []request {
		return w.lists("/updates/adoption?from=" + time.Now().UTC().AddDate(0, 0, -390).Format(time.DateOnly))
	},
	"GET /api/v1/updates/feeds/electron/{file}":                          func(w *largest) []request { return anybody("/updates/feeds/electron/latest-mac.yml") },
	"GET /api/v1/updates/feeds/squirrel/darwin/{arch}/{version}":         func(w *largest) []request { return anybody("/updates/feeds/squirrel/darwin/arm64/0.0.1") },
	"GET /api/v1/updates/feeds/squirrel/win32/{arch}/{version}/RELEASES": func(w *largest) []request { return anybody("/updates/feeds/squirrel/win32/x64/0.0.1/RELEASES") },
	"GET /api/v1/updates/feeds/tauri/{target}/{arch}/{version}":          func(w *largest) []request { return anybody("/updates/feeds/tauri/linux/x86_64/0.0.1") },

	"GET /api/v1/admin/health":             func(w *largest) []request { return operating(w.get("/admin/health")...) },
	"GET /api/v1/admin/organisations":      func(w *largest) []request { return operating(w.lists("/admin/organisations")...) },
	"GET /api/v1/admin/organisations/{id}": func(w *largest) []request { return operating(w.get("/admin/organisations/" + w.ada.Org)...) },
	"GET /api/v1/admin/doctor":             func(w *largest) []request { return operating(w.get("/admin/doctor")...) },
	"GET /api/v1/admin/organisations/{id}/members": func(w *largest) []request {
		return operating(w.lists("/admin/organisations/" + w.ada.Org + "/members")...)
	},
	"PUT /api/v1/admin/organisations/{id}/subscription": func(w *largest) []request {
		return operating(w.write("/admin/organisations/"+w.ada.Org+"/subscription", 200, fields{"plan": "ENTERPRISE"})...)
	},
	"PUT /api/v1/admin/organisations/{id}/members/{userId}/role": func(w *largest) []request {
		return operating(w.write("/admin/organisations/"+w.ada.Org+"/members/"+w.carl.User+"/role", 200, fields{"role": "ADMIN"})...)
	},

	"GET /docs/{file}": func(w *largest) []request { return anybody("//docs/" + w.script) },
}

// cost is what a request took.
type cost struct {
	growth int64         // of the process's memory, in bytes
	delay  time.Duration // of another organisation's slowest small request meanwhile
	took   time.Duration
}

func (c cost) String() string {
	return fmt.Sprintf("%.1f MiB, %s for others, %s", float64(c.growth)/(1<<20), c.delay.Round(time.Millisecond), c.took.Round(time.Millisecond))
}

// least returns the least of both in each respect.
func (c cost) least(d cost) cost {
	return cost{min(c.growth, d.growth), min(c.delay, d.delay), min(c.took, d.took)}
}

// within reports whether a request took no more than it may on a machine where a
// bareTransaction takes bare.
func (c cost) within(bare time.Duration) bool {
	return c.growth < maxGrowth && c.delay < max(maxDelay, maxDelayRatio*bare)
}

// bareTransaction returns how long a transaction of SQLite takes that changes as many rows,
// and adds as many, as one request may, with the driver alone.
func bareTransaction(t testing.TB) time.Duration {
	t.Helper()
	const rows, changes = 100_000, 5_000
	db := must.Do(sql.Open("sqlite", filepath.Join(tempdir.New(t), "bare.db")+"?_pragma=journal_mode(WAL)")).Or(t)
	defer db.Close()
	must.Do(db.Exec(fmt.Sprintf(`
		CREATE TABLE tasks (org INTEGER, id TEXT, priority TEXT, title TEXT, changed INTEGER, PRIMARY KEY (org, id)) WITHOUT ROWID;
		CREATE INDEX tasks_changed ON tasks (org, changed, id);
		CREATE TABLE history (org INTEGER, id TEXT, task TEXT, at INTEGER, reason TEXT, PRIMARY KEY (org, id)) WITHOUT ROWID;
		CREATE INDEX history_task ON history (org, task, at, id);
		WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < %d)
			INSERT INTO tasks SELECT 1, printf('%%036d', i), 'HIGH', hex(zeroblob(200)), i FROM c;`, rows))).Or(t)
	began := time.Now()
	tx := must.Do(db.Begin()).Or(t)
	change := must.Do(tx.Prepare("UPDATE tasks SET priority = 'LOW', changed = ?2 WHERE org = 1 AND id = ?1")).Or(t)
	note := must.Do(tx.Prepare("INSERT INTO history VALUES (1, ?1 || '-', ?1, ?2, ?3)")).Or(t)
	for i := range changes {
		task := fmt.Sprintf("%036d", 1+i*rows/changes)
		must.Do(change.Exec(task, rows+i)).Or(t)
		must.Do(note.Exec(task, rows+i, text(20))).Or(t)
	}
	must.NoError(t, tx.Commit())
	return time.Since(began)
}

// measure sends a request, while another organisation writes and reads, and
// returns what it took. The kernel knows the most that was resident since it was
// told to forget; what is resident of files, such as the program and the
// database, is not the server's.
func (w *largest) measure(t testing.TB, method string, r request) (c cost) {
	t.Helper()
	if anonymous(t, w.server.PID(), "VmRSS") > w.idle+maxGrowth/2 {
		w.restart() // what earlier requests left counts as this one's, and would leave it too little
	}
	w.idle = min(w.idle, anonymous(t, w.server.PID(), "VmRSS"))
	must.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", w.server.PID()), []byte("5"), 0))
	over := make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		small := func(method, path string, body any) {
			before, began := waitsForProcessor(t, w.server.PID()), time.Now()
			if _, _, err := w.ben.Do(method, path, body); err != nil { // one that is refused was delayed as well
				t.Error(err)
			}
			took, waited := time.Since(began), time.Duration(0)
			for thread, wait := range waitsForProcessor(t, w.server.PID()) {
				waited = max(waited, wait-before[thread])
			}
			c.delay = max(c.delay, took-waited)
		}
		for {
			small("POST", "/tasks", fields{"title": "small"})
			small("GET", "/tasks?limit=1", nil)
			select {
			case <-over:
				return
			default:
			}
		}
	})
	began := time.Now()
	w.call(t, method, r)
	c.took = time.Since(began)
	close(over)
	other.Wait()
	if r.exclusive {
		c.delay = 0
	}
	c.growth = anonymous(t, w.server.PID(), "VmHWM") - w.idle
	return c
}

// waitsForProcessor returns how long each thread of a process could have run and had no
// processor, since it began. It reads by system calls: go test keeps a list of the files that
// a test opens by package os, here of millions, and looks at each again at the end.
func waitsForProcessor(t testing.TB, pid int) map[string]time.Duration {
	t.Helper()
	read := func(path string, by func(fd int, to []byte) (int, error)) (all []byte) {
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil { // the thread has ended
			return nil
		}
		defer func() { _ = syscall.Close(fd) }()
		var buffer [4096]byte
		for { // a signal ends a reading of a directory before all of it is read
			n, _ := by(fd, buffer[:])
			if n <= 0 {
				return all
			}
			all = append(all, buffer[:n]...)
		}
	}
	tasks := fmt.Sprintf("/proc/%d/task/", pid)
	_, _, threads := syscall.ParseDirent(read(tasks, syscall.ReadDirent), -1, nil)
	if len(threads) == 0 {
		t.Errorf("process %d has no threads", pid)
	}
	waits := map[string]time.Duration{}
	for _, thread := range threads {
		var ran, waited time.Duration
		if text := read(tasks+thread+"/schedstat", syscall.Read); len(text) > 0 {
			if _, err := fmt.Sscan(string(text), &ran, &waited); err != nil {
				t.Errorf("thread %s: %v", thread, err)
			}
		}
		waits[thread] = waited
	}
	return waits
}

// call sends a request and reads its response as it comes.
func (w *largest) call(t testing.TB, method string, q request) {
	t.Helper()
	content, size := io.Reader(bytes.NewReader(q.body)), int64(len(q.body))
	if q.content != nil {
		content, size = q.content()
	}
	address := w.server.URL + "/api/v1" + q.path
	if path, ok := strings.CutPrefix(q.path, "//"); ok {
		address = w.server.URL + "/" + path
	}
	r := must.Do(http.NewRequestWithContext(t.Context(), method, address, content)).Or(t)
	r.ContentLength = size
	if q.as.Token != "" {
		r.Header.Set("Authorization", "Bearer "+q.as.Token)
	}
	for _, h := range q.headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	a := must.Do(http.DefaultTransport.RoundTrip(r)).Or(t)
	defer a.Body.Close()
	if q.status == 0 {
		q.status = http.StatusOK
	}
	if a.StatusCode != q.status {
		text, _ := io.ReadAll(io.LimitReader(a.Body, 500))
		t.Errorf("%s %.200s is %d instead of %d: %s", method, q.path, a.StatusCode, q.status, text)
	}
	if q.until == "" {
		if _, err := io.Copy(io.Discard, a.Body); err != nil {
			t.Errorf("%s %.200s: %v", method, q.path, err)
		}
		return
	}
	for lines := bufio.NewReader(a.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%s %.200s ended without %s: %v", method, q.path, q.until, err)
		}
		if strings.HasPrefix(line, q.until) {
			return
		}
	}
}

func TestEveryRequestTakesBoundedMemory(t *testing.T) {
	race.Skip(t, "it measures memory")
	rows, guards := routeTable(t)
	for _, row := range rows {
		path, plain := plainRead(row)
		switch {
		case requests[row] != nil:
		case plain && slices.Contains(callers, guards[row]):
			requests[row] = func(w *largest) []request { return w.get(path) }
		case plain:
			requests[row] = func(*largest) []request { return anybody(path) }
		default:
			t.Fatalf("%s is not tried", row)
		}
	}
	for row := range requests {
		if guards[row] == "" {
			t.Errorf("%s is no row", row)
		}
	}
	onEach(t, func(t *testing.T, d *database) { fill(t, d).sweep(rows) },
		"COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_IDENTITY_WEBHOOK_SECRETS="+collabd.WebhookSecret, "COLLAB_STRIPE_WEBHOOK_SECRETS="+collabd.PaymentSecret,
		"COLLAB_CONCURRENCY=requests=100000") // one organisation is filled beside another
}

// sweep measures requests to each row, on one database: first to those that read, and
// last to those that delete, so that each finds what fill has made.
func (w *largest) sweep(rows []string) {
	if w.idle > maxGrowth {
		w.Errorf("an idle server takes %d MiB", w.idle>>20)
	}
	turn := func(row string) int {
		return strings.Index("GET POST PUT PATCH DELETE", strings.Fields(row)[0])
	}
	byTurn := func(a, b string) int { return cmp.Compare(turn(a), turn(b)) }
	for _, row := range slices.SortedStableFunc(slices.Values(rows), byTurn) {
		w.Run(strings.ReplaceAll(row, "/", ":"), func(t *testing.T) {
			method, _, _ := strings.Cut(row, " ")
			afresh := w.reset
			if method == http.MethodGet { // which has changed nothing
				afresh = w.restart
			}
			var most cost
			all := len(requests[row](w))
			if !soak.Full() {
				all = min(all, 1)
			}
			for n := range all {
				// Made anew for each attempt, as a body is read once.
				c := w.measure(t, method, requests[row](w)[n])
				bare := time.Duration(0)
				for i := 1; i < attempts && !c.within(bare); i++ {
					afresh()
					c, bare = c.least(w.measure(t, method, requests[row](w)[n])), bareTransaction(t)
				}
				if !c.within(bare) {
					t.Errorf("%.150s is above the bounds: %s; a bare transaction takes %s", requests[row](w)[n].path, c, bare.Round(time.Millisecond))
				}
				most = cost{max(most.growth, c.growth), max(most.delay, c.delay), max(most.took, c.took)}
			}
			t.Log(most)
		})
	}
}
