// What was done and can be undone, until something else is done or ten seconds have passed.
import type { JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { onKeys } from "./keys"
import type { Failed } from "./loading"

// Undoable is an act that can be undone. What cannot be undone at the server waits in commit,
// which is called when the offer ends without being taken, and throws what the page shows of a refusal; leaving
// says that the page is being left, when requests need keepalive.
type Undoable = { text: string; undo: () => void; commit?: (leaving: boolean) => Promise<void> }

const offered = 10_000 // milliseconds

let current: Undoable | undefined
let show: (u: Undoable | undefined) => void = () => undefined

// sayRefused shows that an act of an offer was refused whose page was left.
export let sayRefused: (failed: Failed) => void = () => undefined

// offerUndo shows what was done with a way to undo it, and commits what was offered before.
export function offerUndo(u: Undoable): void {
	settle()
	show((current = u))
}

// endUndo commits what is offered. It throws what commit throws.
export async function endUndo(leaving = false): Promise<void> {
	const was = current
	show((current = undefined))
	await was?.commit?.(leaving)
}

// settle is endUndo where nothing depends on it.
const settle = (leaving = false): void => void endUndo(leaving).catch(() => undefined)

// UndoBar shows the offer. The frame has one. The time stops while the pointer or the focus is on
// it, and Ctrl+Z takes it from everywhere but where text is written.
export function UndoBar({ refused }: { refused: (failed: Failed) => void }): JSX.Element {
	const [offer, set] = useState(current)
	const [held, hold] = useState(false)
	const back = useRef<Element | null>(null)
	const leave = (): void => {
		if (back.current instanceof HTMLElement) back.current.focus()
	}
	const take = (): void => {
		const was = current
		show((current = undefined))
		leave()
		was?.undo()
	}
	useEffect(() => {
		show = set
		sayRefused = refused
		const hide = (): void => settle(true)
		const undo = onKeys({ "Mod+z": () => take() })
		const key = (e: KeyboardEvent): void => void (current && undo(e))
		addEventListener("pagehide", hide)
		addEventListener("keydown", key)
		return () => {
			removeEventListener("pagehide", hide)
			removeEventListener("keydown", key)
		}
	}, [])
	useEffect(() => {
		if (!offer || held) return
		const timer = setTimeout(settle, offered)
		return () => clearTimeout(timer)
	}, [offer, held])
	useEffect(() => {
		back.current = document.activeElement
		hold(false)
	}, [offer])
	return (
		<div class="undo" role="status" data-open={offer !== undefined} onPointerEnter={() => hold(true)} onPointerLeave={() => hold(false)} onFocusIn={() => hold(true)} onFocusOut={() => hold(false)}>
			{offer && <><p>{offer.text}</p><button type="button" class="small" onClick={take}>Undo</button><button type="button" class="small" onClick={() => (settle(), leave())}>Dismiss</button></>}
		</div>
	)
}
