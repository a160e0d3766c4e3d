// Uploads of files: a queue that goes on while other pages of the console are shown.
import { useEffect, useState } from "preact/hooks"
import { accountHeaders, failureOf, Failure, refusal } from "./interface"
import type { Place } from "./records"
import type { ResumableUpload, StoredObject } from "./types"

// Upload is a file on its way. sent is in bytes; taken is the file that has its path, after 409.
export type Upload = {
	id: number
	file: File
	place: Place
	path: string
	state: "waiting" | "sending" | "done" | "failed" | "cancelled"
	sent: number
	failure?: Failure
	taken?: { id: string; version: number }
	replaces?: { id: string; version: number }
	key: string // of idempotency, the same in all attempts of one request, until a refusal is repeated for it
	started?: string // the id of its resumable upload
	stop?: AbortController
}

const together = 3 // requests at a time
const resumableFrom = 8_000_000 // bytes from which on an upload is resumable
const mostHashed = 256_000_000 // bytes up to which a file has a checksum: crypto.subtle needs all of it in memory

let uploads: Upload[] = []
let held: ReturnType<typeof setTimeout> | undefined // while the server wants a pause
let next = 1
const observers = new Set<(list: Upload[]) => void>()
let stored: (o: StoredObject) => void = () => undefined

// useUploads returns all uploads, and has fn called with the record of each that is done.
export function useUploads(fn: (o: StoredObject) => void): Upload[] {
	const [list, set] = useState(uploads)
	useEffect(() => {
		stored = fn
		observers.add(set)
		set(uploads)
		return () => {
			observers.delete(set)
			stored = () => undefined
		}
	}, [fn])
	return list
}

// add begins uploads of files to a folder of a place; a folder is empty or ends with a slash.
export function add(place: Place, folder: string, files: { file: File; path: string }[]): void {
	const added = files.map(({ file, path }): Upload => ({ id: next++, file, place, path: (folder + path).normalize("NFC"), state: "waiting", sent: 0, key: crypto.randomUUID() }))
	uploads = [...uploads, ...added]
	work()
}

// cancel ends uploads that are not done; what arrived is removed.
export function cancel(...list: Upload[]): void {
	for (const u of list) {
		if (u.state === "done") continue
		u.stop?.abort()
		if (u.started) void request("DELETE", `sync/resumable-uploads/${u.started}`, {}).catch(() => undefined) // it expires by itself
		Object.assign(u, { state: "cancelled", started: undefined })
	}
	work()
}

// retry begins uploads again where they were.
export function retry(...list: Upload[]): void {
	for (const u of list) Object.assign(u, { state: "waiting", failure: undefined, taken: undefined })
	work()
}

// replace makes uploads the next versions of the files that have their paths.
export function replace(...list: Upload[]): void {
	for (const u of list) Object.assign(u, { replaces: u.taken, key: crypto.randomUUID(), started: undefined })
	retry(...list)
}

// keepBoth stores uploads under other names.
export function keepBoth(...list: Upload[]): void {
	for (const u of list) {
		const [, stem = u.path, number, ending = ""] = /^(.*?[^/])(?: \((\d+)\))?(\.[^./]*)?$/.exec(u.path) ?? []
		Object.assign(u, { path: `${stem} (${Number(number ?? 1) + 1})${ending}`, replaces: undefined, key: crypto.randomUUID(), started: undefined })
	}
	retry(...list)
}

// clear forgets uploads that are over.
export function clear(): void {
	uploads = uploads.filter((u) => u.state === "waiting" || u.state === "sending")
	work()
}

// underway reports whether an upload is not over.
export const underway = (u: Upload): boolean => u.state === "waiting" || u.state === "sending"

addEventListener("beforeunload", (e) => uploads.some(underway) && e.preventDefault())

