// Teams, their members, and the workspaces of each, in an order of the person's own.
import type { ComponentChildren, JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { Combobox, listed, named, noneOf, useSearch } from "../combobox"
import { Dialog } from "../dialog"
import { dragRows } from "../drag"
import { once, useDraft } from "../draft"
import { useFeed } from "../feed"
import { all, call, callDelete, Failure, failureOf } from "../interface"
import { onKeys } from "../keys"
import { announce } from "../live"
import { Placeholder, Problem, Show, Time, submitting, useAct, useActs, useLoaded, useLook, type Failed, type Loaded } from "../loading"
import { Unnamed, useMembers, type Members as Directory } from "../members"
import { Menu, type Choice } from "../menu"
import { addressWith, go, useQuery, type Changes } from "../router"
import { count, nameOf } from "../text"
import type { Me, Team, TeamMember, Workspace } from "../types"
import { offerUndo } from "../undo"
import { Windowed } from "../windowed"

const step = 200 // members shown at once
const mostOthers = 50 // teams that are read one by one

// Known are the person's own teams, others that the person manages, and all workspaces in the person's order.
type Known = { own: Team[]; others: Team[]; workspaces: Workspace[] }

// load reads what is known. The interface lists own teams alone: others are found by their workspaces.
async function load(): Promise<Known> {
	const [own, workspaces] = await Promise.all([all("GET /api/v1/teams", {}), all("GET /api/v1/workspaces", {})])
	const ids = new Set(workspaces.map((w) => w.teamId))
	for (const t of own) ids.delete(t.id)
	const others = await Promise.all([...ids].slice(0, mostOthers).map(find))
	return { own, others: others.flatMap((t) => t ?? []), workspaces }
}

// find returns a team, undefined if the person sees none with the id.
async function find(id: string): Promise<Team | undefined> {
	try {
		return await call("GET /api/v1/teams/{id}", { path: { id } })
	} catch (error) {
		if (failureOf(error).status === 404) return undefined
		throw error
	}
}

// seenBy says who sees a team, its workspaces, and what is in them.
function seenBy(t: Team): string {
	if (t.kind === "SHARED") return "Everybody in the organisation belongs to the team."
	return t.kind === "PERSONAL" ? "The team is yours alone: nobody else sees what is in it." : "The team’s members, and the organisation’s owners and admins, see what is in it."
}

// Place is where a workspace is to be: after another one, or before it.
type Place = { of: string; after: boolean }

// arranged returns ids with one of them at another place, undefined if it or the place is gone.
function arranged(ids: string[], id: string, to: Place): string[] | undefined {
	const rest = ids.filter((one) => one !== id)
	const at = rest.indexOf(to.of)
	if (at < 0 || rest.length === ids.length) return undefined
	rest.splice(at + Number(to.after), 0, id)
	return rest
}

// useOrder returns the workspaces in the order that the person is giving them, and a function that moves one.
// A move is shown at once. It is made in the order that the server has by then, and names no workspace
// after the moved one, so that the moves of another tab stay.
function useOrder(known: Loaded<Known>, fail: (failed?: Failed) => void): [Workspace[], (w: Workspace, to: Place) => void] {
	const [order, setOrder] = useState<string[]>()
	const last = useRef(Promise.resolve()), waiting = useRef(0)
	useEffect(() => {
		if (waiting.current === 0) setOrder(undefined)
	}, [known.value])
	const list = known.value?.workspaces ?? []
	const at = new Map(order?.map((id, i) => [id, i]))
	const shown = order ? [...list].sort((a, b) => (at.get(a.id) ?? list.length) - (at.get(b.id) ?? list.length)) : list
	const store = async (w: Workspace, to: Place): Promise<void> => {
		const now = (await all("GET /api/v1/workspaces", {})).map((one) => one.id)
		const next = arranged(now, w.id, to)
		if (!next) throw new Failure("It, or the workspace beside the new place, is not there any more", 404, "", 0)
		await call("PUT /api/v1/workspaces/order", { body: { order: next.slice(0, next.indexOf(w.id) + 1) } })
	}
	const move = (w: Workspace, to: Place): void => {
		fail()
		setOrder(arranged(shown.map((one) => one.id), w.id, to))
		waiting.current++
		last.current = last.current.then(() => store(w, to)).catch((error: unknown) => {
			const failure = failureOf(error)
			setOrder(undefined)
			fail({ what: `Moving “${w.name}”`, failure, ...(failure.status !== 404 && { retry: () => move(w, to) }) })
		}).then(() => {
			if (--waiting.current === 0) known.retry()
		})
	}
	return [shown, move]
}

export default function Teams({ me }: { me: Me }): JSX.Element {
	const writes = me.role !== "VIEWER", manages = me.role === "OWNER" || me.role === "ADMIN"
	const [query, change] = useQuery()
	const known = useLoaded(load, [])
	const people = useMembers()
	const { run: attempt, failed, fail } = useActs()
	const [workspaces, move] = useOrder(known, fail)
	const [ending, end] = useState<Workspace | Team>()
	const [leaving, leave] = useState<Team>()
	const heading = useRef<HTMLHeadingElement>(null)
	const asked = query.get("team")
	const teams = [...(known.value?.own ?? []), ...(known.value?.others ?? [])]
	const listed = teams.find((t) => t.id === asked)
	const unlisted = useLoaded(async () => (asked === null || listed || !known.value ? undefined : (await find(asked)) ?? null), [asked, known.value])
	const team = listed ?? (unlisted.value?.id === asked ? unlisted.value : undefined)
	const feed = useFeed((event) => event === undefined && known.retry()) // files alone have events
	useLook(known.retry)
	useEffect(fail, [asked])

	// done closes the dialog that has changed something.
	const done = (said: string, changes: Changes): void => {
		announce(said)
		change(changes, true)
		known.retry()
	}
	const rehouse = (w: Workspace, to: string): Promise<Workspace> => once(w.id, { targetTeamId: to }, (given) => call("POST /api/v1/workspaces/{id}/move", { ...given, path: { id: w.id } }))
	const saveWorkspace = async (w: Workspace, { teamId, ...texts }: Partial<Fields>): Promise<void> => {
		if (Object.keys(texts).length > 0) await call("PATCH /api/v1/workspaces/{id}", { path: { id: w.id }, body: texts })
		if (teamId === undefined) return done(`“${texts.name ?? w.name}” is saved`, { workspace: undefined })
		await rehouse(w, teamId)
		done(`“${w.name}” is moved`, { workspace: undefined })
		heading.current?.focus()
		offerUndo({
			text: `“${w.name}” was moved to ${teams.find((t) => t.id === teamId)?.name ?? "another team"}.`,
			undo: () => void attempt(`Moving “${w.name}” back`, async () => {
				await rehouse(w, w.teamId)
				known.retry()
			}),
		})
	}
	const remove = async (one: Workspace | Team): Promise<void> => {
		if ("kind" in one) await callDelete("DELETE /api/v1/teams/{id}", { path: { id: one.id } })
		else await callDelete("DELETE /api/v1/workspaces/{id}", { path: { id: one.id } })
		end(undefined)
		done(`“${one.name}” is deleted`, "kind" in one ? { team: undefined } : { workspace: undefined })
		heading.current?.focus()
	}

	const shown = asked === null ? workspaces : workspaces.filter((w) => w.teamId === asked)
	const opened = workspaces.find((w) => w.id === query.get("workspace"))
	const row: RowsOf = {
		label: team ? `Workspaces of ${team.name}` : "Workspaces", items: shown, writes, move, end,
		teamOf: (w) => (asked === null ? teams.find((t) => t.id === w.teamId)?.name ?? "Another team" : undefined),
	}
	const newWorkspace = writes && teams.length > 0 && <button type="button" class="small" onClick={() => change({ new: "workspace" })}>New workspace…</button>
	const entry = (t: Team): JSX.Element => (
		<li key={t.id}><a href={addressWith({ team: t.id })} aria-current={t.id === asked ? "page" : undefined}><span>{t.name}</span> <Amount of={workspaces.filter((w) => w.teamId === t.id).length} /></a></li>
	)
	return (
		<div class="teams">
			<header class="bar">
				<h1 ref={heading} tabIndex={-1}>Teams</h1>
				{writes && <button type="button" class="primary" onClick={() => change({ new: "team" })}>New team…</button>}
			</header>
			{!writes && <p class="soft">Viewers see their teams and workspaces and change nothing. The organisation’s owners change roles.</p>}
			{feed.state === "down" && <p class="soft">Not live: what others change appears when you come back to this page.</p>}
			{known.failure && <Problem failure={known.failure} what="Loading the teams" retry={known.retry} />}
			{failed && <Problem {...failed} giveUp={() => fail()} />}
			{!known.value
				? !known.failure && <Placeholder what="the teams" />
				: <div class="explorer">
					<nav class="memories" aria-label="Teams">
						<ul><li><a href={addressWith({ team: undefined })} aria-current={asked === null ? "page" : undefined}><span>All workspaces</span> <Amount of={workspaces.length} /></a></li></ul>
						{known.value.own.length > 0 && <><h2>Your teams</h2><ul>{known.value.own.map(entry)}</ul></>}
						{known.value.others.length > 0 && <><h2>Other teams</h2><ul>{known.value.others.map(entry)}</ul></>}
					</nav>
					<div class="within">
						{asked === null
							? <>
								<header class="bar"><h2>All workspaces</h2>{newWorkspace}</header>
								{workspaces.length > 0 ? <Rows key="all" {...row} /> : <p class="empty">{teams.length === 0 ? "There are no teams yet. A team is a group of members, and workspaces belong to teams." : "There are no workspaces yet."} A workspace has tasks, files and memories of its own.</p>}
								{writes && teams.length === 0 && <p><button type="button" class="small" onClick={() => void attempt("Making the first teams", async () => (await call("POST /api/v1/auth/seed-onboarding"), known.retry()))}>Begin with a team of everybody, one of your own, and sample tasks</button></p>}
							</>
							: team
								? <>
									<header class="bar">
										<h2>{team.name} {team.kind !== "STANDARD" && <span class="badge">{team.kind === "SHARED" ? "Everybody" : "Only you"}</span>}</h2>
										{writes && <button type="button" class="small" onClick={() => change({ edit: "team" })}>Edit…</button>}
										{writes && team.kind === "STANDARD" && known.value.own.includes(team) && <button type="button" class="small" onClick={() => leave(team)}>Leave…</button>}
										{writes && team.kind === "STANDARD" && (manages || team.createdBy === me.user.id) && <button type="button" class="small" onClick={() => end(team)}>Delete…</button>}
									</header>
									{team.description && <p class="text">{team.description}</p>}
									<p class="soft">
										{seenBy(team)} {team.kind === "STANDARD" && <>Created by {people.nameOf(team.createdBy, "a")} <Time at={team.createdAt} />. </>}
										{writes && team.kind === "STANDARD" && !manages && team.createdBy !== me.user.id && "Its creator, or an owner or admin, can delete it. "}
										{known.value.own.includes(team) && <a href={`/console/files?${new URLSearchParams({ place: `teams/${team.id}/memory` })}`}>Files of its memory</a>}
									</p>
									<section aria-labelledby="workspaces">
										<header class="bar"><h3 id="workspaces">Workspaces</h3>{newWorkspace}</header>
										{shown.length > 0 ? <Rows key={team.id} {...row} /> : <p class="empty">This team has no workspaces yet. A workspace has tasks, files and memories of its own.</p>}
									</section>
									{team.kind === "STANDARD"
										? <Members key={team.id} team={team} me={me} writes={writes} people={people} />
										: team.kind === "SHARED" && <p class="soft">Its members are those of the organisation: <a href="/console/people">People</a></p>}
								</>
								: unlisted.failure
									? <Problem failure={unlisted.failure} what="Loading the team" retry={unlisted.retry} />
									: unlisted.value === undefined ? <Placeholder what="the team" /> : <p class="empty">There is no such team, or you do not see it any more. <a href="/console/teams">All workspaces</a></p>}
					</div>
				</div>}
			{writes && query.get("new") === "team" && (
				<Form title="New team" draft="new team" stored={{ name: "", description: null }} writes what="Creating the team" verb="Create" onClose={() => change({ new: undefined }, true)}
					save={async ({ name = "", description = null }) => {
						const made = await once("new team", { name, description }, (given) => call("POST /api/v1/teams", given))
						done(`“${made.name}” is created`, { new: undefined, team: made.id })
					}} />
			)}
			{writes && query.get("new") === "workspace" && known.value && (
				<Form title="New workspace" draft="new workspace" stored={{ name: "", description: null, teamId: team?.id ?? teams[0]?.id ?? "" }} teams={teams} writes what="Creating the workspace" verb="Create" onClose={() => change({ new: undefined }, true)}
					save={async ({ name = "", description = null, teamId = "" }) => {
						const made = await once("new workspace", { name, description, teamId }, (given) => call("POST /api/v1/workspaces", given))
						done(`“${made.name}” is created`, { new: undefined })
					}} />
			)}
			{writes && team && query.get("edit") === "team" && (
				<Form title={team.name} draft={`team ${team.id}`} stored={{ name: team.name, description: team.description }} writes what="Saving the team" verb="Save" onClose={() => change({ edit: undefined }, true)}
					read={() => call("GET /api/v1/teams/{id}", { path: { id: team.id } })}
					save={async (changed) => {
						if (Object.keys(changed).length > 0) await call("PATCH /api/v1/teams/{id}", { path: { id: team.id }, body: { ...changed } })
						done(`“${changed.name ?? team.name}” is saved`, { edit: undefined })
					}} />
			)}
			{query.has("workspace") && known.value && (opened
				? <Form key={opened.id} title={opened.name} draft={`workspace ${opened.id}`} stored={{ name: opened.name, description: opened.description, teamId: opened.teamId }} teams={teams} writes={writes} what="Saving the workspace" verb="Save" onClose={() => change({ workspace: undefined }, true)}
					read={() => call("GET /api/v1/workspaces/{id}", { path: { id: opened.id } })} save={(changed) => saveWorkspace(opened, changed)} end={() => end(opened)}>
					<p class="soft long"><a href={tasksOf(opened)}>Tasks</a> · <a href={filesOf(opened)}>Files</a> · <a href={memoriesOf(opened)}>Files of its memory</a> · created by {people.nameOf(opened.createdBy, "a")} <Time at={opened.createdAt} /></p>
				</Form>
				: <Dialog title="Workspace" onClose={() => change({ workspace: undefined }, true)}><p class="empty">There is no such workspace, or you do not see it any more.</p></Dialog>)}
			{ending && (
				<Ending one={ending} workspaces={workspaces.filter((w) => w.teamId === ending.id).length} remove={() => remove(ending)} onClose={() => end(undefined)} onConflict={known.retry} />
			)}
			{leaving && (
				<Dialog title={`Leave ${leaving.name}?`} onClose={() => leave(undefined)}>
					<p>{manages ? "You will still see the team, as owners and admins do, among the other teams if it has workspaces." : "You will not see its workspaces, tasks and files any more. Its members can add you again."}</p>
					<p class="bar">
						<button type="button" class="primary" onClick={() => {
							leave(undefined)
							void attempt(`Leaving “${leaving.name}”`, async () => {
								await callDelete("DELETE /api/v1/teams/{id}/members/{userId}", { path: { id: leaving.id, userId: me.user.id } })
								done(`You have left “${leaving.name}”`, { team: undefined })
								heading.current?.focus()
							})
						}}>Leave</button>
						<button type="button" onClick={() => leave(undefined)}>Cancel</button>
					</p>
				</Dialog>
			)}
		</div>
	)
}

const Amount = ({ of }: { of: number }): JSX.Element => <span class="soft"><span aria-hidden="true">{count(of)}</span><span class="hidden">, {count(of)} {of === 1 ? "workspace" : "workspaces"}</span></span>

const tasksOf = (w: Workspace): string => `/console/tasks?${new URLSearchParams({ workspaceId: w.id })}`
const filesOf = (w: Workspace): string => `/console/files?${new URLSearchParams({ place: `workspaces/${w.id}/artifacts` })}`
const memoriesOf = (w: Workspace): string => `/console/files?${new URLSearchParams({ place: `workspaces/${w.id}/memory` })}`

type RowsOf = { label: string; items: Workspace[]; writes: boolean; move: (w: Workspace, to: Place) => void; end: (w: Workspace) => void; teamOf: (w: Workspace) => string | undefined }

// Rows are workspaces in the person's order, which dragging, the menu, and Alt with the arrows change.
function Rows({ label, items, writes, move, end, teamOf }: RowsOf): JSX.Element {
	const [active, setActive] = useState<string>()
	const place = useRef<HTMLDivElement>(null)
	const moveTo = (w: Workspace, to: number): void => {
		const others = items.filter((one) => one.id !== w.id)
		const before = others[to - 1], first = others[0]
		if (to < 0 || to > others.length || items[to] === w || !first) return
		move(w, before ? { of: before.id, after: true } : { of: first.id, after: false })
		announce(`“${w.name}” moved to place ${to + 1} of ${items.length}${before ? `, after “${before.name}”` : ""}`)
		setActive(w.id)
		requestAnimationFrame(() => place.current?.querySelector<HTMLElement>(`[data-id="${w.id}"] [data-row]`)?.focus({ preventScroll: true }))
	}
	const here = (act: (w: Workspace, at: number) => void) => (e: KeyboardEvent): void => {
		const id = (e.target as Element).closest<HTMLElement>("[data-id]")?.dataset.id
		const at = items.findIndex((w) => w.id === id), w = items[at]
		if (w) act(w, at)
	}
	const keys = onKeys({
		m: (e) => (e.target as Element).closest("[data-id]")?.querySelector<HTMLElement>("[data-key=m]")?.click(),
		...(writes && { "Alt+ArrowUp": here((w, at) => moveTo(w, at - 1)), "Alt+ArrowDown": here((w, at) => moveTo(w, at + 1)), Delete: here(end) }),
	})
	const drag = dragRows({
		name: (id) => items.find((w) => w.id === id)?.name ?? "",
		dropped: (id, _, to) => {
			const from = items.findIndex((w) => w.id === id), w = items[from]
			if (w) moveTo(w, from < to ? to - 1 : to)
		},
	})
	const choices = (w: Workspace): Choice[] => {
		const at = items.indexOf(w)
		return [
			{ text: writes ? "Edit, or move to a team" : "Open", act: () => go(addressWith({ workspace: w.id })) },
			{ text: "Tasks", act: () => go(tasksOf(w)) }, { text: "Files", act: () => go(filesOf(w)) },
			...(writes ? [
				...(at > 0 ? [{ text: "Move up", act: () => moveTo(w, at - 1) }, { text: "Move to top", act: () => moveTo(w, 0) }] : []),
				...(at < items.length - 1 ? [{ text: "Move down", act: () => moveTo(w, at + 1) }, { text: "Move to bottom", act: () => moveTo(w, items.length - 1) }] : []),
				{ text: "Delete…", act: () => end(w) },
			] : []),
		]
	}
	const row = (w: Workspace, isActive: boolean): JSX.Element => {
		const tabIndex = isActive ? 0 : -1, of = teamOf(w)
		return (
			<div class="workspace">
				{writes && <span data-grip aria-hidden="true">⠿</span>}
				<a class="title" data-row href={addressWith({ workspace: w.id })} tabIndex={tabIndex} draggable={false}>{w.name}</a>
				{of && <span class="soft of">{of}</span>}
				<a class="to" href={tasksOf(w)} tabIndex={tabIndex} aria-label={`Tasks of ${w.name}`} draggable={false}>Tasks</a>
				<a class="to" href={filesOf(w)} tabIndex={tabIndex} aria-label={`Files of ${w.name}`} draggable={false}>Files</a>
				<Menu label={`More for ${w.name}`} choices={() => choices(w)} class="small plain" tabIndex={tabIndex} shortcut="m">⋯</Menu>
			</div>
		)
	}
	return (
		<>
			{writes && items.length > 1 && <p class="soft">The order is yours alone. Drag a workspace, use its menu, or press <kbd>Alt</kbd> with <kbd>↑</kbd> or <kbd>↓</kbd>.</p>}
			<div ref={place} data-list="" onKeyDown={keys} onPointerDown={writes ? drag : undefined}>
				<Windowed label={label} items={items} keyOf={(w) => w.id} row={row} active={items.some((w) => w.id === active) ? active : items[0]?.id} onActive={setActive} complete more={() => undefined} />
			</div>
		</>
	)
}

// Members are the members of a team that members made.
function Members({ team, me, writes, people }: { team: Team; me: Me; writes: boolean; people: Directory }): JSX.Element {
	const members = useLoaded(() => all("GET /api/v1/teams/{id}/members", {}, undefined, { path: { id: team.id } }), [])
	const [text, type] = useState(""), [chosen, choose] = useState<string>()
	const [unchosen, setUnchosen] = useState(false)
	const { run: attempt, busy, failed, fail } = useActs()
	const [most, setMost] = useState(step)
	const heading = useRef<HTMLHeadingElement>(null)
	const there = new Set(members.value?.map((m) => m.userId))
	const others = people.entries.filter((e) => !there.has(e.key))
	const search = people.complete ? undefined : people.search
	const searched = useSearch(text, search)

	const add = (userId: string, name: string): Promise<void> => attempt(`Adding ${name}`, async () => {
		await call("POST /api/v1/teams/{id}/members", { path: { id: team.id }, body: { userId } })
		announce(`${name} is in ${team.name} now`)
		type("")
		choose(undefined)
		members.retry()
	})
	const remove = (m: TeamMember): Promise<void> => attempt(`Removing ${nameOf(m)}`, async () => {
		await callDelete("DELETE /api/v1/teams/{id}/members/{userId}", { path: { id: team.id, userId: m.userId } })
		heading.current?.focus()
		members.retry()
		offerUndo({ text: `${nameOf(m)} was removed from ${team.name}.`, undo: () => void add(m.userId, nameOf(m)) })
	})
	const entries = others.filter(named(text))
	const submit = (): void => {
		const who = searched.settled && entries.length === 1 ? entries[0] : entries.find((e) => e.key === chosen)
		setUnchosen(!who)
		if (who) void add(who.key, who.name)
	}
	return (
		<section aria-labelledby="members">
			<header class="bar">
				<h3 id="members" ref={heading} tabIndex={-1}>Members {members.value && <span class="soft">{count(members.value.length)}</span>}</h3>
				{writes && members.value && (others.length > 0 || search) && (
					<form class="adding" onSubmit={(e) => (e.preventDefault(), submit())}>
						<Combobox id="to-add" label="Member of the organisation to add" placeholder="Name or e-mail" text={text} onText={(t) => (type(t), choose(undefined), setUnchosen(false))} groups={[listed(entries, "", undefined, !search)]} choose={(e) => (type(e.name), choose(e.key))} over none={text && noneOf(searched, "")} />
						<button type="submit" class="small">Add</button>
					</form>
				)}
			</header>
			{unchosen && <p class="warning" role="alert">{entries.length === 0 && searched.settled ? "No other member of the organisation has this name." : "Choose one of the members whom the field lists."}</p>}
			<Unnamed members={people} />
			{searched.failure && <Problem failure={searched.failure} what="The search" retry={searched.retry} />}
			{failed && <Problem {...failed} giveUp={() => fail()} />}
			<Show of={members} what="the members">
				{(list) => list.length === 0
					? <p class="empty">Nobody is in this team. The organisation’s owners and admins still see it.</p>
					: <>
						<ul class="rows" aria-label="Members of the team">
							{list.slice(0, most).map((m) => (
								<li key={m.userId} data-member={m.email}>
									<div><b>{nameOf(m)}</b> {m.userId === me.user.id && <span class="badge">You</span>}<p class="soft">{m.name && m.email && <>{m.email} · </>}joined <Time at={m.joinedAt} /></p></div>
									{writes && m.userId !== me.user.id && <button type="button" class="small" aria-label={`Remove ${nameOf(m)}`} disabled={busy} onClick={() => void remove(m)}>Remove</button>}
								</li>
							))}
						</ul>
						{list.length > most && <p><button type="button" onClick={() => setMost(most + step)}>Show more of {count(list.length)}</button></p>}
					</>}
			</Show>
		</section>
	)
}

// Fields are what is written of a team, and of a workspace with its team.
type Fields = { name: string; description: string | null; teamId?: string }
type Kept = { base: Fields; own: Partial<Fields> }

const labels: Record<keyof Fields, string> = { name: "name", description: "description", teamId: "team" }

type FormOf = {
	title: string; draft: string; stored: Fields; teams?: Team[]; writes: boolean; what: string; verb: string
	read?: () => Promise<Fields> // what is stored by now
	save: (changed: Partial<Fields>) => Promise<void>
	end?: () => void; onClose: () => void; children?: ComponentChildren
}

// Form changes or makes a team or a workspace. What is written is kept in this tab until it is saved. If
// somebody else has changed the same field since, both values are shown, and the person chooses.
function Form({ title, draft: name, stored, teams, writes, what, verb, read, save, end, onClose, children }: FormOf): JSX.Element {
	const [draft, keep] = useDraft<Kept>(name)
	const [theirs, setTheirs] = useState<{ now: Fields; fields: (keyof Fields)[] }>()
	const shown = { ...stored, ...draft?.own }
	const base = draft?.base ?? stored
	const set = (part: Partial<Fields>): void => keep((was) => ({ base: was?.base ?? stored, own: { ...was?.own, ...part } }))
	const send = useAct(what, async (seen?: Fields) => {
		setTheirs(undefined)
		let own: Partial<Fields> = read ? { ...draft?.own } : shown
		if (read) {
			const now = await read()
			const written = (Object.keys(own) as (keyof Fields)[]).filter((f) => own[f] !== now[f])
			const fields = written.filter((f) => now[f] !== base[f] && now[f] !== seen?.[f])
			if (fields.length > 0) return setTheirs({ now, fields })
			own = Object.fromEntries(written.map((f) => [f, own[f]]))
		}
		await save(own)
		keep((is) => (is === draft || !is ? undefined : { ...is, base: { ...is.base, ...own } })) // what was written meanwhile stays
	})
	const take = ({ now, fields }: { now: Fields; fields: (keyof Fields)[] }): void => {
		setTheirs(undefined)
		keep((was) => was && { ...was, base: now, own: { ...was.own, ...Object.fromEntries(fields.map((f) => [f, now[f]])) } })
	}
	const target = teams?.find((t) => t.id === shown.teamId)
	return (
		<Dialog title={title} onClose={onClose}>
			<form class="fields" onSubmit={submitting(send)} onKeyDown={onKeys({ "Mod+Enter": () => void send.run() })}>
				{children}
				<label class="long">Name<input required maxLength={200} readOnly={!writes} autocomplete="off" value={shown.name} onInput={(e) => set({ name: e.currentTarget.value })} /></label>
				<label class="long">Description<textarea maxLength={10000} readOnly={!writes} value={shown.description ?? ""} onInput={(e) => set({ description: e.currentTarget.value || null })} /></label>
				{teams && (
					<label class="long">Team
						<select disabled={!writes} value={shown.teamId} onChange={(e) => set({ teamId: e.currentTarget.value })}>
							{!target && <option value={shown.teamId}>Another team</option>}
							{teams.map((t) => <option key={t.id} value={t.id}>{t.name}</option>)}
						</select>
					</label>
				)}
				{target && <p class="soft long">{read && target.id !== stored.teamId && "Who sees the workspace changes with its team. "}{seenBy(target)}</p>}
				{theirs && (
					<div class="problem long" role="alert">
						<p><strong>Somebody else has changed it meanwhile.</strong> Nothing of yours is stored yet. Stored is now:</p>
						<ul>{theirs.fields.map((f) => <li key={f}>{labels[f]}: {(f === "teamId" ? teams?.find((t) => t.id === theirs.now.teamId)?.name ?? "another team" : theirs.now[f]) ?? "none"}</li>)}</ul>
						<button type="button" class="small" onClick={() => void send.run(theirs.now)}>Save yours</button> <button type="button" class="small" onClick={() => take(theirs)}>Take theirs</button>
					</div>
				)}
				{send.failed && <Problem {...send.failed} />}
				<p class="long bar">
					{writes && <button type="submit" class="primary">{verb}</button>}
					<button type="button" onClick={onClose}>{writes ? "Cancel" : "Close"}</button>
					<span class="soft grow" role="status">{draft && "Kept in this tab until it is saved."}</span>
					{draft && <button type="button" class="small" onClick={() => (keep(undefined), setTheirs(undefined), send.fail())}>Discard</button>}
					{writes && end && <button type="button" onClick={end}>Delete…</button>}
				</p>
			</form>
		</Dialog>
	)
}

// Ending deletes a team or a workspace for good, after its name was typed.
function Ending({ one, workspaces, remove, onClose, onConflict }: { one: Team | Workspace; workspaces: number; remove: () => Promise<void>; onClose: () => void; onConflict: () => void }): JSX.Element {
	const [typed, type] = useState("")
	const [wrong, setWrong] = useState(false)
	const isTeam = "kind" in one
	const send = useAct(`Deleting “${one.name}”`, async () => {
		const matches = typed.trim() === one.name
		setWrong(!matches)
		if (!matches) return
		await remove().catch((error: unknown) => {
			if (failureOf(error).status === 409) onConflict()
			throw error
		})
	})
	return (
		<Dialog title={`Delete ${one.name}?`} onClose={onClose}>
			{send.failed && <Problem {...send.failed} />}
			{isTeam && workspaces > 0
				? <p>The team has {count(workspaces)} {workspaces === 1 ? "workspace" : "workspaces"}. Delete {workspaces === 1 ? "it" : "them"}, or move {workspaces === 1 ? "it" : "them"} to another team, first.</p>
				: <form class="fields" onSubmit={submitting(send)}>
					<p class="long">{isTeam ? "The team and the files of its memory are deleted." : "The workspace, its tasks, and its shared files are deleted, for everybody."} It cannot be undone.</p>
					<label class="long">To delete it, type its name: {one.name}<input autocomplete="off" spellcheck={false} aria-invalid={wrong} value={typed} onInput={(e) => (type(e.currentTarget.value), setWrong(false))} /></label>
					{wrong && <p class="warning long" role="alert">That is not its name.</p>}
					<p class="long bar"><button type="submit" class="primary">Delete</button><button type="button" onClick={onClose}>Cancel</button><span class="soft" role="status">{send.busy && "Deleting…"}</span></p>
				</form>}
		</Dialog>
	)
}
