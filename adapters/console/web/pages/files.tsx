// The files of an organisation: places and their folders, uploads, and what a folder or a file has.
import type { ComponentChildren, JSX } from "preact"
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks"
import { Dialog } from "../dialog"
import { useDraft } from "../draft"
import { Live, NotLive } from "../feedstate"
import { FileView } from "../file"
import { Icon, icons } from "../icons"
import { all, call, callDelete, failureOf } from "../interface"
import { onKeys } from "../keys"
import { announce } from "../live"
import { Placeholder, Problem, RequestId, Show, Time, submitting, useAct, useActs, useLoaded, useLook, type Failed } from "../loading"
import { Unnamed, useMembers, type Members } from "../members"
import { Menu } from "../menu"
import type { Belonging } from "../pages"
import { addressOf } from "../preview"
import { fileName, placesOf, useOpen, useRecords, type Place, type Records, type Shelf } from "../records"
import { addressWith, useQuery, type Changes } from "../router"
import { count, exact, size } from "../text"
import type { StoredObject } from "../types"
import { offerUndo } from "../undo"
import { add, cancel, clear, droppedOf, filesOf, keepBoth, replace, retry, underway, useUploads, type Upload } from "../uploads"
import { Windowed } from "../windowed"

export default function Files({ me }: { me: Belonging }): JSX.Element {
	const members = useMembers()
	const known = useLoaded(async () => {
		const [workspaces, teams, limits] = await Promise.all([all("GET /api/v1/workspaces", {}), all("GET /api/v1/teams", {}), call("GET /api/v1/sync/limits")])
		return { places: placesOf(me, workspaces, teams), keeps: limits.versions !== null }
	}, [])
	useLook(known.retry)
	if (known.value) return <Explorer {...known.value} members={members} org={me.org.id} writes={me.role !== "VIEWER"} />
	return <><h1>Files</h1><Show of={known} what="the places of files">{() => null}</Show></>
}

type ExplorerOf = { places: Place[]; members: Members; keeps: boolean; org: string; writes: boolean }

