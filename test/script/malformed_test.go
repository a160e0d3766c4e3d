package script

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"collab/test/must"
	"collab/test/pages"
	"collab/test/rows"
)

// A malformed request is refused with the status and a message that has the
// field in it, and changes nothing. The request is written as in conversations.
type malformed struct {
	ask    string
	header string // lines of "Name: value", or empty
	body   string
	status int
	field  string
}

// bodied are the endpoints that read a JSON object, each as somebody who may
// call it.
var bodied = []string{
	"POST /api/v1/auth/exchange-token",
	"POST /api/v1/auth/refresh",
	"POST /api/v1/auth/device/token",
	"PATCH /api/v1/org/members/<user:ben>/role as anna",
	"POST /api/v1/org/invite as anna",
	"POST /api/v1/tasks as anna",
	"PATCH /api/v1/tasks/<id:task> as anna",
	"POST /api/v1/tasks/reorder as anna",
	"POST /api/v1/tasks/reprioritize as anna",
	"POST /api/v1/teams as anna",
	"PATCH /api/v1/teams/<id:team> as anna",
	"POST /api/v1/teams/<id:team>/members as anna",
	"POST /api/v1/workspaces as anna",
	"PATCH /api/v1/workspaces/<id:space> as anna",
	"POST /api/v1/workspaces/<id:space>/move as anna",
	"PUT /api/v1/workspaces/order as anna",
	"POST /api/v1/billing/checkout as anna",
	"PUT /api/v1/admin/organisations/<org:acme>/subscription as operator",
	"PUT /api/v1/admin/organisations/<org:acme>/members/<user:ben>/role as operator",
	"PUT /api/v1/sync/profile as anna",
	"PUT /api/v1/sync/org-onboarding as anna",
	"POST /api/v1/chat as anna",
	"POST /api/v1/connectors as anna",
	"POST /api/v1/connectors/<id:shell>/credentials as anna",
	"POST /api/v1/mcp-oauth/start as anna",
	"POST /api/v1/updates as anna",
	"PATCH /api/v1/updates/<id:release> as anna",
}

// uploaded are those that read one among other bodies.
var uploaded = []string{
	"PUT /api/v1/sync/memory/user as anna",
	"PUT /api/v1/sync/memory/workspace/<id:space>/new.md as anna",
	"POST /api/v1/sync/files as anna",
	"PUT /api/v1/sync/files/<id:file> as anna",
}

