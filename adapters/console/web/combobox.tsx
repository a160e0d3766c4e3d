// A combobox: a field, and the list of what its text finds.
import type { JSX } from "preact"
import { useEffect, useState } from "preact/hooks"

// Entry is what may be chosen, by its name and by what else is known of it.
export type Entry = { key: string; name: string; soft?: string | undefined }

// named returns a function that reports whether an entry has all words of a text.
export function named(text: string): (e: Entry) => boolean {
	const words = text.toLowerCase().split(/\s+/)
	return (e) => words.every((word) => `${e.name} ${e.soft ?? ""}`.toLowerCase().includes(word))
}

type ComboboxOf<E extends Entry> = {
	id: string; label: string; placeholder: string; text: string; onText: (text: string) => void
	groups: [string, E[]][] // by their names; an empty one is not shown
	choose: (e: E) => void
	over?: boolean // the list is above what follows, while the field has the focus, and not a part of the page
}

// Combobox has the focus when its dialog opens, unless its list is above the page.
export function Combobox<E extends Entry>({ id, label, placeholder, text, onText, groups, choose, over }: ComboboxOf<E>): JSX.Element {
	const [at, setAt] = useState(0)
	const [open, setOpen] = useState(!over)
	const entries = open ? groups.flatMap(([, of]) => of) : []
	const active = entries[Math.min(at, entries.length - 1)]
	const idOf = (e: E): string => `${id}-${e.key}`
	useEffect(() => {
		if (active) document.getElementById(idOf(active))?.scrollIntoView({ block: "nearest" })
	}, [active?.key])

	const take = (e: E): void => {
		if (over) setOpen(false)
		choose(e)
	}
	const step = (by: number): void => (open ? setAt((Math.min(at, entries.length - 1) + by + entries.length) % Math.max(1, entries.length)) : setOpen(true))
	const onKey = (e: KeyboardEvent): void => {
		if (e.isComposing) return
		if (e.key === "ArrowDown") step(1)
		else if (e.key === "ArrowUp") step(-1)
		else if (e.key === "Enter" && active) take(active)
		else if (e.key === "Escape" && over && active) setOpen(false)
		else return
		e.preventDefault()
	}
	const option = (e: E): JSX.Element => (
		<div key={e.key} id={idOf(e)} role="option" aria-selected={e === active} onPointerMove={() => setAt(entries.indexOf(e))} onClick={() => take(e)}>
			<span>{e.name}</span>{e.soft && <span class="soft">{e.soft}</span>}
		</div>
	)
	return (
		<div class="combobox">
			<input
				class="full" role="combobox" autofocus={!over} maxLength={200} aria-label={label} placeholder={placeholder} autoComplete="off" spellcheck={false} aria-autocomplete="list"
				aria-expanded={active !== undefined} aria-controls={active && `${id}-list`} aria-activedescendant={active && idOf(active)} value={text}
				onInput={(e) => (onText(e.currentTarget.value), setAt(0), setOpen(true))} onKeyDown={onKey} onFocus={() => setOpen(true)} onBlur={() => setOpen(!over)}
			/>
			{active && (
				<div id={`${id}-list`} class={over ? "commands over" : "commands"} role="listbox" aria-label="Results" onMouseDown={(e) => e.preventDefault()}>
					{groups.map(([name, of]) => of.length > 0 && (name === "" ? of.map(option) : (
						<div key={name} role="group" aria-labelledby={`${id}-of-${name}`}>
							<p id={`${id}-of-${name}`} role="presentation">{name}</p>
							{of.map(option)}
						</div>
					)))}
				</div>
			)}
		</div>
	)
}
