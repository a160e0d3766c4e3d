package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"collab/adapters/httpapi/limit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
)

// Prefix is the path prefix of the versioned interface.
const Prefix = "/api/v1"

const prefix = Prefix

const chatPath = prefix + "/chat"

// Paths that other packages are given: sign-in pages redirect browsers to CLICallbackPath,
// ExchangePath takes identity tokens, and providers call the webhooks and redirect to the ends
// of a checkout. ReferencePath is the page about the interface, HealthPath answers while the server runs.
// The demo calls the endpoints that apiclient has no method for.
const (
	CLICallbackPath     = prefix + "/auth/cli-callback"
	ExchangePath        = prefix + "/auth/exchange-token"
	IdentityWebhookPath = prefix + "/auth/webhook"
	PaymentWebhookPath  = prefix + "/billing/webhook"
	CheckoutSuccessPath = prefix + "/billing/checkout/success"
	CheckoutCancelPath  = prefix + "/billing/checkout/cancel"
	OnboardedPath       = prefix + "/auth/onboarding-complete"
	ReprioritizePath    = prefix + "/tasks/reprioritize"
	CheckPath           = prefix + "/updates/check"
	ReportsPath         = prefix + "/updates/reports"
	ReferencePath       = "/docs"
	HealthPath          = "/healthz"
)

// handler handles a request, or returns the error of its response.
type handler func(*call) error

// row is one endpoint.
type row struct {
	Method string
	Path   string
	Guard  guard
	Work   work
	Handle handler // nil: this deployment does not have the endpoint
}

// keyed reports whether a request may have an idempotency key. Webhook messages have ids of their own, browsers send
// forms without keys, and downloads change nothing.
func (r row) keyed() bool {
	return r.Method == http.MethodPost && r.Guard != webhook && r.Guard != browser && r.Work != downloads
}

// versionParameter is the query parameter of conditional writes, see call.expected.
var versionParameter = []string{"expectedVersion"}

// writeParameters are the query parameters of requests that write, by method and path.
var writeParameters = map[string][]string{
	"POST /sync/files": slices.Concat(draftFields, uploadFields),
	// It ignores draftFields.
	"PUT /sync/files/{id}":                                slices.Concat(draftFields, uploadFields),
	"PATCH /sync/files/{id}":                              versionParameter,
	"DELETE /sync/files/{id}":                             versionParameter,
	"PUT /sync/profile":                                   versionParameter,
	"PUT /sync/org-onboarding":                            versionParameter,
	"PUT /sync/memory/{scope}":                            versionParameter,
	"PUT /sync/memory/workspace/{workspaceId}/{fileName}": versionParameter,
	"POST /sync/resumable-uploads":                        slices.Concat(draftFields, uploadFields, []string{"fileId"}),
	"PATCH /sync/resumable-uploads/{id}":                  {"checksum"},
}

