// Tasks as a list, in groups or on a board: filters and the open task are in the address, changes show at once.
import type { JSX } from "preact"
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"
import { Picker } from "../combobox"
import { Dialog } from "../dialog"
import { dragRows } from "../drag"
import { changeDraft, once, useDraft } from "../draft"
import { Icon, Initials } from "../icons"
import { all, call, callDelete, Failure, failureOf } from "../interface"
import { onKeys } from "../keys"
import { announce } from "../live"
import { Placeholder, Problem, submitting, useAct, useLoaded, useLook, type Failed } from "../loading"
import { Unnamed, useMembers } from "../members"
import { Menu, type Choice } from "../menu"
import { addressWith, useQuery, useTyped } from "../router"
import { Conflict, applied, filters, mostMoved, orderFor, priorities, readTask, reorder, saveTask, statuses, tagOf, useTasks, type Filter } from "../taskdata"
import { ConflictDialog, TaskDialog, assigneeOf, assignees, moreOf, workspacesOf, type Names } from "../taskdialog"
import { count, day, exact, hasWords } from "../text"
import type { Me, Reprioritization, Task, TaskPatch, TaskPriority, TaskStatus } from "../types"
import { offerUndo, sayRefused } from "../undo"
import { Windowed } from "../windowed"

const views = { list: "List", groups: "Groups", board: "Board" } // the last two are by status
const columns = Object.keys(statuses) as TaskStatus[]

// The icons of priorities and of statuses, as paths.
const circle = "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z"
const priorityIcons: Record<TaskPriority, string> = { URGENT: `${circle}M8 5v3.5M8 11v.01`, HIGH: "M3.5 13v-3M8 13V6.5M12.5 13V3", MEDIUM: "M3.5 13v-3M8 13V6.5M12.5 13v-.01", LOW: "M3.5 13v-3M8 13v-.01M12.5 13v-.01" }
const statusIcons: Record<TaskStatus, string> = { TODO: circle, IN_PROGRESS: `${circle}M8 5v6M10 5.5v5M12 7v2`, DONE: `${circle}M5.5 8l2 2 3.5-4`, CANCELLED: `${circle}M6 6l4 4M10 6l-4 4` }

const shortcuts: [string, string][] = [
	["↑ ↓ or k j", "move between tasks"], ["Home End", "the first and the last task"], ["Enter", "open the task"], ["e", "edit the title in place"], ["s", "status"], ["p", "priority"], ["a", "assignee"],
	["m", "move, and all else that can be done"], ["Alt+↑ Alt+↓", "move the task in the order"], ["Alt+← Alt+→", "move the task to the status beside it"], ["x", "select"], ["Delete", "delete"],
	["c", "new task"], ["/", "search"], ["f", "filters"], ["Ctrl+Z", "undo a deletion"], ["?", "this list"],
]

type Trouble = Failed & { title?: string | undefined } // that is given up with it