// broken are bodies that are no JSON object, whatever is asked. adapters/httpapi tests the reader of these endpoints
// with every kind of them.
var broken = []malformed{
	{body: "", status: 400},
	{body: "null", status: 400},
	{body: "{", status: 400},
	{body: "{\"a\":\"\xff\"}", status: 400},
	{body: `{"a":1,"a":2}`, status: 400},
	{header: "Content-Type: text/plain", body: `{"a":1}`, status: 415},
	{header: "Content-Type: multipart/form-data; boundary=x", body: "--x--", status: 415},
	{body: `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, status: 413},
}

// wrong are requests whose parts are wrong.
var wrong = []malformed{
	// What each field may be.
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":["x"]}`, 400, "identityToken"},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":""}`, 400, "identityToken"},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"x","userName":1}`, 400, "userName"},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"x","userEmail":[]}`, 400, "userEmail"},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"x","userAvatarUrl":{}}`, 400, "userAvatarUrl"},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"x","orgName":false}`, 400, "orgName"},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"x","orgSlug":1.5}`, 400, "orgSlug"},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"a.b.c"}`, 401, ""},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"<repeat:100000:x>"}`, 401, ""},
	{"POST /api/v1/auth/device", "", `{"client_name":1}`, 400, "client_name"},
	{"POST /api/v1/auth/device", "", `{"client_name":"<repeat:201:n>"}`, 400, "client_name"},
	{"POST /api/v1/auth/device", "", `{"client_name":"<repeat:9000:n>"}`, 413, ""},
	{"POST /api/v1/auth/device", "Content-Type: text/plain", `client_name=x`, 415, ""},
	{"POST /api/v1/auth/device", "Content-Type: application/x-www-form-urlencoded", `client_name=x&client_name=y`, 400, "client_name"},
	{"POST /api/v1/auth/device", "Content-Type: application/x-www-form-urlencoded", `client_name=%zz`, 400, ""},
	{"POST /api/v1/auth/device/token", "", `{"device_code":null}`, 400, "device_code"},
	{"POST /api/v1/auth/device/token", "Content-Type: application/x-www-form-urlencoded", `grant_type=x`, 400, "device_code"},
	{"POST /api/v1/auth/device/token", "Content-Type: application/x-www-form-urlencoded", `grant_type=password&device_code=x`, 400, "grant_type"},
	{"POST /api/v1/auth/device/token", "", `{"device_code":"x"}`, 400, "device_code"},
	{"GET /api/v1/auth/device?user_code=<repeat:5000:B>", "", "", 404, ""},
	{"GET /api/v1/auth/device?user_code=BCDF-GHJK&user_code=BCDF-GHJK", "", "", 400, "user_code"},
	{"POST /api/v1/auth/device/decision", "", `{"user_code":"x"}`, 415, ""},
	{"POST /api/v1/auth/device/decision", "Content-Type: application/x-www-form-urlencoded", `user_code=BCDF-GHJK&token=x`, 400, "decision"},
	{"POST /api/v1/auth/device/decision", "Content-Type: application/x-www-form-urlencoded", `user_code=BCDF-GHJK&token=x&decision=allow`, 403, ""},
	{"POST /api/v1/auth/refresh", "", `{"token":null}`, 400, "token"},
	{"POST /api/v1/auth/refresh", "", `{"token":"a.b.c"}`, 401, ""},

	{"PATCH /api/v1/org/members/<user:ben>/role as anna", "", `{"role":1}`, 400, "role"},
	{"POST /api/v1/org/invite as anna", "", `{"email":1,"role":"MEMBER"}`, 400, "email"},
	{"POST /api/v1/org/invite as anna", "", `{"email":"new@example.com","role":null}`, 400, "role"},

	{"POST /api/v1/tasks as anna", "", `{"title":"x","assigneeId":"<user:otto>"}`, 400, "assigneeId"},
	{"POST /api/v1/tasks as anna", "", `{"title":"x","workspaceId":"<id:foreignspace>"}`, 400, "workspaceId"},

	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"title":1}`, 400, "title"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"description":[]}`, 400, "description"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"status":"DOING"}`, 400, "status"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"priority":null}`, 400, "priority"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"assigneeId":"<user:otto>"}`, 400, "assigneeId"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"workspaceId":"<id:foreignspace>"}`, 400, "workspaceId"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"dueDate":"never"}`, 400, "dueDate"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"tags":"a"}`, 400, "tags"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "", `{"metadata":"x"}`, 400, "metadata"},
	{"PATCH /api/v1/tasks/<id:task> as anna", "If-Match: \"999\"", `{"title":"y"}`, 412, ""},
	{"DELETE /api/v1/tasks/<id:task> as anna", "If-Match: \"999\"", "", 412, ""},
	{"DELETE /api/v1/tasks/%20 as anna", "", "", 404, ""},
	{"GET /api/v1/tasks/%FF as anna", "", "", 404, ""},

	{"POST /api/v1/tasks/reorder as anna", "", `{"taskIds":{}}`, 400, "taskIds"},
	{"POST /api/v1/tasks/reorder as anna", "", `{"taskIds":[1]}`, 400, "taskIds"},
	{"POST /api/v1/tasks/reorder as anna", "", `{"taskIds":["<id:task>","<id:foreigntask>"]}`, 404, ""},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":null}`, 400, "changes"},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":"all"}`, 400, "changes"},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[1]}`, 400, "changes[0]"},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"taskId":"x","reason":"r"}]}`, 404, ""},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"taskId":"x","reason":"r"},{"taskId":"x"}]}`, 400, "changes[1].reason"},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"reason":"r"}]}`, 400, "changes[0].taskId"},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"taskId":"<id:task>","reason":"r","sortOrder":1.5}]}`, 400, "changes[0].sortOrder"},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"taskId":"<id:task>","reason":"r","sortOrder":99999999999999999999}]}`, 400, "changes[0].sortOrder"},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"taskId":"<id:task>","reason":" "}]}`, 400, ""},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"taskId":"<id:task>","reason":"r","sortOrder":1000000001}]}`, 400, ""},
	{"POST /api/v1/tasks/reprioritize as anna", "", `{"changes":[{"taskId":"<id:task>","reason":"r","priority":"LOW"},{"taskId":"<id:foreigntask>","reason":"r"}]}`, 404, ""},

	{"POST /api/v1/teams as anna", "", `{"name":null}`, 400, "name"},
	{"POST /api/v1/teams as anna", "", `{"name":"x","description":"<repeat:10001:d>"}`, 400, "description"},
	{"PATCH /api/v1/teams/<id:team> as anna", "", `{"name":["x"]}`, 400, "name"},
	{"PATCH /api/v1/teams/<id:team> as anna", "", `{"name":" "}`, 400, "name"},
	{"PATCH /api/v1/teams/<id:team> as anna", "", `{"description":7}`, 400, "description"},
	{"POST /api/v1/teams/<id:team>/members as anna", "", `{"userId":7}`, 400, "userId"},
	{"POST /api/v1/teams/<id:team>/members as anna", "", `{"userId":"<user:otto>"}`, 400, "userId"},
	{"DELETE /api/v1/teams/<id:team>/members/<user:otto> as anna", "", "", 404, ""},

	{"POST /api/v1/workspaces as anna", "", `{"name":"x","teamId":7}`, 400, "teamId"},
	{"POST /api/v1/workspaces as anna", "", `{"name":"x","teamId":"<id:foreignteam>"}`, 400, "teamId"},
	{"POST /api/v1/workspaces as anna", "", `{"name":7,"teamId":"<id:team>"}`, 400, "name"},
	{"POST /api/v1/workspaces as anna", "", `{"name":"x","teamId":"<id:team>","description":{}}`, 400, "description"},
	{"PATCH /api/v1/workspaces/<id:space> as anna", "", `{"name":""}`, 400, "name"},
	{"PATCH /api/v1/workspaces/<id:space> as anna", "", `{"name":null}`, 400, "name"},
	{"PATCH /api/v1/workspaces/<id:space> as anna", "", `{"description":true}`, 400, "description"},
	{"POST /api/v1/workspaces/<id:space>/move as anna", "", `{"targetTeamId":1}`, 400, "targetTeamId"},
	{"POST /api/v1/workspaces/<id:space>/move as anna", "", `{"targetTeamId":"<id:foreignteam>"}`, 400, "targetTeamId"},
	{"PUT /api/v1/workspaces/order as anna", "", `{"order":null}`, 400, "order"},
	{"PUT /api/v1/workspaces/order as anna", "", `{"order":["<id:foreignspace>"]}`, 404, ""},

	{"PUT /api/v1/admin/organisations/<org:acme>/subscription as operator", "", `{"plan":1}`, 400, "plan"},
	{"PUT /api/v1/admin/organisations/<org:acme>/subscription as operator", "", `{"plan":"PREMIUM","seats":1e99}`, 400, "seats"},
	{"PUT /api/v1/admin/organisations/<org:acme>/subscription as operator", "", `{"plan":"PREMIUM","currentPeriodEnd":1893456000}`, 400, "currentPeriodEnd"},
	{"PUT /api/v1/admin/organisations/<org:acme>/members/<user:ben>/role as operator", "", `{"role":"root"}`, 400, "role"},
	{"PUT /api/v1/admin/organisations/<org:acme>/members/<user:ben>/role as operator", "", `{}`, 400, "role"},
	{"PUT /api/v1/admin/organisations/<org:acme>/subscription", "X-Admin-Secret: <repeat:5000:s>", `{"plan":"PREMIUM"}`, 401, ""},

	{"POST /api/v1/chat as anna", "", `{}`, 400, "message"},
	{"POST /api/v1/chat as anna", "", `{"message":"x","history":[{"role":"user","content":"<repeat:400001:x>"}]}`, 400, "history[0].content[0]"},
	{"POST /api/v1/chat as otto", "", `{"message":"x"}`, 403, ""},
	{"POST /api/v1/chat as anna", "Authorization: Bearer x", `{"message":"x"}`, 401, ""},
	{"GET /api/v1/metering/daily?by=day as anna", "", "", 400, "by"},
	{"GET /api/v1/metering/daily?by=user&userId=0198a1b2-0000-7000-8000-000000000003 as anna", "", "", 400, "userId"},
	{"GET /api/v1/metering/daily?from=2025-01-01&to=2026-12-31 as anna", "", "", 400, "from"},
	{"GET /api/v1/metering/daily?cursor=YS9i as anna", "", "", 400, "cursor"},

	{"POST /api/v1/connectors as anna", "", `{"providerId":null}`, 400, "providerId"},
	{"POST /api/v1/connectors as anna", "", `{"providerId":"shell","name":7}`, 400, "name"},
	{"POST /api/v1/connectors as anna", "", `{"providerId":"shell","config":true}`, 400, "config"},
	{"POST /api/v1/connectors as anna", "", `{"providerId":"shell","config":{"k":<repeat:200:[>1<repeat:200:]>}}`, 400, ""},
	{"POST /api/v1/connectors as anna", "", `{"providerId":"elsewhere","config":{"url":""}}`, 400, "config.url"},
	{"POST /api/v1/connectors as anna", "", `{"providerId":"elsewhere","config":{"url":"javascript:alert(1)"}}`, 400, "config.url"},
	{"POST /api/v1/connectors as anna", "", `{"providerId":"elsewhere","config":{"url":"https://example.com:99999/mcp"}}`, 400, "config.url"},
	{"POST /api/v1/connectors/<id:shell>/credentials as anna", "", `{"Credentials":{"apiKey":"k"}}`, 400, "credentials"},
	{"POST /api/v1/connectors/<id:shell>/credentials as anna", "", `{"credentials":{"apikey":"k"}}`, 400, "credentials.apiKey"},
	{"GET /api/v1/connectors/%FF/credentials as anna", "", "", 404, ""},
	{"GET /api/v1/connectors?limit=x as anna", "", "", 400, "limit"},
	{"GET /api/v1/connectors?cursor=x as anna", "", "", 400, "cursor"},
	{"POST /api/v1/mcp-oauth/start as anna", "", `{"instanceId":["x"]}`, 400, "instanceId"},
	{"POST /api/v1/mcp-oauth/start as anna", "", `{"instanceId":"<id:foreignshell>"}`, 400, "instanceId"},
	{"POST /api/v1/mcp-oauth/start as anna", "", `{"providerId":{}}`, 400, "providerId"},
	{"GET /api/v1/mcp-oauth/poll?state= as anna", "", "", 400, "state"},
	{"GET /api/v1/mcp-oauth/poll?state=%zz as anna", "", "", 400, ""},
	{"GET /api/v1/mcp-oauth/poll?state=%00 as anna", "", "", 404, ""},
	{"GET /api/v1/mcp-oauth/callback?state=%FF&code=%00", "Cookie: collab_confirmed_=x", "", 404, ""},
	{"GET /api/v1/mcp-oauth/callback?state=x&state=x&code=c", "", "", 400, "state"},
	{"GET /api/v1/mcp-oauth/callback?state=x&more=a&more=b", "", "", 400, "more"},
	{"GET /api/v1/mcp-oauth/authorize?state=<repeat:5000:s>", "", "", 400, "state"},
	{"POST /api/v1/mcp-oauth/authorize", "", `{"state":"x"}`, 415, ""},
	{"POST /api/v1/mcp-oauth/authorize", "Content-Type: application/x-www-form-urlencoded", `state=%zz`, 400, ""},
	{"POST /api/v1/mcp-oauth/authorize", "Content-Type: application/x-www-form-urlencoded", `state=x&state=y`, 400, "state"},
	{"POST /api/v1/mcp-oauth/authorize", "Content-Type: application/x-www-form-urlencoded", `state=x&token=y`, 403, ""},
	{"POST /api/v1/mcp-oauth/authorize", "Content-Type: multipart/form-data; boundary=x", `--x--`, 415, ""},

	// Queries.
	{"GET /api/v1/tasks?status=%FF as anna", "", "", 400, ""},
	{"GET /api/v1/tasks?STATUS=TODO as anna", "", "", 400, "STATUS"},
	{"GET /api/v1/teams?limit=x as anna", "", "", 400, "limit"},
	{"GET /api/v1/teams?cursor=x as anna", "", "", 400, "cursor"},
	{"GET /api/v1/teams/<id:team>/members?limit=0 as anna", "", "", 400, "limit"},
	{"GET /api/v1/workspaces?cursor=x as anna", "", "", 400, "cursor"},
	{"GET /api/v1/workspaces?teamId=<id:team>&teamId=<id:team> as anna", "", "", 400, "teamId"},
	{"GET /api/v1/org/members?cursor=x as anna", "", "", 400, "cursor"},
	{"GET /api/v1/org/members/former?cursor=x as anna", "", "", 400, "cursor"},
	{"GET /api/v1/org/audit?cursor=x as anna", "", "", 400, "cursor"},
	{"GET /api/v1/org/audit?target= as anna", "", "", 400, "target"},
	{"GET /api/v1/org/audit?target=%00 as anna", "", "", 400, "target"},
	{"GET /api/v1/org/audit?from=yesterday as anna", "", "", 400, "from"},
	{"GET /api/v1/org/audit?to=10000-01-01 as anna", "", "", 400, "to"},
	{"GET /api/v1/tasks/<id:task>/history?limit=0 as anna", "", "", 400, "limit"},
	{"GET /api/v1/admin/organisations?cursor=x as operator", "", "", 400, "cursor"},
	{"GET /api/v1/auth/cli-auth?port=65536&state=s", "", "", 400, "port"},
	{"GET /api/v1/auth/cli-auth?port=4711&state=%0d%0aSet-Cookie:x", "", "", 400, "state"},
	{"GET /api/v1/auth/cli-callback", "", "", 400, ""},
	{"GET /api/v1/auth/cli-callback?port=4711&state=s", "Cookie: collab_cli=AAAA", "", 400, ""},

	// Headers.
	{"GET /api/v1/auth/me", "Authorization: Bearer <service:anna> <service:anna>", "", 401, ""},
	{"GET /api/v1/auth/me", "Authorization: Bearer <repeat:20000:x>", "", 401, ""},
	{"GET /api/v1/auth/me", "Cookie: token=<service:anna>", "", 401, ""},
	{"GET /api/v1/auth/me?token=<service:anna>", "", "", 401, ""},

	// Files.
	{"POST /api/v1/sync/files as anna", "", `{"path":"a.md","content":"x","workspaceId":"<id:foreignspace>"}`, 400, "workspaceId"},
	{"POST /api/v1/sync/files as anna", "", `{"path":"a.md","content":"x","kind":"TEAM_MEMORY","teamId":"<id:foreignteam>"}`, 400, "teamId"},
	{"POST /api/v1/sync/files as anna", "", `{"path":"a.md","content":"x","mimeType":"text/html\r\nSet-Cookie: a=b"}`, 400, "mimeType"},
	{"POST /api/v1/sync/files as anna", "", `{"path":"File.MD","content":"x"}`, 409, ""},
	{"POST /api/v1/sync/files as anna", "", `{"path":"file.md/below","content":"x"}`, 409, ""},
	{"POST /api/v1/sync/files as anna", "", `{"path":"org.json","kind":"HUB_MEMORY","content":"{}"}`, 409, ""},
	{"POST /api/v1/sync/files?path=a.md&expectedVersion=+0 as anna", "Content-Type: text/plain", "x", 400, "expectedVersion"},

	{"PUT /api/v1/sync/files/<id:file> as anna", "", `{"content":null}`, 400, "content"},
	{"PUT /api/v1/sync/files/<id:file> as anna", "", `{"content":"y","expectedVersion":2}`, 409, ""},
	{"PUT /api/v1/sync/files/<id:file> as anna", "", `{"content":"y","checksum":"<checksum:z>"}`, 400, "checksum"},
	{"PUT /api/v1/sync/files/<id:file> as anna", "", `{"content":"y","mimeType":"x"}`, 400, "mimeType"},
	{"DELETE /api/v1/sync/files/<id:file>?expectedVersion= as anna", "", "", 400, "expectedVersion"},
	{"DELETE /api/v1/sync/files/%FF as anna", "", "", 404, ""},
	{"GET /api/v1/sync/files/<id:file>?raw=yes as anna", "", "", 400, "raw"},
	{"GET /api/v1/sync/files/<id:file>?raw=1 as anna", "Range: bytes=100-", "", 416, "Range"},
	{"GET /api/v1/sync/files?kind=MEMORY as anna", "", "", 400, "kind"},
	{"GET /api/v1/sync/files?scope= as anna", "", "", 400, "scope"},
	{"GET /api/v1/sync/files?teamId=<id:team> as anna", "", "", 400, "teamId"},
	{"GET /api/v1/sync/files?prefix=a%00 as anna", "", "", 400, "prefix"},
	{"GET /api/v1/sync/files?cursor=<repeat:5000:A> as anna", "", "", 400, "cursor"},
	{"GET /api/v1/sync/files?limit=1e3 as anna", "", "", 400, "limit"},
	{"GET /api/v1/sync/manifest?since=%00 as anna", "", "", 400, "since"},
	{"GET /api/v1/sync/manifest?since=7-1 as anna", "", "", 410, ""},
	{"GET /api/v1/sync/manifest?since= as anna", "", "", 400, "since"},
	{"GET /api/v1/sync/manifest?since=1-1&limit=5 as anna", "", "", 400, "limit"},
	{"GET /api/v1/sync/manifest?since=1-1&cursor=YQ as anna", "", "", 400, "cursor"},
	{"GET /api/v1/sync/memory/workspace/<id:space>?limit=0 as anna", "", "", 400, "limit"},
	{"GET /api/v1/sync/memory/workspace/<id:space>/con as anna", "", "", 400, "fileName"},
	{"GET /api/v1/sync/memory/everybody as anna", "", "", 404, ""},
	{"PUT /api/v1/sync/memory/everybody as anna", "", `{"content":"x"}`, 404, ""},
	{"PUT /api/v1/sync/memory/user as anna", "", `{"content":1}`, 400, "content"},
	{"PUT /api/v1/sync/memory/user as anna", "", `{"content":"x","expectedVersion":1}`, 409, ""},
	{"PUT /api/v1/sync/memory/user as anna", "", `{"content":"x","expectedVersion":true}`, 400, "expectedVersion"},
	{"PUT /api/v1/sync/memory/org as anna", "Content-Type: text/markdown", "<bytes:ff>", 400, ""},
	{"PUT /api/v1/sync/memory/workspace/<id:space>/nul as anna", "", `{"content":"x"}`, 400, "fileName"},
	{"PUT /api/v1/sync/profile?expectedVersion=1 as anna", "", `{}`, 409, ""},
	{"PUT /api/v1/sync/org-onboarding?expectedVersion=1 as anna", "", `{}`, 409, ""},
	{"PUT /api/v1/sync/profile as anna", "If-Match: *", `{}`, 409, ""},

	// Releases.
	{"POST /api/v1/updates as anna", "", `{"version":null,"platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b"}`, 400, "version"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":null,"arch":"X64","downloadUrl":"https://a.example/b"}`, 400, "platform"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":null,"downloadUrl":"https://a.example/b"}`, 400, "arch"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","channel":""}`, 400, "channel"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":null}`, 400, "downloadUrl"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","sha512":1}`, 400, "sha512"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","sha1":true}`, 400, "sha1"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","fileSizeBytes":"1"}`, 400, "fileSizeBytes"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","releaseNotes":1}`, 400, "releaseNotes"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","minOsVersion":11}`, 400, "minOsVersion"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","signature":{}}`, 400, "signature"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","mandatory":1}`, 400, "mandatory"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","rolloutPercentage":-1}`, 400, "rolloutPercentage"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","active":0}`, 400, "active"},
	{"POST /api/v1/updates as anna", "", `{"version":"2.0.0","platform":"LINUX","arch":"X64","downloadUrl":"https://a.example/b","publishedAt":1767225600}`, 400, "publishedAt"},
	{"POST /api/v1/updates as anna", "", `{"version":"v1.0","platform":"linux","arch":"x64","downloadUrl":"https://a.example/b"}`, 409, ""},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"version":null,"active":false}`, 400, "version"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"platform":null,"active":false}`, 400, "platform"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"arch":null,"active":false}`, 400, "arch"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"channel":null,"active":false}`, 400, "channel"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"downloadUrl":null}`, 400, "downloadUrl"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"sha512":"x"}`, 400, "sha512"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"sha1":7}`, 400, "sha1"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"fileSizeBytes":-1}`, 400, "fileSizeBytes"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"releaseNotes":"<repeat:65537:n>"}`, 400, "releaseNotes"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"minOsVersion":[]}`, 400, "minOsVersion"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"signature":"\u0000"}`, 400, "signature"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"mandatory":null}`, 400, "mandatory"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"rolloutPercentage":null}`, 400, "rolloutPercentage"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"active":null}`, 400, "active"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"publishedAt":null}`, 400, "publishedAt"},
	{"GET /api/v1/updates/check", "", "", 400, "version"},
	{"GET /api/v1/updates/check?version=1.0.0&arch=x64", "", "", 400, "platform"},
	{"GET /api/v1/updates/check?version=latest&platform=linux&arch=x64", "", "", 400, "version"},
	{"GET /api/v1/updates/check?version=1.0.0&platform=linux%00&arch=x64", "", "", 400, "platform"},
	{"GET /api/v1/updates/check?version=1.0.0&platform=linux&arch=x64;channel=beta", "", "", 400, ""},
	{"GET /api/v1/updates/check?version=1.0.0&platform=linux&arch=x64&clientId=<repeat:5000:a>", "", "", 400, "clientId"},
	{"GET /api/v1/updates/releases?limit=1e3 as anna", "", "", 400, "limit"},
	{"GET /api/v1/updates/releases/<id:release>/rollout as anna", "", "", 400, "clientIds"},
	{"GET /api/v1/updates/releases/<id:release>/rollout?clientIds= as anna", "", "", 400, "clientIds"},
	{"GET /api/v1/updates/releases/<id:release>/rollout?clientIds=a<repeat:100:,b> as anna", "", "", 400, "clientIds"},
	{"GET /api/v1/updates/releases/<id:release>/reports?cursor=YQ as anna", "", "", 400, "cursor"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"failureLimit":100}`, 400, "failureLimit"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"failureMinimum":1}`, 400, "failureMinimum"},
	{"PATCH /api/v1/updates/<id:release> as anna", "", `{"paused":null}`, 400, "paused"},
	{"POST /api/v1/updates/reports", "", `{"version":"1.0.0","platform":"linux","arch":"x64"}`, 400, "outcome"},
	{"POST /api/v1/updates/reports", "", `{"version":"1.0.0","platform":"linux","arch":"x64","outcome":"maybe"}`, 400, "outcome"},
	{"POST /api/v1/updates/reports", "", `{"version":"1.0.0","platform":"linux","arch":"x64","outcome":"<repeat:5000:a>"}`, 413, ""},
	{"GET /api/v1/updates/adoption?from=0000-00-00 as anna", "", "", 400, "from"},
	{"GET /api/v1/updates/adoption?to=2026-01-01' as anna", "", "", 400, "to"},

	// References, names and bodies of each kind.
	{"POST /api/v1/sync/files?path=a.bin as anna", "Content-Type: application/octet-stream\nUpload-Complete: ?0", "one", 400, "Upload-Complete"},
	{"POST /api/v1/sync/resumable-uploads?path=a.bin as anna", "Upload-Length: 3", "", 400, "Upload-Complete"},
	{"POST /api/v1/sync/resumable-uploads?path=a.bin as anna", "Upload-Complete: ?0", "", 400, "Upload-Length"},
	{"POST /api/v1/sync/resumable-uploads?path=a.bin as anna", "Upload-Complete: ?0\nUpload-Length: -1", "", 400, "Upload-Length"},
	{"POST /api/v1/sync/resumable-uploads?path=a.bin as anna", "Upload-Complete: ?1\nUpload-Length: 4", "one", 400, "Upload-Length"},
	{"POST /api/v1/sync/resumable-uploads?path=a.bin as anna", "Upload-Complete: ?0\nUpload-Length: 3", "four", 400, "Upload-Length"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","checksum":"<checksum:x>"}`, 400, "size"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":-1,"checksum":"<checksum:x>"}`, 400, "size"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":9223372036854775808,"checksum":"<checksum:x>"}`, 400, "size"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":1}`, 400, "checksum"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":1,"checksum":"abc"}`, 400, "checksum"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":1,"checksum":"<checksum:x>","kind":"NONE"}`, 400, "kind"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":1,"checksum":"<checksum:x>","expectedVersion":-1}`, 400, "expectedVersion"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":1,"checksum":"<checksum:x>","fileId":"<id:file>"}`, 400, "path"},
	{"POST /api/v1/sync/uploads as anna", "", `{"path":"x.md","size":1,"checksum":"<checksum:x>","workspaceId":"x"}`, 400, "workspaceId"},
	{"POST /api/v1/tasks as ben", "", `{"title":"x","assigneeId":"<unknown>"}`, 400, "assigneeId"},
	{"POST /api/v1/tasks as ben", "", `{"title":"x","workspaceId":"<unknown>"}`, 400, "workspaceId"},
	{"POST /api/v1/tasks as ben", "", `{"title":"x","workspaceId":"<id:space>"}`, 400, "workspaceId"},
	{"PATCH /api/v1/tasks/<id:task> as ben", "", `{"workspaceId":"<id:space>"}`, 400, "workspaceId"},
	{"GET /api/v1/teams/1 as anna", "", "", 404, ""},
	{"GET /api/v1/teams/1/members as anna", "", "", 404, ""},
	{"POST /api/v1/workspaces as anna", "", `{"teamId":"<id:team>"}`, 400, "name"},
	{"POST /api/v1/workspaces as anna", "", `{"name":"","teamId":"<id:team>"}`, 400, "name"},
	{"POST /api/v1/workspaces as anna", "", `{"name":"x","teamId":"<unknown>"}`, 400, "teamId"},
	{"POST /api/v1/workspaces as ben", "", `{"name":"x","teamId":"<id:team>"}`, 400, "teamId"},
	{"PATCH /api/v1/org/members/me/role as anna", "", `{"role":"ADMIN"}`, 404, ""},
	{"GET /api/v1/sync/files/nonsense as anna", "", "", 404, ""},
	{"DELETE /api/v1/sync/files/%00 as anna", "", "", 404, ""},
	{"GET /api/v1/updates/check?version=1.0.0&platform=linux", "", "", 400, "arch"},
	{"GET /api/v1/updates/check?version=1.0.0&platform=linux&arch=ia32", "", "", 400, "arch"},
	{"GET /api/v1/updates/check?version=1.0.0&platform=linux&arch=x64&channel=nightly", "", "", 400, "channel"},
	{"GET /api/v1/updates/check?version=1.0.0&platform=linux&arch=x64&channel=", "", "", 400, "channel"},
	{"GET /api/v1/updates/adoption?platform=all as anna", "", "", 400, "platform"},
	{"GET /api/v1/updates/adoption?channel=x as anna", "", "", 400, "channel"},
	{"GET /api/v1/updates/adoption?limit=0 as anna", "", "", 400, "limit"},
	{"POST /api/v1/sync/batch as anna", "", `{"op":"put","path":"a.md","content":"x"}`, 415, ""},
	{"POST /api/v1/sync/batch as anna", "Content-Type: application/x-ndjson", "", 400, ""},
	{"POST /api/v1/sync/batch as anna", "Content-Type: application/x-ndjson", `<repeat:16777217:x>`, 413, ""},
	{"POST /api/v1/sync/batch?path=a.md as anna", "Content-Type: application/x-ndjson", `{"op":"put","path":"a.md","content":"x"}`, 400, ""},
	{"POST /api/v1/sync/batch/read as anna", "", `{}`, 400, "files"},
	{"POST /api/v1/sync/batch/read as anna", "", `{"files":[]}`, 400, "files"},
	{"POST /api/v1/sync/batch/read as anna", "", `{"files":[{"id":"x"},{"id":7}]}`, 400, "files[1].id"},
	{"POST /api/v1/sync/batch/read as anna", "", `{"files":[{"id":"x","expectedVersion":-1}]}`, 400, "files[0].expectedVersion"},
	{"PUT /api/v1/sync/memory/user as anna", "Content-Type: text/plain", `a<bytes:e282>`, 400, ""},
	{"PUT /api/v1/sync/memory/user as anna", "Content-Type: text/plain", `<repeat:1048577:m>`, 413, ""},
	{"PUT /api/v1/sync/profile?expectedVersion=-1 as anna", "", `{}`, 400, "expectedVersion"},
	{"PUT /api/v1/sync/profile as anna", "If-Match: nonsense", `{}`, 400, "If-Match"},
	{"POST /api/v1/sync/files as anna", "", `{"path":"h","content":"x","kind":"TEMPLATE","workspaceId":"<id:space>"}`, 400, "workspaceId"},
	{"POST /api/v1/sync/files as anna", "", `{"path":"h","content":"x","kind":"ARTIFACT","teamId":"<id:team>"}`, 400, "teamId"},
	{"POST /api/v1/sync/files as anna", "", `{"path":"h","content":"x","scope":"PERSONAL","teamId":"<id:team>"}`, 400, "teamId"},
	{"POST /api/v1/sync/files as ben", "", `{"path":"h","content":"x","workspaceId":"<id:space>"}`, 400, "workspaceId"},
	{"POST /api/v1/sync/files as ben", "", `{"path":"h","content":"x","scope":"PERSONAL","workspaceId":"<id:space>"}`, 400, "workspaceId"},
	{"POST /api/v1/sync/files as ben", "", `{"path":"h","content":"x","kind":"TEAM_MEMORY","teamId":"<id:team>"}`, 400, "teamId"},
	{"POST /api/v1/sync/files as anna", "", `{"path":"h","content":"x","workspaceId":"<unknown>"}`, 400, "workspaceId"},
	{"GET /api/v1/sync/manifest?cursor=x as anna", "", "", 400, "cursor"},
	{"GET /api/v1/nothing as anna", "", "", 404, ""},
	{"PUT /api/v1/tasks", "", "", 405, ""},
	{"POST /api/v1/auth/exchange-token", "", `{"identityToken":"<service:anna>"}`, 401, ""},
	{"POST /api/v1/auth/webhook delivered w7", "", `{"object":"event","type":"user.created","timestamp":1789999990}`, 400, ""},
	{"POST /api/v1/auth/webhook delivered w8", "", `[]`, 400, ""},
	{"POST /api/v1/billing/webhook signed", "", `half of {`, 400, "body"},
	{"POST /api/v1/billing/webhook signed", "", `{"id":"evt_m","type":"customer.subscription.updated","data":{"object":{}}}`, 400, "data.object.id"},
	{"POST /api/v1/billing/checkout as anna", "", `{"plan":"FREE"}`, 400, "plan"},
	{"POST /api/v1/billing/checkout as anna", "", `{"plan":null}`, 400, "plan"},
	{"POST /api/v1/billing/checkout as anna", "", `{"plan":1}`, 400, "plan"},
	{"POST /api/v1/billing/checkout as anna", "", `{}`, 400, "plan"},

	// Webhooks.
	{"POST /api/v1/auth/webhook", "", `{"type":"user.created","data":{"id":"user_w"}}`, 401, ""},
	{"POST /api/v1/auth/webhook delivered w1 with a wrong secret", "", `{"type":"user.created","data":{"id":"user_w"}}`, 401, ""},
	{"POST /api/v1/auth/webhook delivered w2 6m late", "", `{"type":"user.created","data":{"id":"user_w"}}`, 401, ""},
	{"POST /api/v1/auth/webhook delivered w6", "", ``, 400, ""},
	{"POST /api/v1/auth/webhook delivered w11", "", `{"padding":"<repeat:1048576:p>"}`, 413, ""},
}

