package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"collab/test/collabd"
	"collab/test/feed"
	"collab/test/must"
)

// register names of a tenant.
const (
	registers         = 4 // tasks and files that all clients of a tenant change
	orderedSize       = 6 // tasks whose order is changed
	orderedWorkspaces = 3 // workspaces that everybody has an order of
)

// versionedValue is a value of a register with what a change of it has to name.
type versionedValue struct{ value, tag string }

// tenant is an organisation of the load.
type tenant struct {
	name      string
	owner     *person
	people    []*person // who write, the owner included
	subject   *person   // whose role changes
	workspace string

	tasks     [registers]string // ids
	files     [registers]string // ids
	ordered   [orderedSize]string
	connector string

	teams  [2]string                 // ids; all people are members of both, the subject comes and goes in the first
	spaces [orderedWorkspaces]string // ids; the first one is renamed and moved between the teams

	received feed.Received

	mu       sync.Mutex
	lastTask [registers]versionedValue // guarded by mu, as all below
	lastFile [registers]versionedValue
	spare    map[string][]record // what may be deleted, by kind
	exports  []*exportRequest
}

// record is a record that a client made.
type record struct{ id, name string }

func (t *tenant) put(kind string, r record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare[kind] = append(t.spare[kind], r)
}

// take takes one of the records of a kind away, so that no other client deletes it.
func (t *tenant) take(kind string, draw int) (r record, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.spare[kind]
	if len(all) == 0 {
		return record{}, false
	}
	i := draw % len(all)
	r = all[i]
	t.spare[kind] = append(all[:i:i], all[i+1:]...)
	return r, true
}

// newOrgs are organisations that were made during the load.
type newOrgs struct {
	mu     sync.Mutex
	owners []*person // guarded by mu
}

func (n *newOrgs) add(p *person) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners = append(n.owners, p)
}

func (n *newOrgs) choose(draw int) *person {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.owners) == 0 {
		return nil
	}
	return n.owners[draw%len(n.owners)]
}

// worker is a client of the load in a tenant.
type worker struct {
	*client
	*tenant
	me       *person
	next     func() request
	provider string // the address of the identity and payment provider
	release  string
	new      *newOrgs
}

// run sends requests until the load ends. A request that has begun is completed until ctx ends.
func (w *worker) run(load, ctx context.Context) {
	for load.Err() == nil {
		r := w.next()
		pause(load, r.Pause)
		if load.Err() == nil {
			w.perform(ctx, r)
		}
	}
}

