// One task: its fields, its history, and both sides of a conflict.
import type { JSX } from "preact"
import { useEffect, useState } from "preact/hooks"
import { Picker, type Entry, type Search } from "./combobox"
import { Dialog } from "./dialog"
import { useDraft } from "./draft"
import { all } from "./interface"
import { onKeys } from "./keys"
import { Problem, RequestId, Show, Time, submitting, useAct, useLoaded } from "./loading"
import type { Members } from "./members"
import { Conflict, applied, differing, priorities, readTask, saveTask, statuses } from "./taskdata"
import { day } from "./text"
import type { Task, TaskPatch, TaskPriority, TaskStatus, Workspace } from "./types"

// Names are the members and the workspaces that tasks refer to; both are empty until they are loaded.
export type Names = { members: Members; workspaces: Workspace[] }

// assigneeOf returns a member as a text.
export const assigneeOf = (names: Names, id: string | null): string => (id === null ? "Nobody" : names.members.nameOf(id))

// assignees are those who may be an assignee, with a key for nobody.
export const assignees = (names: Names, nobody: string): Entry[] => [{ key: nobody, name: "Nobody" }, ...names.members.entries]

// moreOf finds members that are not known, undefined if all are.
export const moreOf = ({ members }: Names): Search => (members.complete ? undefined : members.search)

// workspacesOf returns the workspaces as choices, with the chosen one if it is not among them.
export function workspacesOf({ workspaces }: Names, chosen: string | null | undefined): [string, string][] {
	const known = workspaces.map((w): [string, string] => [w.id, w.name])
	return !chosen || chosen === "null" || known.some(([id]) => id === chosen) ? known : [...known, [chosen, anotherWorkspace]]
}

const anotherWorkspace = "Another workspace"

const fieldNames: Record<string, string> = {
	title: "Title", description: "Description", status: "Status", priority: "Priority", assigneeId: "Assignee", workspaceId: "Workspace",
	dueDate: "Due", tags: "Tags", metadata: "Metadata", sortOrder: "Place",
}

// valueOf returns a field's value as a text.
function valueOf(names: Names, field: string, value: unknown): string {
	if (field === "assigneeId") return assigneeOf(names, value as string | null)
	if (value === null || value === undefined || value === "") return "None"
	if (field === "workspaceId") return names.workspaces.find((w) => w.id === value)?.name ?? anotherWorkspace
	if (field === "status") return statuses[value as TaskStatus] ?? String(value)
	if (field === "priority") return priorities[value as TaskPriority] ?? String(value)
	if (field === "dueDate") return day(String(value))
	return Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value)
}

// ConflictDialog shows what the person wants beside what somebody else has stored meanwhile. keep
// stores the former, take leaves the latter, and closing it leaves both undecided.
export function ConflictDialog({ conflict, names, keep, take, onClose }: { conflict: Conflict; names: Names; keep: () => void; take: () => void; onClose: () => void }): JSX.Element {
	const { theirs, patch, fields, request } = conflict
	return (
		<Dialog title="Somebody else has changed this task" onClose={onClose} wide>
			<p>“{theirs.title}” was changed <Time at={theirs.updatedAt} />, after you had opened it. Nothing of yours is stored yet, and nothing is lost.</p>
			<div class="sides">
				{([["Yours", patch], ["Theirs, stored", theirs]] as [string, Partial<Task>][]).map(([side, of]) => (
					<section key={side} aria-label={side}>
						<h3>{side}</h3>
						<dl>{fields.map((f) => <div key={f}><dt>{fieldNames[f]}</dt><dd>{valueOf(names, f, of[f])}</dd></div>)}</dl>
					</section>
				))}
			</div>
			<RequestId id={request} />
			<p class="bar"><button type="button" class="primary" onClick={keep}>Keep yours</button><button type="button" onClick={take}>Take theirs</button></p>
		</Dialog>
	)
}

type TaskDialogOf = { id: string; names: Names; writes: boolean; onClose: () => void; onSaved: (t: Task) => void; onDelete: (t: Task) => void }

// TaskDialog shows a task. What is changed in it is kept in this tab until it is saved or discarded.
export function TaskDialog({ id, names, writes, onClose, onSaved, onDelete }: TaskDialogOf): JSX.Element {
	const stored = useLoaded(() => readTask(id), [id])
	useEffect(() => {
		const was = document.title
		if (stored.value) document.title = `${stored.value.title} · Collab`
		return () => void (document.title = was)
	}, [stored.value])
	return (
		<Dialog title={stored.value?.title ?? "Task"} onClose={onClose} wide>
			{stored.failure?.status === 404
				? <p class="empty">There is no such task, or it is one that you cannot see. It may have been deleted.</p>
				: <Show of={stored} what="the task">{(t) => <Form key={t.id} task={t} {...{ names, writes, onSaved, onDelete }} />}</Show>}
		</Dialog>
	)
}

type Kept = { base: Task; patch: TaskPatch }

// changedFrom returns what a patch changes of a task, undefined if it changes nothing.
function changedFrom(base: Task, patch: TaskPatch): Kept | undefined {
	const fields = differing(base, patch)
	return fields.length > 0 ? { base, patch: Object.fromEntries(fields.map((f) => [f, patch[f]])) as TaskPatch } : undefined
}