// outsiders are people of the setting whom a guard does not admit.
var outsiders = map[string]string{"member": "nora", "writer": "vera", "manager": "ben", "owner": "adam"}

// foreign are records of another organisation, by the segment of a path that is before their id.
var foreign = map[string]string{
	"members": "<user:otto>", "tasks": "<id:foreigntask>", "teams": "<id:foreignteam>", "workspaces": "<id:foreignspace>",
	"workspace": "<id:foreignspace>", "files": "<id:foreignfile>", "connectors": "<id:foreignshell>",
}

// complete is a body that each endpoint with an id in its path accepts, as it ignores members that it does not know.
const complete = `{"role":"ADMIN","title":"x","name":"x","userId":"<user:ben>","targetTeamId":"<id:team>","content":"x","path":"x",` +
	`"credentials":{"apiKey":"k"},"active":true,"plan":"PREMIUM"}`

// refused returns requests to each endpoint with a guard: by a caller whom the guard does not admit, and for a record
// that does not exist or is of another organisation.
func refused(t *testing.T) (cases []malformed) {
	segment := regexp.MustCompile(`(\w+)/\{\w+\}`)
	for _, r := range pages.Routes(t) {
		path := strings.NewReplacer("{version}", "1", "{fileName}", "a.md", "/rollout", "/rollout?clientIds=c").Replace(r.Path)
		ask := func(id, caller string) string {
			return r.Method + " " + segment.ReplaceAllString(path, "$1/"+id) + " as " + caller
		}
		caller, outsider := "anna", outsiders[r.Guard]
		switch {
		case outsider != "":
			cases = append(cases, malformed{ask("<unknown>", outsider), "", "", 403, ""})
		case r.Guard == "operator":
			caller = "operator"
		case r.Guard != "caller":
			continue
		}
		m := segment.FindStringSubmatch(path)
		if m == nil {
			continue
		}
		header, body := "", complete
		switch {
		case r.Method == "GET" || r.Method == "DELETE":
			body = ""
		case m[1] == "uploads" && r.Method == "PATCH":
			header = "Content-Type: application/partial-upload\nUpload-Complete: ?0\nUpload-Offset: 0"
		}
		cases = append(cases, malformed{ask("<unknown>", caller), header, body, 404, ""})
		if id := foreign[m[1]]; id != "" {
			cases = append(cases, malformed{ask(id, caller), header, body, 404, ""})
		}
	}
	return cases
}

