// The page of operators: the health of the server that answers. Who has given the operator's secret
// sees it, signed in as a member or not.
import type { JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { DayChart, type Figure } from "../chart"
import { failureOf, page, send, type Failure } from "../interface"
import { Problem, useLoaded } from "../loading"
import { count, exact, relative, size } from "../text"
import type { MinuteOfHealth } from "../types"

// Session is an operator's session of this browser.
type Session = { expiresAt: string; endsAt: string }

const every = 30_000 // milliseconds between reads while the page is in front

async function post(path: string, body?: object): Promise<Session> {
	const json = body && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }
	return (await (await send(`/console/operator/${path}`, { method: "POST", ...json })).json()) as Session
}

// renew returns the prolonged session of this browser, null if there is none.
async function renew(): Promise<Session | null> {
	try {
		return await post("session")
	} catch (error) {
		if (failureOf(error).status === 401) return null
		throw error
	}
}

export default function Operator(): JSX.Element {
	const found = useLoaded(renew, [])
	const [changed, change] = useState<{ session: Session | null; ended?: boolean }>()
	useEffect(() => void (document.title = "Operator · Collab"), [])
	const session = changed ? changed.session : found.value
	if (session) return <Health session={session} change={(next, ended) => change({ session: next, ended })} />
	if (session === null) return <SignIn ended={changed?.ended ?? false} begin={(begun) => change({ session: begun })} />
	if (found.failure?.status === 404) return <main class="narrow"><h1>Operator</h1><p>This deployment has no operator’s secret: set <code>COLLAB_ADMIN_SECRET</code> to use this page.</p></main>
	if (found.failure) return <main class="narrow"><h1>Operator</h1><Problem failure={found.failure} what="Loading the session" retry={found.retry} /></main>
	return <main class="narrow" aria-busy="true"><h1 class="hidden">Loading</h1></main>
}

function SignIn({ ended, begin }: { ended: boolean; begin: (session: Session) => void }): JSX.Element {
	const [secret, type] = useState("")
	const [state, set] = useState<{ busy: boolean; failure?: Failure }>({ busy: false })
	const field = useRef<HTMLInputElement>(null)
	useEffect(() => field.current?.focus(), [])
	const enter = async (): Promise<void> => {
		set({ busy: true })
		try {
			begin(await post("sign-in", { secret }))
		} catch (error) {
			set({ busy: false, failure: failureOf(error) })
			field.current?.focus()
		}
	}
	return (
		<main class="narrow">
			<h1>Operator</h1>
			{ended && <p role="status">Your operator’s session has ended.</p>}
			<p class="soft">The secret is that of <code>COLLAB_ADMIN_SECRET</code>. It is not kept in this browser; the session lasts 15 minutes after its last use, and an hour at most.</p>
			<form onSubmit={(e) => (e.preventDefault(), void enter())}>
				<label>Operator’s secret <input ref={field} class="full" type="password" required autocomplete="current-password" value={secret} onInput={(e) => type(e.currentTarget.value)} /></label>
				{state.failure && <Problem failure={state.failure} what="The sign-in" />}
				<p><button type="submit" class="primary" disabled={state.busy}>Sign in</button></p>
			</form>
		</main>
	)
}

const clock = (time: string): JSX.Element => <time dateTime={time} title={exact(time)}>{new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}</time>

