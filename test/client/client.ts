// A client of the whole interface, whose types are made from the OpenAPI document.
// Compiled, it shows that every operation can be used as it is described; run with
// the address of a server as its argument, it goes through some of them for real.
import createClient from "openapi-fetch"
import type { components, paths } from "./api.js"

declare const process: { argv: string[]; exitCode?: number }

type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name]
type Client = ReturnType<typeof createClient<paths>>

// An answer of openapi-fetch has data or an error in the form of all errors.
type Answer<Data> = { data?: Data; error?: Schema<"Error"> | string; response: Response }

// good returns the data of an answer that is no error.
function good<Data>(answer: Answer<Data>): Exclude<Data, undefined> {
	if (answer.data === undefined) {
		const problem = answer.error
		throw new Error(`${answer.response.url}: ${typeof problem === "object" ? `${problem.statusCode} ${problem.message}` : answer.response.status}`)
	}
	return answer.data as Exclude<Data, undefined>
}

function equal<Value>(got: Value, want: Value, what: string): void {
	if (got !== want) throw new Error(`${what} is ${String(got)}, not ${String(want)}`)
}

type Event = { id?: string; type: string; data: string }

// events reads server-sent events. A client of a browser has EventSource for those
// that need no token.
async function* events(stream: ReadableStream<Uint8Array> | null | undefined): AsyncGenerator<Event> {
	if (!stream) throw new Error("there is no stream")
	let text = ""
	let event: Event = { type: "message", data: "" }
	for await (const part of stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)) {
		text += part
		for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
			const line = text.slice(0, end)
			text = text.slice(end + 1)
			const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
			if (line === "") {
				if (event.data !== "") yield event
				event = { type: "message", data: "" }
			} else if (name === "id") event.id = value
			else if (name === "event") event.type = value ?? ""
			else if (name === "data") event.data += value
		}
	}
}

// readFiles reads the answer about many files: a line for each, which its content follows.
function* readFiles(answer: ArrayBuffer): Generator<[Schema<"FileReading">, Uint8Array]> {
	const bytes = new Uint8Array(answer)
	for (let at = 0; at < bytes.length; ) {
		const end = bytes.indexOf(10, at) + 1
		const file = JSON.parse(new TextDecoder().decode(bytes.subarray(at, end))) as Schema<"FileReading">
		at = end + file.length
		yield [file, bytes.subarray(end, at)]
	}
}

async function auth(api: Client): Promise<void> {
	const signIn = await api.GET("/api/v1/auth/cli-auth", { params: { query: { port: 5000, state: "s" } }, redirect: "manual" })
	const where: string | null = signIn.response.headers.get("Location")
	await api.GET("/api/v1/auth/cli-callback", { params: { query: { state: where ?? "", code: "c", iss: "i" } }, redirect: "manual" })
	const session: Schema<"Session"> = good(await api.POST("/api/v1/auth/exchange-token", { body: { identityToken: "t", orgName: null } }))
	const again: Schema<"Session"> = good(await api.POST("/api/v1/auth/refresh", { body: { token: session.token } }))
	const organisation: string | null | undefined = again.org?.name
	const me = good(await api.GET("/api/v1/auth/me"))
	for (const place of good(await api.GET("/api/v1/auth/organisations"))) {
		if (!place.current) good(await api.POST("/api/v1/auth/refresh", { body: { token: session.token, orgId: place.id } }))
	}
	good(await api.DELETE("/api/v1/auth/sessions"))
	const sessions = good(await api.GET("/api/v1/auth/sessions"))
	equal(sessions.map((s) => s.current), [true], "the sessions")
	equal((await api.DELETE("/api/v1/auth/sessions/{id}", { params: { path: { id: "0198a1b2-0000-7000-8000-00000000000f" } } })).response.status, 404, "a session that is not there")
	const device: Schema<"DeviceCodes"> = good(await api.POST("/api/v1/auth/device", { body: { client_name: "client" } }))
	await api.GET("/api/v1/auth/device", { params: { query: { user_code: device.user_code } }, redirect: "manual" })
	await api.GET("/device", { params: { query: { user_code: device.user_code } }, redirect: "manual" })
	await api.POST("/api/v1/auth/device/decision", { body: { user_code: device.user_code, token: "t", decision: "deny" }, bodySerializer: (form) => new URLSearchParams(form) })
	const refused: "authorization_pending" | string | undefined = (await api.POST("/api/v1/auth/device/token", { body: { device_code: device.device_code } })).error?.error
	const role: Schema<"Role"> | null = me.role
	const done: true = good(await api.POST("/api/v1/auth/onboarding-complete")).success
	const first: string | undefined = good(await api.POST("/api/v1/auth/seed-onboarding", { params: { header: { "Idempotency-Key": "k" } } })).taskIds[0]
	const message: Schema<"IdentityEvent"> = { type: "user.created", data: { id: "user_1" } }
	await api.POST("/api/v1/auth/webhook", { params: { header: { "webhook-id": "m", "webhook-timestamp": "1767323045", "webhook-signature": "v1,x" } }, body: message })
	void [organisation, refused, role, done, first]
}

