// The organisation's plan: what it allows, how much of that is used, and changes of it. Everything that is
// shown is what the server has stored.
import type { JSX } from "preact"
import { useEffect, useState } from "preact/hooks"
import { Dialog } from "../dialog"
import { call } from "../interface"
import { announce } from "../live"
import { Problem, RequestId, Show, useAct, useLoaded, useLook } from "../loading"
import { PlanNow } from "../plan"
import { openPopup, type Popup } from "../popup"
import { useQuery } from "../router"
import { count, day, plans, size } from "../text"
import type { Me, Plan, PlanOffer, Storage, Subscription } from "../types"

type State = { subscription: Subscription; offers: PlanOffer[]; storage: Storage; used: number; trialEnded: boolean }

async function load(): Promise<State> {
	const [subscription, offers, storage, quota] = await Promise.all([
		call("GET /api/v1/billing/subscription"), call("GET /api/v1/billing/plans"), call("GET /api/v1/metering/storage"), call("GET /api/v1/metering/quota"),
	])
	return { subscription, offers, storage, used: quota.used, trialEnded: subscription.trialEnd !== null }
}

// Change is what a person may do with the plan.
type Change = { to: PlanOffer; by: "trial" | "checkout" | "downgrade" }

// isPaid reports whether the payment provider has a subscription, which a checkout would change.
const isPaid = (s: Subscription): boolean => (s.plan === "STANDARD" || s.plan === "PREMIUM") && s.status !== "CANCELED" && (s.status !== "TRIALING" || s.hasPaymentMethod)

export default function Billing({ me }: { me: Me }): JSX.Element {
	const manages = me.role === "OWNER" || me.role === "ADMIN"
	const [query, change] = useQuery()
	const state = useLoaded(load, [])
	const [asked, ask] = useState<Change>()
	const [page, setPage] = useState<{ address: string; popup: Popup | undefined }>() // for the payment
	const [closed, setClosed] = useState(false) // whether its window seems to be
	const awaited = query.get("awaiting")
	useLook(state.retry)
	const s = state.value?.subscription
	const arrived = awaited !== null && s?.plan === awaited && s.status === "ACTIVE"
	useEffect(() => {
		if (!arrived) return
		change({ awaiting: undefined }, true)
		setPage(undefined)
		announce(`The plan is ${plans[awaited as Plan]} now.`)
	}, [arrived])
	useEffect(() => {
		if (awaited === null || arrived) return
		const timer = setInterval(() => {
			setClosed(page?.popup?.closed() ?? false)
			state.retry()
		}, 3000)
		return () => clearInterval(timer)
	}, [awaited, arrived, page])
	return (
		<>
			<h1 tabIndex={-1}>Billing</h1>
			{awaited !== null && !arrived && (
				<div class="waits" role="status">
					<p><b>Waiting for the payment of {plans[awaited as Plan] ?? "the plan"}.</b> This page shows the plan as soon as the payment provider has confirmed it. You can leave it meanwhile. {closed ? "The payment page seems to be closed: nothing is paid unless you have finished there." : page && !page.popup && "The browser has kept the window from opening."}</p>
					<p class="bar">
						{page && <a class="button" href={page.address} target="_blank" rel="noreferrer">{page.popup ? "Open the payment page again" : "Open the payment page"}</a>}
						<button type="button" class="small" onClick={() => (change({ awaiting: undefined }, true), setPage(undefined))}>I have not paid: stop waiting</button>
					</p>
				</div>
			)}
			<Show of={state} what="the plan" again="Asking for the plan again">
				{(now) => (
					<>
						<Notices {...now} manages={manages} />
						<Current {...now} manages={manages} />
						<Use {...now} />
						<section>
							<h2>Plans</h2>
							{!manages && <p class="soft">Owners and admins of the organisation can change the plan.</p>}
							<ul class="plans">{now.offers.filter((o) => o.plan !== "NO_PLAN" || now.subscription.plan === "NO_PLAN").map((o) => <Offer key={o.plan} offer={o} {...now} manages={manages} ask={ask} />)}</ul>
						</section>
						{asked && <Confirm change={asked} {...now} onClose={() => ask(undefined)} onPage={(address, popup) => {
							setPage({ address, popup })
							setClosed(false)
							ask(undefined)
							change({ awaiting: asked.to.plan }, true)
						}} onDone={() => {
							ask(undefined)
							state.retry()
							document.querySelector<HTMLElement>("h1")?.focus()
						}} />}
					</>
				)}
			</Show>
		</>
	)
}

