// The members of an organisation, their roles, and its invitations.
import type { JSX } from "preact"
import { useRef, useState } from "preact/hooks"
import { named, useSearch } from "../combobox"
import { Dialog } from "../dialog"
import { dropKey, once, useDraft } from "../draft"
import { Initials } from "../icons"
import { all, call, callDelete } from "../interface"
import { announce } from "../live"
import { Copy, Problem, Show, Time, submitting, useAct, useActs, useLoaded, useLook } from "../loading"
import { first } from "../members"
import { useQuery, useTyped } from "../router"
import { count, nameOf, plans, roles } from "../text"
import type { Invitation, Me, Member, PlanOffer, Role, Subscription } from "../types"
import { offerUndo } from "../undo"

const step = 200 // members that are added to the list at once

// Seats are how many members the plan allows, and how many there are.
type Seats = { subscription: Subscription; limit: number | null }

async function loadSeats(): Promise<Seats> {
	const [subscription, offers] = await Promise.all([call("GET /api/v1/billing/subscription"), call("GET /api/v1/billing/plans")])
	return { subscription, limit: offers.find((o: PlanOffer) => o.plan === subscription.plan)?.members ?? null }
}

export default function People({ me }: { me: Me }): JSX.Element {
	const manages = me.role === "OWNER" || me.role === "ADMIN"
	const [query, change] = useQuery()
	const [most, setMost] = useState(first)
	const members = useLoaded(() => all("GET /api/v1/org/members", { limit: Math.min(most, 1000) }, Math.ceil(most / 1000)), [most])
	const complete = members.value?.next === undefined
	const typed = useTyped("q"), wanted = typed.value.trim()
	const searched = useSearch(wanted, complete ? undefined : (search, signal) => call("GET /api/v1/org/members", { query: { search, limit: step }, signal }))
	const reload = (): void => {
		members.retry()
		if (wanted !== "" && !complete) searched.retry()
	}
	const invitations = useLoaded<Invitation[]>(async () => (manages ? all("GET /api/v1/org/invites", {}) : []), [manages])
	const seats = useLoaded(loadSeats, [])
	useLook(() => {
		reload()
		invitations.retry()
		seats.retry()
	})
	const { run: attempt, busy, failed, fail } = useActs()
	const [leaving, setLeaving] = useState<Member>()
	const [demoting, setDemoting] = useState<[Member, Role]>()
	const [link, setLink] = useState<{ email: string; url: string }>()
	const heading = useRef<HTMLHeadingElement>(null)

	const setRole = (m: Member, role: Role): Promise<void> => attempt(`Changing the role of ${nameOf(m)}`, async () => {
		await call("PATCH /api/v1/org/members/{userId}/role", { path: { userId: m.userId }, body: { role } })
		if (m.userId === me.user.id) return location.reload() // what the frame and this page offer depends on it
		announce(`${nameOf(m)} is ${roles[role]} now`)
		reload()
	})
	const remove = (m: Member): Promise<void> => attempt(m.userId === me.user.id ? "Leaving the organisation" : `Removing ${nameOf(m)}`, async () => {
		await callDelete("DELETE /api/v1/org/members/{userId}", { path: { userId: m.userId } })
		if (m.userId === me.user.id) return location.assign("/console")
		announce(`${nameOf(m)} is no longer a member`)
		heading.current?.focus()
		reload()
		seats.retry()
	})
	const resend = (i: Invitation): Promise<void> => attempt(`Renewing the invitation of ${i.email}`, async () => {
		setLink({ email: i.email, url: (await call("POST /api/v1/org/invite/{id}/resend", { path: { id: i.id } })).inviteUrl })
		invitations.retry()
	})
	const inviteAgain = (i: Invitation): Promise<void> => attempt(`Inviting ${i.email} again`, async () => {
		const made = await once(i.id, { email: i.email, role: i.role }, (given) => call("POST /api/v1/org/invite", given))
		setLink({ email: made.email, url: made.inviteUrl })
		invitations.retry()
	})
	const discard = (i: Invitation): Promise<void> => attempt(`Deleting the invitation of ${i.email}`, async () => {
		await call("DELETE /api/v1/org/invite/{id}", { path: { id: i.id } })
		dropKey("invitation")
		heading.current?.focus()
		invitations.retry()
		offerUndo({ text: `The invitation of ${i.email} is deleted. Undoing it makes a new link.`, undo: () => void inviteAgain(i) })
	})

	const isOwn = (m: Member): boolean => m.userId === me.user.id
	const owners = members.value?.filter((m) => m.role === "OWNER").length ?? 0
	const fits = named(wanted)
	const found = wanted !== "" && !complete && searched.settled ? searched.value?.found : undefined
	const shown = found ?? members.value?.filter((m) => wanted === "" || fits({ key: "", name: `${m.name ?? ""} ${m.email ?? ""}`, soft: roles[m.role] })) ?? []
	return (
		<div class="people">
			<header class="bar">
				<h1 ref={heading} tabIndex={-1}>People</h1>
				<input class="grow" type="search" aria-label="Search members" placeholder={complete ? "Name, e-mail or role" : "Name or e-mail"} maxLength={200} {...typed} />
				{manages && <button type="button" class="primary" onClick={() => change({ invite: "1" })}>Invite…</button>}
			</header>
			<Show of={seats} what="the seats">{(s) => <SeatsLine seats={s} pending={manages ? invitations.value?.length : undefined} manages={manages} />}</Show>
			{failed && <Problem {...failed} giveUp={() => fail()}>{failed.failure.status === 409 && (owners <= 1 || !complete) && <p>An organisation always has an owner. Make somebody else one first.</p>}</Problem>}
			{searched.failure && <Problem failure={searched.failure} what="The search" retry={searched.retry} />}
			<Show of={members} what="the members">
				{() => shown.length === 0
					? !searched.settled ? <p class="empty" aria-busy={!searched.failure}>None of the first {count(members.value?.length ?? 0)} matches.</p> : <p class="empty">No member matches. <button type="button" class="small" onClick={() => change({ q: undefined })}>Clear the search</button></p>
					: <>
						<ul class="rows" aria-label="Members">
							{shown.map((m) => (
								<li key={m.userId} data-member={m.email}>
									<Initials of={nameOf(m)} />
									<div>
										<b>{nameOf(m)}</b> {m.userId === me.user.id && <span class="badge">You</span>}
										<p class="soft">{m.name && m.email && <>{m.email} · </>}joined <Time at={m.joinedAt} />{!m.onboardingCompleted && " · not onboarded yet"}</p>
									</div>
									{me.role === "OWNER"
										? <select aria-label={`Role of ${nameOf(m)}`} disabled={busy} value={m.role} onChange={(e) => {
											const to = e.currentTarget.value as Role
											e.currentTarget.value = m.role // until the server has changed it
											isOwn(m) ? setDemoting([m, to]) : void setRole(m, to)
										}}>{Object.entries(roles).map(([role, text]) => <option key={role} value={role}>{text}</option>)}</select>
										: <span class="badge">{roles[m.role]}</span>}
									{m.userId === me.user.id
										? <button type="button" class="small" disabled={busy} onClick={() => setLeaving(m)}>Leave…</button>
										: manages && (m.role !== "OWNER" || me.role === "OWNER") && <button type="button" class="small" aria-label={`Remove ${nameOf(m)}`} disabled={busy} onClick={() => setLeaving(m)}>Remove…</button>}
								</li>
							))}
						</ul>
						{wanted === "" && !complete && <p><button type="button" onClick={() => setMost(most + step)}>Show more</button> <span class="soft">{count(shown.length)} are shown.</span></p>}
						{found?.length === step && <p class="soft">The first {count(step)} who match are shown: type more of the name.</p>}
					</>}
			</Show>
			{manages && (
				<section>
					<h2>Invitations</h2>
					<Show of={invitations} what="the invitations">
						{(list) => list.length === 0
							? <p class="empty">No invitation is pending. Each is valid for 24 hours.</p>
							: <ul class="rows" aria-label="Invitations">
								{list.map((i) => (
									<li key={i.id}>
										<div><b>{i.email}</b><p class="soft">{roles[i.role]} · {i.status.toLowerCase()}, expires <Time at={i.expiresAt} /></p></div>
										{(i.role !== "OWNER" || me.role === "OWNER") && <>
											<button type="button" class="small" aria-label={`New link for ${i.email}`} disabled={busy} onClick={() => void resend(i)}>New link</button>
											<button type="button" class="small" aria-label={`Delete the invitation of ${i.email}`} disabled={busy} onClick={() => void discard(i)}>Delete</button>
										</>}
									</li>
								))}
							</ul>}
					</Show>
				</section>
			)}
			{manages && query.has("invite") && <Invite owner={me.role === "OWNER"} plan={seats.value} onClose={() => change({ invite: undefined }, true)} onMade={(email, url) => (change({ invite: undefined }, true), setLink({ email, url }), invitations.retry())} />}
			{link && <Link {...link} onClose={() => setLink(undefined)} />}
			{leaving && (
				<Dialog title={isOwn(leaving) ? `Leave ${me.org?.name ?? "the organisation"}?` : `Remove ${nameOf(leaving)}?`} onClose={() => setLeaving(undefined)}>
					<ul>
						<li>Access ends at once, on every device.</li>
						<li>Tasks stay; those assigned to {isOwn(leaving) ? "you" : "this member"} are assigned to nobody.</li>
						<li>{isOwn(leaving) ? "You leave" : "The member leaves"} all teams, and unfinished uploads are cancelled.</li>
						<li>Shared files stay. Personal ones are kept unseen, for a return.</li>
					</ul>
					<p class="bar"><button type="button" class="primary" onClick={() => (setLeaving(undefined), void remove(leaving))}>{isOwn(leaving) ? "Leave" : "Remove"}</button><button type="button" onClick={() => setLeaving(undefined)}>Cancel</button></p>
				</Dialog>
			)}
			{demoting && (
				<Dialog title={`Become ${roles[demoting[1]]}?`} onClose={() => setDemoting(undefined)}>
					<p>You will not be able to change roles any more. Another owner can make you an owner again.</p>
					<p class="bar"><button type="button" class="primary" onClick={() => (setDemoting(undefined), void setRole(...demoting))}>Change my role</button><button type="button" onClick={() => setDemoting(undefined)}>Cancel</button></p>
				</Dialog>
			)}
		</div>
	)
}