async function people(api: Client): Promise<void> {
	const members: Schema<"Member">[] = good(await api.GET("/api/v1/org/members", { params: { query: { limit: 100 } } }))
	const found = good(await api.GET("/api/v1/org/members", { params: { query: { search: "ada", limit: 10 } } }))
	good(await api.GET("/api/v1/org/members", { params: { query: { ids: found.map((m) => m.userId).join(",") } } }))
	for (const { userId } of members) {
		const changed = good(await api.PATCH("/api/v1/org/members/{userId}/role", { params: { path: { userId } }, body: { role: "ADMIN" } }))
		good(await api.DELETE("/api/v1/org/members/{userId}", { params: { path: { userId: changed.userId } } }))
	}
	for (const former of good(await api.GET("/api/v1/org/members/former", { params: { query: { limit: 10 } } }))) {
		const name: string | null = former.name
		void [name, former.userId, former.removedAt]
	}
	const made = good(await api.POST("/api/v1/org/invite", { body: { email: "grace@example.com", role: "MEMBER" } }))
	const address: string = made.inviteUrl
	for (const invitation of good(await api.GET("/api/v1/org/invites"))) {
		const path = { id: invitation.id }
		const again = good(await api.POST("/api/v1/org/invite/{id}/resend", { params: { path } }))
		equal(again.status, "PENDING", "the status")
		good(await api.DELETE("/api/v1/org/invite/{id}", { params: { path } }))
	}
	for (const entry of good(await api.GET("/api/v1/org/audit", { params: { query: { limit: 10, cursor: "c" } } }))) {
		if (entry.action === "member.left") void [entry.actorId, address]
	}
	const started = good(await api.POST("/api/v1/org/export"))
	for (const { id } of [started, ...good(await api.GET("/api/v1/org/exports"))]) {
		const is = good(await api.GET("/api/v1/org/exports/{id}", { params: { path: { id } } }))
		if (is.status === "READY") void (await api.GET("/api/v1/org/exports/{id}/archive", { params: { path: { id } }, parseAs: "stream" })).data
	}
}