// routes is the table of all endpoints. HEAD is allowed wherever GET is.
func (a *api) routes() []row {
	table := []row{
		{"GET", "/auth/cli-auth", browser, none, a.startCLI},
		{"GET", "/auth/cli-callback", browser, none, a.finishCLI},
		{"POST", "/auth/device", public, none, a.startDevice},
		{"POST", "/auth/device/token", public, none, a.claimDevice},
		{"GET", "/auth/device", browser, none, a.showDevice},
		{"POST", "/auth/device/decision", browser, none, a.decideDevice},
		{"POST", "/auth/exchange-token", public, none, a.exchange},
		{"POST", "/auth/refresh", public, none, a.refresh},
		{"GET", "/auth/me", caller, queries, withoutQuery(a.me)},
		{"GET", "/auth/organisations", caller, queries, withoutQuery(a.authorized(a.listOwnOrganisations))},
		{"GET", "/auth/sessions", caller, queries, withoutQuery(a.authorized(a.listSessions))},
		{"DELETE", "/auth/sessions", caller, queries, a.authorized(succeeds(a.Access.EndOtherSessions))},
		{"DELETE", "/auth/sessions/{id}", caller, queries, a.authorized(onRecord("id", "Session", succeedsOn(a.Access.EndSession)))},
		{"POST", "/auth/onboarding-complete", member, queries, a.authorized(a.completeOnboarding)},
		{"POST", "/auth/seed-onboarding", writer, queries, a.authorized(replies(viewSeeded, a.Onboarding.Seed))},
		{"POST", "/auth/webhook", webhook, none, a.identityWebhook},

		{"GET", "/org/members", member, queries, a.fromReplicaOr(a.listMembers(false), a.listMembers(true))},
		{"GET", "/org/members/former", manager, queries,
			listHandler(a, positionOfFormer, viewFormerMember, afterFormer, a.Members.Former)},
		{"PATCH", "/org/members/{userId}/role", owner, queries,
			onRecordWithBody(a, "userId", "Member", readRole, repliesWithBody(viewMember, a.Members.ChangeRole))},
		{"DELETE", "/org/members/{userId}", member, queries, a.authorized(onRecord("userId", "Member", succeedsOn(a.Members.Remove)))}, // anyone may leave
		{"GET", "/org/invites", manager, queries,
			listHandler(a, positionOfInvitation, a.viewInvitation, timePosition[id.Invitation], a.Members.Invites)},
		{"POST", "/org/invite", manager, queries, withBody(a, readInvitation, a.invite)},
		{"POST", "/org/invite/{id}/resend", manager, queries, a.authorized(onRecord("id", "Invitation", a.resendInvite))},
		{"DELETE", "/org/invite/{id}", manager, queries, a.authorized(onRecord("id", "Invitation", succeedsOn(a.Members.DeleteInvitation)))},
		{"GET", "/org/audit", manager, queries, a.fromReplica(a.auditLog)},

		{"POST", "/org/export", owner, queries, a.authorized(a.startExport)},
		{"GET", "/org/exports", owner, queries, withoutQuery(a.authorized(a.listExports))},
		{"GET", "/org/exports/{id}", owner, queries, withoutQuery(a.authorized(onRecord("id", "Export", a.getExport)))},
		{"GET", "/org/exports/{id}/archive", owner, queries, withoutQuery(a.authorized(onRecord("id", "Export", a.downloadExport)))},

		{"GET", "/tasks", member, queries, a.listTasks},
		{"POST", "/tasks", writer, queries, a.createTask},
		{"POST", "/tasks/reorder", writer, queries, listChangedTasks(a, readTaskOrder, a.Tasks.Reorder)},
		{"POST", "/tasks/reprioritize", writer, queries, listChangedTasks(a, readReprioritizations, a.Tasks.Reprioritize)},
		{"GET", "/tasks/{id}", member, queries, withoutQuery(a.getTask)},
		{"PATCH", "/tasks/{id}", writer, queries, a.updateTask},
		{"DELETE", "/tasks/{id}", writer, queries, a.authorized(onRecord("id", "Task", a.deleteTask))},
		{"GET", "/tasks/{id}/history", member, queries, a.taskHistory},

		{"GET", "/teams", member, queries, a.listTeams},
		{"POST", "/teams", writer, queries, withBody(a, readTeamDraft, a.createTeam)},
		{"GET", "/teams/{id}", member, queries, withoutQuery(a.authorized(onRecord("id", "Team", repliesOn(viewTeam, a.Teams.Get))))},
		{"PATCH", "/teams/{id}", writer, queries,
			onRecordWithBody(a, "id", "Team", readTeamPatch, repliesWithBody(viewTeam, a.Teams.Update))},
		{"DELETE", "/teams/{id}", writer, queries, a.authorized(onRecord("id", "Team", a.deleteTeam))},
		{"GET", "/teams/{id}/members", member, queries, a.listTeamMembers},
		{"POST", "/teams/{id}/members", writer, queries,
			onRecordWithBody(a, "id", "Team", oneField("userId", asUser),
				repliesWithBody(viewTeamMember, a.Teams.AddMember))},
		{"DELETE", "/teams/{id}/members/{userId}", writer, queries, a.authorized(onRecord("id", "Team", a.removeTeamMember))},

		{"GET", "/workspaces", member, queries, a.listWorkspaces},
		{"POST", "/workspaces", writer, queries, withBody(a, readWorkspaceDraft, a.createWorkspace)},
		{"PUT", "/workspaces/order", writer, queries, withBody(a, readWorkspaceOrder, succeedsOn(a.Workspaces.SetOrder))},
		{"GET", "/workspaces/{id}", member, queries, withoutQuery(a.authorized(onRecord("id", "Workspace", repliesOn(viewWorkspace, a.Workspaces.Get))))},
		{"PATCH", "/workspaces/{id}", writer, queries,
			onRecordWithBody(a, "id", "Workspace", readWorkspacePatch,
				repliesWithBody(viewWorkspace, a.Workspaces.Update))},
		{"DELETE", "/workspaces/{id}", writer, queries, a.authorized(onRecord("id", "Workspace", a.deleteWorkspace))},
		{"POST", "/workspaces/{id}/move", writer, queries,
			onRecordWithBody(a, "id", "Workspace", oneField("targetTeamId", asTeam),
				repliesWithBody(viewWorkspace, a.Workspaces.Move))},

		{"GET", "/sync/profile", member, queries, withoutQuery(a.authorized(a.readDocument(object.Profile)))},
		{"PUT", "/sync/profile", writer, queries, a.saveDocument(object.Profile)},
		{"GET", "/sync/org-onboarding", member, queries, withoutQuery(a.authorized(a.readDocument(object.OrgOnboarding)))},
		{"PUT", "/sync/org-onboarding", writer, queries, a.saveDocument(object.OrgOnboarding)},
		{"GET", "/sync/memory/{scope}", member, queries, withoutQuery(a.authorized(a.readMemory(a.namedMemory)))},
		{"PUT", "/sync/memory/{scope}", writer, queries, a.saveMemory(a.namedMemory)},
		{"GET", "/sync/memory/workspace/{workspaceId}", member, queries, a.listWorkspaceMemory},
		{"GET", "/sync/memory/workspace/{workspaceId}/{fileName}", member, queries, withoutQuery(a.authorized(a.readMemory(a.namedWorkspaceMemory)))},
		{"PUT", "/sync/memory/workspace/{workspaceId}/{fileName}", writer, queries, a.saveMemory(a.namedWorkspaceMemory)},
		{"GET", "/sync/files", member, queries, a.listFiles},
		{"POST", "/sync/files", writer, uploads, a.createFile},
		{"GET", "/sync/files/{id}", member, downloads, a.authorized(onRecord("id", "File", a.readFile))},
		{"PUT", "/sync/files/{id}", writer, uploads, a.replaceFile},
		{"PATCH", "/sync/files/{id}", writer, queries, a.moveFile},
		{"DELETE", "/sync/files/{id}", writer, queries, a.authorized(onRecord("id", "File", a.deleteFile))},
		{"GET", "/sync/files/{id}/versions", member, queries, a.listVersions},
		{"DELETE", "/sync/files/{id}/versions", writer, queries, a.authorized(onRecord("id", "File", succeedsOn(a.Objects.DiscardVersions)))},
		{"GET", "/sync/files/{id}/versions/{version}", member, downloads, a.authorized(onRecord("id", "File", a.readVersion))},
		{"DELETE", "/sync/files/{id}/versions/{version}", writer, queries, a.authorized(onRecord("id", "File", a.discardVersion))},
		{"POST", "/sync/files/{id}/restore", writer, queries, a.restoreFile},
		{"POST", "/sync/move", writer, queries, withBody(a, readFolderMove, a.moveFolder)},
		{"POST", "/sync/batch", writer, uploads, a.batchFiles},
		{"POST", "/sync/batch/read", member, downloads, withBody(a, readWanted, a.readFiles)},
		{"GET", "/sync/limits", member, queries, withoutQuery(a.authorized(a.syncLimits))},
		{"POST", "/sync/uploads", writer, queries, a.startUpload},
		{"POST", "/sync/uploads/{id}/complete", writer, uploads, a.authorized(a.onUpload(a.completeUpload))},
		{"DELETE", "/sync/uploads/{id}", writer, queries, a.authorized(a.onUpload(succeedsOn(a.Objects.CancelDirect)))},
		{"POST", "/sync/resumable-uploads", writer, uploads, withUploadHeaders(a.createResumable)},
		{"GET", "/sync/resumable-uploads", member, queries, withoutQuery(a.authorized(a.listResumable))},
		{"GET", "/sync/resumable-uploads/{id}", member, queries, withoutQuery(a.authorized(a.onResumable(a.getResumable)))},
		{"PATCH", "/sync/resumable-uploads/{id}", writer, uploads, withUploadHeaders(a.appendResumable)},
		{"DELETE", "/sync/resumable-uploads/{id}", member, queries, a.authorized(a.onResumable(succeedsOn(a.Objects.CancelResumable)))},
		{"GET", "/sync/manifest", member, queries, a.manifest},
		{"GET", "/sync/changes", member, streams, a.authorized(a.followChanges)},

		{"POST", "/chat", writer, generation, a.startChat},
		{"GET", "/models", member, queries, withoutQuery(a.authorized(a.listModels))},

		{"GET", "/billing/status", member, queries,
			withoutQuery(a.authorized(replies(viewBillingStatus, a.Billing.Subscription)))},
		{"GET", "/billing/subscription", member, queries, withoutQuery(a.authorized(replies(viewDetails, a.Billing.Subscription)))},
		{"GET", "/billing/plans", member, queries, withoutQuery(a.authorized(a.listPlans))},
		{"POST", "/billing/trial", manager, queries, a.authorized(replies(viewDetails, a.Billing.Trial))},
		{"POST", "/billing/checkout", manager, calls, withBody(a, readPlan, repliesOn(viewURL, a.Billing.Checkout))},
		{"POST", "/billing/portal", manager, calls, a.authorized(replies(viewURL, a.Billing.Portal))},
		{"POST", "/billing/downgrade", manager, calls, a.authorized(replies(viewDetails, a.Billing.Downgrade))},
		{"GET", "/billing/checkout/success", browser, none, a.checkoutSuccess},
		{"GET", "/billing/checkout/cancel", browser, none, a.checkoutCancel},
		{"POST", "/billing/webhook", webhook, none, a.paymentWebhook},

		{"GET", "/metering/org", member, queries, withoutQuery(a.fromReplica(a.orgUsage))},
		{"GET", "/metering/user", member, queries, withoutQuery(a.authorized(replies(viewSummary, a.Metering.Own)))},
		{"GET", "/metering/daily", member, queries, a.fromReplica(a.dailyUsage)},
		{"GET", "/metering/quota", member, queries, withoutQuery(a.quotaToday)},
		{"GET", "/metering/storage", member, queries, withoutQuery(a.authorized(replies(viewStorage, a.Metering.Storage)))},

		{"GET", "/connector-providers", public, none, withoutQuery(a.listProviders)},
		{"GET", "/connectors", member, queries,
			listHandler(a, positionOfConnector, viewConnector, timePosition[id.Connector], a.Connectors.List)},
		{"POST", "/connectors", writer, queries, withBody(a, readConnector, a.createConnector)},
		{"GET", "/connectors/{instanceId}/credentials", member, calls, withoutQuery(a.limitedCredentials(a.authorized(onRecord("instanceId", "Connector", repliesOn(viewCredentials, a.Connectors.Read)))))},
		{"POST", "/connectors/{instanceId}/credentials", writer, queries, a.limitedCredentials(
			onRecordWithBody(a, "instanceId", "Connector", readCredentials,
				withRecordMemory(maxConnectorView, a.storeCredentials)))},
		{"DELETE", "/connectors/{instanceId}", writer, queries, a.authorized(onRecord("instanceId", "Connector", succeedsOn(a.Connectors.Delete)))},
		{"POST", "/mcp-oauth/start", writer, calls, a.limitedCredentials(withBody(a, readAuthorization, a.startAuthorization))},
		{"GET", "/mcp-oauth/poll", member, queries, a.authorized(a.pollAuthorization)},
		{"GET", "/mcp-oauth/authorize", browser, none, a.showAuthorizationPrompt},
		{"POST", "/mcp-oauth/authorize", browser, none, a.confirmAuthorization},
		{"GET", "/mcp-oauth/callback", browser, none, a.finishAuthorization},
		{"GET", "/mcp-oauth/callback/{issuer}", browser, none, a.finishAuthorization},
		{"GET", "/mcp-oauth/client-metadata.json", unlimited, none, a.describeFormerClient},
		{"GET", "/mcp-oauth/client-metadata/{issuer}", unlimited, none, a.describeClient},

		{"GET", "/updates/check", public, inMemory, a.checkForUpdate},
		{"POST", "/updates", manager, queries, withBody(a, a.readReleaseDraft, a.publishRelease)},
		{"PATCH", "/updates/{id}", manager, queries, onRecordWithBody(a, "id", "Release", readReleasePatch,
			withRecordMemory(maxReleaseView, repliesWithBody(viewRelease, a.Releases.Change)))},
		{"GET", "/updates/releases", manager, queries, a.listReleases},
		{"GET", "/updates/releases/{id}/rollout", manager, queries, a.authorized(onRecord("id", "Release", a.explainRollout))},
		{"GET", "/updates/releases/{id}/progress", manager, queries, withoutQuery(a.authorized(onRecord("id", "Release", repliesOn(viewProgress, a.Releases.Progress))))},
		{"GET", "/updates/releases/{id}/reports", manager, queries, a.listReports},
		{"POST", "/updates/reports", public, none, a.reportInstallation},
		{"GET", "/updates/adoption", manager, queries, a.fromReplica(a.adoption)},
		{"GET", "/updates/feeds/electron/{file}", public, none, a.electronUpdates},
		{"GET", "/updates/feeds/squirrel/darwin/{arch}/{version}", public, none, a.macUpdates},
		{"GET", "/updates/feeds/squirrel/win32/{arch}/{version}/RELEASES", public, none, a.windowsUpdates},
		{"GET", "/updates/feeds/tauri/{target}/{arch}/{version}", public, none, a.tauriUpdates},
		{"GET", "/updates/feeds/sparkle/appcast.xml", public, none, a.appcastUpdates},

		{"GET", "/admin/health", byOperator, none, withoutQuery(a.authorized(a.health))},
		{"GET", "/admin/doctor", byOperator, none, withoutQuery(a.authorized(a.checkConfiguration))},
		{"GET", "/admin/organisations", byOperator, none, a.listOrganisations},
		{"GET", "/admin/organisations/{id}", byOperator, none, withoutQuery(a.authorized(onRecord("id", "Organisation", repliesOn(a.viewOverview, a.Operator.Organisation))))},
		{"PUT", "/admin/organisations/{id}/subscription", byOperator, none,
			onRecordWithBody(a, "id", "Organisation", readGrant, repliesWithBody(a.viewOverview, a.Operator.Grant))},
		{"GET", "/admin/organisations/{id}/members", byOperator, none, a.listOrganisationMembers},
		{"PUT", "/admin/organisations/{id}/members/{userId}/role", byOperator, none, a.setRole},

		{"GET", "/openapi.json", unlimited, none, a.document},
	}
	for i := range table {
		if r := table[i]; r.Method != http.MethodGet && r.Guard != browser && r.Guard != webhook {
			table[i].Handle = withQuery(r.Handle, writeParameters[r.Method+" "+r.Path]...)
		}
		table[i].Path = prefix + table[i].Path
		if table[i].Guard == byOperator && a.AdminSecret == "" {
			table[i].Handle = nil
		}
	}
	return append(table,
		row{"GET", "/favicon.ico", unlimited, none, a.readIcon},
		row{"GET", devicePagePath, browser, none, a.showDevice},
		row{"GET", ReferencePath, unlimited, none, a.readReference},
		row{"GET", ReferencePath + "/{file}", public, none, a.readRenderer},
		row{"GET", HealthPath, unlimited, none, a.alive},
		row{"GET", "/readyz", unlimited, none, a.ready},
		row{"GET", "/metrics", unlimited, none, a.metrics()},
		row{"GET", "/.well-known/jwks.json", unlimited, none, a.jwks},
	)
}