// setting makes the records that malformed requests name.
const setting = `
== Setting
* anna signs in to acme as owner
* ben signs in to acme as member
* adam signs in to acme as admin
* vera signs in to acme as viewer
* nora signs in
* otto signs in to other as owner
> PUT /api/v1/admin/organisations/<org:acme>/subscription as operator
> {"plan": "ENTERPRISE"}
< 200
> POST /api/v1/teams as anna
> {"name": "Team"}
< 201
< {"id": "<id:team>", ...}
> POST /api/v1/workspaces as anna
> {"name": "Space", "teamId": "<id:team>"}
< 201
< {"id": "<id:space>", ...}
> POST /api/v1/tasks as anna
> {"title": "First"}
< 201
< {"id": "<id:task>", ...}
> POST /api/v1/tasks as anna
> {"title": "Second"}
< 201
< {"id": "<id:second>", ...}
> POST /api/v1/teams as otto
> {"name": "Team"}
< 201
< {"id": "<id:foreignteam>", ...}
> POST /api/v1/workspaces as otto
> {"name": "Space", "teamId": "<id:foreignteam>"}
< 201
< {"id": "<id:foreignspace>", ...}
> POST /api/v1/tasks as otto
> {"title": "Otto's"}
< 201
< {"id": "<id:foreigntask>", ...}
> POST /api/v1/connectors as anna
> {"providerId": "shell"}
< 201
< {"id": "<id:shell>", ...}
> POST /api/v1/connectors as otto
> {"providerId": "shell"}
< 201
< {"id": "<id:foreignshell>", ...}
> POST /api/v1/updates as anna
> {"version": "1.0.0", "platform": "LINUX", "arch": "X64", "downloadUrl": "https://a.example/b"}
< 201
< {"id": "<id:release>", ...}
> POST /api/v1/sync/files as anna
> {"path": "file.md", "content": "content"}
< 201
< {"id": "<id:file>", ...}
> POST /api/v1/sync/files as otto
> {"path": "file.md", "content": "content"}
< 201
< {"id": "<id:foreignfile>", ...}
`