async function work(api: Client): Promise<void> {
	const query = { status: "TODO", priority: "HIGH", tags: "a,b", search: "owls", dueBefore: "2026-01-31", assigneeId: "null" } as const
	const tasks: Schema<"Task">[] = good(await api.GET("/api/v1/tasks", { params: { query } }))
	good(await api.POST("/api/v1/tasks/reorder", { body: { taskIds: tasks.map((task) => task.id) } }))
	good(await api.POST("/api/v1/tasks/reprioritize", { body: { changes: tasks.map((task) => ({ taskId: task.id, reason: "now", priority: "URGENT" as const })) } }))
	const team: Schema<"Team"> = good(await api.POST("/api/v1/teams", { body: { name: "Design", description: null } }))
	const path = { id: team.id }
	for (const one of [...good(await api.GET("/api/v1/teams")), good(await api.GET("/api/v1/teams/{id}", { params: { path } }))]) {
		const name: string = good(await api.PATCH("/api/v1/teams/{id}", { params: { path: { id: one.id } }, body: { name: `${one.name}!` } })).name
		void name
	}
	const member = good(await api.POST("/api/v1/teams/{id}/members", { params: { path }, body: { userId: team.createdBy } }))
	for (const { userId } of [member, ...good(await api.GET("/api/v1/teams/{id}/members", { params: { path } }))]) {
		good(await api.DELETE("/api/v1/teams/{id}/members/{userId}", { params: { path: { id: team.id, userId } } }))
	}
	const made = good(await api.POST("/api/v1/workspaces", { body: { name: "Website", teamId: team.id } }))
	const space = { params: { path: { id: made.id } } }
	good(await api.GET("/api/v1/workspaces/{id}", space))
	good(await api.PATCH("/api/v1/workspaces/{id}", { ...space, body: { description: "d" } }))
	good(await api.POST("/api/v1/workspaces/{id}/move", { ...space, body: { targetTeamId: team.id } }))
	const order = good(await api.GET("/api/v1/workspaces", { params: { query: { teamId: team.id } } })).map((workspace) => workspace.id)
	good(await api.PUT("/api/v1/workspaces/order", { body: { order } }))
	good(await api.DELETE("/api/v1/workspaces/{id}", space))
	good(await api.DELETE("/api/v1/teams/{id}", { params: { path } }))
}

async function documents(api: Client, workspaceId: string): Promise<void> {
	const profile: { [name: string]: unknown } | null = good(await api.GET("/api/v1/sync/profile"))
	good(await api.PUT("/api/v1/sync/profile", { params: { header: { "If-None-Match": "*" } }, body: { ...profile, theme: "dark" } }))
	good(await api.GET("/api/v1/sync/org-onboarding", { params: { header: { "If-None-Match": '"1"' } } }))
	good(await api.PUT("/api/v1/sync/org-onboarding", { params: { query: { expectedVersion: 1 } }, body: {} }))
	const memory: Schema<"StoredFile"> | null = good(await api.GET("/api/v1/sync/memory/{scope}", { params: { path: { scope: "user" } } }))
	good(await api.PUT("/api/v1/sync/memory/{scope}", { params: { path: { scope: "org" } }, body: { content: memory?.content ?? "", expectedVersion: 0 } }))
	for (const file of good(await api.GET("/api/v1/sync/memory/workspace/{workspaceId}", { params: { path: { workspaceId } } }))) {
		const path = { workspaceId, fileName: file.path }
		const one = good(await api.GET("/api/v1/sync/memory/workspace/{workspaceId}/{fileName}", { params: { path } }))
		good(await api.PUT("/api/v1/sync/memory/workspace/{workspaceId}/{fileName}", { params: { path, header: { "If-Match": '"1"' } }, body: { content: `${one?.content}\n` } }))
	}
	for (const file of good(await api.GET("/api/v1/sync/files", { params: { query: { kind: "ARTIFACT", scope: "SHARED", prefix: "o/shared", workspaceId } } }))) {
		const path = { id: file.id }
		good(await api.PUT("/api/v1/sync/files/{id}", { params: { path }, body: { content: "YQ==", encoding: "base64", expectedVersion: file.version } }))
		good(await api.PATCH("/api/v1/sync/files/{id}", { params: { path }, body: { path: `moved/${file.path}`, expectedVersion: 1 } }))
		for (const earlier of good(await api.GET("/api/v1/sync/files/{id}/versions", { params: { path, query: { limit: 10 } } }))) {
			const version = { path: { ...path, version: String(earlier.version) } }
			good(await api.GET("/api/v1/sync/files/{id}/versions/{version}", { params: version }))
			good(await api.POST("/api/v1/sync/files/{id}/restore", { params: { path }, body: { version: earlier.version } }))
			good(await api.DELETE("/api/v1/sync/files/{id}/versions/{version}", { params: version }))
		}
		good(await api.DELETE("/api/v1/sync/files/{id}/versions", { params: { path } }))
		good(await api.DELETE("/api/v1/sync/files/{id}", { params: { path, query: { expectedVersion: 2 } } }))
	}
	const checksum = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
	const { moved }: { moved: number } = good(await api.POST("/api/v1/sync/move", { body: { from: "reports", to: "archive", kind: "ARTIFACT", scope: "SHARED" } }))
	const { maxBatchOperations } = good(await api.GET("/api/v1/sync/limits"))
	if (moved < maxBatchOperations) {
		good(await api.POST("/api/v1/sync/batch", { body: { op: "put", path: "a.md", content: "a" }, bodySerializer: (o) => JSON.stringify(o), headers: { "Content-Type": "application/x-ndjson" } }))
	}
	for (const [file, content] of readFiles(good(await api.POST("/api/v1/sync/batch/read", { body: { files: [{ id: checksum, expectedVersion: 1 }] }, parseAs: "arrayBuffer" })))) {
		if (file.status === 200 && content.byteLength !== file.length) {
			throw new Error(file.error?.message)
		}
	}
	const upload = good(await api.POST("/api/v1/sync/uploads", { body: { path: "reports/january.pdf", size: 7, checksum } }))
	const started = { path: { id: upload.id } }
	good(await api.POST("/api/v1/sync/uploads/{id}/complete", { params: started }))
	good(await api.DELETE("/api/v1/sync/uploads/{id}", { params: started }))
	const header = { "Upload-Complete": "?0", "Upload-Length": 7 } as const
	const resumable: Schema<"ResumableUpload"> = good(await api.POST("/api/v1/sync/resumable-uploads", { params: { header, query: { path: "january.pdf", checksum } } })) as Schema<"ResumableUpload">
	const parts = { path: { id: resumable.id } }
	good(await api.GET("/api/v1/sync/resumable-uploads"))
	const { offset } = good(await api.GET("/api/v1/sync/resumable-uploads/{id}", { params: parts }))
	good(await api.PATCH("/api/v1/sync/resumable-uploads/{id}", { params: { ...parts, header: { ...header, "Upload-Offset": offset } }, body: "january", bodySerializer: (text) => text, headers: { "Content-Type": "application/partial-upload" } }))
	good(await api.DELETE("/api/v1/sync/resumable-uploads/{id}", { params: parts }))
}