func (w *worker) perform(ctx context.Context, r request) {
	a, b := r.Draws[0], r.Draws[1]
	unique := fmt.Sprintf("%s %d.%d", strings.ReplaceAll(r.Kind, " ", "-"), w.n, w.sent)
	do := func(q call) response {
		q.kind = r.Kind
		if q.by == nil {
			q.by = w.me
		}
		if q.expect == nil {
			q.expect = []int{200}
		}
		return w.do(ctx, q)
	}
	switch r.Kind {
	case "task made":
		x := do(call{method: "POST", path: "/tasks", body: map[string]any{"title": unique}, key: true, expect: []int{201}})
		w.keep(x, "task", w.owner.org+" "+unique)
	case "team made":
		x := do(call{method: "POST", path: "/teams", by: w.owner, body: map[string]string{"name": unique}, key: true, expect: []int{201}})
		w.keep(x, "team", w.owner.org+" "+unique)
	case "team deleted":
		if t, ok := w.take("team", a); ok {
			x := do(call{method: "DELETE", path: "/teams/" + t.id, by: w.owner, expect: []int{200, 404}})
			w.recordOutcome("team", t.name, outcomeOfDeletion(x), x)
		}
	case "team renamed":
		x := do(call{method: "PATCH", path: "/teams/" + w.teams[0], body: map[string]string{"name": unique}})
		w.record("team "+w.teams[0], w.writes(x, unique)...)
	case "team read":
		w.readTeam(do)
	case "team joined":
		x := do(call{method: "POST", path: "/teams/" + w.teams[0] + "/members", body: map[string]string{"userId": w.subject.user}, key: true})
		w.record("membership of "+w.subject.user, w.writes(x, "member")...)
	case "team left":
		w.leaveTeam(do)
	case "team's members read":
		w.readMembership(do)
	case "workspace made":
		x := do(call{method: "POST", path: "/workspaces", by: w.owner, body: map[string]string{"name": unique, "teamId": w.teams[a%2]}, key: true, expect: []int{201}})
		w.keep(x, "workspace", w.owner.org+" "+unique)
	case "workspace deleted":
		if s, ok := w.take("workspace", a); ok {
			x := do(call{method: "DELETE", path: "/workspaces/" + s.id, by: w.owner, expect: []int{200, 404}})
			w.recordOutcome("workspace", s.name, outcomeOfDeletion(x), x)
		}
	case "workspace renamed":
		x := do(call{method: "PATCH", path: "/workspaces/" + w.spaces[0], body: map[string]string{"name": unique}})
		w.record("workspace "+w.spaces[0], w.writes(x, unique)...)
	case "workspace moved":
		to := w.teams[a%2]
		x := do(call{method: "POST", path: "/workspaces/" + w.spaces[0] + "/move", body: map[string]string{"targetTeamId": to}, key: true})
		w.record("place of "+w.spaces[0], w.writes(x, to)...)
	case "workspace read":
		w.readWorkspace(do)
	case "workspaces reordered":
		order := shuffled(w.spaces[:], b)
		x := do(call{method: "PUT", path: "/workspaces/order", body: map[string]any{"order": order}})
		w.record("workspaces of "+w.me.user, w.writes(x, strings.Join(order, " "))...)
	case "workspaces listed":
		w.readWorkspaces(do)
	case "files changed at once":
		w.batch(unique, a, do)
	case "file sent in parts":
		w.sendInParts(unique, a, b, do)
	case "version restored":
		if f, ok := w.take("file", a); ok {
			w.restore(f, unique, b%2 == 0, do)
		}
	case "export requested":
		w.requestExport(do)
	case "export read":
		w.readExport(a, do)
	case "task deleted":
		if t, ok := w.take("task", a); ok {
			x := do(call{method: "DELETE", path: "/tasks/" + t.id, expect: []int{200, 404}})
			w.recordOutcome("task", t.name, outcomeOfDeletion(x), x)
		}
	case "task read":
		w.readTask(a%registers, do)
	case "task changed":
		w.changeTask(a%registers, unique, do)
	case "tasks listed":
		do(call{method: "GET", path: "/tasks?limit=200"})
	case "tasks reordered":
		order := shuffled(w.ordered[:], b)
		x := do(call{method: "POST", path: "/tasks/reorder", body: map[string]any{"taskIds": order}, key: true})
		w.record("order of "+w.owner.org, w.writes(x, strings.Join(order, " "))...)
	case "order read":
		w.readOrder(do)
	case "file made":
		path := strings.ReplaceAll(unique, " ", "/") + ".txt"
		w.content(unique, true)
		x := do(call{method: "POST", path: "/sync/files?path=" + url.QueryEscape(path), body: unique, key: true, expect: []int{201}})
		w.keepFile(x, path, unique)
	case "file sent to the store":
		w.upload(ctx, strings.ReplaceAll(unique, " ", "/")+".bin", unique, do)
	case "file deleted":
		if f, ok := w.take("file", a); ok {
			x := do(call{method: "DELETE", path: "/sync/files/" + f.id, expect: []int{200, 404}})
			w.keepDeleted(x, f)
		}
	case "file moved":
		if f, ok := w.take("file", a); ok {
			path := strings.ReplaceAll(unique, " ", "/") + ".txt"
			w.keepMoved(do(call{method: "PATCH", path: "/sync/files/" + f.id, body: map[string]any{"path": path}}), f, path)
		}
	case "file read":
		w.readFile(a%registers, do)
	case "file replaced":
		w.replaceFile(a%registers, unique, do)
	case "files listed":
		do(call{method: "GET", path: "/sync/manifest"})
	case "memory written":
		w.content(unique, true)
		x := do(call{method: "PUT", path: w.memory(a), body: unique})
		w.record("memory "+w.memory(a), w.writes(x, unique)...)
		w.acknowledgeFile(x, unique)
	case "memory read":
		w.readMemory(a, do)
	case "chat":
		w.chat(ctx, 1000+a%60_000)
	case "quota read":
		var q struct{ Used, Limit int64 }
		if x := do(call{method: "GET", path: "/metering/quota"}); x.ok() && x.decode(&q) == nil {
			w.readQuota(x, q.Used, q.Limit)
		}
	case "member invited":
		email := fmt.Sprintf("guest-%d-%d@example.com", w.n, w.sent)
		x := do(call{method: "POST", path: "/org/invite", by: w.owner, body: map[string]string{"email": email, "role": "MEMBER"}, key: true, expect: []int{201, 403, 429}})
		w.audit(w.owner.org, x)
		w.keep(x, "invitation", w.owner.org+" "+email)
	case "invitation resent":
		if i, ok := w.take("invitation", a); ok {
			x := do(call{method: "POST", path: "/org/invite/" + i.id + "/resend", by: w.owner, key: true, expect: []int{200, 429}})
			w.audit(w.owner.org, x)
			w.put("invitation", i)
		}
	case "invitation deleted":
		if i, ok := w.take("invitation", a); ok {
			x := do(call{method: "DELETE", path: "/org/invite/" + i.id, by: w.owner, expect: []int{200, 404}})
			w.audit(w.owner.org, x)
			w.recordOutcome("invitation", i.name, outcomeOfDeletion(x), x)
		}
	case "role changed":
		role := []string{"ADMIN", "MEMBER", "VIEWER"}[a%3]
		x := do(call{method: "PATCH", path: "/org/members/" + w.subject.user + "/role", by: w.owner, body: map[string]string{"role": role}})
		w.auditIfChanged(w.owner.org, x)
		w.record("role of "+w.subject.user, w.writes(x, role)...)
	case "roles read":
		w.readRoles(do)
	case "organisation made":
		w.createOrganisation(ctx, r.Kind)
	case "trial started":
		if p := w.new.choose(a); p != nil {
			x := do(call{method: "POST", path: "/billing/trial", by: p, key: true, expect: []int{200, 409}})
			if x.ok() {
				w.trial(p.org)
			}
		}
	case "plan bought":
		if p := w.new.choose(a); p != nil {
			w.buy(ctx, p, []string{"STANDARD", "PREMIUM"}[b%2], do)
		}
	case "plan given up":
		if p := w.new.choose(a); p != nil {
			do(call{method: "POST", path: "/billing/downgrade", by: p, key: true, expect: []int{200, 409}})
		}
	case "subscription read":
		if p := w.new.choose(a); p != nil {
			do(call{method: "GET", path: "/billing/subscription", by: p})
		}
	case "connector made":
		x := do(call{method: "POST", path: "/connectors", body: map[string]string{"providerId": "tools", "name": unique}, key: true, expect: []int{201}})
		w.audit(w.owner.org, x)
		w.keep(x, "connector", w.owner.org+" "+unique)
	case "connector deleted":
		if i, ok := w.take("connector", a); ok {
			x := do(call{method: "DELETE", path: "/connectors/" + i.id, expect: []int{200, 404}})
			w.audit(w.owner.org, x)
			w.recordOutcome("connector", i.name, outcomeOfDeletion(x), x)
		}
	case "credentials stored":
		x := do(call{method: "POST", path: "/connectors/" + w.connector + "/credentials", body: map[string]any{"credentials": map[string]string{"apiKey": unique}}, key: true})
		w.audit(w.owner.org, x)
		w.record("credentials of "+w.connector, w.writes(x, unique)...)
	case "credentials read":
		w.readCredentials(do)
	case "update checked":
		do(call{method: "GET", path: fmt.Sprintf("/updates/check?version=0.9.0&platform=linux&arch=x64&clientId=device-%d", a)})
	case "rollout changed":
		percent := a % 101
		x := do(call{method: "PATCH", path: "/updates/" + w.release, body: map[string]int{"rolloutPercentage": percent}, by: w.owner})
		w.auditIfChanged(w.owner.org, x)
		w.record("rollout", w.writes(x, fmt.Sprint(percent))...)
	case "rollout read": // from memory, which follows within a second
		do(call{method: "GET", path: "/updates/releases", by: w.owner})
	case "audit read":
		do(call{method: "GET", path: "/org/audit?limit=200", by: w.owner})
	case "session renewed":
		var session struct{ Token string }
		if x := do(call{method: "POST", path: "/auth/refresh", body: map[string]string{"token": w.me.bearer()}, key: true}); x.ok() && x.decode(&session) == nil {
			w.me.renew(session.Token)
		}
	case "signed in":
		w.endSession(ctx, do)
	case "profile read":
		do(call{method: "GET", path: "/auth/me"})
	default:
		panic("storm: a request of the unknown kind " + r.Kind)
	}
}

