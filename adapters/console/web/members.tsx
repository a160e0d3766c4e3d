// The members of the organisation by their ids: the beginning of their list, and those that a page has asked for since.
import type { JSX } from "preact"
import { useEffect, useMemo, useReducer } from "preact/hooks"
import type { Entry } from "./combobox"
import { all, call, failureOf, type Failure } from "./interface"
import { Problem } from "./loading"
import { nameOf } from "./text"
import type { Member } from "./types"

// first is how many members are loaded at first: all of most organisations.
export const first = 500

const atOnce = 100 // ids that one request asks for
const mostFound = 51 // members that a search loads, one more than are listed

const isId = (id: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)

// entryOf returns a member as what may be chosen.
export const entryOf = (m: Member): Entry => ({ key: m.userId, name: nameOf(m), soft: (m.name && m.email) ?? undefined })

// Members are those whose names are known. Names that are asked for while a page is rendered are loaded together.
export class Members {
	loaded = false // the beginning of the list is there
	complete = false // the list has no more
	failure: Failure | undefined
	entries: Entry[] = []
	private known = new Map<string, Member>()
	private former = new Set<string>() // ids of which the server knows no member
	private wanted = new Set<string>()
	private asked = new Set<string>() // of the request that is under way or has failed
	private waiting = false

	constructor(private changed: () => void) {}

	// load loads the beginning of the list, or what could not be loaded.
	load = async (): Promise<void> => {
		this.failure = undefined
		if (this.loaded) {
			for (const id of this.asked) this.wanted.add(id)
			this.asked.clear()
			this.ask()
			return this.changed()
		}
		try {
			const members = await all("GET /api/v1/org/members", { limit: first }, 1)
			this.loaded = true
			this.complete = members.next === undefined
			this.put(members)
			this.ask()
		} catch (error) {
			this.failure = failureOf(error)
		}
		this.changed()
	}

	// nameOf returns a member's name. Only one whom the server does not know is a former member.
	nameOf(id: string, article = "A"): string {
		const m = this.known.get(id)
		if (m) return nameOf(m)
		if (this.former.has(id) || !isId(id)) return `${article} former member`
		if (!this.asked.has(id)) this.wanted.add(id)
		this.ask()
		return `${article} member`
	}

	// search adds the members whom a text finds to those that are known.
	search = async (text: string, signal: AbortSignal): Promise<void> => {
		this.put(await call("GET /api/v1/org/members", { query: { search: text, limit: mostFound }, signal }))
		this.changed()
	}

	private put(members: Member[]): void {
		for (const m of members) {
			this.known.set(m.userId, m)
			this.former.delete(m.userId)
			this.wanted.delete(m.userId)
		}
		this.entries = [...this.known.values()].map(entryOf)
	}

	// ask asks for the names that are wanted, once the page is rendered and the request before it has ended.
	private ask(): void {
		if (!this.loaded || this.waiting || this.wanted.size === 0 || this.failure) return
		this.waiting = true
		setTimeout(async () => {
			const ids = [...this.wanted].slice(0, atOnce)
			for (const id of ids) {
				this.wanted.delete(id)
				this.asked.add(id)
			}
			try {
				this.put(await membersOf(ids))
				this.asked.clear()
				for (const id of ids) if (!this.known.has(id)) this.former.add(id)
			} catch (error) {
				this.failure = failureOf(error)
			}
			this.waiting = false
			this.ask()
			this.changed()
		})
	}
}

const membersOf = (ids: string[]): Promise<Member[]> => call("GET /api/v1/org/members", { query: { ids: ids.join(","), limit: atOnce } })

// namesOf returns the names of those who are members, by their ids.
export async function namesOf(ids: string[]): Promise<Map<string, string>> {
	const names = new Map<string, string>()
	for (let i = 0; i < ids.length; i += atOnce) for (const m of await membersOf(ids.slice(i, i + atOnce))) names.set(m.userId, nameOf(m))
	return names
}

// useMembers returns the members of the organisation, which are loaded for the page.
export function useMembers(): Members {
	const [, changed] = useReducer((n: number) => n + 1, 0)
	const members = useMemo(() => new Members(() => changed(undefined)), [])
	useEffect(() => void members.load(), [])
	return members
}

// Unnamed says that names could not be loaded.
export function Unnamed({ members }: { members: Members }): JSX.Element | null {
	return members.failure ? <Problem failure={members.failure} what="Loading the names of members" retry={() => void members.load()} /> : null
}