async function money(api: Client): Promise<void> {
	const gate = good(await api.GET("/api/v1/billing/status"))
	const plan: "NO_PLAN" | "FREE" | "STANDARD" | "PREMIUM" | "ENTERPRISE" = gate.plan
	const seats: number | null = good(await api.GET("/api/v1/billing/subscription")).purchasedSeats
	const members: number | null | undefined = good(await api.GET("/api/v1/billing/plans"))[0]?.members
	good(await api.POST("/api/v1/billing/trial"))
	const page: string = good(await api.POST("/api/v1/billing/checkout", { body: { plan: "PREMIUM" } })).url
	const portal: string = good(await api.POST("/api/v1/billing/portal")).url
	good(await api.POST("/api/v1/billing/downgrade"))
	const outcome = good(await api.GET("/api/v1/billing/checkout/success", { params: { query: { session_id: "cs_1" } }, headers: { Accept: "application/json" } }))
	if (typeof outcome === "object") void outcome.status
	await api.GET("/api/v1/billing/checkout/cancel")
	await api.POST("/api/v1/billing/webhook", { params: { header: { "Payment-Signature": "t=1,v1=x" } }, body: { id: "evt_1", type: "invoice.paid", data: { object: { customer: "cus_1" } } } })
	for (const user of good(await api.GET("/api/v1/metering/org")).byUser ?? []) void user.totalTokens
	void good(await api.GET("/api/v1/metering/storage")).used
	for (const sum of good(await api.GET("/api/v1/metering/daily", { params: { query: { from: "2026-01-01", to: "2026-01-31", by: "user" } } }))) void sum.userId
	for (const day of good(await api.GET("/api/v1/metering/user")).byDay) void day.date
	void [plan, seats, page, portal, members]
}