function Explorer({ places, members, keeps, org, writes }: ExplorerOf): JSX.Element {
	const [query, change] = useQuery()
	const [records, feed] = useRecords(org)
	const put = useCallback((o: StoredObject) => records.put(o), [records])
	const asked = query.get("place")
	const place = asked === null ? places[0] : places.find((p) => p.key === `${asked}/`)
	const folder = query.get("folder") ?? "", file = query.get("file")
	useOpen(records, place?.key)
	const { run: attempt, failed, fail } = useActs()
	const [sure, ask] = useState<StoredObject>()
	const [renamed, rename] = useState<StoredObject>()
	const heading = useRef<HTMLHeadingElement>(null)
	useEffect(fail, [query])

	const restore = (o: StoredObject): Promise<void> => attempt(`Restoring ${o.path}`, async () => {
		records.put(await call("POST /api/v1/sync/files/{id}/restore", { path: { id: o.id }, body: {} }))
		announce(`${o.path} is back.`)
	})
	const remove = (o: StoredObject): Promise<void> => attempt(`Deleting ${o.path}`, async () => {
		const now = place && records.of(place.key)?.files.get(o.id) || o
		await callDelete("DELETE /api/v1/sync/files/{id}", { path: { id: o.id }, query: { expectedVersion: now.version } })
		records.put({ ...now, deleted: true })
		if (file === o.id) change({ file: undefined, version: undefined })
		heading.current?.focus()
		if (keeps) offerUndo({ text: `${fileName(o.path)} was deleted.`, undo: () => void restore(o) })
		else announce(`${o.path} was deleted.`)
	})
	const acts: Acts = { remove: (o) => (keeps ? void remove(o) : ask(o)), rename, restore: (o) => void restore(o), stored: put }

	const shelf = place && records.of(place.key)
	const record = file && shelf ? shelf.files.get(file) : undefined
	return (
		<>
			<header class="bar"><h1 ref={heading} tabIndex={-1}>Files</h1><Live feed={feed} /></header>
			<NotLive feed={feed}><p>What others change appears here when the connection is back. It is attempted again by itself.</p></NotLive>
			<Unnamed members={members} />
			{failed && <Problem {...failed} giveUp={() => fail()} />}
			<div class="explorer">
				<Tree places={places} records={records} place={place} folder={folder} open={(to) => change({ file: undefined, version: undefined, deleted: undefined, ...to })} />
				<section class="within" aria-label={folder === "" ? place?.name : fileName(folder)}>
					{!place
						? <p class="empty">There is no such place, or you do not see it any more. <a href="/console/files">Files</a></p>
						: <>
							<Crumbs place={place} folder={folder} />
							{shelf?.failure && <Problem failure={shelf.failure} what="Loading the files" retry={() => void records.load(place.key)} />}
							{!shelf
								? <Placeholder what="the files" />
								: file
									? record
										? <FileView key={file} record={record} members={members} writes={writes} acts={acts} version={Number(query.get("version")) || undefined} />
										: !shelf.failure && <p class="empty">There is no such file here any more. It may be among the <a href={addressWith({ file: undefined, version: undefined, deleted: "1" })}>deleted files</a>.</p>
									: query.has("deleted")
										? <Deleted org={org} place={place} writes={writes} restore={acts.restore} shelf={shelf} />
										: <Folder place={place} folder={folder} shelf={shelf} members={members} writes={writes} acts={acts} fail={fail} />}
						</>}
				</section>
			</div>
			<Uploads stored={put} />
			{sure && (
				<Dialog title={`Delete ${fileName(sure.path)}?`} onClose={() => ask(undefined)}>
					<p>The organisation’s plan keeps no earlier versions, so it cannot be restored.</p>
					<button type="button" class="primary" onClick={() => (ask(undefined), void remove(sure))}>Delete</button>
				</Dialog>
			)}
			{renamed && <Rename record={place && records.of(place.key)?.files.get(renamed.id) || renamed} onClose={() => rename(undefined)} stored={acts.stored} attempt={attempt} />}
		</>
	)
}

// Acts are what can be done with a file.
export type Acts = { remove: (o: StoredObject) => void; rename: (o: StoredObject) => void; restore: (o: StoredObject) => void; stored: (o: StoredObject) => void }

function Crumbs({ place, folder }: { place: Place; folder: string }): JSX.Element {
	const parts = folder === "" ? [] : folder.split("/")
	const to = (f: string | undefined): string => addressWith({ place: place.key.slice(0, -1), folder: f, file: undefined, version: undefined, deleted: undefined })
	return (
		<nav class="crumbs" aria-label="Folder">
			<a href={to(undefined)}>{place.name}</a>
			{parts.map((p, i) => <span key={i}> / <a href={to(parts.slice(0, i + 1).join("/"))}>{p}</a></span>)}
		</nav>
	)
}

// Branch is a row of the tree: a place, a folder of it, or the group of memories, which leads nowhere.
type Branch = { key: string; name: string; level: number; open: boolean; parent?: string; to?: Changes; leaf: boolean }

const memories = "memories" // the key of their group

