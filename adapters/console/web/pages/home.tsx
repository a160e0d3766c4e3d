// The first page: what is left of today's quota, usage by day, plan, storage, and what changed.
import type { ComponentChildren, JSX } from "preact"
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks"
import { DayChart } from "../chart"
import { all, call, cursorOf, Failure, page } from "../interface"
import { Show, useLoaded, type Loaded } from "../loading"
import { first, namesOf } from "../members"
import type { Me } from "../types"
import { count, day, exact, nameOf, plans, relative, size } from "../text"

export default function Home({ me }: { me: Me }): JSX.Element {
	const [shown, show] = useState<readonly string[]>([])
	const settled = useCallback((part: string): void => show((was) => (was.includes(part) ? was : [...was, part])), [])
	const ready = shown.length === 3 // the figures of today are there, or failed
	if (!me.org) return <><h1>Home</h1><p>You are signed in and belong to no organisation yet. Somebody who manages one can invite you; or <a href="/console/sign-in">sign in</a> with another one.</p></>
	return (
		<>
			<h1>{me.org.name ?? "Home"}</h1>
			<div class="cards">
				<Quota settled={settled} />
				<Plan settled={settled} />
			</div>
			<Usage manages={me.role === "OWNER" || me.role === "ADMIN"} settled={settled} />
			<WhenSeen name="Storage" wait={!ready}><Storage /></WhenSeen>
			<WhenSeen name="Lately" wait={!ready}><Lately /></WhenSeen>
		</>
	)
}

// Settling is given to the parts of the first load: each calls settled once it is shown, or has failed.
type Settling = { settled: (part: string) => void }

function useSettled({ value, failure }: Loaded<unknown>, part: string, settled: Settling["settled"]): void {
	useEffect(() => {
		if (value !== undefined || failure) settled(part)
	}, [value, failure])
}

function Quota({ settled }: Settling): JSX.Element {
	const quota = useLoaded(() => call("GET /api/v1/metering/quota"), [])
	useSettled(quota, "quota", settled)
	return (
		<section>
			<h2>Tokens today</h2>
			<Show of={quota} what="today's quota">
				{(q) => q.limit === 0
					? <p>The plan has no tokens. A trial or a plan gives some.</p>
					: <>
						<p class="figure">{count(q.remaining)} <small>of {count(q.limit)} left</small></p>
						<progress max={q.limit} value={q.used} aria-label={`${count(q.used)} of ${count(q.limit)} tokens used`} />
						<p class="soft">Resets <time dateTime={q.resetsAt} title={exact(q.resetsAt)}>{relative(q.resetsAt)}</time>, at 00:00 UTC.</p>
					</>}
			</Show>
		</section>
	)
}

function Plan({ settled }: Settling): JSX.Element {
	const subscription = useLoaded(() => call("GET /api/v1/billing/subscription"), [])
	useSettled(subscription, "plan", settled)
	return (
		<section>
			<h2>Plan</h2>
			<Show of={subscription} what="the plan">
				{(s) => {
					const [what, when] = s.status === "TRIALING" ? ["The trial ends on", s.trialEnd] : [s.cancelAtPeriodEnd ? "Ends on" : "Renews on", s.currentPeriodEnd]
					return (
						<>
							<p class="figure">{plans[s.plan]} <small>{s.status.toLowerCase().replace("_", " ")}</small></p>
							<p class="soft">{when ? <>{what} <time dateTime={when} title={exact(when)}>{day(when)}</time>.</> : s.managedExternally ? "Set by the operator." : "It does not end by itself."}</p>
							<p class="soft">{count(s.seats)} {s.seats === 1 ? "member" : "members"}.</p>
						</>
					)
				}}
			</Show>
		</section>
	)
}

function Storage(): JSX.Element {
	const storage = useLoaded(() => call("GET /api/v1/metering/storage"), [])
	return (
		<Show of={storage} what="what is stored">
			{(s) => (
				<>
					<p class="figure">{size(s.used)} {s.limit !== null && <small>of {size(s.limit)}</small>}</p>
					{s.limit !== null && <progress max={Math.max(s.limit, 1)} value={Math.min(s.used, s.limit)} aria-label={`${size(s.used)} of ${size(s.limit)} used`} />}
					<p class="soft">Files {size(s.byClass.sharedFiles + s.byClass.personalFiles)}, memories {size(s.byClass.memories)}, earlier versions {size(s.byClass.versions)}.</p>
					{s.overLimit && <p class="warning">More is stored than the plan allows: nothing can be added.</p>}
				</>
			)}
		</Show>
	)
}

const ranges = [7, 30, 90, 365]

