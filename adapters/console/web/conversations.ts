// Conversations with models, which are kept on this device only. They are in memory as long as the
// console is open, and in the browser's database; each message with its answer is a record of its
// own, so that tabs with the same conversation write over nothing of each other.
import { database, keepFor } from "./device"
import type { ToolCall } from "./types"

// Part is a piece of an answer, in order. A tool's result is unset until it is there.
export type Part = { type: "text"; text: string } | { type: "tool"; call: ToolCall; result?: unknown }

// Answer is what a model has answered so far. cut: its end never came; failed: the provider failed,
// and error is its message.
export type Answer = {
	state: "running" | "done" | "stopped" | "cut" | "failed"
	model: string
	parts: Part[]
	usage?: { inputTokens: number; outputTokens: number }
	error?: string
	request?: string // the request's id
}

// Exchange is a message with its answer. at is when the message was sent, in milliseconds.
export type Exchange = { form: 1; owner: string; conversation: string; at: number; id: string; message: string; answer: Answer }

// Settings are those of a conversation.
export type Settings = { model?: string; system?: string; maxTokens?: number; search?: boolean }

// Conversation is one without its exchanges; size is in characters.
export type Conversation = { form: 1; owner: string; id: string; title: string; at: number; size: number; settings: Settings }

// What is kept at most; of more the oldest go.
export const mostConversations = 200
const mostExchanges = 500 // of a conversation
const mostCharacters = 4_000_000 // of a conversation
const mostInAll = 20_000_000 // characters

const saving = 500 // milliseconds between two writes of an answer that is being given

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === "string"
const isMaybe = (value: unknown, type: string): boolean => value === undefined || typeof value === type

// conversationIn returns a stored value if it is a conversation in the form that this version of the
// page knows.
function conversationIn(value: unknown): Conversation | undefined {
	if (!isObject(value) || value.form !== 1 || !isText(value.owner) || !isText(value.id) || !isText(value.title) || !Number.isFinite(value.at) || !Number.isFinite(value.size)) return undefined
	const s = value.settings
	const known = isObject(s) && isMaybe(s.model, "string") && isMaybe(s.system, "string") && isMaybe(s.maxTokens, "number") && isMaybe(s.search, "boolean")
	return known ? (value as Conversation) : undefined
}

// exchangeIn does the same for exchanges.
function exchangeIn(value: unknown): Exchange | undefined {
	if (!isObject(value) || value.form !== 1 || !isText(value.conversation) || !isText(value.id) || !isText(value.message) || !Number.isFinite(value.at)) return undefined
	const a = value.answer
	if (!isObject(a) || !isText(a.state) || !["running", "done", "stopped", "cut", "failed"].includes(a.state) || !isText(a.model) || !Array.isArray(a.parts) || !isMaybe(a.error, "string") || !isMaybe(a.request, "string")) return undefined
	if (a.usage !== undefined && !(isObject(a.usage) && Number.isFinite(a.usage.inputTokens) && Number.isFinite(a.usage.outputTokens))) return undefined
	const known = a.parts.every((p: unknown) => isObject(p) && (p.type === "text" ? isText(p.text) : p.type === "tool" && isObject(p.call) && isText(p.call.id) && isText(p.call.name) && isObject(p.call.args)))
	return known ? (value as Exchange) : undefined
}

const latest = (a: Conversation, b: Conversation): number => b.at - a.at || a.id.localeCompare(b.id)
const earliest = (a: Exchange, b: Exchange): number => a.at - b.at || a.id.localeCompare(b.id)
const sizeOf = (e: Exchange): number => e.message.length + JSON.stringify(e.answer.parts).length

// lockOf is the name of a lock that the tab holds to which an answer is given.
export const lockOf = (e: Exchange): string => `collab-chat ${e.id}`

// done returns the result of a request to the database.
function done<Value>(request: IDBRequest<Value>): Promise<Value> {
	return new Promise((resolve, reject) => {
		request.onsuccess = () => resolve(request.result)
		request.onerror = () => reject(request.error ?? new Error("The database failed"))
	})
}

