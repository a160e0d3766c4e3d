// A button that opens a menu, or a field that finds what many choices have.
import type { ComponentChildren, JSX } from "preact"
import { useLayoutEffect, useRef, useState } from "preact/hooks"
import { Combobox, listed, noneOf, useSearch, type Search } from "./combobox"
import { Problem } from "./loading"

// Choice is an entry of a menu; current marks the one that holds now, of choices of one value. soft is what else finds it.
export type Choice = { text: string; current?: boolean; soft?: string | undefined; act: () => void }

type MenuOf = { label: string; choices: () => Choice[]; children: ComponentChildren; class?: string; tabIndex?: number; shortcut?: string; find?: string; search?: Search }

// Menu is a button with a menu, whose choices are made when it opens. The label names button and
// menu; shortcut, if any, is a key for data-key, by which a page finds the button. Where choices may be many, find says
// by what they are found, in a combobox instead of the menu, and search finds those that are not there yet.
export function Menu({ label, choices, children, class: look = "small", tabIndex, shortcut, find, search }: MenuOf): JSX.Element {
	const button = useRef<HTMLButtonElement>(null)
	const [open, set] = useState(false)
	const closed = useRef(-Infinity) // when the menu was last closed
	const toggle = (): void => set((was) => !was && performance.now() - closed.current > 200) // a click on the button has closed it otherwise
	return (
		<>
			<button ref={button} type="button" class={look} aria-haspopup={find ? "dialog" : "menu"} aria-expanded={open} aria-label={label} title={label} tabIndex={tabIndex} data-key={shortcut} onClick={toggle}>{children}</button>
			{open && button.current && <Choices label={label} at={button.current} choices={choices} find={find} search={search} onClose={() => ((closed.current = performance.now()), set(false))} />}
		</>
	)
}

function Choices({ label, at, choices: made, find, search, onClose }: { label: string; at: HTMLElement; choices: () => Choice[]; find: string | undefined; search: Search; onClose: () => void }): JSX.Element {
	const [first] = useState(() => (find ? undefined : made()))
	const choices = first ?? made() // what is found may be loaded after the menu has opened
	const [text, setText] = useState("")
	const searched = useSearch(text, search)
	const place = useRef<HTMLDivElement>(null)
	const typed = useRef({ text: "", at: 0 })
	useLayoutEffect(() => {
		const menu = place.current
		if (!menu) return
		menu.showPopover()
		const button = at.getBoundingClientRect(), size = menu.getBoundingClientRect()
		const below = button.bottom + 4
		menu.style.left = `${Math.max(8, Math.min(button.left, innerWidth - size.width - 8))}px`
		if (below + size.height <= innerHeight - 8) menu.style.top = `${below}px`
		else menu.style.bottom = `${Math.max(8, Math.min(innerHeight - button.top + 4, innerHeight - size.height - 8))}px`
		;(menu.querySelector<HTMLElement>("[aria-checked=true]") ?? menu.querySelector<HTMLElement>("button, input"))?.focus()
	}, [])
	const move = (e: KeyboardEvent): void => {
		const items = [...(place.current?.querySelectorAll("button") ?? [])]
		const here = items.indexOf(document.activeElement as HTMLButtonElement)
		let to: number | undefined
		if (e.key === "ArrowDown") to = (here + 1) % items.length
		else if (e.key === "ArrowUp") to = (here - 1 + items.length) % items.length
		else if (e.key === "Home") to = 0
		else if (e.key === "End") to = items.length - 1
		else if (e.key === "Tab") place.current?.hidePopover()
		else if (e.key.length === 1 && e.key !== " " && !e.ctrlKey && !e.metaKey && !e.altKey) {
			typed.current = { text: (e.timeStamp - typed.current.at < 700 ? typed.current.text : "") + e.key.toLowerCase(), at: e.timeStamp }
			const found = choices.findIndex((c) => c.text.toLowerCase().startsWith(typed.current.text))
			if (found >= 0) to = found
		} else return
		if (e.key !== "Tab") e.preventDefault()
		e.stopPropagation()
		if (to !== undefined) items[to]?.focus()
	}
	const act = (c: Choice): void => {
		place.current?.hidePopover()
		c.act()
	}
	const onToggle = (e: { newState: string }): void => {
		if (e.newState === "closed") onClose()
	}
	if (find) {
		const entries = choices.map((c, i) => ({ ...c, key: String(i), name: c.text }))
		return (
			<div ref={place} popover="auto" role="dialog" aria-label={label} class="menu choices" onKeyDown={(e) => e.key === "Tab" && place.current?.hidePopover()} onToggle={onToggle}>
				<Combobox id="choice" label={label} placeholder={find} text={text} onText={setText} groups={[listed(entries, text, entries.find((e) => e.current)?.key, !search)]} choose={act} none={noneOf(searched, "Nothing has this name.")} />
				{searched.failure && <Problem failure={searched.failure} what="The search" retry={searched.retry} />}
			</div>
		)
	}
	return (
		<div ref={place} popover="auto" role="menu" aria-label={label} class="menu choices" onKeyDown={move} onToggle={onToggle}>
			{choices.map((c) => (
				<button key={c.text} type="button" tabIndex={-1} role={c.current === undefined ? "menuitem" : "menuitemradio"} aria-checked={c.current} onClick={() => act(c)}>{c.text}</button>
			))}
		</div>
	)
}