// work begins waiting uploads, and tells observers what there is.
function work(): void {
	let free = held === undefined ? together - uploads.filter((u) => u.state === "sending").length : 0
	for (const u of uploads) {
		if (free > 0 && u.state === "waiting") {
			free--
			void carryOut(u)
		}
	}
	tell()
}

let told = 0 // the frame in which observers are told

// tell tells observers what there is, once a frame: of many small files several end in each.
function tell(): void {
	cancelAnimationFrame(told)
	told = requestAnimationFrame(() => {
		uploads = [...uploads]
		for (const observer of observers) observer(uploads)
	})
}

// carryOut sends a file. A server that limits requests is asked again after the time it says; a
// refusal for all, such as that of full storage, ends the uploads that wait too.
async function carryOut(u: Upload): Promise<void> {
	const stop = new AbortController()
	Object.assign(u, { state: "sending", stop, sent: 0 })
	try {
		const record = u.file.size < resumableFrom ? await sendWhole(u, stop.signal) : await sendParts(u, stop.signal)
		Object.assign(u, { state: "done", sent: u.file.size })
		stored(record)
	} catch (error) {
		if (stop.signal.aborted) return
		const failure = failureOf(error)
		if (failure.replayed) {
			Object.assign(u, { state: "waiting", key: crypto.randomUUID() })
		} else if (failure.status === 429) {
			u.state = "waiting"
			clearTimeout(held)
			held = setTimeout(() => {
				held = undefined
				work()
			}, 1000 * Math.max(1, failure.wait))
		} else {
			Object.assign(u, { state: "failed", failure, taken: failure instanceof Refusal ? failure.stored : undefined })
			if (failure.status === 403 || failure.status === 401) for (const w of uploads) if (w.state === "waiting") Object.assign(w, { state: "failed", failure })
		}
	}
	work()
}

// fieldsOf returns the fields of the request that stores a file. Without a type the next version of a file keeps that of the one before.
function fieldsOf(u: Upload): URLSearchParams {
	const query = new URLSearchParams(u.replaces ? { expectedVersion: String(u.replaces.version) } : { path: u.path, ...u.place.fields })
	const type = u.file.type || (u.replaces ? "" : guess(u.path))
	if (type) query.set("mimeType", type)
	return query
}

async function sendWhole(u: Upload, signal: AbortSignal): Promise<StoredObject> {
	const query = fieldsOf(u)
	const headers: Record<string, string> = { "Content-Type": "application/octet-stream" } // a body of JSON, or a form, would be read as an upload's fields
	if (!u.replaces) headers["Idempotency-Key"] = u.key
	const progress = (sent: number): void => {
		u.sent = Math.min(sent, u.file.size)
		tell()
	}
	const method = u.replaces ? "PUT" : "POST"
	return (await request(method, (u.replaces ? `sync/files/${u.replaces.id}?` : "sync/files?") + query, { body: u.file, headers, signal, progress })).body as StoredObject
}

// sendParts sends a file as a resumable upload, on from what the server has.
async function sendParts(u: Upload, signal: AbortSignal): Promise<StoredObject> {
	let offset = 0
	if (u.started) {
		try {
			offset = ((await request("GET", `sync/resumable-uploads/${u.started}`, { signal })).body as ResumableUpload).offset
		} catch (error) {
			if (!(error instanceof Failure) || error.status !== 404 && error.status !== 410) throw error
			Object.assign(u, { started: undefined, key: crypto.randomUUID() }) // it has expired
		}
	}
	if (!u.started) {
		const query = fieldsOf(u)
		if (u.replaces) query.set("fileId", u.replaces.id)
		if (u.file.size <= mostHashed) {
			const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", await u.file.arrayBuffer()))
			query.set("checksum", [...sum].map((b) => b.toString(16).padStart(2, "0")).join(""))
		}
		signal.throwIfAborted()
		const headers = { "Upload-Complete": "?0", "Upload-Length": String(u.file.size), "Idempotency-Key": u.key }
		u.started = ((await request("POST", `sync/resumable-uploads?${query}`, { headers, signal })).body as ResumableUpload).id
	}
	const headers = { "Content-Type": "application/partial-upload", "Upload-Complete": "?1", "Upload-Offset": String(offset) }
	const progress = (sent: number): void => {
		u.sent = Math.min(offset + sent, u.file.size)
		tell()
	}
	return (await request("PATCH", `sync/resumable-uploads/${u.started}`, { body: u.file.slice(offset), headers, signal, progress })).body as StoredObject
}

