// The records of files by their places, kept in step with the server by its feed.
import { useEffect, useMemo, useReducer } from "preact/hooks"
import { useFeed, type Feed } from "./feed"
import { all, Failure, failureOf, page } from "./interface"
import type { Me, Scope, StorageKind, StoredObject, Team, Workspace } from "./types"

// Place is where files are: key is the beginning of their storage keys after the organisation's id,
// and fields are what an upload into it says. Those of memories are listed as one group.
export type Place = { key: string; name: string; memory?: true; fields: { kind: StorageKind; scope: Scope; workspaceId?: string; teamId?: string } }

// placesOf returns the places that a person sees.
export function placesOf(me: Me, workspaces: Workspace[], teams: Team[]): Place[] {
	return [
		{ key: `personal/${me.user.id}/`, name: "Your own files", fields: { kind: "ARTIFACT", scope: "PERSONAL" } },
		{ key: "shared/artifacts/", name: "Shared files", fields: { kind: "ARTIFACT", scope: "SHARED" } },
		...workspaces.map((w): Place => ({ key: `workspaces/${w.id}/artifacts/`, name: w.name, fields: { kind: "ARTIFACT", scope: "SHARED", workspaceId: w.id } })),
		{ key: "shared/templates/", name: "Templates", fields: { kind: "TEMPLATE", scope: "SHARED" } },
		{ key: "shared/brand/", name: "Brand", fields: { kind: "BRAND_ASSET", scope: "SHARED" } },
		{ key: "shared/hub-memory/", name: "Memory of the organisation", memory: true, fields: { kind: "HUB_MEMORY", scope: "SHARED" } },
		...workspaces.map((w): Place => ({ key: `workspaces/${w.id}/memory/`, name: `Memory of ${w.name}`, memory: true, fields: { kind: "WORKSPACE_MEMORY", scope: "SHARED", workspaceId: w.id } })),
		...teams.map((t): Place => ({ key: `teams/${t.id}/memory/`, name: `Memory of the team ${t.name}`, memory: true, fields: { kind: "TEAM_MEMORY", scope: "SHARED", teamId: t.id } })),
	]
}

// placeKeyOf returns the key of a record's place.
const placeKeyOf = (o: StoredObject): string => o.storageKey.slice(o.storageKey.indexOf("/") + 1, o.storageKey.length - o.path.length)

// fileName returns the last element of a path, and folderOf all before it, empty if there is none.
export const fileName = (path: string): string => path.slice(path.lastIndexOf("/") + 1)
export const folderOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf("/")))

// fileAddressOf returns the address of a file's page.
export function fileAddressOf(o: StoredObject): string {
	const folder = folderOf(o.path)
	return "/console/files?" + new URLSearchParams({ place: placeKeyOf(o).slice(0, -1), ...(folder && { folder }), file: o.id })
}

// memoryAddressOf returns the address of the page that edits a memory, undefined for other files.
export function memoryAddressOf(o: StoredObject): string | undefined {
	const name = o.kind === "HUB_MEMORY" && o.scope === "SHARED" && o.path === "org-memory.md" ? "org"
		: o.kind === "HUB_MEMORY" && o.scope === "PERSONAL" && o.path === "user-memory.md" ? "user"
			: o.kind === "WORKSPACE_MEMORY" && o.scope === "SHARED" && !o.path.includes("/") ? `${o.workspaceId}/${o.path}` : undefined
	return name && `/console/memories?${new URLSearchParams({ memory: name })}`
}

const most = 20 // pages of 1,000 records of a place

// Shelf is what is known of a place: complete is unset if it has more files than are listed. It is
// another one after each change.
export type Shelf = { files: Map<string, StoredObject>; complete: boolean; failure?: Failure }

// Records are the records of the places that were opened.
export class Records {
	private shelves = new Map<string, Shelf>()
	private loading = new Set<string>()
	private cursor: Promise<string> | undefined
	private reading = false // or in the pause after it
	private again = false // whether the manifest is to be read once more
	private last: Promise<void> = Promise.resolve() // the read of the manifest that was asked for last
	private pause = 1 // seconds after the next failure
	over = false // whether nobody follows the records any more

	constructor(private org: string, private changed: () => void) {}

	// of returns what is known of a place, undefined if that is nothing yet.
	of(place: string): Shelf | undefined {
		return this.shelves.get(place)
	}

	// open loads the records of a place that are not known.
	open(place: string): void {
		if (!this.loading.has(place) && !this.shelves.has(place)) void this.load(place)
	}

