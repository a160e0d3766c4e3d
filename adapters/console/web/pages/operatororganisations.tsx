// The organisations of a deployment, for operators: each with its plan, what it uses of it, its members and
// their roles. Everything that is shown is what the server has stored.
import type { JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { Dialog } from "../dialog"
import { useDraft } from "../draft"
import { all, call, type Listed } from "../interface"
import { announce } from "../live"
import { Problem, Show, Time, submitting, useAct, useLoaded } from "../loading"
import { addressWith, useQuery } from "../router"
import { count, dateOf, day, nameOf as memberName, plans, roles, size, startOf } from "../text"
import type { Member, Overview, Plan, Role, Subscription } from "../types"
import { Heading, type View } from "./operatorparts"

const statuses: Record<Subscription["status"], string> = { TRIALING: "trial", ACTIVE: "active", PAST_DUE: "payment is due", CANCELED: "not subscribed", PAUSED: "paused" }
const organisationsOnPage = 50
const membersOnPage = 100

const nameOf = (o: Overview): string => o.name ?? o.slug ?? (o.closedAt ? "Erased organisation" : "Organisation without a name")
const of = (used: string, limit: string | null): string => (limit === null ? `${used}, unlimited` : `${used} of ${limit}`)
const date = (time: string): JSX.Element => <Time at={time} as={day} />

export function Organisations(view: View): JSX.Element {
	const [query] = useQuery()
	const id = query.get("id")
	return id === null ? <List key={query.get("after")} {...view} /> : <One key={id} id={id} {...view} />
}

function List({ signIns, used }: View): JSX.Element {
	const [query, change] = useQuery()
	const search = query.get("q") ?? "", after = query.get("after") ?? undefined
	const [typed, type] = useState(search)
	useEffect(() => type(search), [search])
	const key = JSON.stringify([search, after])
	const found = useLoaded(async () => {
		const organisations = await all("GET /api/v1/admin/organisations", { limit: organisationsOnPage, search: search || undefined, cursor: after }, 1)
		return { key, organisations, next: organisations.next }
	}, [search, after, signIns])
	const find = (text: string): void => {
		used()
		text === search ? found.retry() : change({ q: text || undefined, after: undefined })
	}
	return (
		<>
			<Heading>Organisations</Heading>
			<form class="bar" role="search" onSubmit={(e) => (e.preventDefault(), find(typed.trim()))}>
				<input class="grow" type="search" maxLength={200} aria-label="Search organisations" placeholder="A part of the name, or an id" value={typed} onInput={(e) => type(e.currentTarget.value)} />
				<button type="submit">Search</button>
			</form>
			<Show of={found.value?.key === key && !found.failure ? found : { failure: found.failure, value: undefined, retry: found.retry }} what="the organisations">
				{({ organisations, next }) => organisations.length === 0
					? <p class="empty">{search ? <>No organisation has this in its name, of the 100,000 names that a search examines. <button type="button" class="small" onClick={() => find("")}>Show all</button></> : after ? "There are no more organisations." : "There is no organisation yet: one appears here when its first member signs in."}</p>
					: (
						<ul class="rows organisations" aria-label="Organisations">
							{organisations.map((o) => (
								<li key={o.id}>
									<div>
										<a href={addressWith({ id: o.id, after: undefined, q: undefined })}>{nameOf(o)}</a>{o.closedAt && <> <span class="badge" data-state="paused">Closed</span></>}
										<p class="soft">since {date(o.createdAt)}</p>
									</div>
									<span class="badge" data-status={o.subscription.status}>{plans[o.subscription.plan]}</span>
									<dl>
										<div><dt>Members</dt><dd>{of(count(o.members), o.memberLimit === null ? null : count(o.memberLimit))}</dd></div>
										<div><dt>Storage</dt><dd>{of(size(o.storageUsed), o.storageLimit === null ? null : size(o.storageLimit))}</dd></div>
										<div><dt>Tokens in 30 days</dt><dd>{count(o.usage.totalTokens)}</dd></div>
									</dl>
								</li>
							))}
						</ul>
					)}
			</Show>
			<p class="bar">
				{after && <a href={addressWith({ after: undefined })}>First page</a>}
				{found.value?.next && <a href={addressWith({ after: found.value.next })}>Next page</a>}
			</p>
		</>
	)
}

function One({ id, signIns, used }: View & { id: string }): JSX.Element {
	const [query, change] = useQuery()
	const loaded = useLoaded(() => call("GET /api/v1/admin/organisations/{id}", { path: { id } }), [id, signIns])
	const [changed, setChanged] = useState<Overview>() // by a grant, until it is loaded again
	useEffect(() => setChanged(undefined), [loaded.value])
	const o = changed ?? loaded.value
	const main = useRef<HTMLDivElement>(null)
	const focus = (): void => main.current?.querySelector<HTMLElement>("h1")?.focus()
	const back = <p><a href="/console/operator/organisations">All organisations</a></p>
	if (o === undefined) {
		if (loaded.failure?.status === 404) return <><Heading>There is no such organisation</Heading><p class="soft">Nothing here has the id <code>{id}</code>.</p>{back}</>
		return <><Heading>Organisation</Heading><Show of={loaded} what="the organisation">{() => null}</Show>{back}</>
	}
	const s = o.subscription
	return (
		<div class="within" ref={main}>
			{back}
			<header class="bar"><Heading>{nameOf(o)}</Heading>{o.closedAt && <span class="badge" data-state="paused">Closed</span>}</header>
			{loaded.failure && <Problem failure={loaded.failure} what="Loading the organisation" retry={loaded.retry} />}
			<div class="cards">
				<section>
					<h2>Plan</h2>
					<p class="figure">{plans[s.plan]} <span class="badge" data-status={s.status}>{s.managedExternally ? "set by an operator" : statuses[s.status]}</span></p>
					<p class="soft">{s.currentPeriodEnd ? <>{s.managedExternally || s.cancelAtPeriodEnd ? "Ends" : "Renews"} on {date(s.currentPeriodEnd)}.</> : s.plan === "NO_PLAN" ? "Chats need a plan." : "It does not end by itself."}</p>
					<button type="button" class="small" onClick={() => change({ grant: "1" })}>Set the plan…</button>
				</section>
				<Amount name="Members" used={o.members} limit={o.memberLimit} text={count}>{count(o.owners)} {o.owners === 1 ? "owner" : "owners"}, {count(o.pendingInvitations)} invited{s.purchasedSeats === null ? "" : `, ${count(s.purchasedSeats)} ${s.purchasedSeats === 1 ? "seat" : "seats"} paid for`}</Amount>
				<Amount name="Storage" used={o.storageUsed} limit={o.storageLimit} text={size}>of files, memories and earlier versions</Amount>
				<section>
					<h2>Tokens in 30 days</h2>
					<p class="figure">{count(o.usage.totalTokens)}</p>
					<p class="soft">in {count(o.usage.requests)} {o.usage.requests === 1 ? "chat" : "chats"}</p>
				</section>
			</div>
			<section>
				<dl class="pairs">
					<dt>Id</dt><dd><code>{o.id}</code></dd>
					{o.slug && <><dt>Short name</dt><dd>{o.slug}</dd></>}
					<dt>Since</dt><dd>{date(o.createdAt)}</dd>
					{o.closedAt && <><dt>Closed</dt><dd>{date(o.closedAt)}. Its data is erased 30 days later.</dd></>}
					<dt>Releases</dt><dd>{o.publishesReleases ? "Its owners and admins may publish releases." : "It does not publish releases."} <span class="soft"><code>COLLAB_RELEASE_ORGS</code> names the organisations that do.</span></dd>
				</dl>
			</section>
			<Members organisation={o} signIns={signIns} used={used} onChanged={loaded.retry} />
			{query.has("grant") && <SetPlan organisation={o} onClose={() => change({ grant: undefined }, true)} onDone={(next) => {
				setChanged(next)
				used()
				change({ grant: undefined }, true)
				announce(`The plan of ${nameOf(next)} is ${plans[next.subscription.plan]} now`)
				focus()
			}} />}
		</div>
	)
}

// Amount shows what is used of what the plan allows.
function Amount({ name, used, limit, text, children }: { name: string; used: number; limit: number | null; text: (n: number) => string; children: JSX.Element | string | (JSX.Element | string)[] }): JSX.Element {
	return (
		<section>
			<h2>{name}</h2>
			<p class="figure">{text(used)} <small>{limit === null ? "unlimited" : `of ${text(limit)}`}</small></p>
			{limit !== null && <progress max={1} value={Math.min(1, used / Math.max(limit, 1))} aria-label={`${name}: ${text(used)} of ${text(limit)}`} />}
			<p class="soft">{limit !== null && used > limit && <b class="warning">More than the plan allows. </b>}{children}</p>
		</section>
	)
}

// Comparison has a row for each thing that a change is about: what it is before and after.
function Comparison({ rows }: { rows: [string, string, string][] }): JSX.Element {
	return (
		<table class="compare">
			<thead><tr><td /><th scope="col">Before</th><th scope="col">After</th></tr></thead>
			<tbody>{rows.map(([name, before, after]) => <tr key={name}><th scope="row">{name}</th><td>{before}</td><td>{before === after ? after : <b>{after}</b>}</td></tr>)}</tbody>
		</table>
	)
}

type Draft = { plan: Plan; seats: string; end: string }

function SetPlan({ organisation: o, onClose, onDone }: { organisation: Overview; onClose: () => void; onDone: (next: Overview) => void }): JSX.Element {
	const s = o.subscription
	const [kept, keep, drop] = useDraft<Draft>(`plan ${o.id}`)
	const draft = kept ?? { plan: s.plan, seats: String(s.purchasedSeats ?? ""), end: s.managedExternally && s.currentPeriodEnd ? dateOf(s.currentPeriodEnd) : "" }
	const send = useAct("Setting the plan", async () => {
		const next = await call("PUT /api/v1/admin/organisations/{id}/subscription", { path: { id: o.id }, body: { plan: draft.plan, seats: draft.seats === "" ? null : Number(draft.seats), currentPeriodEnd: draft.end ? startOf(draft.end) : null } })
		drop(kept)
		onDone(next)
	})
	const endOf = (time: string | null): string => (time ? day(time) : "never")
	return (
		<Dialog title={`Plan of ${nameOf(o)}`} onClose={onClose} wide>
			<form class="fields" onSubmit={submitting(send)}>
				<label>Plan<select value={draft.plan} onChange={(e) => keep({ ...draft, plan: e.currentTarget.value as Plan })}>{Object.entries(plans).map(([plan, text]) => <option key={plan} value={plan}>{text}</option>)}</select></label>
				<label>Seats, if they are counted<input type="number" min={1} max={1_000_000} value={draft.seats} onInput={(e) => keep({ ...draft, seats: e.currentTarget.value })} /></label>
				<label>Ends on, if it ends<input type="date" min={dateOf(startOf(dateOf(new Date().toISOString()), 1))} value={draft.end} onInput={(e) => keep({ ...draft, end: e.currentTarget.value })} /></label>
				<div class="long">
					<Comparison rows={[
						["Plan", plans[s.plan], plans[draft.plan]], ["State", statuses[s.status], "active"],
						["Seats", s.purchasedSeats === null ? "not counted" : count(s.purchasedSeats), draft.seats === "" ? "not counted" : count(Number(draft.seats))],
						["Ends", s.currentPeriodEnd && !s.managedExternally && !s.cancelAtPeriodEnd ? `renews on ${day(s.currentPeriodEnd)}` : endOf(s.currentPeriodEnd), endOf(draft.end || null)],
						["Set by", s.managedExternally ? "an operator" : "the organisation", "an operator"],
					]} />
					<p>It takes effect at once, for all members of <b>{nameOf(o)}</b>. If the new plan allows less, nothing is deleted and nobody is removed, but nothing can be added until less is used.</p>
					{!s.managedExternally && <p>The organisation can no longer buy or change a plan itself.{s.hasPaymentMethod && <> <b>Its subscription at the payment provider goes on:</b> end it there, or it is still charged.</>}</p>}
				</div>
				{send.failed && <Problem {...send.failed} />}
				<p class="long bar"><button type="submit" class="primary" aria-busy={send.busy} disabled={send.busy}>Set the plan</button><button type="button" onClick={() => (keep(undefined), onClose())}>Discard</button></p>
			</form>
		</Dialog>
	)
}

function Members({ organisation: o, signIns, used, onChanged }: View & { organisation: Overview; onChanged: () => void }): JSX.Element {
	const load = (cursor?: string): Promise<Listed<Member[]>> => all("GET /api/v1/admin/organisations/{id}/members", { limit: membersOnPage, cursor }, 1, { path: { id: o.id } })
	const first = useLoaded(async () => {
		const listed = await load()
		setMore(undefined)
		return listed
	}, [signIns])
	const [more, setMore] = useState<Listed<Member[]>>() // with the pages after the first
	const [asked, ask] = useState<{ member: Member; to: Role }>()
	const listed = more ?? first.value
	const loadMore = useAct("Loading more members", async (before: Listed<Member[]>) => {
		const added = await load(before.next)
		setMore((now) => Object.assign([...(now ?? before), ...added], { next: added.next }))
	})
	return (
		<section class="people">
			<h2>Members</h2>
			<Show of={listed ? { ...first, value: listed } : first} what="the members" again="Loading the members again">
				{(now) => (
					<>
						{now.length === 0 && <p class="empty">Nobody is a member. People become members when they sign in to the organisation at the identity provider.</p>}
						<ul class="rows" aria-label="Members">
							{now.map((m) => (
								<li key={m.userId} data-member={m.email}>
									<div><b>{memberName(m)}</b><p class="soft">{m.name && m.email && <>{m.email} · </>}joined <Time at={m.joinedAt} /></p></div>
									<select aria-label={`Role of ${memberName(m)}`} value={m.role} onChange={(e) => {
										ask({ member: m, to: e.currentTarget.value as Role })
										e.currentTarget.value = m.role // until the server has changed it
									}}>{Object.entries(roles).map(([role, text]) => <option key={role} value={role}>{text}</option>)}</select>
								</li>
							))}
						</ul>
						{loadMore.failed && <Problem {...loadMore.failed} />}
						{now.next && <p><button type="button" onClick={() => void loadMore.run(now)}>Show more</button> <span class="soft">{count(now.length)} of {count(o.members)} are shown.</span></p>}
						{asked && <SetRole organisation={o} {...asked} onClose={() => ask(undefined)} onDone={(changed) => {
							setMore(Object.assign(now.map((m) => (m.userId === changed.userId ? changed : m)), { next: now.next }))
							ask(undefined)
							used()
							onChanged()
							announce(`${memberName(changed)} is ${roles[changed.role]} of ${nameOf(o)} now`)
						}} />}
					</>
				)}
			</Show>
		</section>
	)
}

const mayDo: Record<Role, string> = {
	OWNER: "change roles, the plan and everything else in the organisation", ADMIN: "invite and remove people, and change the plan",
	MEMBER: "work on tasks, files and chats", VIEWER: "read, and change nothing",
}

function SetRole({ organisation: o, member: m, to, onClose, onDone }: { organisation: Overview; member: Member; to: Role; onClose: () => void; onDone: (changed: Member) => void }): JSX.Element {
	const { run, busy, failed } = useAct("Changing the role", async () => onDone(await call("PUT /api/v1/admin/organisations/{id}/members/{userId}/role", { path: { id: o.id, userId: m.userId }, body: { role: to } })))
	return (
		<Dialog title={`Role in ${nameOf(o)}`} onClose={onClose}>
			<Comparison rows={[[memberName(m), roles[m.role], roles[to]], ["May", mayDo[m.role], mayDo[to]]]} />
			<p>The change is in the audit log of <b>{nameOf(o)}</b>. It stands until the identity provider gives the member another role.</p>
			{failed && <Problem {...failed}>{failed.failure.status === 409 && <p>An organisation always has an owner. Make somebody else one first.</p>}</Problem>}
			<p class="bar"><button type="button" class="primary" aria-busy={busy} disabled={busy} onClick={() => void run()}>Make {roles[to]}</button><button type="button" onClick={onClose}>Cancel</button></p>
		</Dialog>
	)
}
