// The command palette: pages, actions, organisations, and what the organisation has, by their names.
import type { JSX } from "preact"
import { useState } from "preact/hooks"
import { Combobox, named, useSearch, type Entry } from "./combobox"
import { Dialog } from "./dialog"
import { all, call } from "./interface"
import { Problem, useLoaded, type Loaded } from "./loading"
import { entryOf } from "./members"
import type { PageOf } from "./pages"
import { fileAddressOf, fileName, folderOf, memoryAddressOf } from "./records"
import { go } from "./router"
import { nameOf } from "./text"
import type { Me, StoredObject } from "./types"

const most = 6 // of each kind that are shown
const atOnce = 30 // files that are asked for, of which memories are a kind

type Command = Entry & { act: () => void }

type PaletteOf = { me: Me; pages: PageOf[]; onClose: () => void; leave: () => void; change: (organisation: string) => void }

// Palette is a combobox of what the person may open or do.
export function Palette({ me, pages, onClose, leave, change }: PaletteOf): JSX.Element {
	const [text, setText] = useState("")
	const wanted = me.org ? text.trim() : ""
	const typed = wanted !== ""
	const organisations = useLoaded(async () => (me.org ? call("GET /api/v1/auth/organisations") : []), [])
	const tasks = useSearch(wanted, (search, signal) => call("GET /api/v1/tasks", { query: { search, sort: "newest", limit: most }, signal }))
	const workspaces = useLoaded(async () => (typed ? all("GET /api/v1/workspaces", {}) : []), [typed])
	const people = useSearch(wanted, (search, signal) => call("GET /api/v1/org/members", { query: { search, limit: most }, signal }))
	const files = useSearch(wanted, (search, signal) => call("GET /api/v1/sync/files", { query: { search, limit: atOnce }, signal }))
	const fits = named(text)
	const opens = (address: string) => () => go(address)
	const fileEntry = (o: StoredObject): Command => {
		const place = [workspaces.value?.find((w) => w.id === o.workspaceId)?.name, folderOf(o.path)].filter(Boolean).join(" / ")
		return { key: o.id, name: fileName(o.path), soft: place || undefined, act: opens(memoryAddressOf(o) ?? fileAddressOf(o)) }
	}
	// What was found by another text is what has this one in its name until it is searched.
	const found = (of: Loaded<{ text: string }>, entries: Command[] | undefined): Command[] => (typed ? entries ?? [] : []).filter((e) => of.value?.text === wanted || fits(e)).slice(0, most)
	const stored = (memories: boolean): Command[] => found(files, files.value?.found?.filter((o) => (memoryAddressOf(o) !== undefined) === memories).map(fileEntry))
	const some = (entries: Command[] | undefined): Command[] => (typed ? (entries ?? []).filter(fits).slice(0, most) : [])
	const groups: [string, Command[]][] = ([
		["Pages", [...pages.map((p) => ({ key: p.path, name: p.name, act: opens(p.path) })), { key: "sessions", name: "Sessions", act: opens("/console/sessions") }]],
		["Actions", [
			...(me.org && me.role !== "VIEWER" ? [{ key: "chat", name: "New chat", act: opens("/console/chat") }, { key: "team", name: "New team", act: opens("/console/teams?new=team") }, { key: "workspace", name: "New workspace", act: opens("/console/teams?new=workspace") }] : []),
			...(me.role === "OWNER" || me.role === "ADMIN" ? [{ key: "invite", name: "Invite a member", act: opens("/console/people?invite=1") }] : []),
			...(pages.some((p) => p.path === "/console/releases") ? [{ key: "publish", name: "Publish a release", act: opens("/console/releases?publish=new") }] : []),
			{ key: "docs", name: "Documents", act: () => location.assign("/docs") },
			{ key: "leave", name: "Sign out", act: leave },
		]],
		["Organisations", (organisations.value ?? []).filter((o) => !o.current).map((o) => ({ key: o.id, name: o.name ?? "An organisation", soft: "switch", act: () => change(o.id) }))],
	] satisfies [string, Command[]][]).map(([name, entries]): [string, Command[]] => [name, entries.filter(fits)])
	groups.push(
		["Tasks", found(tasks, tasks.value?.found?.map((t) => ({ key: t.id, name: t.title, act: opens(`/console/tasks?${new URLSearchParams({ task: t.id })}`) })))],
		["Files", stored(false)],
		["Memories", stored(true)],
		["Workspaces", some(workspaces.value?.map((w) => ({ key: w.id, name: w.name, act: opens(`/console/teams?${new URLSearchParams({ workspace: w.id })}`) })))],
		["People", found(people, people.value?.found?.map((m) => ({ ...entryOf(m), act: opens(`/console/people?${new URLSearchParams({ q: m.email ?? nameOf(m) })}`) })))],
	)
	const run = (e: Command): void => {
		onClose()
		e.act()
	}
	const sources: [string, Loaded<unknown>][] = [["tasks", tasks], ["files", files], ["workspaces", workspaces], ["members", people]]
	const loading = typed && ([tasks, files, people].some((of) => !of.settled && !of.failure) || sources.some(([, of]) => of.value === undefined && !of.failure))
	return (
		<Dialog title="Go to" onClose={onClose}>
			<Combobox id="command" label="Page, action, or name" placeholder="Page, action, or name of a task, file, workspace or person" text={text} onText={setText} groups={groups} choose={run} />
			{organisations.failure && <Problem failure={organisations.failure} what="Loading your organisations" retry={organisations.retry} />}
			{typed && sources.map(([name, of]) => of.failure && <Problem key={name} failure={of.failure} what={`Loading ${name}`} retry={of.retry} />)}
			<p class="soft" role="status">{!loading && groups.every(([, of]) => of.length === 0) && "Nothing has this name. "}{me.org && `At most ${most} of each kind are shown.`}</p>
		</Dialog>
	)
}
