// The audit log of an organisation: who did what to whom, and when.
import type { ComponentChildren, JSX } from "preact"
import { useEffect, useMemo, useRef, useState } from "preact/hooks"
import { Picker, type Entry } from "../combobox"
import { offer } from "../csv"
import { Icon, icons } from "../icons"
import { all, call, failureOf, type Failure, type Listed } from "../interface"
import { announce } from "../live"
import { Problem, Show, Time, useLoaded, useLook } from "../loading"
import { Unnamed, useMembers, type Members } from "../members"
import { addressWith, useQuery } from "../router"
import { count, dateOf, exact, plans, roles, startOf } from "../text"
import type { AuditEntry, Me, Operations } from "../types"

const step = 50 // entries read at a time
const every = 15_000 // milliseconds between looks at new entries while the page is in front
const mostNew = 5 // pages of them that are put before those that are shown
const path = "GET /api/v1/org/audit"

type Action = AuditEntry["action"]
type Filter = NonNullable<Operations["GET /api/v1/org/audit"]["query"]>

// kinds are the kinds of actions, each with the icon of its page.
const kinds: Record<string, { name: string; icon: string }> = {
	member: { name: "Members", icon: icons.people }, invitation: { name: "Invitations", icon: icons.people }, session: { name: "Sessions", icon: icons.sessions },
	subscription: { name: "Plan", icon: icons.billing }, connector: { name: "Connectors", icon: icons.connectors }, release: { name: "Releases", icon: icons.releases },
	organisation: { name: "Organisation", icon: icons.files }, operator: { name: "Operators", icon: icons.operator },
}

const actions: Record<Action, string> = {
	"member.role_changed": "Role changed", "member.removed": "Member removed", "member.left": "Member left",
	"invitation.created": "Invitation made", "invitation.resent": "Invitation renewed", "invitation.deleted": "Invitation deleted",
	"session.ended": "Session ended", "subscription.changed": "Plan changed",
	"connector.created": "Connector added", "connector.deleted": "Connector deleted", "connector.credentials_stored": "Credentials stored",
	"connector.credentials_read": "Credentials read", "connector.authorized": "Connector authorized",
	"release.published": "Release published", "release.changed": "Release changed", "release.paused": "Rollout paused by itself",
	"organisation.imported": "Organisation imported", "organisation.export_requested": "Export asked for", "operator.read": "Read by an operator",
}

const kindOf = (action: string): string => action.split(".")[0] ?? ""

// Names are those of what entries are about, by their ids, as far as it exists still: of is undefined while they are
// loaded, and of members it has those who have left.
type Names = { members: Members; former: Entry[]; of: ReadonlyMap<string, string> | undefined }

async function loadNames(): Promise<Pick<Names, "former" | "of">> {
	const [left, invitations, connectors] = await Promise.all([all("GET /api/v1/org/members/former", {}), all("GET /api/v1/org/invites", {}), call("GET /api/v1/connectors")])
	const former = left.flatMap((m) => (m.name === null ? [] : { key: m.userId, name: `${m.name} (former member)` }))
	return { former, of: new Map([...former.map((m) => [m.key, m.name] as const), ...invitations.map((i) => [i.id, i.email] as const), ...connectors.map((c) => [c.id, c.label] as const)]) }
}

// personOf returns the name of a member, or of one who has left.
const personOf = (names: Names, id: string, article?: string): string => names.of?.get(id) ?? names.members.nameOf(id, article)

