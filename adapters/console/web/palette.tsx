// The command palette: pages, actions, organisations and tasks by their names.
import type { JSX } from "preact"
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { Dialog } from "./dialog"
import { call } from "./interface"
import { Problem, useLoaded } from "./loading"
import type { PageOf } from "./pages"
import { go } from "./router"
import { count } from "./text"
import type { Me } from "./types"

// Tasks are found among the newest, as the interface has no search by title.
const newest = 100
const mostTasks = 6

type Entry = { key: string; name: string; soft?: string; act: () => void }

type PaletteOf = { me: Me; pages: PageOf[]; onClose: () => void; leave: () => void; change: (organisation: string) => void }

// Palette is a combobox of what the person may open or do.
export function Palette({ me, pages, onClose, leave, change }: PaletteOf): JSX.Element {
	const [text, setText] = useState("")
	const [at, setAt] = useState(0)
	const input = useRef<HTMLInputElement>(null)
	const typed = text.trim() !== ""
	const organisations = useLoaded(async () => (me.org ? call("GET /api/v1/auth/organisations") : []), [])
	const tasks = useLoaded(async () => (typed && me.org ? call("GET /api/v1/tasks", { query: { sort: "newest", limit: newest } }) : []), [typed])
	useLayoutEffect(() => input.current?.focus(), [])

	const words = text.toLowerCase().split(/\s+/)
	const named = (e: Entry): boolean => words.every((word) => `${e.name} ${e.soft ?? ""}`.toLowerCase().includes(word))
	const opens = (address: string) => () => go(address)
	const groups: [string, Entry[]][] = ([
		["Pages", [...pages.map((p) => ({ key: p.path, name: p.name, act: opens(p.path) })), { key: "sessions", name: "Sessions", act: opens("/console/sessions") }]],
		["Actions", [
			...(me.org && me.role !== "VIEWER" ? [{ key: "chat", name: "New chat", act: opens("/console/chat") }] : []),
			...(me.org && me.role !== "VIEWER" ? [{ key: "team", name: "New team", act: opens("/console/teams?new=team") }, { key: "workspace", name: "New workspace", act: opens("/console/teams?new=workspace") }] : []),
			...(me.role === "OWNER" || me.role === "ADMIN" ? [{ key: "invite", name: "Invite a member", act: opens("/console/people?invite=1") }] : []),
			...(pages.some((p) => p.path === "/console/releases") ? [{ key: "publish", name: "Publish a release", act: opens("/console/releases?publish=new") }] : []),
			{ key: "docs", name: "Documents", act: () => location.assign("/docs") },
			{ key: "leave", name: "Sign out", act: leave },
		]],
		["Organisations", (organisations.value ?? []).filter((o) => !o.current).map((o) => ({ key: o.id, name: o.name ?? "An organisation", soft: "switch", act: () => change(o.id) }))],
		["Tasks", typed ? (tasks.value ?? []).map((t) => ({ key: t.id, name: t.title, act: opens(`/console/tasks?${new URLSearchParams({ task: t.id })}`) })) : []],
	] satisfies [string, Entry[]][]).map(([name, entries]): [string, Entry[]] => [name, entries.filter(named).slice(0, name === "Tasks" ? mostTasks : undefined)])
	const entries = groups.flatMap(([, of]) => of)
	const active = entries[Math.min(at, entries.length - 1)]
	const idOf = (e: Entry): string => `command-${e.key}`
	useEffect(() => {
		if (active) document.getElementById(idOf(active))?.scrollIntoView({ block: "nearest" })
	}, [active?.key])

	const run = (e: Entry): void => {
		onClose()
		e.act()
	}
	const step = (by: number): void => setAt((Math.min(at, entries.length - 1) + by + entries.length) % Math.max(1, entries.length))
	const onKey = (e: KeyboardEvent): void => {
		if (e.isComposing || !active) return
		if (e.key === "ArrowDown") step(1)
		else if (e.key === "ArrowUp") step(-1)
		else if (e.key === "Enter") run(active)
		else return
		e.preventDefault()
	}
	const loading = typed && tasks.value === undefined && !tasks.failure
	return (
		<Dialog title="Go to" onClose={onClose}>
			<input ref={input} class="full" role="combobox" aria-label="Page, action, organisation or task" placeholder="Page, action, organisation or task" autoComplete="off" spellcheck={false} aria-autocomplete="list"
				aria-expanded={active !== undefined} aria-controls={active && "commands"} aria-activedescendant={active && idOf(active)} value={text} onInput={(e) => (setText(e.currentTarget.value), setAt(0))} onKeyDown={onKey} />
			{active && (
				<div id="commands" class="commands" role="listbox" aria-label="Results">
					{groups.map(([name, of]) => of.length > 0 && (
						<div key={name} role="group" aria-labelledby={`commands-${name}`}>
							<p id={`commands-${name}`} role="presentation">{name}</p>
							{of.map((e) => (
								<div key={e.key} id={idOf(e)} role="option" aria-selected={e === active} onPointerMove={() => setAt(entries.indexOf(e))} onClick={() => run(e)}>
									<span>{e.name}</span>{e.soft && <span class="soft">{e.soft}</span>}
								</div>
							))}
						</div>
					))}
				</div>
			)}
			{organisations.failure && <Problem failure={organisations.failure} what="Loading your organisations" retry={organisations.retry} />}
			{typed && tasks.failure && <Problem failure={tasks.failure} what="Loading tasks" retry={tasks.retry} />}
			<p class="soft" role="status">{!active && !loading && "Nothing has this name. "}{me.org && `Tasks are found among the newest ${count(newest)}.`}</p>
		</Dialog>
	)
}
