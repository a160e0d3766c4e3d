// What was typed and not yet sent.
import { useState } from "preact/hooks"

// useDraft is useState for what a person types, which this tab keeps under a key until it is
// cleared with undefined: over reloads, other pages, and a sign-in after the session has ended.
export function useDraft<Value>(key: string): [Value | undefined, (value: Value | undefined) => void] {
	const name = `draft ${key}`
	const [value, set] = useState<Value | undefined>(() => {
		try {
			return JSON.parse(sessionStorage.getItem(name) ?? "null") ?? undefined
		} catch {
			return undefined
		}
	})
	return [value, (next) => {
		set(next)
		try {
			next === undefined ? sessionStorage.removeItem(name) : sessionStorage.setItem(name, JSON.stringify(next))
		} catch {
			// What is too long to be kept stays on the page.
		}
	}]
}
