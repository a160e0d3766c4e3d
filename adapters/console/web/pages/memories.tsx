// Memories: texts that chats of a person, of the organisation or of a workspace are given, and their
// editor.
import type { JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { Difference } from "../diff"
import { useDraft } from "../draft"
import { Live, NotLive } from "../feedstate"
import { all, call, failureOf, Failure } from "../interface"
import { onKeys } from "../keys"
import { announce } from "../live"
import { Problem, RequestId, Show, Time, useLoaded, useLook } from "../loading"
import { Unnamed, useMembers, type Members } from "../members"
import { Markdown } from "../markdown"
import type { Belonging } from "../pages"
import { fileAddressOf, useOpen, useRecords } from "../records"
import { addressWith, useQuery } from "../router"
import type { StoredFile, StoredObject, Workspace } from "../types"

// Memory is where a memory is: name is that in the address, key that of its storage after the
// organisation's id.
type Memory = { name: string; title: string; key: string; about: string }

export default function Memories({ me }: { me: Belonging }): JSX.Element {
	const workspaces = useLoaded(() => all("GET /api/v1/workspaces", {}), [])
	useLook(workspaces.retry)
	const members = useMembers()
	if (workspaces.value) return <Chosen workspaces={workspaces.value} members={members} me={me} />
	return <><h1>Memories</h1><Show of={workspaces} what="the memories">{() => null}</Show></>
}

function Chosen({ workspaces, members, me }: { workspaces: Workspace[]; members: Members; me: Belonging }): JSX.Element {
	const [query, change] = useQuery()
	const [records, feed] = useRecords(me.org.id)
	const asked = query.get("memory") ?? "user"
	const [workspace = "", fileName = ""] = asked.includes("/") ? [asked.slice(0, asked.indexOf("/")), asked.slice(asked.indexOf("/") + 1)] : []
	const fixed: Memory[] = [
		{ name: "user", title: "Your memory", key: `personal/${me.user.id}/user-memory.md`, about: "Nobody else sees it." },
		{ name: "org", title: "Memory of the organisation", key: "shared/hub-memory/org-memory.md", about: "Every member sees it." },
	]
	const owner = workspaces.find((w) => w.id === workspace)
	const memory = owner && fileName ? { name: asked, title: fileName, key: `workspaces/${owner.id}/memory/${fileName}`, about: `Everybody who sees the workspace ${owner.name} sees it.` } : fixed.find((m) => m.name === asked)
	const place = memory && `${memory.key.slice(0, memory.key.lastIndexOf("/"))}/`
	useOpen(records, place)
	const shelf = records.of(place ?? "")
	const stored = memory && [...(shelf?.files.values() ?? [])].find((o) => o.storageKey.endsWith(`/${memory.key}`))
	const files = useLoaded(() => all("GET /api/v1/sync/files", { kind: "WORKSPACE_MEMORY" }), [owner && stored?.id])
	useLook(files.retry)
	return (
		<>
			<header class="bar"><h1 tabIndex={-1}>Memories</h1><Live feed={feed} /></header>
			<NotLive feed={feed}><p>What you write stays. Saving says if somebody else has changed the memory.</p></NotLive>
			<Unnamed members={members} />
			<div class="explorer">
				<nav class="memories" aria-label="Memories">
					<ul>{fixed.map((m) => <li key={m.name}><a href={addressWith({ memory: m.name })} aria-current={m.name === asked ? "page" : undefined}>{m.title}</a></li>)}</ul>
					<Show of={files} what="the memories of workspaces" again="Loading the memories of workspaces">{() => null}</Show>
					{workspaces.map((w) => <OfWorkspace key={w.id} workspace={w} files={files.value?.filter((o) => o.workspaceId === w.id) ?? []} asked={asked} open={(name) => change({ memory: `${w.id}/${name}` })} writes={me.role !== "VIEWER"} />)}
				</nav>
				<div class="within">
					{place && shelf?.failure && <Problem failure={shelf.failure} what="Following the memory" retry={() => void records.load(place)} />}
					{memory
						? <Editor key={memory.name} memory={memory} stored={stored} members={members} writes={me.role !== "VIEWER"} saved={(o) => records.put(o)} />
						: <p class="empty">There is no such memory, or you do not see its workspace any more. <a href="/console/memories">Your memory</a></p>}
				</div>
			</div>
		</>
	)
}

// OfWorkspace lists the memory files of a workspace, and adds one.
function OfWorkspace({ workspace, files, asked, open, writes }: { workspace: Workspace; files: StoredObject[]; asked: string; open: (name: string) => void; writes: boolean }): JSX.Element {
	const [name = "", setName] = useDraft<string>(`new memory of ${workspace.id}`)
	const [adding] = useState(name !== "")
	const add = (): void => {
		const wanted = name.trim()
		if (wanted === "") return
		setName(undefined)
		open(/\.[^.]+$/.test(wanted) ? wanted : `${wanted}.md`)
	}
	return (
		<section aria-label={`Memories of ${workspace.name}`}>
			<h2>{workspace.name}</h2>
			{files.length > 0 && <ul>{files.map((o) => <li key={o.id}><a href={addressWith({ memory: `${workspace.id}/${o.path}` })} aria-current={asked === `${workspace.id}/${o.path}` ? "page" : undefined}>{o.path}</a></li>)}</ul>}
			{writes && (
				<details open={adding}>
					<summary aria-label={`Add a memory of ${workspace.name}`}>Add a memory</summary>
					<form class="bar" onSubmit={(e) => (e.preventDefault(), add())}>
						<input class="grow" aria-label={`Name of a new memory of ${workspace.name}`} placeholder="notes.md" maxLength={255} value={name} onInput={(e) => setName(e.currentTarget.value || undefined)} />
						<button type="submit" class="small">Add</button>
					</form>
				</details>
			)}
		</section>
	)
}

// get returns a memory, null if nothing is stored.
function get(name: string): Promise<StoredFile | null> {
	const [workspaceId = "", fileName = ""] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)]
	return name.includes("/")
		? call("GET /api/v1/sync/memory/workspace/{workspaceId}/{fileName}", { path: { workspaceId, fileName } })
		: call("GET /api/v1/sync/memory/{scope}", { path: { scope: name as "user" | "org" } })
}