function Form({ task, names, writes, onSaved, onDelete }: { task: Task } & Pick<TaskDialogOf, "names" | "writes" | "onSaved" | "onDelete">): JSX.Element {
	const [stored, setStored] = useState(task)
	const [draft, setDraft] = useDraft<Kept>(`task ${task.id}`)
	const [restored] = useState(draft !== undefined)
	const [conflict, setConflict] = useState<Conflict>()
	const [saved, setSaved] = useState(0)
	const shown = draft ? applied(stored, draft.patch) : stored
	const set = (patch: TaskPatch): void => {
		setDraft((was) => changedFrom(was?.base ?? stored, { ...was?.patch, ...patch }))
		setSaved(0)
	}
	const save = useAct("Saving the task", async (base?: Task) => {
		setConflict(undefined)
		if (!draft) return
		try {
			const now = await saveTask(base ?? draft.base, draft.patch)
			setStored(now)
			setDraft((was) => (was === draft || !was ? undefined : changedFrom(now, was.patch))) // what was typed meanwhile stays
			setSaved((n) => n + 1)
			onSaved(now)
		} catch (error) {
			if (!(error instanceof Conflict)) throw error
			setConflict(error)
		}
	})
	const take = (theirs: Task, fields: (keyof TaskPatch)[]): void => {
		const rest = { ...draft?.patch }
		for (const f of fields) delete rest[f]
		setDraft(Object.keys(rest).length > 0 ? { base: theirs, patch: rest } : undefined)
		setStored(theirs)
		setConflict(undefined)
		onSaved(theirs)
	}
	const options = (all: [string, string][]): JSX.Element[] => all.map(([value, text]) => <option key={value} value={value}>{text}</option>)
	return (
		<>
			<form class="fields" onSubmit={submitting(save)} onKeyDown={onKeys({ "Mod+Enter": () => void save.run() })}>
				{restored && draft && <p class="soft">What you had typed and not saved is here again.</p>}
				<label class="long">Title<input value={shown.title} maxLength={200} required readOnly={!writes} onInput={(e) => set({ title: e.currentTarget.value })} /></label>
				<label class="long">Description<textarea value={shown.description ?? ""} maxLength={10000} readOnly={!writes} onInput={(e) => set({ description: e.currentTarget.value || null })} /></label>
				<label>Status<select value={shown.status} disabled={!writes} onChange={(e) => set({ status: e.currentTarget.value as TaskStatus })}>{options(Object.entries(statuses))}</select></label>
				<label>Priority<select value={shown.priority} disabled={!writes} onChange={(e) => set({ priority: e.currentTarget.value as TaskPriority })}>{options(Object.entries(priorities))}</select></label>
				<label>Assignee<Picker id="assignee" label="Assignee" value={shown.assigneeId ?? ""} name={assigneeOf(names, shown.assigneeId)} entries={assignees(names, "")} search={moreOf(names)} choose={(id) => set({ assigneeId: id || null })} readOnly={!writes || !names.members.loaded} /></label>
				<label>Workspace<select value={shown.workspaceId ?? ""} disabled={!writes} onChange={(e) => set({ workspaceId: e.currentTarget.value || null })}>{options([["", "The organisation"], ...workspacesOf(names, shown.workspaceId)])}</select></label>
				<label>Due (UTC)<input type="date" value={shown.dueDate?.slice(0, 10) ?? ""} readOnly={!writes} onInput={(e) => set({ dueDate: e.currentTarget.value || null })} /></label>
				<label>Tags, with commas between<input defaultValue={shown.tags.join(", ")} key={`${stored.updatedAt} ${conflict === undefined}`} readOnly={!writes} onInput={(e) => set({ tags: [...new Set(e.currentTarget.value.split(",").map((tag) => tag.trim()).filter(Boolean))] })} /></label>
				{save.failed && <Problem {...save.failed} />}
				<p class="long bar">
					{writes && <button type="submit" class="primary">Save</button>}
					{draft && <button type="button" onClick={() => (setDraft(undefined), setStored({ ...stored }), save.fail())}>Discard changes</button>}
					<span class="soft grow" role="status">{draft ? "Not saved yet" : saved > 0 ? "Saved" : <>Changed <Time at={stored.updatedAt} /></>}</span>
					{writes && <button type="button" onClick={() => onDelete(stored)}>Delete</button>}
				</p>
			</form>
			{conflict && <ConflictDialog conflict={conflict} names={names} keep={() => void save.run(conflict.theirs)} take={() => take(conflict.theirs, conflict.fields)} onClose={() => setConflict(undefined)} />}
			<History id={task.id} changes={saved} names={names} made={stored} />
		</>
	)
}

// History is what has happened to a task, the newest first. It is loaded again when the number of changes
// made here differs.
function History({ id, changes, names, made }: { id: string; changes: number; names: Names; made: Task }): JSX.Element {
	const history = useLoaded(() => all("GET /api/v1/tasks/{id}/history", {}, undefined, { path: { id } }), [id, changes])
	return (
		<section class="history">
			<h3>History</h3>
			<Show of={history} what="the history">
				{(entries) => (
					<ol>
						{entries.slice().reverse().map((e) => (
							<li key={e.id}>
								<p><b>{assigneeOf(names, e.changedBy)}</b> <Time at={e.changedAt} />{e.reason !== null && <>: <q>{e.reason}</q></>}</p>
								<ul>{e.changes.map((c) => <li key={c.field}>{fieldNames[c.field] ?? c.field} {c.from === null && c.to === null ? "changed" : <>{valueOf(names, c.field, c.from)} → {valueOf(names, c.field, c.to)}</>}</li>)}</ul>
							</li>
						))}
						<li><p><b>{assigneeOf(names, made.createdBy)}</b> <Time at={made.createdAt} />: created</p></li>
					</ol>
				)}
			</Show>
		</section>
	)
}