// keep records what has become of a record that a call made, and that others may delete.
func (w *worker) keep(x response, kind, name string) {
	w.recordOutcome(kind, name, outcomeOf(x), x)
	var made struct{ ID string }
	if x.ok() && x.decode(&made) == nil {
		w.put(kind, record{made.ID, name})
	}
}

func shuffled(ids []string, draw int) []string {
	order := slices.Clone(ids)
	for i := len(order) - 1; i > 0; i-- {
		j := draw % (i + 1)
		draw /= i + 1
		order[i], order[j] = order[j], order[i]
	}
	return order
}

type doFunc = func(call) response

func (w *worker) readTask(i int, do doFunc) {
	var t struct{ Title string }
	x := do(call{method: "GET", path: "/tasks/" + w.tasks[i]})
	if !x.ok() || x.decode(&t) != nil {
		return
	}
	w.record("task "+w.tasks[i], w.reads(x, t.Title))
	w.tenant.mu.Lock()
	defer w.tenant.mu.Unlock()
	w.lastTask[i] = versionedValue{t.Title, x.header.Get("ETag")}
}

func (w *worker) changeTask(i int, title string, do doFunc) {
	w.tenant.mu.Lock()
	last := w.lastTask[i]
	w.tenant.mu.Unlock()
	x := do(call{method: "PATCH", path: "/tasks/" + w.tasks[i], body: map[string]string{"title": title}, header: http.Header{"If-Match": {last.tag}}, expect: []int{200, 412}})
	w.record("task "+w.tasks[i], w.changes(x, last.value, title)...)
	if x.ok() {
		w.tenant.mu.Lock()
		w.lastTask[i] = versionedValue{title, x.header.Get("ETag")}
		w.tenant.mu.Unlock()
	} else {
		w.readTask(i, do)
	}
}