async function connectors(api: Client): Promise<void> {
	for (const provider of good(await api.GET("/api/v1/connector-providers"))) {
		const made: Schema<"Connector"> = good(await api.POST("/api/v1/connectors", { body: { providerId: provider.serverId, config: { region: "eu" } } }))
		const path = { instanceId: made.instanceId }
		const credentials = Object.fromEntries(provider.credentialFields.map((field) => [field.name, "x"]))
		good(await api.POST("/api/v1/connectors/{instanceId}/credentials", { params: { path }, body: { credentials } }))
		const key: unknown = good(await api.GET("/api/v1/connectors/{instanceId}/credentials", { params: { path } })).credentials["apiKey"]
		const { state } = good(await api.POST("/api/v1/mcp-oauth/start", { body: { instanceId: made.id } }))
		await api.GET("/api/v1/mcp-oauth/authorize", { params: { query: { state } } })
		await api.POST("/api/v1/mcp-oauth/authorize", { body: { state, token: "t" }, redirect: "manual", bodySerializer: (form) => new URLSearchParams(form) })
		await api.GET("/api/v1/mcp-oauth/callback", { params: { query: { state, code: "c", iss: "i" } } })
		await api.GET("/api/v1/mcp-oauth/callback/{issuer}", { params: { path: { issuer: "i" }, query: { state, code: "c", iss: "i" } } })
		const how: "pending" | "ready" | "error" = good(await api.GET("/api/v1/mcp-oauth/poll", { params: { query: { state } } })).status
		good(await api.DELETE("/api/v1/connectors/{instanceId}", { params: { path } }))
		void [key, how]
	}
	for (const connector of good(await api.GET("/api/v1/connectors"))) {
		if (connector.status === "ERROR") void [connector.lastError, connector.tools[0]?.description]
	}
	const redirects: string[] = good(await api.GET("/api/v1/mcp-oauth/client-metadata.json")).redirect_uris
	const own: string[] = good(await api.GET("/api/v1/mcp-oauth/client-metadata/{issuer}", { params: { path: { issuer: "i" } } })).redirect_uris
	void [redirects, own]
}

async function updates(api: Client): Promise<void> {
	const check = good(await api.GET("/api/v1/updates/check", { params: { query: { version: "1.4.2", platform: "darwin", arch: "arm64", clientId: "d" } } }))
	if (check.updateAvailable) void [check.downloadUrl, check.sha512Base64]
	const draft: Schema<"ReleaseDraft"> = { version: "1.5.0", platform: "DARWIN", arch: "ARM64", downloadUrl: "https://downloads.example.com/a.zip", rolloutPercentage: 10 }
	const release = good(await api.POST("/api/v1/updates", { body: draft }))
	const path = { id: release.id }
	good(await api.PATCH("/api/v1/updates/{id}", { params: { path }, body: { rolloutPercentage: 50, active: true } }))
	for (const one of good(await api.GET("/api/v1/updates/releases"))) void one.publishedAt
	for (const device of good(await api.GET("/api/v1/updates/releases/{id}/rollout", { params: { path, query: { clientIds: "a,b" } } })).devices) void device.bucket
	good(await api.PATCH("/api/v1/updates/{id}", { params: { path }, body: { paused: true, failureLimit: 5, failureMinimum: 100 } }))
	good(await api.POST("/api/v1/updates/reports", { body: { version: "1.5.0", platform: "darwin", arch: "arm64", outcome: "failure" } }))
	void good(await api.GET("/api/v1/updates/releases/{id}/progress", { params: { path } })).devices
	for (const hour of good(await api.GET("/api/v1/updates/releases/{id}/reports", { params: { path } }))) void hour.failed
	for (const day of good(await api.GET("/api/v1/updates/adoption", { params: { query: { from: "2026-01-01", platform: "darwin" } } }))) void day.checks

	const place = { arch: "x64", version: "1.4.2" }
	const yaml: string = good(await api.GET("/api/v1/updates/feeds/electron/{file}", { params: { path: { file: "latest-mac.yml" }, header: { "X-User-Staging-Id": "d" } }, parseAs: "text" }))
	const squirrel: Schema<"SquirrelUpdate"> | undefined = (await api.GET("/api/v1/updates/feeds/squirrel/darwin/{arch}/{version}", { params: { path: place } })).data
	const list: string = good(await api.GET("/api/v1/updates/feeds/squirrel/win32/{arch}/{version}/RELEASES", { params: { path: place }, parseAs: "text" }))
	const tauri: Schema<"TauriUpdate"> | undefined = (await api.GET("/api/v1/updates/feeds/tauri/{target}/{arch}/{version}", { params: { path: { ...place, target: "linux" } } })).data
	const cast: string = good(await api.GET("/api/v1/updates/feeds/sparkle/appcast.xml", { params: { query: { channel: "beta" } }, parseAs: "text" }))
	void [yaml, squirrel?.name, list, tauri?.signature, cast]
}

