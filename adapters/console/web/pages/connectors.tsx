// Connectors: the tool servers that the organisation has connected, and the catalog of those that it can
// connect. What is open is in the address; secrets are in fields and on the page alone.
import type { JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { Dialog } from "../dialog"
import { once, useDraft } from "../draft"
import { Initials } from "../icons"
import { all, call, callDelete, failureOf, page, type Failure } from "../interface"
import { announce } from "../live"
import { Copy, Problem, RequestId, Show, Time, submitting, useAct, useLoaded, useLook } from "../loading"
import { Unnamed, useMembers, type Members } from "../members"
import { openPopup, type Popup } from "../popup"
import { addressWith, useQuery, useTyped } from "../router"
import { count } from "../text"
import type { Connector, ConnectorProvider, Me } from "../types"

const statuses: Record<Connector["status"], string> = { CONNECTED: "Connected", CONNECTING: "Connecting", ERROR: "Error", DISCONNECTED: "Not connected" }

const byOAuth = (p: ConnectorProvider): boolean => p.authMode === "SERVER_MEDIATED" || p.authMode === "REMOTE_OAUTH"
const isLocal = (p: ConnectorProvider): boolean => p.mcpTransport === "STDIO"
const how = (p: ConnectorProvider): string => (byOAuth(p) ? "Sign-in at the provider" : p.authMode === "API_KEY" ? "With a key" : "Without credentials") + (isLocal(p) ? ", on your own machine" : "")
const words = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1).replaceAll("-", " ")

export default function Connectors({ me }: { me: Me }): JSX.Element {
	const writes = me.role !== "VIEWER"
	const [query, change] = useQuery()
	const providers = useLoaded(() => call("GET /api/v1/connector-providers"), [])
	const members = useMembers()
	const connected = useLoaded(() => all("GET /api/v1/connectors", {}), [])
	const connecting = connected.value?.some((c) => c.status === "CONNECTING") ?? false
	const [times, setTimes] = useState(0) // how often the list was asked for because of CONNECTING
	useEffect(() => {
		if (!connecting) return setTimes(0)
		const timer = setTimeout(() => (setTimes(times + 1), connected.retry()), Math.min(30_000, 1000 * 1.5 ** times))
		return () => clearTimeout(timer)
	}, [connecting, times])
	useLook(connected.retry)
	const instance = query.get("instance"), wanted = query.get("connect")
	const provider = providers.value?.find((p) => p.serverId === wanted)
	const open = connected.value?.find((c) => c.id === instance)
	const close = (): void => change({ instance: undefined, connect: undefined }, true)
	return (
		<>
			<h1 tabIndex={-1}>Connectors</h1>
			<p class="soft">Tool servers that chats of the organisation’s members can use. {!writes && "As a viewer you see them, and cannot change them."}</p>
			<Unnamed members={members} />
			<Show of={providers} what="the catalog">
				{(catalog) => (
					<>
						<section aria-label="Connected">
							<h2>In this organisation</h2>
							<Show of={connected} what="the connectors" again="Asking for the connectors again">
								{(list) => list.length === 0
									? <p class="empty">Nothing is connected yet. {writes ? "Choose one below: what it offers can then be used in chats." : "Members can connect what is below."}</p>
									: <ul class="rows">{list.map((c) => <Line key={c.id} connector={c} provider={catalog.find((p) => p.serverId === c.serverId)} />)}</ul>}
							</Show>
						</section>
						<Catalog providers={catalog} writes={writes} />
						{wanted && (provider && writes
							? <Connect key={wanted} provider={provider} onClose={close} onChange={connected.retry} onDone={(id) => (connected.retry(), change({ connect: undefined, instance: id }, true))} />
							: <Dialog title="Connect" onClose={close}><p class="empty">{writes ? "The catalog has no such provider any more." : "A viewer cannot connect anything."}</p></Dialog>)}
						{instance && connected.value && (open
							? <Details key={open.id} connector={open} provider={catalog.find((p) => p.serverId === open.serverId)} members={members} writes={writes} onClose={close} onChange={connected.retry} />
							: <Dialog title="Connector" onClose={close}><p class="empty">There is no such connector, or it was deleted.</p></Dialog>)}
					</>
				)}
			</Show>
		</>
	)
}