function Notices({ subscription: s, manages }: State & { manages: boolean }): JSX.Element {
	const who = manages ? "" : " Ask an owner or admin to see to it."
	return (
		<>
			{s.status === "PAST_DUE" && <p class="problem"><strong>The last payment has failed.</strong> The plan goes on while the payment provider tries again, and ends if no payment succeeds. {manages ? "Check the payment method in the portal." : who}</p>}
			{s.status === "PAUSED" && <p class="problem"><strong>The subscription is paused.</strong> Chats are refused until it is resumed. {manages ? "It is resumed in the portal." : who}</p>}
			{s.cancelAtPeriodEnd && s.currentPeriodEnd && <p class="waits"><strong>{plans[s.plan]} ends on {day(s.currentPeriodEnd)}.</strong> Until then nothing changes; then the plan is Free. {manages && "To keep it, resume the subscription in the portal."}</p>}
			{s.managedExternally && <p class="waits"><strong>The operator of this server has set the plan.</strong> It is not paid for here, so it can neither be bought, ended nor changed on this page. Ask the operator for another one.</p>}
		</>
	)
}

function Current({ subscription: s, manages }: State & { manages: boolean }): JSX.Element {
	return (
		<div class="cards">
			<section>
				<h2>Plan</h2>
				<PlanNow of={s} />
			</section>
			<section>
				<h2>Members</h2>
				<p class="figure">{count(s.seats)}</p>
				<p class="soft">{s.purchasedSeats === null ? "The plan is not paid by seat." : `${count(s.purchasedSeats)} ${s.purchasedSeats === 1 ? "seat is" : "seats are"} paid for.`}</p>
			</section>
			<section>
				<h2>Payment</h2>
				<p class="figure">{s.hasPaymentMethod ? "Method on file" : "None on file"}</p>
				{manages ? <Portal /> : <p class="soft">Owners and admins see invoices and payment methods.</p>}
			</section>
		</div>
	)
}

function Portal(): JSX.Element {
	const [page, setPage] = useState<string>()
	const { run: open, failed } = useAct("Opening the portal", async () => {
		const popup = openPopup("Opening the portal…", false)
		try {
			const { url } = await call("POST /api/v1/billing/portal")
			popup ? popup.go(url) : setPage(url)
		} catch (error) {
			popup?.close()
			throw error
		}
	})
	return (
		<>
			<p class="soft">Invoices, payment methods, and the end of a subscription are in the payment provider’s portal.</p>
			{failed?.failure.status === 409 ? <div class="waits" role="alert"><p>The portal opens after the first checkout: the payment provider does not know the organisation yet.</p><RequestId id={failed.failure.request} /></div> : failed && <Problem {...failed} />}
			{page ? <p>The browser has kept the window from opening. <a href={page} target="_blank" rel="noreferrer">Open the portal</a></p> : <button type="button" class="small" onClick={() => void open()}>Open the portal</button>}
		</>
	)
}

type Row = { name: string; now: string; limit: string; share: number | undefined; over: boolean }

// rows returns what is used of what a plan allows.
function rows({ subscription: s, storage, used }: State, o: PlanOffer): Row[] {
	const row = (name: string, amount: number, limit: number | null, text: (n: number) => string): Row =>
		({ name, now: text(amount), limit: limit === null ? "unlimited" : text(limit), share: limit === null ? undefined : amount / Math.max(limit, 1), over: limit !== null && amount > limit })
	return [row("Members", s.seats, o.members, count), row("Your tokens today", used, o.dailyTokens, count), row("Storage", storage.used, o.storage, size)]
}