// endpoint is a row with its measurements.
type endpoint struct {
	row
	series         *series
	requestShares  *limit.Shares // a request acquires a permit of it while it is handled; nil: none
	databaseShares *limit.Shares // and of this while it uses the database; nil: none
	hasPosition    bool          // the response to a change has the position after it, see row.returnsPosition
}

// path is all endpoints with one path: it chooses among them by method.
type path struct {
	api     *api
	methods map[string]*endpoint
	allow   []string // the value of the Allow header
}

// ServeHTTP replies to a request whose path matched.
func (p *path) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := p.methods[r.Method]
	if e == nil && r.Method == http.MethodHead {
		e = p.methods[http.MethodGet]
	}
	if e == nil {
		c := w.(*call)
		c.r = r
		c.Header()["Allow"] = p.allow
		c.writeError(errorView{Status: http.StatusMethodNotAllowed, Message: "This endpoint allows only " + p.allow[0]})
		return
	}
	p.api.serveAt(e, w, r)
}

// serveAt replies to a request at an endpoint, whatever its method.
func (a *api) serveAt(e *endpoint, w http.ResponseWriter, r *http.Request) {
	c := w.(*call)
	c.r, c.route = r, e
	if err := a.serve(c, e); err != nil {
		a.fail(c, err)
	}
}

