// The health of the server that answers.
import type { JSX } from "preact"
import { DayChart, type Figure } from "../chart"
import { page } from "../interface"
import { Show, Time, useLoaded, useLook } from "../loading"
import { count, size } from "../text"
import type { MinuteOfHealth } from "../types"
import { clock, Heading, type View } from "./operatorparts"

const every = 30_000 // milliseconds between reads while the page is in front

export function Health({ signIns, used }: View): JSX.Element {
	const loaded = useLoaded(async () => {
		const { value, headers } = await page("GET /api/v1/admin/health")
		const now = Date.parse(headers.get("Date") ?? "") || Date.now() // the server's
		return { health: value, at: new Date(now).toISOString(), first: new Date(now - 59 * 60_000).toISOString().slice(0, 16) }
	}, [signIns])
	useLook(loaded.retry, every)
	return (
		<>
			<header class="bar">
				<Heading>Health of one server</Heading>
				<button type="button" onClick={() => (used(), loaded.retry())}>Refresh</button>
			</header>
			<p class="soft">These figures are those of the server that answered, counted since its start; a deployment with several has others. They are read again every 30 seconds, which does not prolong your session. Whether its databases, stores and providers answer is tried by <a href="/console/operator/setup">Setup</a>.</p>
			<Show of={loaded} what="the health" again="Loading the health">
				{({ health, at, first }) => <>
					<section>
						<header class="bar"><h2>State</h2><span class="badge" data-state={health.ready ? undefined : "paused"}>{health.ready ? "Ready" : "Not ready"}</span></header>
						{health.problem !== null && <p class="warning">{health.problem}</p>}
						<dl class="pairs">
							<dt>Version</dt><dd>{health.version}, schema {health.schema}</dd>
							<dt>Started</dt><dd><Time at={health.startedAt} /></dd>
							<dt>Requests now</dt><dd>{count(health.activeRequests)}</dd>
							<dt>Change feeds</dt><dd>{count(health.feeds)}</dd>
							<dt>Read at</dt><dd><Time at={at} as={clock} /></dd>
						</dl>
					</section>
					<Minutes minutes={health.minutes} first={first} last={at.slice(0, 16)} />
					<Rows name="Places by kind of work" heads={["Kind", "Used", "Waiting", "Refused"]} none="COLLAB_CONCURRENCY is off: requests do not wait for places."
						rows={Object.entries(health.shares).map(([kind, s]) => [kind, count(s.used), count(s.waiting), count(s.refusals)])} />
					<Rows name="Budgets of memory" heads={["Budget", "Held", "Refused"]} none="No budget is set in COLLAB_BUDGETS."
						rows={Object.entries(health.budgets).map(([budget, b]) => [budget, size(b.usedBytes), count(b.refusals)])} />
				</>}
			</Show>
		</>
	)
}

// Minutes are the charts of the last hour. Minutes in which the server did not run are not in the answer, and a minute without a
// request has no duration.
function Minutes({ minutes: all, first, last }: { minutes: MinuteOfHealth[]; first: string; last: string }): JSX.Element {
	const of = (series: Record<string, (m: MinuteOfHealth) => number>, minutes = all): { figures: Figure[]; order: string[]; first: string; last: string; gaps: true } => ({
		figures: minutes.flatMap((m) => Object.entries(series).map(([name, amount]) => ({ date: m.start.slice(0, 16), series: name, amount: amount(m) }))),
		order: Object.keys(series), first, last, gaps: true,
	})
	return (
		<>
			<section>
				<h2>Requests by minute</h2>
				<DayChart {...of({ "Without error": (m) => m.requests - m.clientErrors - m.serverErrors, "4xx": (m) => m.clientErrors, "5xx": (m) => m.serverErrors })} name="Requests by minute" file="requests.csv" />
			</section>
			<section>
				<h2>Mean duration in milliseconds</h2>
				<DayChart {...of({ Milliseconds: (m) => Math.round(m.meanSeconds * 10_000) / 10 }, all.filter((m) => m.requests > 0))} name="Mean duration in milliseconds" file="durations.csv" level />
			</section>
			<section>
				<h2>Most open change feeds</h2>
				<DayChart {...of({ "Change feeds": (m) => m.feeds })} name="Open change feeds" file="feeds.csv" level />
			</section>
			<section>
				<h2>Most chats and transfers in progress</h2>
				<DayChart {...of({ "Chats and calls of providers": (m) => m.calls, "Uploads and downloads": (m) => m.transfers })} name="Chats and transfers in progress" file="progress.csv" level />
			</section>
			<section>
				<h2>Most requests that waited</h2>
				<DayChart {...of({ Waiting: (m) => m.waiting })} name="Requests that waited" file="waiting.csv" level />
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
