// Tasks as the page has them: lists in pages, changes that show at once, and their order.
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { all, call, Failure, failureOf, page, type Page } from "./interface"
import { useLook } from "./loading"
import { hasWords } from "./text"
import type { Task, TaskPatch, TaskPriority, TaskStatus } from "./types"

export const statuses: Record<TaskStatus, string> = { TODO: "To do", IN_PROGRESS: "In progress", DONE: "Done", CANCELLED: "Cancelled" }
export const priorities: Record<TaskPriority, string> = { URGENT: "Urgent", HIGH: "High", MEDIUM: "Medium", LOW: "Low" }

// Filter are the parameters of a list, as texts of the address.
export type Filter = { status?: TaskStatus; priority?: TaskPriority; assigneeId?: string; workspaceId?: string; tags?: string; dueAfter?: string; dueBefore?: string; search?: string }
export const filters = ["status", "priority", "assigneeId", "workspaceId", "tags", "dueAfter", "dueBefore", "search"] as const

// List is what is loaded of a list, in order.
export type List = { tasks: Task[]; complete: boolean; failure?: Failure }

const firstPage = 100, nextPage = 500, largestPage = 1000

// compare orders tasks as the interface does.
const compare = (a: Task, b: Task): number => a.sortOrder - b.sortOrder || a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id)

// selects reports whether a filter selects a task. Dates are compared by day, in UTC.
function selects(f: Filter, t: Task): boolean {
	const is = (wanted: string | undefined, value: string | null): boolean => wanted === undefined || wanted === (value ?? "null")
	const tags = f.tags?.split(",").map((tag) => tag.trim())
	const due = t.dueDate?.slice(0, 10)
	return is(f.status, t.status) && is(f.priority, t.priority) && is(f.assigneeId, t.assigneeId) && is(f.workspaceId, t.workspaceId) && hasWords(f.search ?? "")(t.title) &&
		(!tags || t.tags.some((tag) => tags.includes(tag))) &&
		(!f.dueAfter || due !== undefined && due >= f.dueAfter) && (!f.dueBefore || due !== undefined && due <= f.dueBefore)
}

// Tasks are lists of tasks.
export type Tasks = {
	lists: List[]
	more: (list: number) => void
	reload: () => void
	put: (...changed: Task[]) => void // shows tasks where they now belong
	drop: (id: string) => void // hides a task until it is restored
	restore: (t: Task) => void // shows a task again, as it is by now
	find: (id: string) => Task | undefined
}

const hidden = new Set<string>() // the ids of tasks that are being deleted, also while another page is shown
let reveal: (t: Task) => void = () => undefined // shows a task that is not hidden any more in the lists of the page

// useTasks loads a list for each filter, and again when the tab comes back to the front.
export function useTasks(of: Filter[]): Tasks {
	const key = JSON.stringify(of)
	const state = useRef<{ lists: (List & { cursor?: string | undefined; busy: boolean })[]; round: number; of: Filter[]; changed: Map<string, Task> }>({ lists: [], round: 0, of, changed: new Map() })
	const [, render] = useState(0)
	const now = state.current
	now.of = of
	const show = useCallback(() => render((n) => n + 1), [])

	// place shows tasks where they belong in a list.
	const place = (i: number, changed: Task[]): void => {
		const list = now.lists[i]
		if (!list) return
		const by = new Set(changed.map((t) => t.id))
		const rest = list.tasks.filter((t) => !by.has(t.id))
		const last = list.tasks.at(-1)
		const here = changed.filter((t) => !hidden.has(t.id) && selects(now.of[i] ?? {}, t) && (list.complete || last !== undefined && compare(t, last) <= 0))
		now.lists[i] = { ...list, tasks: here.length === 0 ? rest : [...rest, ...here].sort(compare) }
	}

	// read reads tasks of a list, more or again as many as there are. They may be older than what was changed here meanwhile.
	const read = useCallback(async (i: number, more: boolean) => {
		const round = now.round, list = now.lists[i], were = list?.tasks.length ?? 0
		const limit = more ? nextPage : Math.min(largestPage, Math.max(firstPage, were))
		try {
			const some = await all("GET /api/v1/tasks", { ...of[i], limit, cursor: more ? list?.cursor : undefined }, (r) => more || round !== now.round || r.length >= were)
			if (round !== now.round) return
			const there = more ? now.lists[i]?.tasks ?? [] : [], at = new Map<string, string>()
			const tasks = [...there, ...some].filter((t) => !at.has(t.id) && at.set(t.id, t.updatedAt)) // a task that moves between two requests is in both responses
			now.lists[i] = { tasks: tasks.filter((t) => !hidden.has(t.id)), complete: some.next === undefined, busy: false, cursor: some.next }
			place(i, [...now.changed.values()].filter((t) => (at.get(t.id) ?? "") <= t.updatedAt))
		} catch (error) {
			if (round !== now.round) return
			now.lists[i] = { ...(now.lists[i] ?? { tasks: [], complete: false }), busy: false, failure: failureOf(error) }
		}
		show()
	}, [key])

	// load reads all lists anew, and shows what they have until then if they are kept.
	const load = useCallback((keep: boolean) => {
		now.round++
		for (const id of now.changed.keys()) if (!hidden.has(id)) now.changed.delete(id) // what is hidden is not shown by what is read
		const was = keep && now.lists.length === of.length ? now.lists : of.map((): List => ({ tasks: [], complete: false }))
		now.lists = was.map(({ failure, ...list }) => ({ ...list, busy: true }))
		show()
		of.forEach((_, i) => void read(i, false))
	}, [key])

	useEffect(() => {
		load(false)
		return () => void now.round++
	}, [key])
	useLook(() => load(true))

	const put = (...changed: Task[]): void => {
		for (const t of changed) now.changed.set(t.id, t)
		now.lists.forEach((_, i) => place(i, changed))
		show()
	}
	useEffect(() => {
		reveal = (t) => put(now.changed.get(t.id) ?? t)
	}, [])
	return {
		lists: now.lists,
		more: (i) => {
			const list = now.lists[i]
			if (!list || list.busy || list.complete || list.failure) return
			list.busy = true
			void read(i, true)
		},
		reload: () => load(true),
		find: (id) => now.lists.flatMap((l) => l.tasks).find((t) => t.id === id),
		put,
		restore: (t) => {
			hidden.delete(t.id)
			reveal(t)
		},
		drop: (id) => {
			hidden.add(id)
			now.changed.delete(id)
			now.lists = now.lists.map((list) => ({ ...list, tasks: list.tasks.filter((t) => t.id !== id) }))
			show()
		},
	}
}