func (w *worker) readOrder(do doFunc) {
	var tasks []struct{ ID string }
	if x := do(call{method: "GET", path: "/tasks?tags=ordered"}); x.ok() && x.decode(&tasks) == nil {
		var order []string
		for _, t := range tasks {
			order = append(order, t.ID)
		}
		w.record("order of "+w.owner.org, w.reads(x, strings.Join(order, " ")))
	}
}

// stored is a file as the servers show it.
type stored struct {
	ID, StorageKey, Checksum, Content string
	Version                           int64
}

// acknowledgeFile records a file that a call has written.
func (w *worker) acknowledgeFile(x response, content string) (f stored) {
	if !x.ok() {
		return stored{}
	}
	if err := x.decode(&f); err != nil || f.Checksum != must.Sum(content) {
		w.violation("the request %s wrote %.100q and was answered %s: %v", x.request, content, x.body, err)
	}
	w.acknowledgeWrite(w.owner.org, feed.Write{Key: f.StorageKey, Version: f.Version, Checksum: f.Checksum})
	return f
}

func (w *worker) keepFile(x response, path, content string) {
	name := w.owner.org + "/shared/artifacts/" + path
	w.recordOutcome("file", name, outcomeOf(x), x)
	if f := w.acknowledgeFile(x, content); f.ID != "" {
		w.put("file", record{f.ID, name})
	}
}