export default function Audit({ me }: { me: Me }): JSX.Element {
	const [query, change] = useQuery()
	const filter = useMemo(() => filterOf(query), [query])
	const key = JSON.stringify(filter)
	const loaded = useLoaded(loadNames, [])
	const names: Names = { former: [], of: undefined, ...loaded.value, members: useMembers() }
	const crossed = areCrossed(query)
	const first = useLoaded(async () => ({ key, read: crossed ? Object.assign([], { next: undefined }) : await all(path, { ...filter, limit: step }, 1) }), [key])
	const log = useMore(first.value?.read, filter)
	const looking = useRef(false)
	const [unread, setUnread] = useState<Failure>()
	const look = async (): Promise<void> => {
		if (looking.current || crossed || first.value?.key !== key) return
		looking.current = true
		try {
			const added = await log.look()
			setUnread(undefined)
			if (added === undefined) first.retry()
			if (added !== 0) loaded.retry()
			if (added) announce(`${count(added)} new ${added === 1 ? "entry" : "entries"}`)
		} catch (error) {
			setUnread(failureOf(error))
		}
		looking.current = false
	}
	useLook(() => void look(), every)
	const filtered = Object.keys(filter).length > 0
	const clear = (): void => change({ actor: undefined, action: undefined, target: undefined, from: undefined, to: undefined })
	const entries = log.entries
	useEffect(() => {
		if (first.value?.key === key && filtered) announce(entries.length === 0 ? "No entry fits" : `${count(entries.length)}${first.value.read.next === undefined ? "" : " or more"} ${entries.length === 1 ? "entry" : "entries"}`)
	}, [first.value])
	return (
		<>
			<header class="bar">
				<h1 class="grow">Audit log</h1>
				{names.of && entries.length > 0 && <a href="#csv" download={`audit-${dateOf(new Date().toISOString())}.csv`} onClick={(e) => offer(e.currentTarget, table(entries, names))}>{log.complete ? "Download as CSV" : `Download the newest ${count(entries.length)} as CSV`}</a>}
			</header>
			<p class="soft">What members, operators of the service and the providers did in {me.org?.name ?? "the organisation"}, the newest first. Nothing is removed from the log, and nobody can change it.</p>
			<Filters query={query} change={change} names={names} filtered={filtered} clear={clear} />
			{unread && <Problem failure={unread} what="Looking for new entries" retry={() => void look()} giveUp={() => setUnread(undefined)}><p>What is listed may not be the newest.</p></Problem>}
			{loaded.failure && <Problem failure={loaded.failure} what="Loading the names" retry={loaded.retry} />}
			<Unnamed members={names.members} />
			{first.failure
				? <Problem failure={first.failure} what="Loading the audit log" retry={first.retry}>{filtered && first.failure.status === 400 && <p><button type="button" class="small" onClick={clear}>Clear the filters</button></p>}</Problem>
				: !first.value || first.value.key !== key || (!names.of && !loaded.failure || !names.members.loaded && !names.members.failure)
					? <Show of={{ retry: first.retry }} what="the audit log">{() => null}</Show>
					: entries.length === 0
						? filtered
							? <p class="empty">No entry fits these filters.</p>
							: <p class="empty">Nothing has been recorded yet. Changes of roles, members, invitations, plan, connectors and releases will be here, ended sessions, reads of credentials, and all that operators do.</p>
						: <>
							<ul class="entries" aria-label="Entries">{entries.map((e) => <Line key={e.id} entry={e} names={names} asked={query.get("entry") === e.id} onToggle={(entry) => change({ entry }, true)} />)}</ul>
							<More log={log} shown={entries.length} />
						</>}
		</>
	)
}

// filterOf returns the filter of an address. Its days are those of this device, the last one included.
function filterOf(query: URLSearchParams): Filter {
	const filter: Filter = {}
	const set = <Name extends "actor" | "action" | "target">(name: Name): void => {
		const value = query.get(name)
		if (value) filter[name] = value as NonNullable<Filter[Name]>
	}
	set("actor")
	set("action")
	set("target")
	const from = query.get("from")
	const to = query.get("to")
	if (from) filter.from = startOf(from)
	if (to) filter.to = startOf(to, 1)
	return filter
}

// areCrossed reports whether the first day of an address is after its last.
const areCrossed = (query: URLSearchParams): boolean => (query.get("from") ?? "") > (query.get("to") || "~")

// Log is what is read of a log: more reads on at its end, and look at its beginning. Look returns how many entries are
// new, undefined if they are too many to be read.
type Log = { entries: AuditEntry[]; complete: boolean; busy: boolean; failure: Failure | undefined; more: () => Promise<void>; look: () => Promise<number | undefined> }

// useMore continues a log whose first page is there. A page that arrives for another filter is left out.
function useMore(first: Listed<AuditEntry[]> | undefined, filter: Filter): Log {
	type Rest = { of: typeof first; newer: AuditEntry[]; older: AuditEntry[]; next: string | undefined; busy: boolean; failure?: Failure | undefined }
	const rest = useRef<Rest>({ of: undefined, newer: [], older: [], next: undefined, busy: false })
	const [, render] = useState({})
	if (rest.current.of !== first) rest.current = { of: first, newer: [], older: [], next: first?.next, busy: false }
	const now = rest.current
	const put = (part: Partial<Rest>): void => {
		Object.assign(now, part)
		render({})
	}
	const entries = useMemo(() => [...now.newer, ...(first ?? []), ...now.older], [first, now.newer, now.older])
	return {
		entries,
		look: async () => {
			const seen = new Set(entries.map((e) => e.id))
			const read = await all(path, { ...filter, limit: step }, (r, pages) => pages >= mostNew || r.some((e) => seen.has(e.id)))
			const fresh = read.filter((e) => !seen.has(e.id))
			if (fresh.length === read.length && read.next !== undefined) return undefined
			if (fresh.length > 0) put({ newer: [...fresh, ...now.newer] })
			return fresh.length
		},
		complete: now.next === undefined, busy: now.busy, failure: now.failure,
		more: async () => {
			if (now.busy || now.next === undefined) return
			put({ busy: true, failure: undefined })
			try {
				const read = await all(path, { ...filter, limit: step, cursor: now.next }, 1)
				put({ older: [...now.older, ...read], next: read.next, busy: false })
			} catch (error) {
				put({ busy: false, failure: failureOf(error) })
			}
		},
	}
}