// Conversations are those of a person in an organisation, the owner. changed is called when they
// are others than before; failure says why nothing can be kept.
export class Conversations {
	list: Conversation[] | undefined // the latest first; undefined until it is read
	failure: string | undefined
	private exchanges = new Map<string, Exchange[]>() // of conversations that were opened, in order
	private opened: Promise<IDBDatabase> | undefined
	private writes = new Map<string, ReturnType<typeof setTimeout>>() // of answers that are being given
	private tabs = new BroadcastChannel("collab-chats")
	private observers = new Set<() => void>()
	private frame = 0
	private running = new Set<string>() // ids of exchanges whose answers this tab is being given
	private written: Promise<unknown> = Promise.resolve() // after all changes of the database so far
	private changes = 0 // of the database by this tab
	closed = new AbortController() // aborted when what is kept is removed

	constructor(readonly owner: string, private person: string) {
		this.tabs.onmessage = ({ data }: MessageEvent<{ owner?: unknown; conversation?: unknown }>) => {
			if (isObject(data) && data.owner === owner && isText(data.conversation)) void this.refresh(data.conversation)
		}
		void this.refresh()
	}

	// observe has fn called after changes, once a frame at most.
	observe(fn: () => void): () => void {
		this.observers.add(fn)
		return () => this.observers.delete(fn)
	}

	changed(): void {
		if (this.frame !== 0) return
		this.frame = requestAnimationFrame(() => {
			this.frame = 0
			for (const observer of this.observers) observer()
		})
	}

	find(id: string): Conversation | undefined {
		return this.list?.find((c) => c.id === id)
	}

	// of returns the exchanges of a conversation, undefined until they are read.
	of(id: string): Exchange[] | undefined {
		return this.exchanges.get(id)
	}

	// open reads the exchanges of a conversation that are not known.
	open(id: string): void {
		if (!this.exchanges.has(id)) void this.refresh(id)
	}

	// matching returns the ids of the conversations whose titles or messages contain a text.
	async matching(text: string): Promise<Set<string>> {
		const wanted = text.toLowerCase()
		const has = (value: string): boolean => value.toLowerCase().includes(wanted)
		const all = [...this.exchanges.values()].flat()
		try {
			const store = (await this.database()).transaction("exchanges").objectStore("exchanges")
			const stored: unknown[] = await done(store.getAll(IDBKeyRange.bound([this.owner], [this.owner, []])))
			for (const value of stored) {
				const e = exchangeIn(value)
				if (e) all.push(e)
			}
		} catch (error) {
			this.fail(error)
		}
		const found = all.filter((e) => has(e.message) || e.answer.parts.some((p) => p.type === "text" && has(p.text)))
		return new Set([...(this.list ?? []).filter((c) => has(c.title)).map((c) => c.id), ...found.map((e) => e.conversation)])
	}

	// add stores an exchange, and its conversation if that is a new one.
	add(e: Exchange, begun?: Conversation): void {
		const c = begun ?? this.find(e.conversation)
		if (c) this.list = [{ ...c, at: Math.max(c.at, e.at) }, ...(this.list ?? []).filter((other) => other.id !== c.id)].sort(latest)
		this.show(e)
		void this.write(e, begun)
	}

	// update shows what has become of an exchange, and stores it: at once if its answer is over. It
	// returns false if the exchange or its conversation is not there any more.
	update(e: Exchange): boolean {
		if (!this.find(e.conversation) || !this.of(e.conversation)?.some((other) => other.id === e.id)) {
			this.running.delete(e.id)
			return false
		}
		this.show(e)
		if (e.answer.state !== "running") {
			clearTimeout(this.writes.get(e.id))
			this.writes.delete(e.id)
			void this.write(e)
		} else if (!this.writes.has(e.id)) {
			this.writes.set(e.id, setTimeout(() => {
				this.writes.delete(e.id)
				const now = this.exchanges.get(e.conversation)?.find((other) => other.id === e.id)
				if (now) void this.write(now)
			}, saving))
		}
		return true
	}