async function operators(api: Client): Promise<void> {
	for (const minute of good(await api.GET("/api/v1/admin/health")).minutes) void minute.serverErrors
	for (const { verdict, remedy } of good(await api.GET("/api/v1/admin/doctor")).checks) void [verdict, remedy]
	for (const { id } of good(await api.GET("/api/v1/admin/organisations"))) {
		const seen: Schema<"Overview"> = good(await api.GET("/api/v1/admin/organisations/{id}", { params: { path: { id } } }))
		good(await api.PUT("/api/v1/admin/organisations/{id}/subscription", { params: { path: { id } }, body: { plan: "ENTERPRISE", seats: seen.members } }))
		for (const { userId } of good(await api.GET("/api/v1/admin/organisations/{id}/members", { params: { path: { id } } }))) {
			good(await api.PUT("/api/v1/admin/organisations/{id}/members/{userId}/role", { params: { path: { id, userId } }, body: { role: "OWNER" } }))
		}
	}
	const version: unknown = good(await api.GET("/api/v1/openapi.json"))["openapi"]
	const icon: string = good(await api.GET("/favicon.ico", { parseAs: "text" }))
	const page: string = good(await api.GET("/docs", { parseAs: "text" }))
	const script: string = good(await api.GET("/docs/{file}", { params: { path: { file: "f.js" } }, parseAs: "text" }))
	const state: "ok" | "ready" = good(await api.GET("/readyz")).status
	const figures: string = good(await api.GET("/metrics", { parseAs: "text" }))
	const keys: string[] = good(await api.GET("/.well-known/jwks.json")).keys.map((key) => key.kid)
	void [version, icon, page, script, state, figures, keys]
}

// signIn makes a token at the development identity provider, whose pages are no part
// of the interface.
async function signIn(base: string): Promise<string> {
	const answer = await fetch(`${base}/dev/identity/token`, {
		method: "POST",
		body: new URLSearchParams({ email: "ada@collab.example", name: "Ada", org: "Analytical Engines", role: "owner" }),
	})
	return ((await answer.json()) as { identityToken: string }).identityToken
}