function put(name: string, content: string, expectedVersion: number): Promise<StoredObject> {
	const [workspaceId = "", fileName = ""] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)]
	return name.includes("/")
		? call("PUT /api/v1/sync/memory/workspace/{workspaceId}/{fileName}", { path: { workspaceId, fileName }, body: { content, expectedVersion } })
		: call("PUT /api/v1/sync/memory/{scope}", { path: { scope: name as "user" | "org" }, body: { content, expectedVersion } })
}

// Draft is a text that is not saved, and the version that it was made of, with the id of the file if there was one.
type Draft = { text: string; version: number; id?: string | undefined }

type EditorOf = { memory: Memory; stored: StoredObject | undefined; members: Members; writes: boolean; saved: (o: StoredObject) => void }

// Editor edits a memory. What is not saved is kept in the tab's storage until it is: a session that
// ends, or a page that is left, loses nothing. If somebody else saves meanwhile both texts are shown.
function Editor({ memory, stored, members, writes, saved }: EditorOf): JSX.Element {
	const [draft, setDraft] = useDraft<Draft>(`memory ${memory.key}`)
	const [failure, fail] = useState<Failure>()
	const [saving, setSaving] = useState<"sent" | "stored">() // until what was saved is loaded
	const [shown, show] = useState(false)
	const area = useRef<HTMLTextAreaElement>(null)
	const loaded = useLoaded(async () => ({ file: await get(memory.name) }), [memory.name, stored?.version])
	const there = loaded.value === undefined ? undefined : { text: loaded.value.file?.content ?? "", version: loaded.value.file?.version ?? 0, id: loaded.value.file?.id }
	useEffect(() => {
		if (draft && there && draft.text === there.text) setDraft(undefined)
		setSaving((was) => (was === "stored" ? undefined : was))
	}, [loaded.value, loaded.failure])
	const text = draft?.text ?? there?.text ?? ""
	// The file of a memory that was deleted and stored again has another id. Its version may be lower if earlier versions are not kept.
	const conflict = draft && there && (there.version > draft.version || there.id !== undefined && there.id !== (draft.id ?? there.id)) ? there : undefined
	const write = (value: string): void => {
		if (there) setDraft(value === there.text && !conflict ? undefined : { ...(draft ?? { version: there.version, id: there.id }), text: value })
	}
	const save = async (content: string, version: number): Promise<void> => {
		if (saving) return
		setSaving("sent")
		fail(undefined)
		try {
			const o = await put(memory.name, content, version)
			setDraft((was) => was && { ...was, version: o.version, id: o.id }) // it goes when the memory with it is there
			saved(o)
			announce("The memory is saved.")
			setSaving("stored")
			loaded.retry()
		} catch (error) {
			const failed = failureOf(error)
			if (failed.status === 409) loaded.retry()
			fail(failed)
			setSaving(undefined)
		}
	}
	const submit = (version: number): void => {
		if (conflict) return
		draft ? void save(text, version) : announce("Nothing has changed.")
	}
	const by = stored ? members.nameOf(stored.updatedBy) : "Somebody"
	return (
		<Show of={there ? { ...loaded, value: there } : { failure: loaded.failure, retry: loaded.retry }} what="the memory">
			{(now) => (
				<form class="memory" onSubmit={(e) => (e.preventDefault(), submit(now.version))} onKeyDown={onKeys({ "Mod+s": () => submit(now.version) })}>
					<h2>{memory.title}</h2>
					<p class="soft">{memory.about} {stored && now.version > 0 ? <>Version {now.version}, changed <Time at={stored.updatedAt} /> by {by}. <a href={fileAddressOf(stored)}>Versions</a></> : now.version === 0 && "Nothing is stored yet: what you write is given to chats when it is saved."}</p>
					{conflict && (
						<div class="problem" role="alert">
							<p><strong>{by} has changed this memory since you began.</strong> Yours is kept below, and theirs is beside it. Take over what you want to keep, then save yours, or take theirs.</p>
							{failure?.status === 409 && <RequestId id={failure.request} />}
							<button type="button" class="small" disabled={saving !== undefined} onClick={() => void save(text, conflict.version)}>Save mine</button>{" "}
							<button type="button" class="small" onClick={() => (setDraft(undefined), fail(undefined), area.current?.focus())}>Take theirs</button>
						</div>
					)}
					{failure && !(failure.status === 409 && conflict) && <Problem failure={failure} what="Saving" retry={() => void save(text, now.version)} giveUp={() => fail(undefined)}><p>What you wrote is kept here.</p></Problem>}
					<div class={conflict ? "sides" : undefined}>
						<p>
							<label for="text">{conflict ? "Yours" : "Text, in Markdown"}</label>
							<textarea ref={area} id="text" class="text" readOnly={!writes} value={text} onInput={(e) => write(e.currentTarget.value)} />
						</p>
						{conflict && <p><label for="theirs">Theirs</label><textarea id="theirs" class="text" readOnly value={conflict.text} /></p>}
					</div>
					{conflict && <><h3>From theirs to yours</h3><Difference first={conflict.text} second={text} label="From theirs to yours" /></>}
					<div class="bar">
						{writes && !conflict && <button type="submit" class="primary" aria-busy={saving !== undefined}>Save</button>}
						<button type="button" aria-pressed={shown} onClick={() => show(!shown)}>Preview</button>
						{draft && !conflict && <button type="button" onClick={() => setDraft(undefined)}>Discard my changes</button>}
						{draft && <span class="soft" role="status">Not saved</span>}
					</div>
					{shown && (text === "" ? <p class="empty">There is nothing to show.</p> : <Markdown text={text} />)}
				</form>
			)}
		</Show>
	)
}