function Tree({ places, records, place, folder, open }: { places: Place[]; records: Records; place: Place | undefined; folder: string; open: (to: Changes) => void }): JSX.Element {
	const here = place ? place.key + (folder && `${folder}/`) : ""
	const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
	const [at, setAt] = useState(here)
	const box = useRef<HTMLDivElement>(null)
	useEffect(() => {
		setAt(here)
		setOpened((was) => new Set([...was, ...places.filter((p) => here.startsWith(p.key)).flatMap((p) => [...(p.memory ? [memories] : []), ...ancestors(p.key, folder)])]))
	}, [here])
	const branches: Branch[] = []
	const inGroup = opened.has(memories)
	for (const p of places) {
		if (p.memory && !branches.some((b) => b.key === memories)) branches.push({ key: memories, name: "Memories", level: 1, open: inGroup, leaf: false })
		if (p.memory && !inGroup) continue
		const shelf = records.of(p.key)
		const below = shelf && foldersOf(shelf)
		const walk = (key: string, name: string, at: string, level: number, parent?: string): void => {
			const children = [...(below?.get(at) ?? [])].sort(byName.compare)
			const isOpen = opened.has(key) && children.length > 0
			branches.push({ key, name, level, open: isOpen, parent, to: { place: p.key.slice(0, -1), folder: at === "" ? undefined : at.slice(0, -1) }, leaf: below !== undefined && children.length === 0 })
			if (isOpen) for (const c of children) walk(`${p.key}${at}${c}/`, c, `${at}${c}/`, level + 1, key)
		}
		walk(p.key, p.name, "", p.memory ? 2 : 1, p.memory ? memories : undefined)
	}
	const toggle = (b: Branch, on: boolean): void => {
		const owner = places.find((p) => b.key.startsWith(p.key))
		if (owner && on) records.open(owner.key)
		setOpened((was) => new Set(on ? [...was, b.key] : [...was].filter((k) => k !== b.key)))
	}
	const go = (b: Branch): void => (b.to ? open(b.to) : toggle(b, !b.open))
	const move = (b: Branch | undefined): void => {
		if (!b) return
		setAt(b.key)
		box.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(b.key)}"]`)?.focus()
	}
	const active = branches.some((b) => b.key === at) ? at : branches[0]?.key
	const keys = (i: number, b: Branch): ((e: KeyboardEvent) => void) => onKeys({
		ArrowDown: () => move(branches[i + 1]),
		ArrowUp: () => move(branches[i - 1]),
		ArrowRight: () => (b.open ? move(branches[i + 1]) : toggle(b, true)),
		ArrowLeft: () => (b.open ? toggle(b, false) : move(branches.find((p) => p.key === b.parent))),
		Home: () => move(branches[0]),
		End: () => move(branches.at(-1)),
		Enter: () => go(b),
		" ": () => go(b),
	})
	return (
		<div ref={box} class="tree" role="tree" aria-label="Places and folders">
			{branches.map((b, i) => (
				<div
					key={b.key} role="treeitem" data-key={b.key} aria-level={b.level} aria-expanded={b.leaf ? undefined : b.open} aria-selected={b.key === here} tabIndex={b.key === active ? 0 : -1} style={{ paddingInlineStart: `${b.level * 0.9 - 0.4}rem` }}
					onKeyDown={keys(i, b)} onClick={() => (setAt(b.key), go(b))}
				>
					<span class="twist" aria-hidden="true" onClick={(e) => !b.leaf && (e.stopPropagation(), toggle(b, !b.open))}>{b.leaf ? "" : b.open ? "▾" : "▸"}</span>
					{b.name}
				</div>
			))}
		</div>
	)
}

// ancestors returns the keys of a folder's place, of the folders above it, and its own.
function ancestors(place: string, folder: string): string[] {
	const parts = folder === "" ? [] : folder.split("/")
	return [place, ...parts.map((_, i) => `${place}${parts.slice(0, i + 1).join("/")}/`)]
}

const foldersIn = new WeakMap<Shelf, Map<string, Set<string>>>() // what foldersOf has returned

// foldersOf returns the names of the folders in each folder of a place, which is empty or ends with
// a slash.
function foldersOf(shelf: Shelf): Map<string, Set<string>> {
	const known = foldersIn.get(shelf)
	if (known) return known
	const found = new Map<string, Set<string>>()
	foldersIn.set(shelf, found)
	for (const o of shelf.files.values()) {
		for (let from = 0, slash = o.path.indexOf("/"); slash >= 0; from = slash + 1, slash = o.path.indexOf("/", from)) {
			const parent = o.path.slice(0, from)
			const names = found.get(parent) ?? new Set()
			found.set(parent, names.add(o.path.slice(from, slash)))
		}
	}
	return found
}

// Entry is a row of a folder: a file, or a folder with the files in it.
type Entry = { name: string; path: string; file?: StoredObject; files: number; size: number; changed: string }