// tour calls a real server.
async function tour(base: string): Promise<void> {
	const open = createClient<paths>({ baseUrl: base })
	equal(good(await open.GET("/healthz")).status, "ok", "health")
	const refused = await open.GET("/api/v1/tasks")
	equal(refused.error?.statusCode, 401, "the status without a token")

	const session = good(await open.POST("/api/v1/auth/exchange-token", { body: { identityToken: await signIn(base) } }))
	equal(session.role, "OWNER", "the role")
	const api = createClient<paths>({ baseUrl: base, headers: { Authorization: `Bearer ${session.token}` } })
	equal(good(await api.GET("/api/v1/auth/me")).user.email, "ada@collab.example", "the caller")
	good(await api.POST("/api/v1/auth/seed-onboarding"))
	good(await api.POST("/api/v1/billing/trial"))

	const draft: Schema<"TaskDraft"> = { title: "Write the report", priority: "HIGH", tags: ["finance"], metadata: { source: "test" } }
	const made = await api.POST("/api/v1/tasks", { body: draft })
	const task = good(made)
	const path = { id: task.id }
	const version = made.response.headers.get("ETag") ?? ""
	const done = good(await api.PATCH("/api/v1/tasks/{id}", { params: { path, header: { "If-Match": version } }, body: { status: "DONE" } }))
	equal(typeof done.completedAt, "string", "completedAt")
	const stale = await api.DELETE("/api/v1/tasks/{id}", { params: { path, header: { "If-Match": version } } })
	equal(stale.error?.statusCode, 412, "the status of a stale deletion")
	equal(good(await api.GET("/api/v1/tasks/{id}/history", { params: { path } }))[0]?.changes[0]?.field, "status", "what changed")
	equal(good(await api.GET("/api/v1/tasks", { params: { query: { limit: 2 } } })).length, 2, "the page's length")
	good(await api.GET("/api/v1/tasks/{id}", { params: { path } }))

	const end = new AbortController()
	const feed = await api.GET("/api/v1/sync/changes", { parseAs: "stream", signal: end.signal })
	equal(feed.response.status, 200, "the status of the feed")
	const content = "# January\n"
	const file = good(await api.POST("/api/v1/sync/files", { body: { path: "reports/january.md", content } }))
	const form: Schema<"FileForm"> = { path: "reports/form.md", file: content }
	const sent = await api.POST("/api/v1/sync/files", {
		body: form,
		bodySerializer: () => {
			const data = new FormData()
			data.set("path", form.path ?? "")
			data.set("file", new Blob([form.file]), "form.md")
			return data
		},
	})
	equal(good(sent).checksum, file.checksum, "the checksum of a form's file")
	const again = good(await api.GET("/api/v1/sync/files/{id}", { params: { path: { id: file.id } } }))
	if (typeof again !== "object" || again === null || !("content" in again)) throw new Error("a file has no content")
	equal(again.content, content, "the content")
	const bytes = await api.GET("/api/v1/sync/files/{id}", { params: { path: { id: file.id }, query: { raw: "1" }, header: { Range: "bytes=2-4" } }, parseAs: "text" })
	equal(bytes.response.status, 206, "the status of a part")
	equal(bytes.data as unknown, "Jan", "the part")
	const manifest = await api.GET("/api/v1/sync/manifest")
	equal(good(manifest).length, 2, "the manifest's length")

	let seen = 0
	for await (const event of events(feed.data)) {
		equal(event.type, "message", "the event's type")
		const change = JSON.parse(event.data) as Schema<"ChangeEvent">
		equal(change.type, "file-changed", "the change")
		if (++seen === 2) {
			equal(event.id ?? "", manifest.response.headers.get("X-Sync-Cursor") ?? "none", "the feed's place")
			break
		}
	}
	end.abort()

	const question: Schema<"ChatRequest"> = { message: "Hello", history: [{ role: "user", content: [{ type: "text", text: "Hi" }] }, { role: "assistant", content: "Hi" }] }
	const answer = await api.POST("/api/v1/chat", { body: question, parseAs: "stream" })
	equal(answer.response.headers.get("Content-Type"), "text/event-stream", "the type of the answer")
	let said = ""
	let used = 0
	for await (const event of events(answer.data)) {
		const chunk = JSON.parse(event.data) as Schema<"ChatChunk">
		switch (chunk.type) {
			case "text":
				said += chunk.text
				break
			case "tool_call":
				void [chunk.toolCall.name, chunk.toolCall.args]
				break
			case "tool_result":
				void chunk.toolResult.result
				break
			case "error":
				throw new Error(chunk.error)
			case "done":
				used = chunk.usage.inputTokens + chunk.usage.outputTokens
		}
	}
	if (said === "" || used === 0) throw new Error(`the model says ${JSON.stringify(said)} with ${used} tokens`)
	equal(good(await api.GET("/api/v1/metering/quota")).used, used, "the tokens of today")
	if (!good(await api.GET("/api/v1/models"))[0]) throw new Error("there is no model")
}

// What is not called here needs more than a new server has.
export const rest = [auth, people, work, documents, money, connectors, updates, operators]

const base = process.argv[2]
if (base) {
	await tour(base)
	console.log("ok")
}