function SeatsLine({ seats, pending, manages }: { seats: Seats; pending: number | undefined; manages: boolean }): JSX.Element {
	const used = seats.subscription.seats + (pending ?? 0), plan = plans[seats.subscription.plan]
	const invited = pending ? `, ${count(pending)} of them by ${pending === 1 ? "an invitation" : "invitations"}` : ""
	const are = used === 1 ? "is" : "are"
	if (seats.limit === null) return <p class="soft">{count(used)} {used === 1 ? "seat" : "seats"} {are} used{invited}. {plan} has no limit of members.</p>
	const usage = used > seats.limit ? `${count(used)} seats are used, ${count(used - seats.limit)} more than the plan has` : seats.limit === 1 ? "The only seat is used" : `${count(used)} of ${count(seats.limit)} seats ${are} used`
	return <p class="soft">{usage}{invited} ({plan}). {manages && used >= seats.limit && <>Nobody else can be invited on this plan. <a href="/console/billing">Change the plan</a></>}</p>
}

type Draft = { email: string; role: Role }

function Invite({ owner, plan, onClose, onMade }: { owner: boolean; plan: Seats | undefined; onClose: () => void; onMade: (email: string, url: string) => void }): JSX.Element {
	const [kept, keep, drop] = useDraft<Draft>("invitation")
	const draft = kept ?? { email: "", role: "MEMBER" }
	const set = (part: Partial<Draft>): void => keep({ ...draft, ...part })
	const send = useAct("The invitation", async () => {
		const made = await once("invitation", { email: draft.email.trim(), role: draft.role }, (given) => call("POST /api/v1/org/invite", given))
		drop(kept)
		onMade(made.email, made.inviteUrl)
	})
	return (
		<Dialog title="Invite somebody" onClose={onClose}>
			<form class="fields" onSubmit={submitting(send)}>
				<label class="long">E-mail address<input type="email" required maxLength={254} autocomplete="off" value={draft.email} onInput={(e) => set({ email: e.currentTarget.value })} /></label>
				<label class="long">Role<select value={draft.role} onChange={(e) => set({ role: e.currentTarget.value as Role })}>{(Object.keys(roles) as Role[]).filter((r) => owner || r !== "OWNER").map((r) => <option key={r} value={r}>{roles[r]}</option>)}</select></label>
				{send.failed && <Problem {...send.failed}>{send.failed.failure.status === 403 && plan && <p>The plan is {plans[plan.subscription.plan]}. <a href="/console/billing">Change the plan</a></p>}</Problem>}
				<p class="long bar"><button type="submit" class="primary">Invite</button><button type="button" onClick={onClose}>Cancel</button></p>
			</form>
		</Dialog>
	)
}

// Link shows the address of an invitation, which the server does not keep.
function Link({ email, url, onClose }: { email: string; url: string; onClose: () => void }): JSX.Element {
	return (
		<Dialog title={`Link for ${email}`} onClose={onClose}>
			<p>The link is shown once, here, and is valid for 24 hours. It is in the e-mail, too, if this server sends e-mail.</p>
			<p><input class="full" readOnly aria-label="Link" value={url} onFocus={(e) => e.currentTarget.select()} /></p>
			<p class="bar"><Copy text={url} looks="primary" /><button type="button" onClick={onClose}>Done</button></p>
		</Dialog>
	)
}
