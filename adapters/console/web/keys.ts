// Keyboard shortcuts.

// keyName returns the name of an event's key, of a letter in lower case. A letter of another script than Latin has the name
// of its place on a Latin keyboard, as for the browser's own shortcuts.
export const keyName = ({ key, code }: KeyboardEvent): string => (key.length > 1 ? key : (/(?!\p{sc=Latin})\p{L}/u.test(key) && code.startsWith("Key") ? code.slice(3) : key).toLowerCase())

// onKeys returns a handler of keydown that calls what a table has for the keys: names of
// KeyboardEvent.key after "Mod+" (Ctrl, or Command), "Alt+" and "Shift+", the last for keys with
// names only. Where text is written, and in menus and dialogs in front of the element that listens,
// keys without Mod are left alone. WCAG 2.1.4 wants keys without modifiers to act only while the
// element that listens has the focus.
export function onKeys(table: Record<string, (event: KeyboardEvent) => void>): (event: KeyboardEvent) => void {
	return (event) => {
		if (event.isComposing || event.defaultPrevented) return
		const mod = event.ctrlKey || event.metaKey
		const target = event.target instanceof Element ? event.target : null
		const front = target?.closest("dialog, [popover]")
		const listener = event.currentTarget
		if (front && listener instanceof Element && !front.contains(listener)) return
		const key = keyName(event)
		if (writes(target) && (!mod || key === "z")) return
		const act = table[(mod ? "Mod+" : "") + (event.altKey ? "Alt+" : "") + (event.shiftKey && key.length > 1 ? "Shift+" : "") + key]
		if (!act) return
		event.preventDefault()
		act(event)
	}
}

// writes reports whether keys write or choose in an element.
function writes(element: Element | null): boolean {
	if (element instanceof HTMLInputElement) return element.type !== "checkbox" && element.type !== "radio"
	return element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement
}
