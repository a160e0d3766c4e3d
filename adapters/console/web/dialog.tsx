// A modal dialog.
import type { ComponentChildren, JSX } from "preact"
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks"

// Dialog is open as long as it is rendered. Its first field has the focus and its text selected, as after Tab, or the dialog has the
// focus where there is none. onClose is called when the person closes it: by its button, by Escape or beside it. The focus then
// returns to where it was.
export function Dialog({ title, onClose, wide, children }: { title: string; onClose: () => void; wide?: boolean; children: ComponentChildren }): JSX.Element {
	const place = useRef<HTMLDialogElement>(null)
	const name = useId()
	const close = useRef<(() => void) | undefined>(onClose)
	useEffect(() => {
		close.current = onClose
	})
	useLayoutEffect(() => {
		const dialog = place.current
		if (!dialog) return
		dialog.showModal()
		const first = dialog.querySelector<HTMLElement>("input, select, textarea") ?? dialog
		first.focus()
		if (first instanceof HTMLInputElement) first.select()
		return () => {
			close.current = undefined
			dialog.close()
		}
	}, [])
	const shut = (): void => place.current?.close()
	return (
		<dialog ref={place} tabIndex={-1} class={wide ? "wide" : undefined} aria-labelledby={name} onClose={() => close.current?.()} onPointerDown={(e) => e.target === e.currentTarget && shut()}>
			<div class="inner">
				<header class="bar"><h2 id={name}>{title}</h2><button type="button" class="small plain" aria-label="Close" onClick={shut}>✕</button></header>
				{children}
			</div>
		</dialog>
	)
}