const byName = new Intl.Collator(undefined, { numeric: true })

function entriesOf(shelf: Shelf, folder: string): Entry[] {
	const prefix = folder === "" ? "" : `${folder}/`
	const found = new Map<string, Entry>()
	for (const o of shelf.files.values()) {
		if (!o.path.startsWith(prefix)) continue
		const rest = o.path.slice(prefix.length), slash = rest.indexOf("/")
		const name = slash < 0 ? rest : rest.slice(0, slash)
		const e = found.get(name) ?? { name, path: prefix + name, file: slash < 0 ? o : undefined, files: 0, size: 0, changed: "" }
		found.set(name, e)
		e.files++
		e.size += o.size
		if (o.updatedAt > e.changed) e.changed = o.updatedAt
	}
	return [...found.values()].sort((a, b) => Number(a.file !== undefined) - Number(b.file !== undefined) || byName.compare(a.name, b.name))
}

function Folder({ place, folder, shelf, members, writes, acts, fail }: { place: Place; folder: string; shelf: Shelf; members: Members; writes: boolean; acts: Acts; fail: (f?: Failed) => void }): JSX.Element {
	const entries = useMemo(() => entriesOf(shelf, folder), [shelf, folder])
	const [active, setActive] = useState<string>()
	const [over, setOver] = useState(false)
	const below = folder === "" ? "" : `${folder}/`
	const chosen = (list: FileList | null): void => add(place, below, [...(list ?? [])].map((file) => ({ file, path: file.webkitRelativePath || file.name })))
	const drop = async (dropped: FileSystemEntry[]): Promise<void> => {
		fail()
		const { files, unread, reason } = await filesOf(dropped)
		add(place, below, files)
		const [first] = unread
		const what = `Reading ${below}${first?.fullPath.slice(1)}${unread.length > 1 ? ` and ${count(unread.length - 1)} more` : ""}`
		if (first) fail({ failure: failureOf(reason), what, retry: () => void drop(unread) })
	}
	const of = (path: string | undefined): StoredObject | undefined => entries.find((e) => e.path === path)?.file
	const onFile = (act: (o: StoredObject) => void) => (): void => {
		const o = of(active ?? entries[0]?.path)
		if (o && writes) act(o)
	}
	return (
		<div
			class="folder" data-over={over}
			onDragOver={(e) => writes && (e.preventDefault(), setOver(true))}
			onDragLeave={() => setOver(false)}
			onDrop={(e) => {
				e.preventDefault()
				setOver(false)
				if (writes && e.dataTransfer) void drop(droppedOf(e.dataTransfer))
			}}
		>
			<div class="bar">
				{writes && <Chooser onFiles={chosen}>Upload files</Chooser>}
				{writes && <Chooser folder onFiles={chosen}>Upload a folder</Chooser>}
				<a class="end" href={addressWith({ deleted: "1" })}>Deleted files</a>
			</div>
			{!shelf.complete && !shelf.failure && <p class="soft" role="status">More files are being loaded, or are beyond what one place shows here. A folder of the command line has all.</p>}
			{entries.length === 0
				? <p class="empty">Nothing is here yet. {writes ? "Upload files, or drop them here." : "What members upload appears here."}</p>
				: <div onKeyDown={onKeys({ Delete: onFile(acts.remove), F2: onFile(acts.rename) })}>
					<Windowed
						label={folder === "" ? place.name : fileName(folder)} items={entries} keyOf={(e) => e.path} active={active} onActive={setActive} complete more={() => undefined}
						row={(e, now) => <Row entry={e} now={now} members={members} writes={writes} acts={acts} />}
					/>
				</div>}
		</div>
	)
}