// More is the end of the list, which reads on when it comes into view.
function More({ log, shown }: { log: Log; shown: number }): JSX.Element {
	const place = useRef<HTMLParagraphElement>(null)
	useEffect(() => {
		const observer = new IntersectionObserver((seen) => {
			if (seen.some((s) => s.isIntersecting)) void log.more()
		})
		if (place.current && !log.complete && !log.busy && !log.failure) observer.observe(place.current)
		return () => observer.disconnect()
	})
	if (log.complete) return <p class="soft">{count(shown)} {shown === 1 ? "entry" : "entries"}, back to the beginning.</p>
	return (
		<>
			{log.failure && <Problem failure={log.failure} what="Loading older entries" retry={() => void log.more()} />}
			<p ref={place} aria-busy={log.busy}><button type="button" onClick={() => void log.more()}>Show older entries</button> <span class="soft">{count(shown)} are shown.</span></p>
		</>
	)
}

type FiltersOf = { query: URLSearchParams; change: ReturnType<typeof useQuery>[1]; names: Names; filtered: boolean; clear: () => void }

function Filters({ query, change, names, filtered, clear }: FiltersOf): JSX.Element {
	const actor = query.get("actor") ?? ""
	const target = query.get("target")
	const from = query.get("from") ?? ""
	const to = query.get("to") ?? ""
	const anybody: Entry[] = [{ key: "", name: "Everyone" }, { key: "operator", name: "Operators of the service" }, { key: "system", name: "The service and the providers" }]
	const set = (name: string) => (e: { currentTarget: { value: string } }): void => change({ [name]: e.currentTarget.value || undefined })
	return (
		<>
			<div class="fields filters" role="group" aria-label="Filters">
				<label>Who <Picker id="actor" label="Who" value={actor} name={anybody.find((e) => e.key === actor)?.name ?? personOf(names, actor)} entries={[...anybody, ...names.members.entries, ...names.former]} search={names.members.complete ? undefined : names.members.search} choose={(id) => change({ actor: id || undefined })} readOnly={!names.members.loaded} /></label>
				<label>What <select value={query.get("action") ?? ""} onChange={set("action")}>
					<option value="">Everything</option>
					{Object.entries(kinds).map(([kind, { name }]) => {
						const of = Object.entries(actions).filter(([action]) => kindOf(action) === kind)
						return of.length === 1
							? of.map(([action, text]) => <option key={action} value={action}>{text}</option>)
							: <optgroup key={kind} label={name}><option value={kind}>{name}: everything</option>{of.map(([action, text]) => <option key={action} value={action}>{text}</option>)}</optgroup>
					})}
				</select></label>
				<label>From <input type="date" value={from} max={to || undefined} onChange={set("from")} /></label>
				<label>To <input type="date" value={to} min={from || undefined} onChange={set("to")} /></label>
			</div>
			{filtered && <p class="bar">
				{target && <span class="badge">About {names.of?.get(target) ?? names.members.entries.find((m) => m.key === target)?.name ?? "one record"} <button type="button" class="small plain" aria-label="Show entries about everything" onClick={() => change({ target: undefined })}>✕</button></span>}
				<button type="button" class="small" onClick={clear}>Clear the filters</button>
			</p>}
			{areCrossed(query) && <p class="warning" role="alert">The first day is after the last one.</p>}
		</>
	)
}

