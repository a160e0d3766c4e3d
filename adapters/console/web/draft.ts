// What was typed and not yet sent.
import { useLayoutEffect, useState } from "preact/hooks"
import { account, failureOf } from "./interface"

const nameOf = (key: string): string => `draft ${account} ${key}`

// drafts are the values of drafts by their names, and changes has an event for each that changes: all that shows a
// draft has one value, also what shows it anew while it is being saved.
const drafts = new Map<string, unknown>()
const changes = new EventTarget()

type Change<Value> = Value | undefined | ((was: Value | undefined) => Value | undefined)

function valueOf(name: string): unknown {
	if (!drafts.has(name)) {
		try {
			drafts.set(name, JSON.parse(sessionStorage.getItem(name) ?? "null") ?? undefined)
		} catch {
			drafts.set(name, undefined)
		}
	}
	return drafts.get(name)
}

function put<Value>(name: string, change: Change<Value>): void {
	const was = valueOf(name) as Value | undefined
	const next = typeof change === "function" ? (change as (was: Value | undefined) => Value | undefined)(was) : change
	if (next === was) return
	drafts.set(name, next)
	try {
		next === undefined ? sessionStorage.removeItem(name) : sessionStorage.setItem(name, JSON.stringify(next))
	} catch {
		// What is too long to be kept stays on the page.
	}
	changes.dispatchEvent(new Event(name))
}

// changeDraft changes the draft under a key, whether it is shown or not.
export const changeDraft = <Value>(key: string, change: (was: Value | undefined) => Value | undefined): void => put(nameOf(key), change)

// forgetDrafts removes the drafts of an account, or all of this tab.
export function forgetDrafts(of?: string): void {
	const begin = of === undefined ? "draft " : `draft ${of} `
	for (const name of [...Object.keys(sessionStorage), ...drafts.keys()]) {
		if (!name.startsWith(begin)) continue
		sessionStorage.removeItem(name)
		drafts.delete(name)
	}
}

const keptFor = 5 * 60_000 // milliseconds after an attempt in which another one has its key

type Key = { of: string; key: string; at: number }

const keyName = (form: string): string => nameOf(`key of ${form}`)

// dropKey has the next attempt of a form be a new act, as the last one is known to be carried out, or was given up.
export const dropKey = (form: string): void => put(keyName(form), undefined)

// once calls send with a body and an idempotency key: the attempts of a form at one body have the same, over reloads too,
// until one is carried out, the form is cleared, or five minutes have passed. A refusal that the server repeats says what
// was, so that the body is sent with another key then.
export async function once<Body, Value>(form: string, body: Body, send: (given: { body: Body; headers: Record<string, string> }) => Promise<Value>): Promise<Value> {
	const name = keyName(form), of = JSON.stringify(body)
	const was = valueOf(name) as Key | undefined
	const is = { of, key: was?.of === of && Date.now() - was.at < keptFor ? was.key : crypto.randomUUID(), at: Date.now() }
	const change = (next: Key | undefined): void => put<Key>(name, (kept) => (kept?.key === is.key ? next : kept))
	put(name, is)
	try {
		const value = await send({ body, headers: { "Idempotency-Key": is.key } })
		change(undefined)
		return value
	} catch (error) {
		const { replayed } = failureOf(error)
		change(replayed ? undefined : { ...is, at: Date.now() })
		if (!replayed) throw error
		return once(form, body, send)
	}
}

// useDraft is useState for what a person types, which this tab keeps under a key until it is
// cleared with undefined: over reloads, other pages, and a sign-in after the session has ended. It is
// of one person in one organisation: another account of the same tab does not see it. The third function
// clears it once a value of it was saved, unless something else was typed meanwhile. What is cleared has no idempotency
// key any more.
export function useDraft<Value>(key: string): [Value | undefined, (change: Change<Value>) => void, (saved: Value | undefined) => void] {
	const name = nameOf(key)
	const [, render] = useState({})
	useLayoutEffect(() => {
		const show = (): void => render({})
		changes.addEventListener(name, show)
		return () => changes.removeEventListener(name, show)
	}, [name])
	const set = (change: Change<Value>): void => {
		put(name, change)
		if (change === undefined) dropKey(key)
	}
	return [valueOf(name) as Value | undefined, set, (saved) => put<Value>(name, (is) => (is === saved ? undefined : is))]
}