function Row({ entry, now, members, writes, acts }: { entry: Entry; now: boolean; members: Members; writes: boolean; acts: Acts }): JSX.Element {
	const { file } = entry
	const tab = now ? 0 : -1
	return (
		<div class="entry">
			<a data-row tabIndex={tab} href={file ? addressWith({ file: file.id }) : addressWith({ folder: entry.path })}><span class="icon"><Icon path={file ? icons.file : icons.files} /></span>{entry.name}{!file && <span class="hidden"> (folder)</span>}</a>
			<Time class="wide soft" at={entry.changed} />
			<span class="wide soft">{file ? members.nameOf(file.updatedBy) : `${count(entry.files)} ${entry.files === 1 ? "file" : "files"}`}</span>
			<span class="soft number">{size(entry.size)}</span>
			{file && writes
				? <Menu class="small plain" label={`Actions for ${entry.name}`} tabIndex={tab} choices={() => [{ text: "Rename", act: () => acts.rename(file) }, { text: "Download", act: () => download(file) }, { text: "Delete", act: () => acts.remove(file) }]}>⋯</Menu>
				: <span />}
		</div>
	)
}

// download has the browser store a file.
function download(o: StoredObject): void {
	const link = document.createElement("a")
	link.href = addressOf(o.id)
	link.download = fileName(o.path)
	link.click()
}

function Chooser({ folder, onFiles, children }: { folder?: boolean; onFiles: (list: FileList | null) => void; children: ComponentChildren }): JSX.Element {
	return (
		<label class={folder ? "button second" : "button"}>
			{children}
			<input class="hidden" type="file" multiple ref={(e) => void (e && (e.webkitdirectory = folder === true))} onChange={(e) => {
				onFiles(e.currentTarget.files)
				e.currentTarget.value = ""
			}} />
		</label>
	)
}

function Deleted({ org, place, writes, restore, shelf }: { org: string; place: Place; writes: boolean; restore: (o: StoredObject) => void; shelf: Shelf }): JSX.Element {
	const there = shelf.files.size
	const deleted = useLoaded(() => all("GET /api/v1/sync/files", { prefix: `${org}/${place.key}`, deleted: "true" }, 2), [place.key, there])
	return (
		<>
			<h2>Deleted files</h2>
			<Show of={deleted} what="the deleted files">
				{(list) => list.length === 0
					? <p class="empty">No deleted file can be restored here. Files that somebody deletes stay here for as long as the plan keeps earlier versions.</p>
					: <>
						<ul class="rows">
							{list.map((o) => (
								<li key={o.id}>
									<div><b>{o.path}</b><p class="soft">{size(o.size)}{o.deletedAt && <> · deleted <Time at={o.deletedAt} /></>}{o.expiresAt && <> · kept until <time dateTime={o.expiresAt}>{exact(o.expiresAt)}</time></>}</p></div>
									{writes && <button type="button" class="small" aria-label={`Restore ${o.path}`} onClick={() => restore(o)}>Restore</button>}
								</li>
							))}
						</ul>
						{list.next && <p class="soft">There are more: the first {count(list.length)} are shown.</p>}
					</>}
			</Show>
		</>
	)
}

function Rename({ record, onClose, stored, attempt }: { record: StoredObject; onClose: () => void; stored: (o: StoredObject) => void; attempt: (what: string, act: () => Promise<void>) => Promise<void> }): JSX.Element {
	const [draft, keep, drop] = useDraft<string>(`path ${record.id}`)
	const path = draft ?? record.path
	const move = (o: StoredObject, to: string): Promise<StoredObject> => call("PATCH /api/v1/sync/files/{id}", { path: { id: o.id }, query: { expectedVersion: o.version }, body: { path: to } })
	const save = useAct("Renaming", async () => {
		const moved = await move(record, path.trim())
		drop(draft)
		stored(moved)
		onClose()
		if (moved.version !== record.version) offerUndo({ text: `It is ${moved.path} now.`, undo: () => void attempt(`Renaming ${moved.path} back`, async () => stored(await move(moved, record.path))) })
	})
	return (
		<Dialog title={`Rename or move ${fileName(record.path)}`} onClose={onClose}>
			<form onSubmit={submitting(save)}>
				<p><label for="path">Path within its place; folders are what is before a slash</label><input id="path" class="full" value={path} maxLength={1024} required onInput={(e) => keep(e.currentTarget.value)} /></p>
				{save.failed && <Problem {...save.failed}>{save.failed.failure.status === 409 && <p>Somebody else may have changed the file meanwhile, or the path is taken. What you typed is kept here.</p>}</Problem>}
				<button type="submit" class="primary">Save</button>
			</form>
		</Dialog>
	)
}

