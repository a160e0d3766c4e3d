// A list of which only the rows near the visible part are rendered.
import type { ComponentChildren, JSX } from "preact"
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { keyName } from "./keys"

type WindowedOf<Item> = {
	label: string
	items: Item[]
	keyOf: (item: Item) => string
	// row renders a row. What has data-row gets the focus when keys move to the row; the focus
	// can reach what is in the active row alone, of others tabIndex is -1.
	row: (item: Item, active: boolean) => ComponentChildren
	active: string | undefined // the key of the row that has the focus, or gets it first
	onActive: (key: string) => void
	complete: boolean // whether items are all
	more: () => void // called while the end is near and items are not all
	children?: ComponentChildren // beside the rows
}

const beyond = 12 // rows rendered before and after the visible ones

// Rendered is a row of the document. Its element has a number, by which another row gets it once this one is
// no longer rendered: making and discarding elements took most of the time of scrolling.
type Rendered = { element: number; of: unknown[]; li: JSX.Element } // of is what the row was made of

// Windowed is the list. Its rows have the height that the style gives as --row. Arrow keys, j and
// k, Home and End move between rows.
export function Windowed<Item>({ label, items, keyOf, row, active, onActive, complete, more, children }: WindowedOf<Item>): JSX.Element {
	const scroller = useRef<HTMLDivElement>(null), probe = useRef<HTMLDivElement>(null)
	const [height, setHeight] = useState(0)
	const [seen, see] = useState({ first: 0, last: 30 })
	const focus = useRef<string>(undefined) // the key of the row that is to get the focus when it is there and active
	const were = useRef(new Map<string, Rendered>())
	const at = items.findIndex((i) => keyOf(i) === active)
	const look = useCallback(() => {
		const box = scroller.current
		if (!box || height === 0) return
		const top = Math.floor(box.scrollTop / height)
		const first = Math.max(0, top - beyond)
		const last = top + Math.ceil(box.clientHeight / height) + 1 + beyond // so that there are as many rows wherever the list is
		see((was) => (was.first === first && was.last === last ? was : { first, last }))
	}, [height])
	useLayoutEffect(look, [look, items.length])
	useEffect(() => {
		if (!probe.current || !scroller.current) return
		const observer = new ResizeObserver(() => {
			setHeight(probe.current?.getBoundingClientRect().height ?? 0)
			look()
		})
		observer.observe(probe.current)
		observer.observe(scroller.current)
		return () => observer.disconnect()
	}, [look])
	useEffect(() => {
		if (!complete && height > 0 && seen.last > items.length - 2 * beyond) more()
	}, [complete, seen, items, height]) // items, as a list that was busy is another one now
	useEffect(() => {
		if (focus.current !== undefined && focus.current === active && at >= 0) {
			const found = scroller.current?.querySelector<HTMLElement>(`[data-at="${at}"] [data-row]`)
			if (found) {
				focus.current = undefined
				found.focus({ preventScroll: true })
			}
		}
	})
	const go = (to: number): void => {
		const item = items[to], box = scroller.current
		if (item === undefined || !box) return
		if (to * height < box.scrollTop) box.scrollTop = to * height
		else if ((to + 1) * height > box.scrollTop + box.clientHeight) box.scrollTop = (to + 1) * height - box.clientHeight
		focus.current = keyOf(item)
		look()
		onActive(keyOf(item))
	}
	const keys: Record<string, () => void> = {
		ArrowDown: () => go(at + 1), j: () => go(at + 1), ArrowUp: () => go(at - 1), k: () => go(at - 1),
		Home: () => go(0), End: () => go(items.length - 1),
	}
	const rendered: number[] = []
	for (let i = seen.first; i < Math.min(seen.last, items.length); i++) rendered.push(i)
	if (at >= 0 && (at < seen.first || at >= Math.min(seen.last, items.length))) rendered.push(at)
	const rows = new Map(height > 0 ? rendered.map((i) => [keyOf(items[i] as Item), i]) : [])
	const held = scroller.current?.querySelector<HTMLElement>("li:focus-within")?.dataset.id // its focus and open menu are no other row's
	const free = [...were.current].flatMap(([key, { element }]) => (rows.has(key) || key === held ? [] : [element]))
	let next = Math.max(-1, ...[...were.current.values()].map((was) => was.element)) + 1
	were.current = new Map([...rows].map(([key, i]) => {
		const item = items[i] as Item, was = were.current.get(key), of = [item, i, i === (at < 0 ? 0 : at), row, height, complete && items.length]
		if (was?.of.every((value, j) => value === of[j])) return [key, was]
		const element = was?.element ?? free.pop() ?? next++
		return [key, { element, of, li: <li key={element} data-at={i} data-id={key} aria-setsize={complete ? items.length : -1} aria-posinset={i + 1} style={{ top: `${i * height}px` }}>{row(item, of[2] as boolean)}</li> }]
	}))
	return (
		<div
			ref={scroller} class="windowed" onScroll={look}
			onKeyDown={(e) => {
				const act = keys[keyName(e)]
				if (!act || e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.shiftKey || !(e.target as Element).closest("a[data-row], button[data-row]")) return
				e.preventDefault()
				act()
			}}
			onFocusIn={(e) => {
				const item = items[Number((e.target as Element).closest<HTMLElement>("[data-at]")?.dataset.at ?? -1)]
				if (item !== undefined && keyOf(item) !== active) onActive(keyOf(item))
			}}
		>
			<div ref={probe} class="probe" aria-hidden="true" />
			<ul aria-label={label} style={{ height: `${items.length * height}px` }}>
				{[...were.current.values()].map(({ li }) => li)}
			</ul>
			{children}
		</div>
	)
}