	// change changes the title or the settings of a conversation.
	async change(id: string, to: { title?: string; settings?: Settings }): Promise<void> {
		this.list = this.list?.map((c) => (c.id === id ? { ...c, ...to } : c))
		this.changed()
		await this.within(id, async (conversations) => {
			const c = conversationIn(await done(conversations.get([this.owner, id])))
			if (c) await done(conversations.put({ ...c, ...to }))
		})
	}

	// remove removes a conversation, and returns what brings it back, also before the removal is stored.
	async remove(id: string): Promise<() => void> {
		const c = this.find(id)
		const all = this.exchanges.get(id) ?? (await this.read(id).catch(() => []))
		this.list = this.list?.filter((other) => other.id !== id)
		this.exchanges.delete(id)
		this.changed()
		void this.within(id, (conversations, exchanges) => {
			conversations.delete([this.owner, id])
			exchanges.delete(this.range(id))
		})
		return () => {
			if (!c) return
			const ended = all.map((e) => (e.answer.state === "running" ? { ...e, answer: { ...e.answer, state: "stopped" as const } } : e))
			this.list = [c, ...(this.list ?? [])].sort(latest)
			this.exchanges.set(id, ended)
			this.changed()
			void this.within(id, (conversations, exchanges) => {
				conversations.put(c)
				for (const e of ended) exchanges.put(e)
			})
		}
	}

	// take removes an exchange, and returns what brings it back.
	take(e: Exchange): () => void {
		this.exchanges.set(e.conversation, (this.exchanges.get(e.conversation) ?? []).filter((other) => other.id !== e.id))
		this.changed()
		void this.within(e.conversation, (_, exchanges) => void exchanges.delete([this.owner, e.conversation, e.at, e.id]))
		return () => this.add(e)
	}

	private show(e: Exchange): void {
		e.answer.state === "running" ? this.running.add(e.id) : this.running.delete(e.id)
		const others = (this.exchanges.get(e.conversation) ?? []).filter((other) => other.id !== e.id)
		this.exchanges.set(e.conversation, [...others, e].sort(earliest))
		this.changed()
	}

	private range(id: string): IDBKeyRange {
		return IDBKeyRange.bound([this.owner, id], [this.owner, id, []])
	}

	// write stores an exchange if its conversation is there, and removes what is too much.
	private async write(e: Exchange, begun?: Conversation): Promise<void> {
		let removed = false
		await this.within(e.conversation, async (conversations, exchanges) => {
			const c = conversationIn(await done(conversations.get([this.owner, e.conversation]))) ?? begun
			if (!c) return // another tab has removed it
			const was = exchangeIn(await done(exchanges.get([this.owner, e.conversation, e.at, e.id])))
			const next = { ...c, at: Math.max(c.at, e.at), size: c.size + sizeOf(e) - (was ? sizeOf(was) : 0) }
			exchanges.put(e)
			conversations.put(next)
			if (e.answer.state === "running") return
			let left = await done(exchanges.count(this.range(c.id)))
			if (left > mostExchanges || next.size > mostCharacters) {
				removed = true
				const all: Exchange[] = await done(exchanges.getAll(this.range(c.id)))
				for (const old of all) {
					if (left <= 1 || left <= mostExchanges && next.size <= mostCharacters) break
					exchanges.delete([this.owner, c.id, old.at, old.id])
					left--
					next.size -= exchangeIn(old) ? sizeOf(old) : 0
				}
				conversations.put(next)
			}
			let size = 0
			;(await this.stored(conversations)).sort(latest).forEach((one, i) => {
				size += one.size
				if (one.id === c.id || i < mostConversations && size <= mostInAll) return
				removed = true
				conversations.delete([this.owner, one.id])
				exchanges.delete(this.range(one.id))
			})
		})
		if (removed) void this.refresh(e.conversation)
	}

	// stored returns the conversations of the database, and removes records that are damaged or of
	// another form.
	private async stored(conversations: IDBObjectStore): Promise<Conversation[]> {
		const own = IDBKeyRange.bound([this.owner], [this.owner, []])
		const [values, keys] = await Promise.all([done(conversations.getAll(own)), done(conversations.getAllKeys(own))])
		return values.flatMap((value, i) => {
			const c = conversationIn(value)
			if (!c && conversations.transaction.mode === "readwrite") conversations.delete(keys[i] as IDBValidKey)
			return c ?? []
		})
	}

