// Comboboxes: a field, and the list of what its text finds.
import type { JSX } from "preact"
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import type { Failure } from "./interface"
import { Problem, useLoaded, type Loaded } from "./loading"
import { count, hasWords } from "./text"

// Entry is what may be chosen, by its name and by what else is known of it.
export type Entry = { key: string; name: string; soft?: string | undefined }

// named returns a function that reports whether an entry has all words of a text.
export function named(text: string): (e: Entry) => boolean {
	const has = hasWords(text)
	return (e) => has(`${e.name} ${e.soft ?? ""}`)
}

const most = 50 // entries that are listed at once

// listed returns what of entries is listed for a text, as a group: without a text that with the key at first. Unless they
// are complete, there are more than can be counted.
export function listed<E extends Entry>(entries: E[], text: string, key?: string, complete = true): [string, E[]] {
	const found = text.trim() === "" ? [...entries.filter((e) => e.key === key), ...entries.filter((e) => e.key !== key)] : entries.filter(named(text.trim()))
	return [found.length > most ? `${complete ? `${most} of ${count(found.length)}` : `The first ${most}`}: type more of the name` : "", found.slice(0, most)]
}

// Search adds what a text finds to the entries, undefined if these are all that there are.
export type Search<Found = unknown> = ((text: string, signal: AbortSignal) => Promise<Found>) | undefined

const pause = 200 // milliseconds without a key after which the server searches

// useSearch has the server search for a text once nothing more is typed for a moment. Another text cancels
// the request of the one before.
export function useSearch<Found>(text: string, search: Search<Found>): Loaded<{ text: string; found: Found | undefined }> & { settled: boolean } {
	const wanted = search ? text.trim() : ""
	const of = useLoaded(async (signal) => {
		if (!search || wanted === "") return { text: wanted, found: undefined }
		await new Promise((resolve) => {
			const timer = setTimeout(resolve, pause)
			signal.addEventListener("abort", () => clearTimeout(timer))
		})
		return { text: wanted, found: await search(wanted, signal) }
	}, [wanted])
	return { ...of, settled: wanted === "" || of.value?.text === wanted }
}

type ComboboxOf<E extends Entry> = {
	id: string; label: string; placeholder: string; text: string; onText: (text: string) => void
	groups: [string, E[]][] // by their names; an empty one is not shown
	choose: (e: E) => void
	over?: boolean // the list is above what follows, while the field has the focus, and not a part of the page
	chosen?: boolean // the text is the name of what is chosen already, which the first key replaces
	leave?: (only: E | undefined) => void // called when the field loses the focus, with what alone is listed
	none?: string // said when the text finds nothing
}

// Combobox is a field with the entries that its text finds.
export function Combobox<E extends Entry>({ id, label, placeholder, text, onText, groups, choose, over, chosen, leave, none }: ComboboxOf<E>): JSX.Element {
	const [at, setAt] = useState<number>() // undefined: the person has not moved in the list
	const [open, setOpen] = useState(!over)
	const entries = open ? groups.flatMap(([, of]) => of) : []
	const first = over && (chosen || text === "") ? -1 : 0 // above a page Enter takes nothing that was neither typed nor moved to
	const here = Math.min(at ?? first, entries.length - 1)
	const active = entries[here]
	const idOf = (e: E): string => `${id}-${e.key}`
	useEffect(() => {
		if (active) document.getElementById(idOf(active))?.scrollIntoView({ block: "nearest" })
	}, [active?.key])

	const close = (): void => {
		setOpen(!over)
		setAt(undefined)
	}
	const take = (e: E): void => {
		close()
		choose(e)
	}
	const field = useRef<HTMLInputElement>(null)
	const select = (): void => {
		if (chosen && document.activeElement === field.current) field.current?.select()
	}
	useLayoutEffect(select, [chosen, text])
	const begin = (): void => {
		select()
		setOpen(true)
	}
	const blur = (): void => {
		close()
		leave?.(entries.length === 1 ? entries[0] : undefined)
	}
	const step = (by: number): void => (open ? setAt((Math.max(here, by < 0 ? 0 : -1) + by + entries.length) % Math.max(1, entries.length)) : setOpen(true))
	const onKey = (e: KeyboardEvent): void => {
		if (e.isComposing) return
		if (e.key === "ArrowDown") step(1)
		else if (e.key === "ArrowUp") step(-1)
		else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
			if (!leave || chosen) return
			blur()
			setTimeout(() => field.current?.form?.requestSubmit()) // with what was chosen
		} else if (e.key === "Enter" && active) take(active)
		else if (e.key === "Escape" && over && open) close()
		else return
		e.preventDefault()
	}
	const option = (e: E): JSX.Element => (
		<div key={e.key} id={idOf(e)} role="option" aria-selected={e === active} onPointerMove={() => setAt(entries.indexOf(e))} onClick={(click) => (click.preventDefault(), take(e))}>
			<span>{e.name}</span>{e.soft && <span class="soft">{e.soft}</span>}
		</div>
	)
	return (
		<div class="combobox">
			<input
				ref={field} class="full" role="combobox" maxLength={200} aria-label={label} placeholder={placeholder} autoComplete="off" spellcheck={false} aria-autocomplete="list"
				aria-expanded={entries.length > 0} aria-controls={entries.length > 0 ? `${id}-list` : undefined} aria-activedescendant={active && idOf(active)} value={text}
				onInput={(e) => (onText(e.currentTarget.value), setAt(undefined), setOpen(true))} onKeyDown={onKey} onFocus={begin} onClick={begin} onBlur={blur}
			/>
			{entries.length > 0 && (
				<div id={`${id}-list`} class={over ? "commands over" : "commands"} role="listbox" tabIndex={-1} aria-label="Results" onMouseDown={(e) => e.preventDefault()}>
					{groups.map(([name, of], i) => of.length > 0 && (name === "" ? of.map(option) : (
						<div key={i} role="group" aria-labelledby={`${id}-of-${i}`}>
							<p id={`${id}-of-${i}`} role="presentation">{name}</p>
							{of.map(option)}
						</div>
					)))}
				</div>
			)}
			{none && open && entries.length === 0 && <p class="soft" role="status">{none}</p>}
		</div>
	)
}

type PickerOf = { id: string; label: string; value: string; name: string; entries: Entry[]; search?: Search; choose: (key: string) => void; readOnly?: boolean }

// Picker is a field for one of many entries. It shows the name of the one that it has, also when that is not in the list.
export function Picker({ id, label, value, name, entries, search, choose, readOnly }: PickerOf): JSX.Element {
	const [text, type] = useState<string>() // undefined: nothing is being typed
	const searched = useSearch(text ?? "", search)
	if (readOnly) return <input class="full" aria-label={label} readOnly value={name} />
	const take = (e: Entry | undefined): void => {
		type(undefined)
		if (e && e.key !== value) choose(e.key)
	}
	return (
		<>
			<Combobox id={id} label={label} placeholder="Name or e-mail" text={text ?? name} onText={type} groups={[listed(entries, text ?? "", value, !search)]} choose={take} over chosen={text === undefined} leave={(only) => take(text?.trim() && searched.settled ? only : undefined)} none={noneOf(searched, "Nobody is called this.")} />
			{searched.failure && <Problem failure={searched.failure} what="The search" retry={searched.retry} />}
		</>
	)
}

// noneOf returns what is said where nothing is listed.
export const noneOf = (searched: { settled: boolean; failure?: Failure }, none: string): string => (searched.settled ? none : searched.failure ? "" : "Searching…")