// keepDeleted records what has become of a file that a call deleted.
func (w *worker) keepDeleted(x response, f record) {
	w.recordOutcome("file", f.name, outcomeOfDeletion(x), x)
	if x.ok() {
		w.acknowledgeWrite(w.owner.org, feed.Write{Key: f.name})
	}
}

// keepMoved records what has become of a file that a call moved.
func (w *worker) keepMoved(x response, f record, path string) {
	name := w.owner.org + "/shared/artifacts/" + path
	var moved stored
	w.recordOutcome("file", name, outcomeOf(x), x)
	switch {
	case x.ok() && x.decode(&moved) == nil && moved.StorageKey == name:
		w.recordOutcome("file", f.name, absent, x)
		w.acknowledgeWrite(w.owner.org, feed.Write{Key: name, Version: moved.Version, Checksum: moved.Checksum})
		w.put("file", record{f.id, name})
	case x.ok():
		w.violation("the request %s moved %s to %s and was answered %s", x.request, f.name, name, x.body)
	case x.mayHaveSucceeded():
		w.recordOutcome("file", f.name, indeterminate, x)
	default:
		w.put("file", f)
	}
}

func (w *worker) readFile(i int, do doFunc) {
	var f stored
	x := do(call{method: "GET", path: "/sync/files/" + w.files[i]})
	if !x.ok() || x.decode(&f) != nil {
		return
	}
	if must.Sum(f.Content) != f.Checksum {
		w.violation("the file %s is shown with other content than its checksum says: %.300s", w.files[i], x.body)
	}
	w.record("file "+w.files[i], w.reads(x, f.Content))
	w.tenant.mu.Lock()
	defer w.tenant.mu.Unlock()
	w.lastFile[i] = versionedValue{f.Content, fmt.Sprint(f.Version)}
}

// expectedFile returns what a change of a register has to expect.
func (w *worker) expectedFile(i int) versionedValue {
	w.tenant.mu.Lock()
	defer w.tenant.mu.Unlock()
	return w.lastFile[i]
}

func (w *worker) replaceFile(i int, content string, do doFunc) {
	last := w.expectedFile(i)
	w.content(content, true)
	x := do(call{method: "PUT", path: "/sync/files/" + w.files[i] + "?expectedVersion=" + last.tag, body: content, expect: []int{200, 409}})
	w.keepReplaced(x, i, last, content, do)
}

// keepReplaced records what has become of a register that a call replaced if it was the last one.
func (w *worker) keepReplaced(x response, i int, last versionedValue, content string, do doFunc) {
	w.record("file "+w.files[i], w.changes(x, last.value, content)...)
	if f := w.acknowledgeFile(x, content); f.ID != "" {
		w.tenant.mu.Lock()
		w.lastFile[i] = versionedValue{content, fmt.Sprint(f.Version)}
		w.tenant.mu.Unlock()
		return
	}
	if !x.mayHaveSucceeded() {
		w.content(content, false)
	}
	w.readFile(i, do)
}

// upload sends content to the store at an address that a server gives out.
func (w *worker) upload(ctx context.Context, path, content string, do doFunc) {
	sum := w.content(content, true)
	var to struct {
		ID, URL, Method string
		Headers         map[string]string
	}
	x := do(call{method: "POST", path: "/sync/uploads", body: map[string]any{"path": path, "size": len(content), "checksum": sum}, key: true, expect: []int{201}})
	if !x.ok() || x.decode(&to) != nil {
		return
	}
	began := time.Now()
	for {
		r, err := http.NewRequestWithContext(ctx, to.Method, to.URL, strings.NewReader(content))
		if err != nil {
			w.violation("the address of the upload %s: %v", x.request, err)
			return
		}
		for name, value := range to.Headers {
			r.Header.Set(name, value)
		}
		response, err := w.http.Do(r)
		if err == nil {
			response.Body.Close()
			w.count("content sent to the store", fmt.Sprint(response.StatusCode))
			if response.StatusCode < 500 { // 412: an earlier attempt stored it
				break
			}
		}
		if ctx.Err() != nil || time.Since(began) > callTimeout {
			return
		}
		pause(ctx, retryDelay)
	}
	name := w.owner.org + "/shared/artifacts/" + path
	x = do(call{method: "POST", path: "/sync/uploads/" + to.ID + "/complete", key: true, expect: []int{200, 201}})
	w.recordOutcome("file", name, outcomeOf(x), x)
	if f := w.acknowledgeFile(x, content); f.ID != "" {
		w.put("file", record{f.ID, name})
	}
}