// serve replies to a request.
func (a *api) serve(c *call, e *endpoint) error {
	c.r = c.r.WithContext(c.deadlines.Context(c.r.Context()))
	defer c.deadlines.End()
	return a.recheck(c, a.handle(c, e))
}

// handle admits a request by its guard and calls the handler, or replays the response that is
// stored for its idempotency key.
func (a *api) handle(c *call, e *endpoint) error {
	if err := a.admit(c, e.Guard); err != nil {
		return err
	}
	if c.caller.User != "" {
		release, err := a.inFlight.Acquire(string(c.caller.User))
		if err != nil {
			return err
		}
		defer release()
		if c.requestPermit, err = e.requestShares.Acquire(c.r.Context(), c.shareHolder()); err != nil {
			return err
		}
	}
	if a.Position != nil && e.hasPosition {
		c.position = a.currentPosition
	}
	if key, ok := c.r.Header["Idempotency-Key"]; ok && e.keyed() {
		return a.idempotent(c, key, e.Handle)
	}
	return e.Handle(c)
}

// router finds paths without parameters in a map, and matches other paths with the few patterns of their group.
type router struct {
	literal map[string]*path
	groups  map[group]*mux.Router
	rest    *mux.Router // for what is not in the table
}

// group has the patterns with the same first segment, after the prefix of versions, and the same number of segments.
type group struct {
	first   string
	slashes int
}

