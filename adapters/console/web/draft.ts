// What was typed and not yet sent.
import { useRef, useState } from "preact/hooks"
import { account } from "./interface"

const nameOf = (key: string): string => `draft ${account} ${key}`

// dropDraft clears the draft under a key whose field is gone.
export const dropDraft = (key: string): void => sessionStorage.removeItem(nameOf(key))

// useDraft is useState for what a person types, which this tab keeps under a key until it is
// cleared with undefined: over reloads, other pages, and a sign-in after the session has ended. It is
// of one person in one organisation: another account of the same tab does not see it.
export function useDraft<Value>(key: string): [Value | undefined, (change: Value | undefined | ((was: Value | undefined) => Value | undefined)) => void] {
	const name = nameOf(key)
	const [value, set] = useState<Value | undefined>(() => {
		try {
			return JSON.parse(sessionStorage.getItem(name) ?? "null") ?? undefined
		} catch {
			return undefined
		}
	})
	const latest = useRef(value)
	return [value, (change) => {
		const next = typeof change === "function" ? (change as (was: Value | undefined) => Value | undefined)(latest.current) : change
		set((latest.current = next))
		try {
			next === undefined ? sessionStorage.removeItem(name) : sessionStorage.setItem(name, JSON.stringify(next))
		} catch {
			// What is too long to be kept stays on the page.
		}
	}]
}