// guess returns a media type for files of which the browser knows none.
const guess = (path: string): string => (/\.(md|markdown)$/i.test(path) ? "text/markdown" : "application/octet-stream")

// Refusal is a Failure with the record that is stored in the way of the request.
class Refusal extends Failure {
	constructor(message: string, status: number, request: string, wait: number, replayed: boolean, readonly stored: { id: string; version: number } | undefined) {
		super(message, status, request, wait, replayed)
	}
}

type Sent = { body?: Blob; headers?: Record<string, string>; signal?: AbortSignal; progress?: (sent: number) => void }

// request sends a request by XMLHttpRequest, which alone tells how much of a body was sent.
function request(method: string, path: string, { body, headers, signal, progress }: Sent): Promise<{ body: unknown }> {
	return new Promise((resolve, reject) => {
		const sending = new XMLHttpRequest()
		sending.open(method, "/console/api/v1/" + path)
		sending.responseType = "json"
		sending.setRequestHeader("Accept", "application/json")
		for (const [name, value] of Object.entries({ ...accountHeaders(), ...headers })) sending.setRequestHeader(name, value)
		if (progress) sending.upload.onprogress = (e) => progress(e.loaded)
		sending.onerror = () => reject(new Failure("The server cannot be reached", 0, "", 5))
		sending.onabort = () => reject(new Failure("It was cancelled", 0, "", 0))
		sending.onload = () => {
			if (sending.status >= 200 && sending.status < 300) return resolve({ body: sending.response })
			const header = (name: string): string => sending.getResponseHeader(name) ?? ""
			const there = header("X-Collab-Id") ? { id: header("X-Collab-Id"), version: Number(header("X-Collab-Version")) } : undefined
			reject(new Refusal(refusal(sending.status, sending.response?.message ?? sending.statusText), sending.status, header("X-Request-Id"), Number(header("Retry-After")), header("Idempotent-Replayed") !== "", sending.status === 409 ? there : undefined))
		}
		signal?.addEventListener("abort", () => sending.abort())
		sending.send(body ?? null)
	})
}

// droppedOf returns what was dropped. It must be called before the event ends.
export const droppedOf = (transfer: DataTransfer): FileSystemEntry[] => [...transfer.items].flatMap((i) => i.webkitGetAsEntry() ?? [])

// filesOf returns the files of what was dropped and of the folders in it, with their paths below it,
// and the files and folders that cannot be read, with the last reason.
export async function filesOf(dropped: FileSystemEntry[]): Promise<{ files: { file: File; path: string }[]; unread: FileSystemEntry[]; reason: unknown }> {
	const files: { file: File; path: string }[] = [], unread: FileSystemEntry[] = []
	let reason: unknown
	const read = async (entry: FileSystemEntry): Promise<void> => {
		let inside: FileSystemEntry[] = []
		try {
			if (isFile(entry)) files.push({ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path: entry.fullPath.slice(1) })
			else inside = await entriesIn(entry as FileSystemDirectoryEntry)
		} catch (error) {
			reason = error
			unread.push(entry)
		}
		for (const e of inside) await read(e)
	}
	for (const entry of dropped) await read(entry)
	return { files, unread, reason }
}

// isFile tells files from directories, whose classes Chromium does not name.
const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile

async function entriesIn(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
	const found: FileSystemEntry[] = [], reader = folder.createReader()
	for (;;) {
		const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
		if (some.length === 0) return found
		found.push(...some)
	}
}