export default function Tasks({ me }: { me: Me }): JSX.Element {
	const writes = me.role !== "VIEWER"
	const [query, change] = useQuery()
	const view = query.get("view") ?? "list", board = view === "board"
	const byStatus = board || view === "groups"
	const filter = useMemo(() => Object.fromEntries(filters.flatMap((f) => (query.get(f) ? [[f, query.get(f)]] : []))) as Filter, [query])
	const shown = byStatus && filter.status ? [filter.status] : columns
	const tasks = useTasks(byStatus ? shown.map((status) => ({ ...filter, status })) : [filter])
	const workspaces = useLoaded(() => all("GET /api/v1/workspaces", {}), [])
	useLook(workspaces.retry)
	const names: Names = { members: useMembers(), workspaces: workspaces.value ?? [] }
	const [active, setActive] = useState<string>()
	const [editing, setEditing] = useState<string>()
	const [selected, select] = useState<ReadonlySet<string>>(new Set())
	const [troubles, setTroubles] = useState<ReadonlyMap<string, Trouble>>(new Map())
	const [conflict, setConflict] = useState<{ conflict: Conflict; base: Task }>()
	const [dialog, setDialog] = useState<"keys" | "reprioritise">()
	const turns = useRef(new Map<string, Promise<void>>()) // the last change of each task that is being stored
	const latest = useRef(new Map<string, Task>()) // what those before it have stored
	const place = useRef<HTMLDivElement>(null)

	const trouble = (id: string, t?: Trouble): void => setTroubles((was) => {
		const next = new Map(was)
		t ? next.set(id, t) : next.delete(id)
		return next
	})

	const focusRow = (id: string | undefined): void => {
		setActive(id)
		requestAnimationFrame(() => place.current?.querySelector<HTMLElement>(`[data-id="${id}"] [data-row]`)?.focus({ preventScroll: true }))
	}

	// attempt shows what is to be, has it stored after the changes of the task before it, and shows
	// what was stored, or again what was.
	const attempt = (was: Task, what: string, shows: Task[], store: () => Promise<Task[]>, before: Task[]): void => {
		trouble(was.id)
		tasks.put(...shows)
		const turn = (turns.current.get(was.id) ?? Promise.resolve()).then(store).then((now) => tasks.put(...now), (error: unknown) => {
			if (error instanceof Conflict) {
				tasks.put(error.theirs)
				setConflict({ conflict: error, base: was })
				return
			}
			tasks.put(...before)
			trouble(was.id, { what, failure: failureOf(error), retry: () => attempt(was, what, shows, store, before), title: shows.find((t) => t.id === was.id)?.title })
		})
		turns.current.set(was.id, turn)
		void turn.then(() => turns.current.get(was.id) === turn && (turns.current.delete(was.id), latest.current.delete(was.id)))
	}
	const edit = (t: Task, patch: TaskPatch, what = `Changing “${t.title}”`, base?: Task): void => {
		const store = async (): Promise<Task[]> => {
			const from = base ?? latest.current.get(t.id) ?? t
			latest.current.set(t.id, from) // of the next edit, if this one fails
			const now = await saveTask(from, patch)
			latest.current.set(t.id, now)
			dropTitle(t.id, patch.title)
			changeDraft<Title>(titleKey(t.id), (kept) => { // of a later edit, which began with this title or one after it
				const at = kept?.of.indexOf(patch.title ?? "") ?? -1
				return kept && at >= 0 ? { ...kept, of: [...kept.of.slice(0, at), now.title] } : kept
			})
			return [now]
		}
		attempt(t, what, [applied(t, patch)], store, [t])
	}
	const postpone = (c: { conflict: Conflict; base: Task }): void =>
		trouble(c.base.id, { what: `Changing “${c.base.title}”`, failure: new Failure("Somebody else has changed it meanwhile", 0, c.conflict.request, 0), retry: () => (trouble(c.base.id), setConflict(c)) })
	const move = (t: Task, list: number, at: number): void => {
		const target = tasks.lists[list]
		if (!target) return
		const status = byStatus ? shown[list] : undefined
		const others = target.tasks.filter((o) => o.id !== t.id)
		const to = Math.max(0, Math.min(at, others.length))
		const order = orderFor(others, t, to)
		const what = `Moving “${t.title}”`
		if (order.tasks.length > mostMoved) {
			announce(`A task moves past at most ${count(mostMoved)} others at once`)
			return
		}
		const moved = status && status !== t.status ? { ...t, status } : t
		const before = [t, ...order.tasks.filter((o) => o.id !== t.id)]
		const shows = order.tasks.map((o, i) => ({ ...(o.id === t.id ? moved : o), sortOrder: order.sortOrder + i }))
		attempt(t, what, shows, async () => {
			if (moved !== t) before[0] = await saveTask(latest.current.get(t.id) ?? t, { status: moved.status }) // stored, even if the order is not
			const now = await reorder(order)
			for (const one of now) if (latest.current.has(one.id)) latest.current.set(one.id, one)
			return now
		}, before)
		const after = others[to - 1]
		announce(`“${t.title}” moved${status ? ` to ${statuses[status]},` : " to"} place ${to + 1}${after ? `, after “${after.title}”` : ""}`)
		focusRow(t.id)
	}
	const moveTo = (t: Task, status: TaskStatus): void => {
		edit(t, { status }, `Moving “${t.title}”`)
		announce(`“${t.title}” moved to ${statuses[status]}`)
		focusRow(t.id)
	}
	const remove = (t: Task): void => {
		if (query.has("task")) change({ task: undefined }, true)
		const list = tasks.lists.find((l) => l.tasks.some((o) => o.id === t.id))?.tasks ?? []
		const at = list.findIndex((o) => o.id === t.id)
		tasks.drop(t.id)
		focusRow((list[at + 1] ?? list[at - 1])?.id)
		select((was) => new Set([...was].filter((id) => id !== t.id)))
		announce(`“${t.title}” deleted. Ctrl+Z undoes it.`)
		const commit = async (leaving: boolean): Promise<void> => {
			const tag = tagOf(t)
			await callDelete("DELETE /api/v1/tasks/{id}", { path: { id: t.id }, keepalive: leaving, headers: tag ? { "If-Match": tag } : {} }).catch(async (error: unknown) => {
				const failure = failureOf(error)
				const is = failure.status === 412 ? await readTask(t.id).catch(() => t) : t // somebody else has changed it
				tasks.restore(is)
				const what = `Deleting “${t.title}”`
				place.current ? trouble(t.id, { what, failure, retry: () => (trouble(t.id), remove(is)) }) : sayRefused({ what, failure })
				throw new Failure(`${what} failed: ${failure.message}`, failure.status, failure.request, failure.wait)
			})
		}
		offerUndo({ text: `“${t.title}” was deleted.`, undo: () => (tasks.restore(t), focusRow(t.id), announce(`“${t.title}” is back`)), commit })
	}
	const toggle = (t: Task): void => select((was) => {
		const next = new Set(was)
		next.delete(t.id) || next.add(t.id)
		return next
	})

	const at = (id: string): { list: number; index: number } => {
		const list = tasks.lists.findIndex((l) => l.tasks.some((t) => t.id === id))
		return { list, index: tasks.lists[list]?.tasks.findIndex((t) => t.id === id) ?? -1 }
	}
	const shift = (t: Task, by: number): void => {
		const { list, index } = at(t.id)
		if (index + by >= 0 && index + by < (tasks.lists[list]?.tasks.length ?? 0)) move(t, list, index + by)
	}
	const beside = (t: Task, by: number): void => {
		const next = columns[columns.indexOf(t.status) + by]
		if (next) moveTo(t, next)
	}
	const open = (t: Task): void => change({ task: t.id })
	const choices = (t: Task): Choice[] => {
		const { list, index } = at(t.id)
		const length = tasks.lists[list]?.tasks.length ?? 0
		return [
			{ text: "Open", act: () => open(t) },
			...(writes ? [
				{ text: "Edit title", act: () => setEditing(t.id) },
				...(index > 0 ? [{ text: "Move up", act: () => shift(t, -1) }, { text: "Move to top", act: () => move(t, list, 0) }] : []),
				...(index < length - 1 ? [{ text: "Move down", act: () => shift(t, 1) }] : []),
				...(index < length - 1 && tasks.lists[list]?.complete ? [{ text: "Move to bottom", act: () => move(t, list, length - 1) }] : []),
				...columns.filter((s) => s !== t.status).map((s) => ({ text: `Move to ${statuses[s]}`, act: () => moveTo(t, s) })),
				{ text: "Delete", act: () => remove(t) },
			] : []),
		]
	}
	const here = (e: KeyboardEvent): Task | undefined => tasks.find((e.target as Element).closest<HTMLElement>("[data-id]")?.dataset.id ?? "")
	const within = (act: (t: Task, e: KeyboardEvent) => void) => (e: KeyboardEvent): void => {
		const t = here(e)
		if (t) act(t, e)
	}
	const press = (e: KeyboardEvent, key: string): void => (e.target as Element).closest("[data-id]")?.querySelector<HTMLElement>(`[data-key=${key}]`)?.click()
	const keys = onKeys({
		s: (e) => press(e, "s"), p: (e) => press(e, "p"), a: (e) => press(e, "a"), m: (e) => press(e, "m"),
		c: () => place.current?.querySelector<HTMLElement>("[data-new]")?.focus(),
		"/": () => document.querySelector<HTMLElement>(".tasks input[type=search]")?.focus(),
		f: () => document.querySelector<HTMLElement>("details.filters summary")?.focus(),
		"?": () => setDialog("keys"),
		...(writes && {
			e: within((t) => setEditing(t.id)), F2: within((t) => setEditing(t.id)), x: within(toggle), Delete: within(remove),
			"Alt+ArrowUp": within((t) => shift(t, -1)), "Alt+ArrowDown": within((t) => shift(t, 1)),
			"Alt+ArrowLeft": within((t) => beside(t, -1)), "Alt+ArrowRight": within((t) => beside(t, 1)),
		}),
	})
	const drag = dragRows({
		name: (id) => tasks.find(id)?.title ?? "",
		dropped: (id, list, to) => {
			const t = tasks.find(id), into = Number(list), from = at(id)
			if (t) move(t, into, from.list === into && from.index < to ? to - 1 : to)
		},
	})
	const rename = (t: Task, title: string | undefined, of: string[]): void => {
		setEditing(undefined)
		if (title !== undefined) edit(t, { title }, undefined, of.includes(t.title) ? undefined : { ...t, title: of[0] ?? "", updatedAt: "" }) // without a tag, so that what is stored is compared
		focusRow(t.id)
	}
	const row = (t: Task, isActive: boolean): JSX.Element => (
		<Row
			task={t} names={names} board={board} writes={writes} tabIndex={isActive ? 0 : -1} selected={selected.has(t.id)} editing={editing === t.id} troubled={troubles.has(t.id)}
			edit={(patch) => edit(t, patch)} rename={(title, of) => rename(t, title, of)} toggle={() => toggle(t)} choices={() => choices(t)}
		/>
	)
	// made shows a new task, for which the search that there is by now ends if it does not fit.
	const made = (t: Task): void => {
		tasks.put(t)
		setActive(t.id)
		if (!hasWords(new URLSearchParams(location.search).get("search") ?? "")(t.title)) change({ search: undefined })
		announce(`“${t.title}” created`)
	}
	const filtered = Object.keys(filter).length > 0
	const id = query.get("task")
	const first = (list: number): string | undefined => (tasks.lists[list]?.tasks.some((t) => t.id === active) ? active : tasks.lists[list]?.tasks[0]?.id)
	return (
		<div class="tasks">
			<header class="bar">
				<h1>Tasks</h1>
				<Search />
				<div role="group" aria-label="View">
					{Object.entries(views).map(([v, name]) => <button key={v} type="button" class="small" aria-pressed={v === view} onClick={() => change({ view: v === "list" ? undefined : v })}>{name}</button>)}
				</div>
				<button type="button" class="small" onClick={() => setDialog("keys")}>Keyboard</button>
			</header>
			<Filters filter={filter} names={names} change={change} />
			{workspaces.failure && <Problem failure={workspaces.failure} what="Loading the workspaces" retry={workspaces.retry} />}
			<Unnamed members={names.members} />
			{[...troubles].map(([of, t]) => <Problem key={of} {...t} giveUp={() => (trouble(of), dropTitle(of, t.title))} />)}
			{selected.size > 0 && (
				<div class="bar" role="group" aria-label="Selected tasks">
					<span role="status">{count(selected.size)} selected</span>
					<button type="button" class="small primary" onClick={() => setDialog("reprioritise")}>Reprioritise…</button>
					<button type="button" class="small" onClick={() => select(new Set())}>Clear the selection</button>
				</div>
			)}
			<div ref={place} class={board ? "board" : "list"} onKeyDown={keys} onPointerDown={writes ? drag : undefined}>
				{tasks.lists.map((list, i) => {
					const status = byStatus ? shown[i] : undefined
					const label = status ? statuses[status] : "Tasks"
					return (
						<section key={status ?? "list"} data-list={i} aria-label={label}>
							{status && <h2><Icon path={statusIcons[status]} /> {label} <span class="soft">{count(list.tasks.length)}{list.complete ? "" : "+"}</span></h2>}
							{writes && <NewTask of={{ ...filter, ...(status && { status }) }} label={status ? `New task: ${label}` : "New task"} onMade={made} />}
							{list.failure && <Problem failure={list.failure} what={`Loading ${status ? `“${label}”` : "the tasks"}`} retry={tasks.reload} />}
							{list.complete && list.tasks.length === 0 && !byStatus
								? <p class="empty">{filtered ? <>No task fits these filters. <button type="button" class="small" onClick={() => change(Object.fromEntries(filters.map((f) => [f, undefined])))}>Clear the filters</button></> : "There are no tasks yet. Write what is to be done above and press Enter."}</p>
								: <Windowed label={label} items={list.tasks} keyOf={(t) => t.id} row={row} active={first(i)} onActive={setActive} complete={list.complete} more={() => tasks.more(i)}>
									{!list.complete && !list.failure && list.tasks.length === 0 && <Placeholder what="tasks" />}
									{list.complete && list.tasks.length === 0 && <p class="empty">Nothing here.</p>}
								</Windowed>}
						</section>
					)
				})}
			</div>
			{id && <TaskDialog key={id} id={id} names={names} writes={writes} onClose={() => change({ task: undefined }, true)} onSaved={(t) => tasks.put(t)} onDelete={remove} />}
			{conflict && <ConflictDialog
				conflict={conflict.conflict} names={names} onClose={() => (setConflict(undefined), postpone(conflict))} take={() => (dropTitle(conflict.base.id, conflict.conflict.patch.title), setConflict(undefined))}
				keep={() => (setConflict(undefined), edit(conflict.conflict.theirs, conflict.conflict.patch, `Changing “${conflict.conflict.theirs.title}”`, conflict.conflict.theirs))}
			/>}
			{dialog === "keys" && <Dialog title="Keyboard" onClose={() => setDialog(undefined)}><p class="soft">Single keys act while a task has the focus.</p><dl class="keys">{shortcuts.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl></Dialog>}
			{dialog === "reprioritise" && <Reprioritise of={[...selected].flatMap((one) => tasks.find(one) ?? [])} onClose={() => setDialog(undefined)} onDone={(now) => (tasks.put(...now), select(new Set()), setDialog(undefined), announce(`${count(now.length)} ${now.length === 1 ? "task" : "tasks"} reprioritised`))} />}
		</div>
	)
}

function Filters({ filter, names, change }: { filter: Filter; names: Names; change: (changes: Record<string, string | undefined>) => void }): JSX.Element {
	const { search, ...chosen } = filter
	const active = Object.keys(chosen).length, assignee = filter.assigneeId
	const [open] = useState(active > 0)
	const choose = (name: keyof Filter, label: string, options: [string, string][]): JSX.Element => (
		<label>{label} <select value={filter[name] ?? ""} onChange={(e) => change({ [name]: e.currentTarget.value || undefined })}><option value="">Any</option>{options.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</select></label>
	)
	const written = (name: keyof Filter) => ({ value: filter[name] ?? "", onChange: (e: { currentTarget: HTMLInputElement }) => change({ [name]: e.currentTarget.value.trim() || undefined }) })
	return (
		<details class="filters" open={open}>
			<summary>Filters{active > 0 && ` (${active})`}</summary>
			<div class="bar">
				{choose("status", "Status", Object.entries(statuses))}
				{choose("priority", "Priority", Object.entries(priorities))}
				<label>Assignee <Picker id="of-assignee" label="Assignee" value={assignee ?? ""} name={assignee === undefined ? "Any" : assigneeOf(names, assignee === "null" ? null : assignee)} entries={[{ key: "", name: "Any" }, ...assignees(names, "null")]} search={moreOf(names)} choose={(id) => change({ assigneeId: id || undefined })} readOnly={!names.members.loaded} /></label>
				{choose("workspaceId", "Workspace", [["null", "The organisation"], ...workspacesOf(names, filter.workspaceId)])}
				<label>Tags <input {...written("tags")} /></label>
				<label>Due from <input type="date" {...written("dueAfter")} /></label>
				<label>Due to <input type="date" {...written("dueBefore")} /></label>
				{active > 0 && <button type="button" class="small" onClick={() => change(Object.fromEntries(Object.keys(chosen).map((f) => [f, undefined])))}>Clear</button>}
			</div>
		</details>
	)
}

// Search has the words of titles.
const Search = (): JSX.Element => <input class="grow" type="search" aria-label="Search tasks" placeholder="Search titles" maxLength={200} {...useTyped("search")} />

type RowOf = {
	task: Task; names: Names; board: boolean; writes: boolean; tabIndex: number; selected: boolean; editing: boolean; troubled: boolean
	edit: (patch: TaskPatch) => void; rename: (title: string | undefined, of: string[]) => void; toggle: () => void; choices: () => Choice[]
}

function Row({ task: t, names, board, writes, tabIndex, selected, editing, troubled, edit, rename, toggle, choices }: RowOf): JSX.Element {
	const late = t.dueDate !== null && t.dueDate.slice(0, 10) < new Date().toISOString().slice(0, 10) && (t.status === "TODO" || t.status === "IN_PROGRESS")
	const one = <Value extends string>(all: Record<Value, string>, now: Value, patch: (v: Value) => TaskPatch) => (): Choice[] =>
		(Object.keys(all) as Value[]).map((v) => ({ text: all[v], current: v === now, act: () => v !== now && edit(patch(v)) }))
	const people = (): Choice[] => assignees(names, "").map(({ key, name, soft }) => ({ text: name, soft, current: key === (t.assigneeId ?? ""), act: () => key !== (t.assigneeId ?? "") && edit({ assigneeId: key || null }) }))
	const common = { tabIndex, class: "small plain" }
	const assignee = assigneeOf(names, t.assigneeId)
	const letters = t.assigneeId === null ? null : <Initials of={assignee} title={assignee} />
	return (
		<div class="task" data-trouble={troubled} data-done={t.status === "DONE" || t.status === "CANCELLED"}>
			{writes && <span data-grip aria-hidden="true">⠿</span>}
			{writes && <input type="checkbox" tabIndex={tabIndex} checked={selected} aria-label={`Select ${t.title}`} onChange={toggle} />}
			{writes ? <Menu {...common} label={`Priority of ${t.title}: ${priorities[t.priority]}`} shortcut="p" choices={one(priorities, t.priority, (priority) => ({ priority }))}><span data-priority={t.priority}><Icon path={priorityIcons[t.priority]} /></span></Menu> : <span title={priorities[t.priority]} data-priority={t.priority}><Icon path={priorityIcons[t.priority]} /></span>}
			{!board && (writes ? <Menu {...common} label={`Status of ${t.title}: ${statuses[t.status]}`} shortcut="s" choices={one(statuses, t.status, (status) => ({ status }))}><span data-status={t.status}><Icon path={statusIcons[t.status]} /></span></Menu> : <span title={statuses[t.status]} data-status={t.status}><Icon path={statusIcons[t.status]} /></span>)}
			{editing
				? <Rename key={t.id} task={t} rename={rename} />
				: <a class="title" data-row href={addressWith({ task: t.id })} tabIndex={tabIndex} draggable={false}>{t.title}</a>}
			<span class="about">
				<span class="tags">{t.tags.slice(0, 3).map((tag) => <span class="badge">{tag}</span>)}</span>
				{t.dueDate && <time class={late ? "warning" : "soft"} dateTime={t.dueDate} title={`Due ${exact(t.dueDate)}${t.dueDate.length === 10 ? " (UTC)" : ""}${late ? ", late" : ""}`}>{late && <span class="hidden">Late: </span>}{day(t.dueDate.slice(0, 10))}</time>}
				{writes ? <Menu {...common} label={`Assignee of ${t.title}: ${assignee}`} shortcut="a" choices={people} find="Name or e-mail" search={moreOf(names)}>{letters ?? "–"}</Menu> : letters && <>{letters}<span class="hidden">Assignee: {assignee}</span></>}
			</span>
			<Menu {...common} label={`More for ${t.title}`} shortcut="m" choices={choices}>⋯</Menu>
		</div>
	)
}

// Title is one that is not stored yet, and those that it replaces: the title of the edit before it, while that is
// being stored, and the one that there is if that fails.
type Title = { of: string[]; text: string }

const titleKey = (id: string): string => `task title ${id}` // of the draft of a title

// dropTitle clears the draft of a title, unless it has another text by now.
const dropTitle = (id: string, text: string | undefined): void => changeDraft<Title>(titleKey(id), (kept) => (kept?.text === text ? undefined : kept))

// Rename edits a title in place. The text stays if the title changes meanwhile.
function Rename({ task: t, rename }: { task: Task } & Pick<RowOf, "rename">): JSX.Element {
	const [draft, keep] = useDraft<Title>(titleKey(t.id))
	const [shown] = useState(t.title)
	const [second] = useState(draft?.text === t.title) // the edit before is being stored
	const untouched = second && draft?.text === shown
	const of = !draft ? [shown] : untouched ? [shown, ...draft.of] : draft.of
	const [done] = useState({ yes: false })
	const field = useRef<HTMLInputElement>(null)
	useLayoutEffect(() => {
		field.current?.focus()
		field.current?.select()
	}, [])
	const end = (text: string): void => {
		if (done.yes) return
		done.yes = true
		const changed = text !== of[0] && text.trim() !== ""
		if (!changed && !untouched) keep(undefined)
		rename(changed ? text : undefined, of)
	}
	return (
		<input
			class="title" data-row value={draft?.text ?? shown} maxLength={200} aria-label="Title" ref={field}
			onInput={(e) => keep({ of, text: e.currentTarget.value })} onBlur={(e) => end(e.currentTarget.value)} onKeyDown={(e) => {
				if (e.key === "Enter") end(e.currentTarget.value)
				else if (e.key === "Escape") end("")
				else return
				e.preventDefault()
			}}
		/>
	)
}

// NewTask creates a task that a list's filter selects, from its title. The text stays until the
// server has it, and a repetition creates nothing twice.
function NewTask({ of, label, onMade }: { of: Filter; label: string; onMade: (t: Task) => void }): JSX.Element {
	const [draft, setDraft, drop] = useDraft<{ title: string }>(label)
	const title = draft?.title ?? ""
	const create = useAct("Creating the task", async () => {
		if (title.trim() === "") return
		const known = (v: string | undefined): string | null => (v === undefined || v === "null" ? null : v)
		const body = { title: title.trim(), status: of.status ?? "TODO", priority: of.priority ?? "MEDIUM", assigneeId: known(of.assigneeId), workspaceId: known(of.workspaceId), tags: of.tags ? [of.tags.split(",")[0] ?? ""] : [], dueDate: of.dueAfter ?? of.dueBefore ?? null }
		const made = await once(label, body, (given) => call("POST /api/v1/tasks", given))
		drop(draft) // what was typed meanwhile stays
		onMade(made)
	})
	return (
		<form onSubmit={submitting(create)}>
			<input data-new class="new" aria-label={label} placeholder="New task, then Enter" maxLength={200} value={title} onInput={(e) => setDraft(e.currentTarget.value ? { title: e.currentTarget.value } : undefined)} />
			{create.failed && <Problem {...create.failed} />}
		</form>
	)
}

const listed = 50 // tasks with a reason of their own

type Plan = { priority: TaskPriority | ""; reason: string; own: Record<string, { priority?: TaskPriority; reason?: string }> }

// Reprioritise gives tasks other priorities, with reasons for their histories.
function Reprioritise({ of, onClose, onDone }: { of: Task[]; onClose: () => void; onDone: (now: Task[]) => void }): JSX.Element {
	const [kept, keep, drop] = useDraft<Plan>("reprioritise")
	const plan: Plan = kept ?? { priority: "", reason: "", own: {} }
	const set = (part: Partial<Plan>): void => keep({ ...plan, ...part })
	const own = (id: string, part: { priority?: TaskPriority; reason?: string }): void => set({ own: { ...plan.own, [id]: { ...plan.own[id], ...part } } })
	const send = useAct("Reprioritising", async () => {
		const changes = of.map((t): Reprioritization => {
			const priority = plan.own[t.id]?.priority ?? plan.priority
			return { taskId: t.id, reason: plan.own[t.id]?.reason?.trim() || plan.reason, ...(priority !== "" && { priority }) }
		})
		const now = await once("reprioritise", { changes }, (given) => call("POST /api/v1/tasks/reprioritize", given))
		drop(kept)
		onDone(now)
	})
	const covered = of.every((t, i) => i < listed && plan.own[t.id]?.reason?.trim())
	return (
		<Dialog title={`Reprioritise ${count(of.length)} ${of.length === 1 ? "task" : "tasks"}`} onClose={onClose} wide>
			<form class="fields" onSubmit={submitting(send)}>
				<label>Priority of all<select required value={plan.priority} onChange={(e) => set({ priority: e.currentTarget.value as TaskPriority })}><option value="">Choose</option>{Object.entries(priorities).map(([v, text]) => <option key={v} value={v}>{text}</option>)}</select></label>
				<label class="long">Reason, kept in each task’s history<textarea required={!covered} maxLength={1000} value={plan.reason} onInput={(e) => set({ reason: e.currentTarget.value })} /></label>
				<fieldset class="long">
					<legend>Tasks with a priority or a reason of their own</legend>
					<ul>
						{of.slice(0, listed).map((t) => (
							<li key={t.id}>
								<b>{t.title}</b> <span class="soft">now {priorities[t.priority].toLowerCase()}</span>
								<span class="bar">
									<select aria-label={`Priority of ${t.title}`} value={plan.own[t.id]?.priority ?? ""} onChange={(e) => own(t.id, { priority: (e.currentTarget.value || undefined) as TaskPriority })}><option value="">As all</option>{Object.entries(priorities).map(([v, text]) => <option key={v} value={v}>{text}</option>)}</select>
									<input class="grow" aria-label={`Reason for ${t.title}`} placeholder="As all" maxLength={1000} value={plan.own[t.id]?.reason ?? ""} onInput={(e) => own(t.id, { reason: e.currentTarget.value })} />
								</span>
							</li>
						))}
					</ul>
					{of.length > listed && <p class="soft">And {count(of.length - listed)} more, which get the priority and the reason of all.</p>}
				</fieldset>
				{send.failed && <Problem {...send.failed} />}
				<p class="long bar"><button type="submit" class="primary">Reprioritise</button><button type="button" onClick={onClose}>Cancel</button></p>
			</form>
		</Dialog>
	)
}
