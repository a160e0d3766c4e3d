// Where the focus goes when what has it is removed, or is disabled for a while.

const parts = "section, article, nav, dialog, main"

// keepFocus keeps the focus in the page. An element that was disabled has it again once it is enabled. When one was removed
// it goes to the heading of the part of the page around that, or to the part. The browser leaves it at the document, where
// screen readers begin anew.
export function keepFocus(): void {
	let last: HTMLElement | undefined // what has had the focus, unless the person has put it nowhere
	let around: HTMLElement[] = [] // the parts with it, the innermost first
	let waiting = false
	const lost = (): boolean => last !== undefined && document.activeElement === document.body
	const useless = (): boolean => !last?.isConnected || last.matches(":disabled")
	const look = (): void => {
		waiting = false
		if (!last || !lost()) return
		if (last.isConnected) return last.focus() // does nothing while it is disabled
		const part = around.find((e) => e.isConnected) ?? document.querySelector<HTMLElement>("main")
		const to = part?.querySelector<HTMLElement>("h1, h2, h3") ?? part
		if (to && !to.hasAttribute("tabindex")) to.tabIndex = -1
		to?.focus()
	}
	addEventListener("focusin", ({ target }) => {
		if (!(target instanceof HTMLElement)) return
		last = target
		around = []
		for (let part = target.closest<HTMLElement>(parts); part; part = part.parentElement?.closest<HTMLElement>(parts) ?? null) around.push(part)
	})
	addEventListener("focusout", () => setTimeout(() => {
		if (lost() && !useless()) last = undefined
	}))
	new MutationObserver(() => {
		if (waiting || !lost()) return
		waiting = true
		setTimeout(look, 50) // after what a page does about it itself
	}).observe(document.body, { subtree: true, childList: true, attributeFilter: ["disabled"] })
}
