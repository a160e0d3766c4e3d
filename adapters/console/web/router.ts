// The address of the page: paths below /console, changed without loading the page again.
import { useEffect, useMemo, useState } from "preact/hooks"

const moved = new EventTarget()

// isPage reports whether a path is one of the console's pages, and not one that the server answers.
function isPage(path: string): boolean {
	return (path === "/console" || path.startsWith("/console/")) && !/^\/console\/(api|assets|sign-in|callback)(\/|$)/.test(path)
}

// isOperators reports whether a path is of the pages of operators, who have sessions of their own.
export const isOperators = (path: string): boolean => /^\/console\/operator(\/|$)/.test(path)

// signInAddress returns the address of the sign-in that leads back to this page.
export const signInAddress = (): string => "/console/sign-in?" + new URLSearchParams({ to: location.pathname + location.search })

// go shows the page at an address.
export function go(address: string): void {
	history.pushState(null, "", address)
	moved.dispatchEvent(new Event("move"))
}

// onMove calls fn after each change of the address, and returns what ends that.
function onMove(fn: () => void): () => void {
	moved.addEventListener("move", fn)
	addEventListener("popstate", fn)
	return () => {
		moved.removeEventListener("move", fn)
		removeEventListener("popstate", fn)
	}
}

// usePath returns the path of the page, and renders again when it changes.
export function usePath(): string {
	const [path, set] = useState(location.pathname)
	useEffect(() => {
		addEventListener("click", follow)
		const end = onMove(() => set(location.pathname))
		return () => {
			end()
			removeEventListener("click", follow)
		}
	}, [])
	return path
}

// Changes are new values of parameters of the address; undefined removes one.
export type Changes = Record<string, string | undefined>

// useQuery returns the parameters of the address, and a function that changes some of them: as a
// step that the browser can go back from, or, with replace set, in place.
export function useQuery(): [URLSearchParams, (changes: Changes, replace?: boolean) => void] {
	const [query, set] = useState(location.search)
	useEffect(() => {
		const update = (): void => set(location.search)
		update()
		return onMove(update)
	}, [])
	return [useMemo(() => new URLSearchParams(query), [query]), changeQuery]
}

// useChoice returns which of some values a parameter of the address has, the usual one if it has none of them, and
// a function that chooses another in place.
export function useChoice<Value extends string>(name: string, values: readonly Value[], usual: Value): [Value, (v: string) => void] {
	const [query, change] = useQuery()
	return [values.find((v) => v === query.get(name)) ?? usual, (v) => change({ [name]: v === usual ? undefined : v }, true)]
}

const pause = 300 // milliseconds without a key after which what was typed is in the address

// useTyped returns what a field for a parameter of the address needs: its text, and the handlers that put it in the address
// after a pause, as browsers limit changes of the address, or at once by Enter. Typing is one step that the browser can go
// back from. When the page is left first, the text is not stored: browsers report a change of a field that is removed, too.
export function useTyped(name: string): { value: string; onInput: (e: { currentTarget: HTMLInputElement }) => void; onChange: () => void } {
	const [query, change] = useQuery()
	const of = query.get(name) ?? ""
	const [pathname] = useState(location.pathname) // the page is shown until that of another path is loaded
	const [typed, type] = useState({ of, text: of })
	if (typed.of !== of) type({ of, text: of }) // the address has changed
	const value = typed.text
	const store = (): void => {
		const next = value.trim() && value
		if (next !== of && location.pathname === pathname) change({ [name]: next || undefined }, of !== "")
	}
	useEffect(() => {
		const timer = setTimeout(store, pause)
		return () => clearTimeout(timer)
	}, [value, of])
	return { value, onInput: (e) => type({ of, text: e.currentTarget.value }), onChange: store }
}

// addressWith returns the address of this page with changed parameters.
export function addressWith(changes: Changes): string {
	const next = new URLSearchParams(location.search)
	for (const [name, value] of Object.entries(changes)) value === undefined ? next.delete(name) : next.set(name, value)
	return location.pathname + (next.size > 0 ? `?${next}` : "")
}

function changeQuery(changes: Changes, replace = false): void {
	const address = addressWith(changes)
	if (!replace) return go(address)
	history.replaceState(null, "", address)
	moved.dispatchEvent(new Event("move"))
}

// follow has links to pages of the console change the address alone. Those within a page are the browser's, which moves the focus.
function follow(event: MouseEvent): void {
	if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
	const link = (event.target as Element | null)?.closest("a")
	if (!link || link.target || link.hash !== "" || link.hasAttribute("download") || link.origin !== location.origin || !isPage(link.pathname)) return
	event.preventDefault()
	go(link.href)
}