// spread returns a request for each endpoint, which have one decoder, and for each of the bodies.
func spread(endpoints []string, all []malformed) (cases []malformed) {
	for i := range max(len(endpoints), len(all)) {
		b := all[i%len(all)]
		b.ask = endpoints[i%len(endpoints)]
		cases = append(cases, b)
	}
	return cases
}

func testMalformed(t *testing.T, p profile) {
	cases := slices.Concat(wrong, refused(t), spread(bodied, broken), spread(uploaded, slices.DeleteFunc(slices.Clone(broken), func(b malformed) bool {
		return b.header != "" || b.body == "" || b.status != 400 // nothing at all is a file without bytes
	})))
	d := must.Do(parse("setting", setting)).Or(t)
	s := start(t, p)
	talk := newTalk(s, described(t, p.file(documentPath)))
	for _, trouble := range talk.run(d.conversations[0]) {
		t.Fatalf("line %d: %s", trouble.line, trouble.text)
	}
	database := opened(t, s)
	before := rows.All(t, database, announced)
	if len(before) < 10 {
		t.Fatalf("the database has %d rows: this is not where the server keeps them", len(before))
	}
	for _, c := range cases {
		ask := must.Do(parseRequest(c.ask)).Or(t)
		ask.body = c.body
		if c.header != "" {
			for line := range strings.SplitSeq(c.header, "\n") {
				name, value, _ := strings.Cut(line, ":")
				ask.headers = append(ask.headers, header{name: name, value: strings.TrimPrefix(value, " ")})
			}
		}
		request := fmt.Sprintf("%s %s %.200s", c.ask, c.header, c.body)
		for _, trouble := range talk.exchange(ask, &response{status: c.status, field: c.field}) {
			t.Errorf("%s\n%s", request, trouble.text)
		}
	}
	if after := rows.All(t, database, announced); !slices.Equal(before, after) {
		t.Errorf("the requests changed the database:\n%s", cmp.Diff(before, after))
	}
	t.Logf("%d malformed requests on %s", len(cases), p.name)
}