function Badge({ status }: { status: Connector["status"] }): JSX.Element {
	return <span class="badge" data-status={status}>{statuses[status]}</span>
}

function Line({ connector: c, provider }: { connector: Connector; provider: ConnectorProvider | undefined }): JSX.Element {
	return (
		<li data-instance={c.id}>
			<Initials of={c.label} />
			<div>
				<a href={addressWith({ instance: c.id })}><b>{c.label}</b></a>
				<p class="soft">
					{provider && provider.displayName !== c.label && `${provider.displayName} · `}{c.status === "ERROR" ? c.lastError : c.hosting === "LOCAL" ? "On each person’s own machine" : `${count(c.tools.length)} ${c.tools.length === 1 ? "tool" : "tools"}`}
					{c.lastUsedAt && <> · used <Time at={c.lastUsedAt} /></>}
				</p>
			</div>
			<Badge status={c.status} />
		</li>
	)
}

function Catalog({ providers, writes }: { providers: ConnectorProvider[]; writes: boolean }): JSX.Element {
	const [query, change] = useQuery()
	const typed = useTyped("q"), category = query.get("category") ?? ""
	const categories = [...new Set(providers.flatMap((p) => p.category ?? []))].sort()
	const shown = providers.filter((p) => (category === "" || p.category === category) && `${p.displayName} ${p.description} ${p.category ?? ""}`.toLowerCase().includes(typed.value.trim().toLowerCase()))
	return (
		<section aria-label="Catalog">
			<header class="bar">
				<h2>Catalog</h2>
				<label>Search <input type="search" {...typed} /></label>
				<label>Category <select value={category} onChange={(e) => change({ category: e.currentTarget.value || undefined })}><option value="">All</option>{categories.map((c) => <option key={c} value={c}>{words(c)}</option>)}</select></label>
			</header>
			<p class="hidden" role="status">{count(shown.length)} found</p>
			{shown.length === 0
				? <p class="empty">{providers.length === 0 ? "The operator of this server offers no connectors." : <>Nothing fits. <button type="button" class="small" onClick={() => change({ q: undefined, category: undefined })}>Show all</button></>}</p>
				: <ul class="catalog">
					{shown.map((p) => (
						<li key={p.serverId} data-provider={p.serverId}>
							<p class="head"><Initials of={p.displayName} /> <b>{p.displayName}</b></p>
							<p>{p.description}</p>
							<p class="soft">{how(p)}</p>
							{writes && <a class="button small" href={addressWith({ connect: p.serverId })} aria-label={`Connect ${p.displayName}`}>Connect</a>}
						</li>
					))}
				</ul>}
		</section>
	)
}