// Conflict is thrown by saveTask when somebody else has changed a field that the patch changes.
export class Conflict extends Error {
	constructor(
		readonly theirs: Task, readonly patch: TaskPatch, readonly fields: (keyof TaskPatch)[],
		readonly request: string, // the id of the request that was refused, or of that which read theirs
	) {
		super("The task has changed meanwhile")
	}
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a ?? null) === JSON.stringify(b ?? null)

// fieldsOf returns the names of the fields of a patch.
const fieldsOf = (patch: TaskPatch): (keyof TaskPatch)[] => Object.keys(patch) as (keyof TaskPatch)[]

// differing returns what of a patch is another value than the task's.
export const differing = (t: Task, patch: TaskPatch): (keyof TaskPatch)[] => fieldsOf(patch).filter((f) => !same(t[f], patch[f]))

// applied returns the task as it will be with the patch.
export function applied(t: Task, patch: TaskPatch): Task {
	return { ...t, ...(patch as Partial<Task>) }
}

const tags = new Map<string, { tag: string; of: string }>() // entity tags by task, with their updatedAt
const attempts = 5 // at changes of fields that the patch does not have

function remember(t: Task, headers: Headers): Task {
	const tag = headers.get("ETag")
	if (tag) tags.set(t.id, { tag, of: t.updatedAt })
	return t
}

// tagOf returns the entity tag of a task as it is here, if it is known.
export function tagOf(t: Task): string | undefined {
	const known = tags.get(t.id)
	return known?.of === t.updatedAt ? known.tag : undefined
}

// readTask returns a task as it is now.
export async function readTask(id: string): Promise<Task> {
	return (await readPage(id)).value
}

async function readPage(id: string): Promise<Page<Task>> {
	const { value, headers } = await page("GET /api/v1/tasks/{id}", { path: { id } })
	return { value: remember(value, headers), headers }
}

// saveTask changes a task that was base when the person decided. It writes over no change of
// another to the same fields: it throws a Conflict then, and a Failure when it does not come through.
export async function saveTask(base: Task, patch: TaskPatch): Promise<Task> {
	let tag = tagOf(base), refused: string | undefined
	for (let i = 0; ; i++) {
		if (tag === undefined) {
			const { value: is, headers } = await readPage(base.id)
			const fields = differing(is, patch).filter((f) => !same(is[f], base[f]))
			if (fields.length > 0) throw new Conflict(is, patch, fields, refused ?? headers.get("X-Request-Id") ?? "")
			tag = tagOf(is) ?? "*"
		}
		try {
			const { value, headers } = await page("PATCH /api/v1/tasks/{id}", { path: { id: base.id }, body: patch, headers: { "If-Match": tag } })
			return remember(value, headers)
		} catch (error) {
			if (!(error instanceof Failure) || error.status !== 412 || i === attempts) throw error
			tag = undefined
			refused = error.request
		}
	}
}

export const mostMoved = 5000 // tasks of one request

// orderFor returns what puts a task at a place of a list without it, and as few others as possible.
export function orderFor(others: Task[], task: Task, at: number): { tasks: Task[]; sortOrder: number } {
	const before = others[at - 1], after = others[at]
	const low = before ? before.sortOrder : -1
	if (!after || after.sortOrder - low >= 2) return { tasks: [task], sortOrder: after && !before ? after.sortOrder - 1 : low + 1 }
	const later = [task]
	for (let i = at; i < others.length; i++) {
		const next = others[i] as Task
		if (next.sortOrder > low + later.length) break
		later.push(next)
	}
	const earlier = [task]
	for (let i = at - 1; i >= 0; i--) {
		const next = others[i] as Task
		if (next.sortOrder < after.sortOrder - earlier.length) break
		earlier.unshift(next)
	}
	const first = after.sortOrder - earlier.length
	return first >= 0 && earlier.length < later.length ? { tasks: earlier, sortOrder: first } : { tasks: later, sortOrder: low + 1 }
}

// reorder stores an order that orderFor made.
export async function reorder(order: { tasks: Task[]; sortOrder: number }): Promise<Task[]> {
	return call("POST /api/v1/tasks/reorder", { body: { taskIds: order.tasks.map((t) => t.id), sortOrder: order.sortOrder } })
}