function Use(state: State): JSX.Element {
	const offer = state.offers.find((o) => o.plan === state.subscription.plan)
	if (!offer) return <></>
	return (
		<section>
			<h2>What is used</h2>
			<dl class="use">
				{rows(state, offer).map((r) => (
					<div key={r.name}>
						<dt>{r.name}</dt>
						<dd><b>{r.now}</b> of {r.limit}{r.over && <span class="warning"> · more than the plan allows</span>}{r.share !== undefined && <progress max={1} value={Math.min(1, r.share)} aria-label={`${r.name}: ${r.now} of ${r.limit}`} />}</dd>
					</div>
				))}
			</dl>
			<p class="soft">Earlier versions of files: {versions(offer)}. Requests: {requests(offer)}.</p>
		</section>
	)
}

const versions = (o: PlanOffer): string => (o.versions ? `kept for ${count(o.versions.days)} days, ${count(o.versions.count)} of each file at most` : "not kept")
const requests = (o: PlanOffer): string => (o.requestsPerMinute === null ? "unlimited" : `${count(o.requestsPerMinute)} a minute`)
const members = (o: PlanOffer): string => (o.members === null ? "unlimited members" : o.members === 1 ? "1 member" : `${count(o.members)} members`)

function Offer({ offer: o, subscription: s, offers, trialEnded, manages, ask }: State & { offer: PlanOffer; manages: boolean; ask: (change: Change) => void }): JSX.Element {
	const current = o.plan === s.plan
	const acts: [Change["by"], string][] = []
	if (manages && !s.managedExternally) {
		if (o.trialDays > 0 && s.plan === "NO_PLAN" && !trialEnded) acts.push(["trial", `Start the trial of ${count(o.trialDays)} days`])
		if (o.sold && !(current && isPaid(s))) acts.push(["checkout", current ? `Buy ${plans[o.plan]}` : isPaid(s) ? `Change to ${plans[o.plan]}` : `Buy ${plans[o.plan]}`])
		if (o.plan === "FREE" && offers.some((p) => p.plan === s.plan && p.sold) && !s.cancelAtPeriodEnd) acts.push(["downgrade", "Change to Free"])
	}
	return (
		<li aria-label={plans[o.plan]} data-current={current}>
			<h3>{plans[o.plan]} {current && <span class="badge">Yours</span>}</h3>
			<ul>
				<li>{members(o)}</li>
				<li>{o.dailyTokens === 0 ? "no tokens" : `${count(o.dailyTokens)} tokens a day for each member`}</li>
				<li>{o.storage === null ? "unlimited storage" : `${size(o.storage)} of storage`}</li>
				<li>earlier versions {versions(o)}</li>
				{o.requestsPerMinute !== null && <li>{requests(o)} of requests</li>}
			</ul>
			{acts.map(([by, text]) => <button key={by} type="button" class={by === "downgrade" ? "small" : "small primary"} onClick={() => ask({ to: o, by })}>{text}…</button>)}
			{o.plan === "ENTERPRISE" && !current && <p class="soft">The operator of the server sets it.</p>}
		</li>
	)
}