	// refresh reads the list again, and the exchanges of a conversation that is shown. What this tab
	// changes meanwhile has it read once more.
	private async refresh(id?: string): Promise<void> {
		try {
			for (let changes = -1; changes !== this.changes; ) {
				await this.written
				changes = this.changes
				const list = await this.stored((await this.database()).transaction("conversations").objectStore("conversations"))
				const all = id === undefined ? [] : await this.read(id)
				if (changes !== this.changes) continue
				this.list = list.sort(latest)
				if (id === undefined) break
				const own = (this.exchanges.get(id) ?? []).filter((e) => this.running.has(e.id))
				this.exchanges.set(id, [...all.filter((e) => !this.running.has(e.id)), ...own].sort(earliest))
			}
		} catch (error) {
			this.fail(error)
			this.list ??= []
			if (id !== undefined && !this.exchanges.has(id)) this.exchanges.set(id, [])
		}
		this.changed()
	}

	// read returns the exchanges of a conversation. Answers that no tab is being given are cut off.
	private async read(id: string): Promise<Exchange[]> {
		const store = (await this.database()).transaction("exchanges").objectStore("exchanges")
		const values: unknown[] = await done(store.getAll(this.range(id)))
		const held = new Set((await navigator.locks.query()).held?.map((lock) => lock.name))
		return values.flatMap((value) => {
			const e = exchangeIn(value)
			return !e ? [] : e.answer.state === "running" && !held.has(lockOf(e)) ? { ...e, answer: { ...e.answer, state: "cut" as const } } : e
		})
	}

	// within has fn change the database as a whole, or not at all, and tells the other tabs.
	private within(id: string, fn: (conversations: IDBObjectStore, exchanges: IDBObjectStore) => void | Promise<void>): Promise<void> {
		this.changes++
		const change = async (): Promise<void> => {
			const transaction = (await this.database()).transaction(["conversations", "exchanges"], "readwrite")
			const committed = new Promise<void>((resolve, reject) => {
				transaction.oncomplete = () => resolve()
				transaction.onabort = () => reject(transaction.error ?? new Error("The database failed"))
			})
			try {
				await fn(transaction.objectStore("conversations"), transaction.objectStore("exchanges"))
			} catch (error) {
				transaction.abort()
				await committed.catch(() => undefined)
				throw error
			}
			await committed
			this.tabs.postMessage({ owner: this.owner, conversation: id })
		}
		const changed = change().catch((error: unknown) => this.fail(error))
		this.written = Promise.all([this.written, changed])
		return changed
	}

	private fail(error: unknown): void {
		this.failure = error instanceof Error ? error.message : String(error)
		this.changed()
	}

	// database returns the database, made anew if it has another form.
	private database(): Promise<IDBDatabase> {
		if (this.closed.signal.aborted) return Promise.reject(new Error("What was kept has been removed, or another tab has a newer version of the console"))
		return (this.opened ??= new Promise((resolve, reject) => {
			const opening = indexedDB.open(database, 1)
			opening.onupgradeneeded = () => {
				opening.result.createObjectStore("conversations", { keyPath: ["owner", "id"] })
				opening.result.createObjectStore("exchanges", { keyPath: ["owner", "conversation", "at", "id"] })
			}
			opening.onerror = () => reject(opening.error ?? new Error("The database cannot be opened"))
			opening.onsuccess = () => {
				keepFor(this.person)
				opening.result.onversionchange = () => {
					this.closed.abort()
					opening.result.close()
				}
				resolve(opening.result)
			}
		}))
	}
}

let current: Conversations | undefined

// conversationsOf returns the conversations of a person in an organisation.
export function conversationsOf(person: string, organisation: string): Conversations {
	const owner = `${person} ${organisation}`
	if (current?.owner !== owner) current = new Conversations(owner, person)
	return current
}