function Health({ session, change }: { session: Session; change: (next: Session | null, ended: boolean) => void }): JSX.Element {
	const [failed, fail] = useState<{ failure: Failure; what: string }>()
	const heading = useRef<HTMLHeadingElement>(null)
	const loaded = useLoaded(async () => {
		const { value, headers } = await page("GET /api/v1/admin/health")
		const now = Date.parse(headers.get("Date") ?? "") || Date.now() // the server's
		return { health: value, at: new Date(now).toISOString(), first: new Date(now - 59 * 60_000).toISOString().slice(0, 16) }
	}, [])
	useEffect(() => {
		heading.current?.focus()
		const timer = setInterval(() => document.visibilityState === "visible" && loaded.retry(), every)
		return () => clearInterval(timer)
	}, [])
	useEffect(() => {
		if (loaded.failure?.status === 401) change(null, true)
	}, [loaded.failure])
	const attempt = (what: string, act: () => Promise<void>): void => {
		fail(undefined)
		act().catch((error: unknown) => fail({ failure: failureOf(error), what }))
	}
	const refresh = (): void => attempt("Prolonging the session", async () => {
		const renewed = await renew()
		change(renewed, renewed === null)
		loaded.retry()
	})
	const leave = (): void => attempt("Signing out", async () => {
		await send("/console/operator/sign-out", { method: "POST" })
		change(null, false)
	})
	const { health, at, first } = loaded.value ?? {}
	return (
		<main>
			<header class="bar">
				<h1 class="grow" ref={heading} tabIndex={-1}>Health of one server</h1>
				<span class="soft">Signed in until {clock(session.expiresAt)}, with use until {clock(session.endsAt)}</span>
				<button type="button" onClick={refresh}>Refresh</button>
				<button type="button" onClick={leave}>Sign out</button>
			</header>
			<p class="soft">These figures are those of the server that answered, counted since its start; a deployment with several has others. They are read again every 30 seconds, which does not prolong your session.</p>
			{failed && <Problem {...failed} />}
			{loaded.failure && <Problem failure={loaded.failure} what="Loading the health" retry={loaded.retry} />}
			{!health && !loaded.failure && <p class="placeholder" aria-busy="true"><span class="hidden">Loading the health</span></p>}
			{health && at !== undefined && first !== undefined && (
				<>
					<section>
						<header class="bar"><h2>State</h2><span class="badge" data-state={health.ready ? undefined : "paused"}>{health.ready ? "Ready" : "Not ready"}</span></header>
						{health.problem !== null && <p class="warning">{health.problem}</p>}
						<dl class="pairs">
							<dt>Version</dt><dd>{health.version}, schema {health.schema}</dd>
							<dt>Started</dt><dd><time dateTime={health.startedAt} title={exact(health.startedAt)}>{relative(health.startedAt)}</time></dd>
							<dt>Requests now</dt><dd>{count(health.activeRequests)}</dd>
							<dt>Change feeds</dt><dd>{count(health.feeds)}</dd>
							<dt>Read at</dt><dd>{clock(at)}</dd>
						</dl>
					</section>
					<Minutes minutes={health.minutes} first={first} last={at.slice(0, 16)} />
					<Rows name="Places by kind of work" heads={["Kind", "Used", "Waiting", "Refused"]} none="COLLAB_CONCURRENCY is off: requests do not wait for places."
						rows={Object.entries(health.shares).map(([kind, s]) => [kind, count(s.used), count(s.waiting), count(s.refusals)])} />
					<Rows name="Budgets of memory" heads={["Budget", "Held", "Refused"]} none="No budget is set in COLLAB_BUDGETS."
						rows={Object.entries(health.budgets).map(([budget, b]) => [budget, size(b.usedBytes), count(b.refusals)])} />
				</>
			)}
		</main>
	)
}

// Minutes are the charts of the last hour. Minutes without a request are not in the answer.
function Minutes({ minutes, first, last }: { minutes: MinuteOfHealth[]; first: string; last: string }): JSX.Element {
	const of = (series: Record<string, (m: MinuteOfHealth) => number>): { figures: Figure[]; order: string[]; first: string; last: string } => ({
		figures: minutes.flatMap((m) => Object.entries(series).map(([name, amount]) => ({ date: m.start.slice(0, 16), series: name, amount: amount(m) }))),
		order: Object.keys(series), first, last,
	})
	return (
		<>
			<section>
				<h2>Requests by minute</h2>
				<DayChart {...of({ "Without error": (m) => m.requests - m.clientErrors - m.serverErrors, "4xx": (m) => m.clientErrors, "5xx": (m) => m.serverErrors })} name="Requests by minute" file="requests.csv" />
			</section>
			<section>
				<h2>Mean duration in milliseconds</h2>
				<DayChart {...of({ Milliseconds: (m) => Math.round(m.meanSeconds * 10_000) / 10 })} name="Mean duration in milliseconds" file="durations.csv" level />
			</section>
			<section>
				<h2>Open change feeds</h2>
				<DayChart {...of({ "Change feeds": (m) => m.feeds })} name="Open change feeds" file="feeds.csv" level />
			</section>
			<section>
				<h2>Requests that waited for a place</h2>
				<DayChart {...of({ Waiting: (m) => m.waiting })} name="Requests that waited for a place" file="waiting.csv" level />
			</section>
		</>
	)
}

function Rows({ name, heads, rows, none }: { name: string; heads: string[]; rows: string[][]; none: string }): JSX.Element {
	return (
		<section>
			<h2>{name}</h2>
			{rows.length === 0 ? <p class="empty">{none}</p> : (
				<div class="scroll" tabIndex={0} role="region" aria-label={name}>
					<table>
						<thead><tr>{heads.map((head, i) => <th scope="col" class={i > 0 ? "number" : undefined} key={head}>{head}</th>)}</tr></thead>
						<tbody>{rows.map(([key, ...cells]) => <tr key={key}><th scope="row">{key}</th>{cells.map((c) => <td class="number">{c}</td>)}</tr>)}</tbody>
					</table>
				</div>
			)}
		</section>
	)
}