	// load loads the records of a place, and then what has changed while they were read.
	async load(place: string): Promise<void> {
		this.loading.add(place)
		try {
			const at: Promise<string> = (this.cursor ??= position().catch((error: unknown) => {
				if (this.cursor === at) this.cursor = undefined
				throw error
			}))
			await at
			const files = new Map<string, StoredObject>()
			let kept = 0
			const keep = (read: StoredObject[], complete: boolean): void => {
				for (; kept < read.length; kept++) files.set(read[kept]!.id, read[kept]!)
				this.shelves.set(place, { files, complete })
			}
			const read = await all("GET /api/v1/sync/files", { prefix: `${this.org}/${place}` }, (some, pages) => {
				keep(some, false)
				this.changed()
				return pages >= most
			})
			keep(read, read.next === undefined)
			await this.inTurn(() => this.read(at, place))
		} catch (error) {
			this.shelves.set(place, { files: this.shelves.get(place)?.files ?? new Map(), complete: false, failure: failureOf(error) })
		}
		this.loading.delete(place)
		this.changed()
	}

	// put stores a record, as it is after a change of this page.
	put(o: StoredObject): void {
		const place = placeKeyOf(o)
		for (const [key, shelf] of this.shelves) {
			const known = shelf.files.get(o.id)
			if (known && known.version > o.version) return
			if (!known && (o.deleted || key !== place)) continue
			if (o.deleted || key !== place) shelf.files.delete(o.id)
			else shelf.files.set(o.id, o)
			this.shelves.set(key, { ...shelf })
		}
		this.changed()
	}

	// inTurn reads after all reads that were asked for before, so that nothing older is stored over something newer.
	private inTurn(read: () => Promise<void>): Promise<void> {
		const turn = this.last.then(read)
		this.last = turn.catch(() => undefined)
		return turn
	}

	// read stores what has changed since a cursor, for all or for a place that is being loaded. If the server has forgotten
	// the cursor the place is loaded again, and all that are not being loaded if the cursor was that of all.
	private async read(at: Promise<string>, place?: string): Promise<void> {
		const since = await at
		try {
			const { value, headers } = await page("GET /api/v1/sync/manifest", { query: { since } })
			for (const o of value) this.put(o)
			if (this.cursor === at) this.cursor = Promise.resolve(headers.get("X-Sync-Cursor") ?? since)
		} catch (error) {
			if (failureOf(error).status !== 410) throw error
			const others = this.cursor === at ? [...this.shelves.keys()].filter((key) => !this.loading.has(key)) : []
			if (this.cursor === at) this.cursor = undefined
			for (const key of place === undefined ? others : [place, ...others]) void this.load(key)
		}
	}

	// update reads what has changed since it was called last, once a second at most, and again after a failure that may pass:
	// after a second first, and after twice the time each time, up to a minute.
	async update(): Promise<void> {
		if (this.reading || !this.cursor) {
			this.again = true
			return
		}
		this.reading = true
		this.again = false
		let wait = 1
		try {
			await this.inTurn(async () => this.cursor && this.read(this.cursor))
			this.pause = 1
		} catch (error) {
			const { status, wait: asked } = failureOf(error)
			this.again ||= error instanceof Failure && (status === 0 || status >= 429)
			wait = Math.max(this.pause, asked)
			this.pause = Math.min(60, 2 * this.pause)
		}
		setTimeout(() => {
			this.reading = false
			if (this.again && !this.over) void this.update()
		}, 1000 * wait)
	}
}

// position returns the cursor of the manifest as it is now.
async function position(): Promise<string> {
	const { headers } = await page("GET /api/v1/sync/manifest", { query: { limit: 1 } })
	return headers.get("X-Sync-Cursor") ?? ""
}

// useRecords returns the records, which follow the feed, and the state of the feed.
export function useRecords(org: string): [Records, Feed] {
	const [, changed] = useReducer((n: number) => n + 1, 0)
	const records = useMemo(() => {
		let frame = 0 // in which what has changed is shown: many files may change in each
		return new Records(org, () => {
			cancelAnimationFrame(frame)
			frame = requestAnimationFrame(() => changed(undefined))
		})
	}, [org])
	useEffect(() => () => void (records.over = true), [records])
	const feed = useFeed(() => void records.update())
	return [records, feed]
}

// useOpen opens a place.
export function useOpen(records: Records, place: string | undefined): void {
	useEffect(() => {
		if (place !== undefined) records.open(place)
	}, [records, place])
}