// memory returns the path of one of the memories of the tenant.
func (w *worker) memory(draw int) string {
	return fmt.Sprintf("/sync/memory/workspace/%s/notes-%d.md", w.workspace, draw%3)
}

func (w *worker) readMemory(draw int, do doFunc) {
	var m *stored
	if x := do(call{method: "GET", path: w.memory(draw)}); x.ok() && x.decode(&m) == nil {
		content := ""
		if m != nil {
			content = m.Content
		}
		w.record("memory "+w.memory(draw), w.reads(x, content))
	}
}

func (w *worker) readRoles(do doFunc) {
	var members []struct{ UserID, Role string }
	if x := do(call{method: "GET", path: "/org/members"}); x.ok() && x.decode(&members) == nil {
		for _, m := range members {
			if m.UserID == w.subject.user {
				w.record("role of "+w.subject.user, w.reads(x, m.Role))
			}
		}
	}
}

func (w *worker) readCredentials(do doFunc) {
	var stored struct{ Credentials struct{ APIKey string } }
	x := do(call{method: "GET", path: "/connectors/" + w.connector + "/credentials"})
	// The balancer repeats a GET whose server ended before it answered: each reading has an entry.
	e := entryRange{0, servers * len(x.attempts)}
	if x.ok() {
		e.Min = 1
	}
	w.auditBetween(w.owner.org, x, e)
	if x.ok() && x.decode(&stored) == nil {
		w.record("credentials of "+w.connector, w.reads(x, stored.Credentials.APIKey))
	}
}

func (w *worker) readRollout(do doFunc) {
	var releases []struct {
		ID                string
		RolloutPercentage int
	}
	if x := do(call{method: "GET", path: "/updates/releases", by: w.owner}); x.ok() && x.decode(&releases) == nil {
		for _, r := range releases {
			if r.ID == w.release {
				w.record("rollout", w.reads(x, fmt.Sprint(r.RolloutPercentage)))
			}
		}
	}
}

func (w *worker) readQuota(x response, used, limit int64) {
	w.record("quota of "+w.me.user, historyOp{Client: w.n, Kind: "read", Tokens: used, Call: x.last().call, Return: x.last().ret})
	if used > limit {
		w.violation("%s has used %d tokens of %d", w.me.user, used, limit)
	}
}

// surplus is what a call may use beyond its maximum of output.
const surplus = 1000

// chat asks the model for a response of so many tokens, and records what that used.
func (w *worker) chat(ctx context.Context, tokens int) {
	op := historyOp{Client: w.n, Kind: "add", Tokens: int64(tokens + surplus), Unknown: true, Call: w.now()}
	ctx, cancel := context.WithTimeout(ctx, 2*attemptTimeout)
	defer cancel()
	status, used, err := w.talk(ctx, tokens)
	op.Return = w.now()
	label := fmt.Sprint(status)
	if err != nil {
		label += ", " + err.Error()
	}
	w.count("chat", label)
	switch {
	case status == http.StatusForbidden:
		return // the quota is used up
	case err == nil && status == http.StatusOK:
		op.Tokens, op.Unknown = used, false
	case status != 0 && status != http.StatusOK && status < 502:
		w.violation("POST /chat is %d", status)
	}
	w.record("quota of "+w.me.user, op)
}