const shown = 30 // uploads that are listed at a time

// Uploads shows the uploads, if there are any. It alone is rendered again as they go on.
function Uploads({ stored }: { stored: (o: StoredObject) => void }): JSX.Element | null {
	const list = useUploads(stored)
	const wanted = list.filter((u) => u.state !== "cancelled")
	const done = wanted.filter((u) => u.state === "done")
	const open = list.filter(underway), failed = list.filter((u) => u.state === "failed")
	const taken = failed.filter((u) => u.taken)
	const bytes = wanted.reduce((n, u) => n + u.file.size, 0)
	const sent = wanted.reduce((n, u) => n + u.sent, 0)
	const rows = [...failed, ...open, ...list.filter((u) => u.state === "done" || u.state === "cancelled").reverse()]
	useEffect(() => {
		if (open.length === 0 && list.length > 0) announce(failed.length > 0 ? `Failed uploads: ${failed.length}` : `Uploaded files: ${done.length}`)
	}, [open.length === 0])
	if (list.length === 0) return null
	return (
		<section aria-labelledby="uploads">
			<div class="bar">
				<h2 id="uploads">{count(done.length)} of {count(wanted.length)} files uploaded</h2>
				{taken.length > 1 && <button type="button" class="small" onClick={() => replace(...taken)}>Replace all {count(taken.length)}</button>}
				{failed.length - taken.length > 1 && <button type="button" class="small" onClick={() => retry(...failed.filter((u) => !u.taken))}>Try all again</button>}
				{open.length > 0
					? <button type="button" class="small" onClick={() => cancel(...open)}>Cancel all</button>
					: <button type="button" class="small" onClick={clear}>Close</button>}
			</div>
			{open.length > 0 && <progress max={Math.max(bytes, 1)} value={sent} aria-label={`${size(sent)} of ${size(bytes)} sent`} />}
			<ul class="rows">{rows.slice(0, shown).map((u) => <li key={u.id} data-upload={u.state}><UploadRow u={u} /></li>)}</ul>
			{rows.length > shown && <p class="soft">And {count(rows.length - shown)} more.</p>}
		</section>
	)
}

function UploadRow({ u }: { u: Upload }): JSX.Element {
	const percent = Math.floor(100 * u.sent / Math.max(u.file.size, 1))
	return (
		<div>
			<div class="bar">
				<b class="grow">{u.path}</b>
				<span class="soft">{u.state === "sending" ? `${percent} % of ${size(u.file.size)}` : u.state === "waiting" ? "Waiting" : u.state === "done" ? "Uploaded" : u.state === "cancelled" ? "Cancelled" : ""}</span>
				{underway(u) && <button type="button" class="small" aria-label={`Cancel ${u.path}`} onClick={() => cancel(u)}>Cancel</button>}
			</div>
			{u.state === "sending" && <progress max={100} value={percent} aria-label={u.path} />}
			{u.failure && (u.taken
				? <div class="problem" role="alert">
					<p>A file with this path is there already.</p>
					<RequestId id={u.failure.request} />
					<button type="button" class="small" aria-label={`Replace ${u.path}`} onClick={() => replace(u)}>Replace</button>{" "}
					<button type="button" class="small" aria-label={`Keep both of ${u.path}`} onClick={() => keepBoth(u)}>Keep both</button>{" "}
					<button type="button" class="small" aria-label={`Do not upload ${u.path}`} onClick={() => cancel(u)}>Do not upload</button>
				</div>
				: <Problem failure={u.failure} what="The upload" retry={() => retry(u)} giveUp={() => cancel(u)} />)}
		</div>
	)
}