function Usage({ manages, settled }: Settling & { manages: boolean }): JSX.Element {
	const [by, setBy] = useState<"model" | "user">("model")
	const [range, setRange] = useState(30)
	const last = useMemo(() => new Date().toISOString().slice(0, 10), [])
	const first = new Date(Date.parse(last) - (range - 1) * 86_400_000).toISOString().slice(0, 10)
	const usage = useLoaded(async () => {
		const rows = await all("GET /api/v1/metering/daily", { from: first, to: last, by })
		const names = await namesOf([...new Set(rows.flatMap((r) => r.userId ?? []))])
		return { first, figures: rows.map((r) => ({ date: r.date, series: r.model ?? names.get(r.userId ?? "") ?? "Former member", amount: r.totalTokens })) }
	}, [first, last, by])
	useSettled(usage, "usage", settled)
	return (
		<section class="tall">
			<header class="bar">
				<h2>Tokens by day</h2>
				<label>Days <select value={range} onChange={(e) => setRange(Number(e.currentTarget.value))}>{ranges.map((n) => <option key={n} value={n}>{n}</option>)}</select></label>
				{manages && <label>By <select value={by} onChange={(e) => setBy(e.currentTarget.value as typeof by)}><option value="model">model</option><option value="user">member</option></select></label>}
			</header>
			<Show of={usage} what="the usage">
				{(u) => u.figures.length === 0
					? <p class="empty">No chat has used tokens since {u.first}. What chats use from now on is shown here by day.</p>
					: <DayChart figures={u.figures} first={u.first} last={last} name="Tokens by day" file={`tokens-${u.first}-${last}.csv`} />}
			</Show>
		</section>
	)
}

type Change = { at: string; key: string; text: JSX.Element }

// WhenSeen is a section whose content is loaded when it comes into view, after what it waits for.
function WhenSeen({ name, wait, children }: { name: string; wait: boolean; children: ComponentChildren }): JSX.Element {
	const place = useRef<HTMLElement>(null)
	const [seen, see] = useState(false)
	useEffect(() => {
		const observer = new IntersectionObserver((entries) => {
			if (entries.some((e) => e.isIntersecting)) see(true)
		}, { threshold: 1 })
		if (place.current && !seen && !wait) observer.observe(place.current)
		return () => observer.disconnect()
	}, [seen, wait])
	return <section ref={place}><h2>{name}</h2>{seen ? children : <p class="placeholder" />}</section>
}

function Lately(): JSX.Element {
	const changes = useLoaded(async () => (await Promise.all([files(), tasks(), joined()])).flat().sort((a, b) => b.at.localeCompare(a.at)).slice(0, 12), [])
	return (
		<Show of={changes} what="what changed lately">
			{(list) => list.length === 0
				? <p class="empty">No file has changed yet, no task was made, and nobody has joined in the last 30 days.</p>
				: <ul class="lately">{list.map((c) => <li key={c.key}>{c.text} <time dateTime={c.at} title={exact(c.at)}>{relative(c.at)}</time></li>)}</ul>}
		</Show>
	)
}

// files returns the files among the last 20 entries of the feed.
async function files(): Promise<Change[]> {
	const { headers } = await page("GET /api/v1/sync/manifest", { query: { limit: 1 } })
	const [epoch, position] = (headers.get("X-Sync-Cursor") ?? "").split("-")
	if (!epoch || !Number(position)) return []
	try {
		const records = await call("GET /api/v1/sync/manifest", { query: { since: `${epoch}-${Math.max(0, Number(position) - 20)}` } })
		return records.map((r) => ({ at: r.deletedAt ?? r.updatedAt, key: r.storageKey + r.version, text: <><b>{r.path}</b> was {r.deleted ? "deleted" : r.version === 1 ? "added" : "changed"}</> }))
	} catch (error) {
		if (error instanceof Failure && error.status === 410) return [] // what one sees has changed since
		throw error
	}
}

async function tasks(): Promise<Change[]> {
	return (await call("GET /api/v1/tasks", { query: { sort: "newest", limit: 12 } })).map((t) => ({ at: t.createdAt, key: t.id, text: <><b>{t.title}</b> was made a task</> }))
}

async function joined(): Promise<Change[]> {
	const since = new Date(Date.now() - 30 * 86_400_000).toISOString()
	const { value, headers } = await page("GET /api/v1/org/members", { query: { limit: first } })
	return cursorOf(headers) === undefined ? value.filter((m) => m.joinedAt > since).map((m) => ({ at: m.joinedAt, key: m.userId, text: <><b>{nameOf(m)}</b> joined</> })) : [] // the last ones of a longer list are not read
}
