// The address of the page: paths below /console, changed without loading the page again.
import { useEffect, useState } from "preact/hooks"

const moved = new EventTarget()

// isPage reports whether a path is one of the console's pages, and not one that the server answers.
export function isPage(path: string): boolean {
	return (path === "/console" || path.startsWith("/console/")) && !/^\/console\/(api|assets|sign-in|callback)(\/|$)/.test(path)
}

// go shows the page at an address.
export function go(address: string): void {
	history.pushState(null, "", address)
	moved.dispatchEvent(new Event("move"))
}

// usePath returns the path of the page, and renders again when it changes.
export function usePath(): string {
	const [path, set] = useState(location.pathname)
	useEffect(() => {
		const update = (): void => set(location.pathname)
		moved.addEventListener("move", update)
		addEventListener("popstate", update)
		addEventListener("click", follow)
		return () => {
			moved.removeEventListener("move", update)
			removeEventListener("popstate", update)
			removeEventListener("click", follow)
		}
	}, [])
	return path
}

// follow has links to pages of the console change the address alone.
function follow(event: MouseEvent): void {
	if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
	const link = (event.target as Element | null)?.closest("a")
	if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin || !isPage(link.pathname)) return
	event.preventDefault()
	go(link.href)
}