function Line({ entry: e, names, asked, onToggle }: { entry: AuditEntry; names: Names; asked: boolean; onToggle: (id: string | undefined) => void }): JSX.Element {
	const [open, setOpen] = useState(asked)
	const [first] = useState(asked)
	const toggle = (now: boolean): void => {
		setOpen(now)
		if (now !== asked) onToggle(now ? e.id : undefined)
	}
	const { who, did, more } = sentence(e, names)
	const target = e.target
	const facts: [string, ComponentChildren][] = [
		["When", exact(e.createdAt)],
		["Who", e.actorId === null ? who : <>{who} <code>{e.actorId}</code></>],
		["Action", <code>{e.action}</code>],
		["About", target === null ? "The organisation" : <><code>{target}</code> <a href={addressWith({ actor: undefined, action: undefined, from: undefined, to: undefined, target })}>All entries about it</a></>],
		["Detail", e.detail], ["Address", e.address && <code>{e.address}</code>], ["Request", e.requestId && <code>{e.requestId}</code>],
	]
	return (
		<li>
			<details open={first} onToggle={(t) => toggle(t.currentTarget.open)}>
				<summary>
					<Icon path={kinds[kindOf(e.action)]?.icon ?? icons.audit} />
					<span class="grow"><b>{who}</b> {did.map((part) => (typeof part === "string" ? part : <b>{part.name}</b>))}{more && <span class="soft"> · {more}</span>}</span>
					<Time class="soft" at={e.createdAt} />
				</summary>
				{open && <dl class="pairs">{facts.filter(([, value]) => value).map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl>}
			</details>
		</li>
	)
}

// A Sentence is an entry in words: who did what, and what else is known. Names of what it is about stand out.
type Sentence = { who: string; did: (string | { name: string })[]; more?: string }

const word: Record<string, string> = {
	...roles,
	DARWIN: "macOS", WIN32: "Windows", LINUX: "Linux", X64: "x64", UNIVERSAL: "Universal", STABLE: "Stable", BETA: "Beta", CANARY: "Canary",
	...plans,
}
const worded = (text: string): string => word[text] ?? text

function sentence(e: AuditEntry, names: Names): Sentence {
	const provider = /by the (identity|payment) provider$/.exec(e.detail ?? "")
	const detail = (e.detail ?? "").replace(/ ?by the (identity|payment) provider$/, "")
	const who = e.operator ? "An operator of the service" : e.actorId !== null ? personOf(names, e.actorId) : provider ? `The ${provider[1]} provider` : "The service"
	const person = (): { name: string } | string => {
		const name = personOf(names, e.target ?? "", "a")
		return /^a (former )?member$/.test(name) ? name : { name }
	}
	// about returns the name of what is no person, or what is said of it if it is gone.
	const about = (otherwise: string): { name: string } | string => {
		const name = names.of?.get(e.target ?? "")
		return name !== undefined ? { name } : names.of ? otherwise : otherwise.replace(" that is gone", "")
	}
	const [, was = "", is = "", rest = ""] = /^(\S+)(?: [A-Z_]+)? -> (\S+)(?: [A-Z_]+)?(?: (.*))?$/.exec(detail) ?? []
	const said = (...did: Sentence["did"]): Sentence => ({ who, did })
	switch (e.action) {
		case "member.role_changed": return said("changed the role of ", person(), ...(is ? [` from ${worded(was)} to `, { name: worded(is) }] : []))
		case "member.removed": return { ...said("removed ", person()), more: worded(detail) }
		case "member.left": return { ...said("left the organisation"), more: worded(detail) }
		case "session.ended": return { ...said("ended a session"), more: detail }
		case "invitation.created": return said("invited ", about("somebody"), ...(detail ? [" as ", { name: worded(detail) }] : []))
		case "invitation.resent": return said("renewed the invitation of ", about("somebody"))
		case "invitation.deleted": return said("deleted an invitation")
		case "subscription.changed": return is && was !== is
			? { ...said("changed the plan from ", worded(was), " to ", { name: worded(is) }), more: rest }
			: { ...said("changed the subscription"), more: detail }
		case "operator.read": return said("looked at the organisation's record")
		case "connector.created": return said("added the connector ", about(detail || "that is gone"))
		case "connector.deleted": return said("deleted the connector ", { name: detail })
		case "connector.credentials_stored": return said("stored credentials of ", about("a connector that is gone"))
		case "connector.credentials_read": return said("read the credentials of ", about("a connector that is gone"))
		case "connector.authorized": return said("authorized ", about("a connector that is gone"))
		case "release.published":
		case "release.changed": {
			const [, version = "", of = "", state = ""] = /^(\S+) (\S+ \S+ \S+), (.*)$/.exec(detail) ?? []
			const verb = e.action === "release.published" ? "published " : "changed "
			return version ? { ...said(verb, { name: version }, ` for ${of.split(" ").map(worded).join(" · ")}`), more: state } : said(verb, { name: detail })
		}
		case "release.paused": return { ...said("paused a rollout"), more: detail }
		case "organisation.imported": return { ...said("imported the organisation"), more: detail }
		case "organisation.export_requested": return said("asked for an archive of the organisation")
		default: return { who, did: [e.action satisfies never], more: detail }
	}
}

// table returns entries as the rows of a CSV file.
function table(entries: AuditEntry[], names: Names): string[][] {
	return [["time", "sentence", "actor", "actor_id", "action", "target", "detail", "address", "request_id"], ...entries.map((e) => {
		const { who, did, more } = sentence(e, names)
		const text = `${who} ${did.map((part) => (typeof part === "string" ? part : part.name)).join("")}${more ? ` (${more})` : ""}`
		return [e.createdAt, text, who, e.actorId ?? "", e.action, e.target ?? "", e.detail ?? "", e.address ?? "", e.requestId ?? ""]
	})]
}