// Confirm shows a change beside what there is, and makes it.
function Confirm({ change, onClose, onPage, onDone, ...state }: State & { change: Change; onClose: () => void; onPage: (address: string, popup: Popup | undefined) => void; onDone: () => void }): JSX.Element {
	const { subscription: s, offers } = state
	const { to, by } = change
	const verb = by === "trial" ? "Start the trial" : by === "downgrade" ? "Change to Free" : isPaid(s) ? `Change to ${plans[to.plan]} and pay` : "Go to the payment page"
	const from = offers.find((o) => o.plan === s.plan) ?? to
	const paid = isPaid(s)
	const later = by === "downgrade" && s.status === "ACTIVE" && s.currentPeriodEnd !== null
	const when = by === "trial" ? `at once, for ${count(to.trialDays)} days, without a card`
		: later ? `on ${day(s.currentPeriodEnd ?? "")}, when what is paid for ends` : by === "downgrade" ? "at once" : paid ? "at once" : "when the payment has been made"
	const after = rows(state, to)
	const over = after.filter((r) => r.over)
	const { run, busy, failed } = useAct(verb, async () => {
		let popup: Popup | undefined
		try {
			if (by === "trial") await call("POST /api/v1/billing/trial")
			else if (by === "downgrade") await call("POST /api/v1/billing/downgrade")
			else {
				popup = paid ? undefined : openPopup("Opening the payment page…", false)
				const { url } = await call("POST /api/v1/billing/checkout", { body: { plan: to.plan as "STANDARD" | "PREMIUM" } })
				if (!url.includes("/api/v1/billing/checkout/success")) {
					popup?.go(url)
					return onPage(url, popup)
				}
				popup?.close()
			}
			announce(later ? `The plan ends on ${day(s.currentPeriodEnd ?? "")}.` : `The plan is ${plans[to.plan]} now.`)
			onDone()
		} catch (error) {
			popup?.close()
			throw error
		}
	})
	return (
		<Dialog title={by === "trial" ? `Trial of ${plans[to.plan]}` : `${plans[s.plan]} to ${plans[to.plan]}`} onClose={onClose} wide>
			<p>The change takes effect <b>{when}</b>.{by === "checkout" && paid && <> The difference for the rest of the period is <b>charged at once</b>.</>}{by === "downgrade" && s.status === "TRIALING" && <> The trial <b>cannot be started again</b>.</>}{by === "checkout" && !paid && " You pay on the page of the payment provider, which opens in a new tab."}</p>
			<div class="scroll" tabIndex={0} role="region" aria-label="Comparison">
				<table class="compare">
					<thead><tr><td /><th scope="col">Used now</th><th scope="col">{plans[from.plan]} allows</th><th scope="col">{plans[to.plan]} allows</th></tr></thead>
					<tbody>
						{after.map((r, i) => <tr key={r.name}><th scope="row">{r.name}</th><td>{r.now}</td><td>{rows(state, from)[i]?.limit}</td><td>{r.limit}{r.over && <b class="warning"> ▲ less than used</b>}</td></tr>)}
						<tr><th scope="row">Earlier versions</th><td>–</td><td>{versions(from)}</td><td>{versions(to)}</td></tr>
						<tr><th scope="row">Requests</th><td>–</td><td>{requests(from)}</td><td>{requests(to)}</td></tr>
					</tbody>
				</table>
			</div>
			{over.length > 0 && (
				<div class="waits">
					<p><b>You use more than {plans[to.plan]} has.</b> Nothing is deleted and nobody is removed:</p>
					<ul>
						{over.some((r) => r.name === "Members") && <li>all members stay, and nobody can be invited until there are fewer than {to.members};</li>}
						{over.some((r) => r.name === "Storage") && <li>files can be read, deleted and made smaller, and nothing can be added until less is stored;</li>}
						{over.some((r) => r.name === "Your tokens today") && <li>chats are refused until 00:00 UTC, when the next day of the quota begins.</li>}
					</ul>
				</div>
			)}
			{failed?.failure.status === 409
				? <div class="problem" role="alert"><p><strong>That cannot be done now.</strong> {failed.failure.message}.</p><p>The plan may have changed since this page was loaded{by === "checkout" && ", or a payment is still being processed"}. <button type="button" class="small" onClick={onDone}>Load the plan again</button></p><RequestId id={failed.failure.request} /></div>
				: failed && <Problem {...failed} />}
			<p class="bar"><button type="button" class="primary" aria-busy={busy} disabled={busy} onClick={() => void run()}>{verb}</button><button type="button" onClick={onClose}>Cancel</button></p>
		</Dialog>
	)
}