// Machine explains a tool server that runs beside a client.
function Machine({ command, variables }: { command: string[] | null; variables: string[] }): JSX.Element {
	const line = (command ?? []).map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", "'\\''")}'`)).join(" ")
	return (
		<div class="waits">
			<p><b>It runs on each person’s own machine</b>, not on this server. Collab’s applications start it there by this command:</p>
			<p><code class="command">{line}</code> <Copy text={line} what="the command" /></p>
			{variables.length > 0 && <p>They give it the credentials in {variables.map((v, i) => <span key={v}>{i > 0 && ", "}<code>{v}</code></span>)}.</p>}
		</div>
	)
}

type Fields = Record<string, string>

// Secrets are the fields of a provider's credentials. What is typed is kept nowhere but in them.
function Secrets({ provider, values, set }: { provider: ConnectorProvider; values: Fields; set: (values: Fields) => void }): JSX.Element {
	const [shown, show] = useState(false)
	return (
		<>
			{provider.credentialFields.map((f) => (
				<label key={f.name} class="long">{f.label}{f.optional && " (optional)"}
					<input type={(shown ? "text" : "password") as "password"} name={`secret-${f.name}`} autocomplete="off" spellcheck={false} required={!f.optional} value={values[f.name] ?? ""} onInput={(e) => set({ ...values, [f.name]: e.currentTarget.value })} />
				</label>
			))}
			{provider.credentialFields.length > 0 && <p class="long soft"><button type="button" class="small" aria-pressed={shown} onClick={() => show(!shown)}>{shown ? "Hide what I type" : "Show what I type"}</button> It is encrypted when it is stored, and not kept in this browser.</p>}
		</>
	)
}

const given = (values: Fields): Fields => Object.fromEntries(Object.entries(values).filter(([, v]) => v.trim() !== ""))

// Connect makes a connector of a provider. What a failed attempt has made is used by the next one.
function Connect({ provider: p, onClose, onChange, onDone }: { provider: ConnectorProvider; onClose: () => void; onChange: () => void; onDone: (id: string) => void }): JSX.Element {
	const [draft, setDraft, drop] = useDraft<{ name?: string; url?: string }>(`connect ${p.serverId}`)
	const [secrets, setSecrets] = useState<Fields>({})
	const [flow, setFlow] = useState<{ start: () => Promise<Started>; popup: Popup | undefined }>()
	const made = useRef<{ id: string; from: string } | undefined>(undefined)
	const hasAddress = p.mcpUrl === null && !isLocal(p)
	const create = async (): Promise<string> => {
		const body = { providerId: p.serverId, name: draft?.name?.trim() || null, ...(hasAddress && { config: { url: draft?.url?.trim() ?? "" } }) }
		const from = JSON.stringify(body)
		if (made.current?.from === from) return made.current.id
		const { id } = await once(`connect ${p.serverId}`, body, (given) => call("POST /api/v1/connectors", given))
		made.current = { id, from }
		onChange()
		return id
	}
	const done = (id: string): void => {
		drop(draft)
		announce(`${draft?.name?.trim() || p.displayName} was added.`)
		onDone(id)
	}
	const send = useAct("Connecting", async () => {
		if (byOAuth(p)) {
			const plain = !draft?.name?.trim() && !hasAddress
			return setFlow({ popup: openPopup(`Connecting ${p.displayName}…`, true), start: async () => call("POST /api/v1/mcp-oauth/start", { body: plain ? { providerId: p.serverId } : { instanceId: await create() } }) })
		}
		const id = await create()
		const credentials = given(secrets)
		if (p.authMode === "API_KEY" && Object.keys(credentials).length > 0) await call("POST /api/v1/connectors/{instanceId}/credentials", { path: { instanceId: id }, body: { credentials } })
		done(id)
	})
	return (
		<Dialog title={`Connect ${p.displayName}`} onClose={onClose}>
			<p>{p.description}</p>
			{isLocal(p) && <Machine command={p.command} variables={Object.keys(p.env ?? {})} />}
			{flow
				? <Flow name={p.displayName} {...flow} onCancel={() => (setFlow(undefined), onChange())} onReady={done} />
				: (
					<form class="fields" autocomplete="off" onSubmit={submitting(send)}>
						<label class="long">Name (optional)<input maxLength={100} placeholder={p.displayName} value={draft?.name ?? ""} onInput={(e) => setDraft({ ...draft, name: e.currentTarget.value })} /></label>
						{hasAddress && <label class="long">Address of the server<input type="url" required placeholder="https://tools.example.com/mcp" value={draft?.url ?? ""} onInput={(e) => setDraft({ ...draft, url: e.currentTarget.value })} /></label>}
						{p.authMode === "API_KEY" && <Secrets provider={p} values={secrets} set={setSecrets} />}
						{byOAuth(p) && <p class="long soft">A window opens where you sign in at {p.displayName} and allow Collab to use it. What you allow there, the members of this organisation can use.</p>}
						{send.failed && <Problem {...send.failed}>{made.current && <p>The connector was added; its credentials were not stored yet.</p>}</Problem>}
						<p class="long bar"><button type="submit" class="primary" disabled={send.busy} aria-busy={send.busy}>{byOAuth(p) ? `Sign in at ${p.displayName}` : "Connect"}</button><button type="button" onClick={onClose}>Cancel</button></p>
					</form>
				)}
		</Dialog>
	)
}

type Started = { authUrl: string; state: string; instanceId: string }

const pollEvery = 1500 // milliseconds

// Flow follows an authorization in a window until it is ready, fails, or is cancelled. A window whose page
// has cut its tie to this one looks closed, so a closed one ends nothing.
function Flow({ name, start, popup, onCancel, onReady }: { name: string; start: () => Promise<Started>; popup: Popup | undefined; onCancel: () => void; onReady: (id: string) => void }): JSX.Element {
	const [attempt, setAttempt] = useState({ n: 0, popup })
	const [started, setStarted] = useState<Started>()
	const [failed, fail] = useState<Failure>()
	const [refused, refuse] = useState<{ why: string; request: string }>()
	const [unheard, unhear] = useState<Failure>()
	const [closed, setClosed] = useState(false)
	useEffect(() => {
		let current = true, timer: number | undefined
		const opened = attempt.popup
		const poll = (s: Started, wait: number): void => void (timer = setTimeout(async () => {
			let pause = pollEvery
			try {
				const { value: now, headers } = await page("GET /api/v1/mcp-oauth/poll", { query: { state: s.state } })
				if (!current) return
				unhear(undefined)
				if (now.status === "ready") {
					opened?.close()
					return onReady(now.instanceId)
				}
				if (now.status === "error") return refuse({ why: now.error ?? "The provider refused the authorization", request: headers.get("X-Request-Id") ?? "" })
				setClosed(opened?.closed() ?? false)
			} catch (error) {
				if (!current) return
				const f = failureOf(error)
				if (f.status === 404) return refuse({ why: "The sign-in took longer than ten minutes", request: f.request })
				unhear(f)
				pause = Math.max(pollEvery, f.wait * 1000)
			}
			poll(s, pause)
		}, wait) as unknown as number)
		start().then((s) => {
			if (!current) return
			setStarted(s)
			opened?.go(s.authUrl)
			poll(s, pollEvery)
		}, (error: unknown) => {
			opened?.close()
			if (current) fail(failureOf(error))
		})
		return () => {
			current = false
			clearTimeout(timer)
		}
	}, [attempt])
	const again = (): void => {
		attempt.popup?.close()
		setStarted(undefined)
		fail(undefined)
		refuse(undefined)
		unhear(undefined)
		setClosed(false)
		setAttempt({ n: attempt.n + 1, popup: openPopup(`Connecting ${name}…`, true) })
	}
	const cancel = (): void => {
		attempt.popup?.close()
		onCancel()
	}
	if (failed) return <Problem failure={failed} what={`Starting the sign-in at ${name}`} retry={again} giveUp={cancel} />
	if (refused) return (
		<div class="problem" role="alert">
			<p><strong>{name} is not connected.</strong> {refused.why}. Nothing was stored.</p>
			<RequestId id={refused.request} />
			<button type="button" class="small" onClick={again}>Sign in again</button> <button type="button" class="small" onClick={cancel}>Cancel</button>
		</div>
	)
	return (
		<div class="waits">
			<p role="status"><b>{closed ? "The window seems to be closed." : `Waiting for the sign-in at ${name}.`}</b> {closed ? "If you have not finished there, open it again; if you have, wait a moment." : "Finish it in the other window; it may take ten minutes."}</p>
			{!attempt.popup && started && <p>The browser has kept the window from opening. <a href={started.authUrl} target="_blank" rel="noreferrer">Open the sign-in</a></p>}
			{unheard && <p class="warning">The state is not known now ({unheard.message}); it is asked for again.</p>}
			<p class="bar">{closed && <button type="button" class="small primary" onClick={again}>Open it again</button>}<button type="button" class="small" onClick={cancel}>Cancel</button></p>
		</div>
	)
}

const shownFor = 60 // seconds that credentials are shown

// Details are one connector, with what can be done about it.
function Details({ connector: c, provider: p, members, writes, onClose, onChange }: { connector: Connector; provider: ConnectorProvider | undefined; members: Members; writes: boolean; onClose: () => void; onChange: () => void }): JSX.Element {
	const [act, setAct] = useState<"replace" | "delete">()
	const [flow, setFlow] = useState<Popup | "blocked">()
	const authorises = p !== undefined && byOAuth(p)
	const expired = c.credentialsExpireAt !== null && new Date(c.credentialsExpireAt).getTime() < Date.now()
	const signIn = (): void => setFlow(openPopup(`Connecting ${c.label}…`, true) ?? "blocked")
	return (
		<Dialog title={c.label} onClose={onClose} wide>
			<p><Badge status={c.status} /> {p ? p.displayName : "Its provider is not in the catalog any more"}{p && !isLocal(p) && p.mcpUrl && <span class="soft"> · {p.mcpUrl}</span>}{typeof c.config.url === "string" && <span class="soft"> · {c.config.url}</span>}</p>
			{c.status === "ERROR" && <p class="problem"><strong>It cannot be used now.</strong> {c.lastError ?? "The server does not answer"}.{!expired && " The server tries again by itself; other credentials are tried at once."}</p>}
			{c.status === "CONNECTING" && <p class="waits" role="status">The server is being asked for its tools.</p>}
			{c.status === "DISCONNECTED" && <p class="waits">It has no credentials yet, so chats cannot use it.</p>}
			{p && isLocal(p) && <Machine command={p.command} variables={Object.keys(p.env ?? {})} />}
			<dl class="facts">
				<div><dt>Added</dt><dd><Time at={c.createdAt} /> by {members.nameOf(c.createdBy, "a")}</dd></div>
				<div><dt>Last used</dt><dd>{c.lastUsedAt ? <Time at={c.lastUsedAt} /> : "Never"}</dd></div>
				<div><dt>Credentials</dt><dd>{c.hasCredentials ? c.credentialsExpireAt ? <span class={expired ? "warning" : undefined}>{expired ? "Expired" : "Expire"} <Time at={c.credentialsExpireAt} /></span> : "Stored, without a known end" : p?.authMode === "NONE" ? "None are needed" : "None"}</dd></div>
			</dl>
			{flow && <Flow name={p?.displayName ?? c.label} popup={flow === "blocked" ? undefined : flow} start={() => call("POST /api/v1/mcp-oauth/start", { body: { instanceId: c.id } })} onCancel={() => setFlow(undefined)} onReady={() => (setFlow(undefined), announce(`${c.label} is authorised.`), onChange())} />}
			{act === "replace" && p && <Replace connector={c} provider={p} onClose={() => setAct(undefined)} onDone={() => (setAct(undefined), onChange())} />}
			{writes && (
				<p class="bar">
					{authorises && !flow && <button type="button" class={c.status === "CONNECTED" ? "small" : "small primary"} onClick={signIn}>{c.hasCredentials ? "Sign in again" : `Sign in at ${p.displayName}`}</button>}
					{p?.authMode === "API_KEY" && act !== "replace" && <button type="button" class={c.hasCredentials ? "small" : "small primary"} onClick={() => setAct("replace")}>{c.hasCredentials ? "Replace the credentials" : "Add credentials"}</button>}
					<button type="button" class="small" onClick={() => setAct("delete")}>Delete…</button>
				</p>
			)}
			{writes && c.hasCredentials && <Reveal connector={c} />}
			<h3>Tools</h3>
			{c.tools.length === 0
				? <p class="empty">{c.hosting === "LOCAL" ? "Applications list them when they start it." : c.status === "CONNECTED" ? "The server has named none." : "They are listed once it is connected."}</p>
				: <dl class="tools" tabIndex={0} aria-label="Tools">{c.tools.map((t) => <div key={t.name}><dt><code>{t.name}</code></dt><dd>{t.description || "Without a description"}</dd></div>)}</dl>}
			{act === "delete" && <Delete connector={c} authorises={authorises} onClose={() => setAct(undefined)} onDone={() => (announce(`${c.label} was deleted.`), onChange(), onClose())} />}
		</Dialog>
	)
}

// Reveal shows the stored credentials after an explicit act, for a minute.
function Reveal({ connector: c }: { connector: Connector }): JSX.Element {
	const [entries, setEntries] = useState<[string, string][]>()
	useEffect(() => {
		if (!entries) return
		const hide = (): void => setEntries(undefined)
		const timer = setTimeout(hide, shownFor * 1000)
		addEventListener("pagehide", hide)
		return () => {
			clearTimeout(timer)
			removeEventListener("pagehide", hide)
		}
	}, [entries])
	const read = useAct("Reading the credentials", async () => {
		const { credentials } = await call("GET /api/v1/connectors/{instanceId}/credentials", { path: { instanceId: c.id } })
		setEntries(Object.entries(credentials).map(([name, v]) => [name, typeof v === "string" ? v : JSON.stringify(v)]))
	})
	return (
		<>
			{read.failed && <Problem {...read.failed} giveUp={() => read.fail()} />}
			{entries
				? <div class="waits">
					<p>Hidden again after {shownFor} seconds. <button type="button" class="small" onClick={() => setEntries(undefined)}>Hide now</button></p>
					<dl class="facts">{entries.map(([name, v]) => <div key={name}><dt>{name}</dt><dd><code>{v}</code> <Copy text={v} what={name} /></dd></div>)}</dl>
				</div>
				: <p class="soft"><button type="button" class="small" onClick={() => void read.run()}>Read the credentials</button> It is recorded in the audit log that you have read them.</p>}
		</>
	)
}

function Replace({ connector: c, provider: p, onClose, onDone }: { connector: Connector; provider: ConnectorProvider; onClose: () => void; onDone: () => void }): JSX.Element {
	const [secrets, setSecrets] = useState<Fields>({})
	const send = useAct("Storing the credentials", async () => {
		await call("POST /api/v1/connectors/{instanceId}/credentials", { path: { instanceId: c.id }, body: { credentials: given(secrets) } })
		announce("The credentials are stored.")
		onDone()
	})
	return (
		<form class="fields" autocomplete="off" onSubmit={submitting(send)}>
			<Secrets provider={p} values={secrets} set={setSecrets} />
			{send.failed && <Problem {...send.failed} />}
			<p class="long bar"><button type="submit" class="small primary">Store the credentials</button><button type="button" class="small" onClick={onClose}>Cancel</button></p>
		</form>
	)
}

function Delete({ connector: c, authorises, onClose, onDone }: { connector: Connector; authorises: boolean; onClose: () => void; onDone: () => void }): JSX.Element {
	const send = useAct("Deleting", async () => {
		await callDelete("DELETE /api/v1/connectors/{instanceId}", { path: { instanceId: c.id } })
		onDone()
	})
	return (
		<Dialog title={`Delete ${c.label}?`} onClose={onClose}>
			<p>It cannot be undone. With the connector go:</p>
			<ul>
				<li>{c.tools.length > 0 ? `its ${count(c.tools.length)} tools: ` : ""}chats of all members can no longer use it;</li>
				{c.hasCredentials && <li>its stored credentials{authorises ? "; what was allowed at the provider is revoked there." : ", which stay valid at the provider: revoke the key there if nobody else needs it."}</li>}
			</ul>
			{send.failed && <Problem {...send.failed} />}
			<p class="bar"><button type="button" class="primary" onClick={() => void send.run()}>Delete the connector</button><button type="button" onClick={onClose}>Cancel</button></p>
		</Dialog>
	)
}
