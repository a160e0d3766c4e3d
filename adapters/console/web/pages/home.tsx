// The first page: what is left of today's quota, usage by day, plan, storage, and what changed.
import type { ComponentChildren, JSX } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { DayChart, useDays } from "../chart"
import { all, call } from "../interface"
import { part, Show, Time, useLoaded, useLook, type Loaded } from "../loading"
import { namesOf } from "../members"
import { PlanNow } from "../plan"
import { useChoice } from "../router"
import type { Me } from "../types"
import { count, day, size } from "../text"

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
	useLook(quota.retry)
	useSettled(quota, "quota", settled)
	return (
		<section>
			<h2>Tokens today</h2>
			<Show of={quota} what="today's quota">
				{(q) => q.limit === 0
					? <p>The plan has no tokens. A trial or a plan gives some: <a href="/console/billing">Billing</a>.</p>
					: <>
						<p class="figure">{count(q.remaining)} <small>of {count(q.limit)} left</small></p>
						<progress max={q.limit} value={q.used} aria-label={`${count(q.used)} of ${count(q.limit)} tokens used`} />
						<p class="soft">Resets <Time at={q.resetsAt} />, at 00:00 UTC.</p>
					</>}
			</Show>
		</section>
	)
}

function Plan({ settled }: Settling): JSX.Element {
	const subscription = useLoaded(() => call("GET /api/v1/billing/subscription"), [])
	useLook(subscription.retry)
	useSettled(subscription, "plan", settled)
	return (
		<section>
			<h2>Plan</h2>
			<Show of={subscription} what="the plan">
				{(s) => <><PlanNow of={s} /><p class="soft">{count(s.seats)} {s.seats === 1 ? "member" : "members"}.</p></>}
			</Show>
		</section>
	)
}

function Storage(): JSX.Element {
	const storage = useLoaded(() => call("GET /api/v1/metering/storage"), [])
	useLook(storage.retry)
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

function Usage({ manages, settled }: Settling & { manages: boolean }): JSX.Element {
	const [by, setBy] = useChoice("by", ["model", "user"], "model")
	const { first, last, field } = useDays()
	const usage = useLoaded(async () => {
		const rows = await all("GET /api/v1/metering/daily", { from: first, to: last, by })
		const names = await namesOf([...new Set(rows.flatMap((r) => r.userId ?? []))])
		return { first, complete: rows.next === undefined, figures: rows.map((r) => ({ date: r.date, series: r.model ?? names.get(r.userId ?? "") ?? "Former member", amount: r.totalTokens })) }
	}, [first, last, by])
	useLook(usage.retry)
	useSettled(usage, "usage", settled)
	return (
		<section class="tall">
			<header class="bar">
				<h2>Tokens by day</h2>
				{field}
				{manages && <label>By <select value={by} onChange={(e) => setBy(e.currentTarget.value)}><option value="model">model</option><option value="user">member</option></select></label>}
			</header>
			<Show of={usage} what="the usage">
				{(u) => u.figures.length === 0
					? <p class="empty">No chat has used tokens since {day(u.first)}. What chats use from now on is shown here by day.</p>
					: <DayChart {...u} last={last} name="Tokens by day" file={`tokens-${u.first}-${last}.csv`} />}
			</Show>
		</section>
	)
}

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

// Lately loads the file of what changed lately, which follows the feed.
function Lately(): JSX.Element {
	const loaded = useLoaded(() => part(() => import("../lately")), [])
	return <Show of={loaded} what="what changed lately">{({ Lately }) => <Lately />}</Show>
}