// talk sends a chat. The error is nil if the response is complete.
func (w *worker) talk(ctx context.Context, tokens int) (status int, used int64, err error) {
	body, err := json.Marshal(map[string]any{"message": "Write a long answer, please, about the weather of the last days.", "maxTokens": tokens, "model": model})
	if err != nil {
		return 0, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/api/v1/chat", strings.NewReader(string(body)))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Authorization", "Bearer "+w.me.bearer())
	r.Header.Set("Content-Type", "application/json")
	response, err := w.http.Do(r)
	if err != nil {
		return 0, 0, errNoResponse
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, 0, nil
	}
	for lines := bufio.NewReader(response.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return response.StatusCode, 0, errCutOff
		}
		var chunk struct {
			Type  string
			Usage struct{ InputTokens, OutputTokens int64 }
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return response.StatusCode, 0, errCutOff
		}
		switch chunk.Type {
		case "done":
			return response.StatusCode, chunk.Usage.InputTokens + chunk.Usage.OutputTokens, nil
		case "error":
			return response.StatusCode, 0, errChunk
		}
	}
}

// buy goes to the payment page of a plan and pays there.
func (w *worker) buy(ctx context.Context, p *person, plan string, do doFunc) {
	var checkout struct{ URL string }
	x := do(call{method: "POST", path: "/billing/checkout", by: p, body: map[string]string{"plan": plan}, key: true, expect: []int{200, 409}})
	if !x.ok() || x.decode(&checkout) != nil {
		return
	}
	_, page, ok := strings.Cut(checkout.URL, "/dev/payments/pay/")
	if !ok {
		return // a change of the plan needs no payment
	}
	response, err := w.post(ctx, w.provider+"/dev/payments/pay/"+page, url.Values{"action": {"pay"}})
	if err == nil {
		response.Body.Close()
		w.count("payment", fmt.Sprint(response.StatusCode))
	}
}

func (w *worker) post(ctx context.Context, to string, form url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return (&http.Client{Timeout: attemptTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
}

// signIn signs a person in who is new or not, by a token of the provider.
func (c *client) signIn(ctx context.Context, kind, provider, email, organisation, role string) (*person, error) {
	identity, err := collabd.IdentityToken(provider, email, email, organisation, role)
	if err != nil {
		return nil, err
	}
	var session struct {
		Token     string
		User, Org struct{ ID string }
	}
	x := c.do(ctx, call{kind: kind, method: "POST", path: "/auth/exchange-token", body: map[string]string{"identityToken": identity}, key: true, expect: []int{200}})
	if !x.ok() {
		return nil, fmt.Errorf("exchanging a token is %d: %s", x.status, x.body)
	}
	if err := x.decode(&session); err != nil {
		return nil, err
	}
	return &person{email: email, user: session.User.ID, org: session.Org.ID, token: session.Token}, nil
}

// createOrganisation makes an organisation, and has two requests seed it.
func (w *worker) createOrganisation(ctx context.Context, kind string) {
	name := fmt.Sprintf("newcomer-%d-%d", w.n, w.sent)
	p, err := w.signIn(ctx, kind, w.provider, "owner@"+name+".example.com", name, "owner")
	if err != nil {
		return // what is expected of the exchange is checked there
	}
	var both sync.WaitGroup
	for i := range 2 {
		other := &client{journal: w.journal, url: w.url, http: w.http, n: w.n*10 + 1000 + i, sent: w.sent}
		both.Go(func() {
			other.do(ctx, call{kind: "organisation seeded", method: "POST", path: "/auth/seed-onboarding", by: p, key: true, expect: []int{200}})
		})
	}
	both.Wait()
	w.new.add(p)
}

// endSession signs the client's person in once more and ends that session, after which its token
// is refused.
func (w *worker) endSession(ctx context.Context, do doFunc) {
	p, err := w.signIn(ctx, "signed in", w.provider, w.me.email, w.name, "member")
	if err != nil {
		return
	}
	var sessions []struct {
		ID      string
		Current bool
	}
	if x := do(call{method: "GET", path: "/auth/sessions", by: p}); !x.ok() || x.decode(&sessions) != nil {
		return
	}
	for _, s := range sessions {
		if s.Current {
			x := do(call{method: "DELETE", path: "/auth/sessions/" + s.ID, by: p, expect: []int{200, 401}})
			w.audit(w.owner.org, x)
			if x.ok() {
				do(call{method: "GET", path: "/auth/me", by: p, expect: []int{401}})
			}
		}
	}
}