// groupOf returns the group of a path or pattern.
func groupOf(path string) group {
	first, _, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(path, prefix), "/"), "/")
	return group{first, strings.Count(path, "/")}
}

// ServeHTTP finds the path of a request.
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// An encoded slash is part of a segment, and no path has one: a proxy that guards
	// paths must not be bypassed by it.
	if strings.Contains(strings.ToLower(r.URL.RawPath), "%2f") {
		t.rest.NotFoundHandler.ServeHTTP(w, r)
		return
	}
	if p := t.literal[r.URL.Path]; p != nil {
		p.ServeHTTP(w, r)
		return
	}
	var match mux.RouteMatch
	if g := t.groups[groupOf(r.URL.Path)]; g != nil && g.Match(r, &match) {
		w.(*call).vars = match.Vars
		match.Handler.ServeHTTP(w, r)
		return
	}
	t.rest.ServeHTTP(w, r)
}

// router returns the router of a table. Methods are left to path, so that a wrong one is 405 for every path.
func (a *api) router(table []row) (*router, error) {
	root := mux.NewRouter().SkipClean(true)
	root.NotFoundHandler = http.HandlerFunc(a.notFound)

	paths := map[string]*path{}
	for _, r := range table {
		if r.Handle == nil {
			continue
		}
		p := paths[r.Path]
		if p == nil {
			p = &path{api: a, methods: map[string]*endpoint{}}
			paths[r.Path] = p
		}
		if p.methods[r.Method] != nil {
			return nil, fmt.Errorf("httpapi: %s %s is in the table twice", r.Method, r.Path)
		}
		e := &endpoint{row: r, series: a.newSeries(r.Path), hasPosition: r.returnsPosition()}
		e.requestShares, e.databaseShares = a.shares.of(r.Work)
		p.methods[r.Method] = e
	}
	t := &router{literal: map[string]*path{}, groups: map[group]*mux.Router{}, rest: root}
	// A literal segment sorts before a pattern's brace, and is found first.
	for _, template := range slices.Sorted(maps.Keys(paths)) {
		p := paths[template]
		methods := slices.Sorted(maps.Keys(p.methods))
		if p.methods[http.MethodGet] != nil {
			methods = append(methods, http.MethodHead)
		}
		slices.Sort(methods)
		p.allow = []string{strings.Join(methods, ", ")}

		if !strings.Contains(template, "{") {
			t.literal[template] = p
			continue
		}
		g := groupOf(template)
		if t.groups[g] == nil {
			t.groups[g] = mux.NewRouter()
		}
		t.groups[g].Handle(template, p)
	}
	for _, start := range slices.Sorted(maps.Keys(a.Mounts)) {
		mounted := a.mounted(a.Mounts[start])
		e := &endpoint{row: row{Path: start + "/*", Guard: unlimited}, series: a.newSeries(start + "/*")}
		root.PathPrefix(start + "/").HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := w.(*call)
			c.r, c.route = r, e
			if err := mounted(c); err != nil {
				a.fail(c, err)
			}
		})
	}
	if a.Console != nil {
		a.routeConsole(root)
	}
	return t, nil
}

func (a *api) notFound(w http.ResponseWriter, _ *http.Request) {
	a.fail(w.(*call), fault.New(fault.NotFound, "There is no such endpoint"))
}
