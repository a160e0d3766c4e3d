// What the pages of operators have in common.
import type { ComponentChildren, JSX } from "preact"
import { useEffect, useRef } from "preact/hooks"

// View is what a page of operators is given: how many times the operator has signed in on it, after
// each of which it loads anew, and used, which prolongs the session.
export type View = { signIns: number; used: () => void }

// Heading is the heading of a page, which has the focus when the page appears.
export function Heading({ children }: { children: ComponentChildren }): JSX.Element {
	const place = useRef<HTMLHeadingElement>(null)
	useEffect(() => place.current?.focus(), [])
	return <h1 class="grow" ref={place} tabIndex={-1}>{children}</h1>
}

// clock returns a time of today.
export const clock = (time: string): string => new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })
