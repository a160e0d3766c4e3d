// What is loaded, and how the three states of it are shown.
import type { ComponentChildren, JSX } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { Failure, failureOf, send } from "./interface"
import { announce } from "./live"
import { isOperators, signInAddress } from "./router"
import { exact, relative } from "./text"
// Imported for the bundler alone, which makes a file for each set of pages that share a module: every page
// imports this module, so that these are in one file with it.
import "./chart"
import "./device"
import "./icons"
import "./members"
import "./plan"
import "./undo"

// Loaded is a value that is loaded, is there, or could not be loaded.
export type Loaded<Value> = { value?: Value; failure?: Failure; retry: () => void }

// useLoaded loads a value, and again whenever one of the inputs changes or retry is called. A value
// that is there stays until the next one is. The signal is aborted when the value is not wanted any more.
export function useLoaded<Value>(load: (signal: AbortSignal) => Promise<Value>, inputs: readonly unknown[]): Loaded<Value> {
	const [state, set] = useState<{ value?: Value; failure?: Failure }>({})
	const [attempt, again] = useState(0)
	useEffect(() => {
		const end = new AbortController()
		load(end.signal).then(
			(value) => end.signal.aborted || set({ value }),
			(error: unknown) => end.signal.aborted || set((was) => ({ ...was, failure: failureOf(error) })),
		)
		return () => end.abort()
	}, [...inputs, attempt])
	return { ...state, retry: useCallback(() => (set((was) => ({ ...was, failure: undefined })), again((n) => n + 1)), []) }
}

const pause = 1_000 // milliseconds between looks, as a tab that comes to the front has two events

// useLook has look called when the tab comes back to the front, when the network is back, and every some
// milliseconds while the tab is in front. What it returns has look called, too, while the tab is in front.
export function useLook(look: () => void, every?: number): () => void {
	const current = useRef(look), ask = useRef((): void => undefined)
	useEffect(() => {
		current.current = look
	})
	useEffect(() => {
		let at = 0, waiting: number | undefined
		const now = (): void => {
			waiting = undefined
			at = Date.now()
			current.current()
		}
		const back = (): void => {
			if (document.visibilityState === "visible") waiting ??= setTimeout(now, Math.max(0, at + pause - Date.now())) as unknown as number
		}
		ask.current = back
		const timer = every && setInterval(back, every)
		document.addEventListener("visibilitychange", back)
		addEventListener("focus", back)
		addEventListener("online", back)
		return () => {
			clearInterval(timer)
			clearTimeout(waiting)
			document.removeEventListener("visibilitychange", back)
			removeEventListener("focus", back)
			removeEventListener("online", back)
		}
	}, [])
	return useCallback(() => ask.current(), [])
}

// Failed is an act that failed, with what repeats it: what Problem is given.
export type Failed = { what: string; failure: Failure; retry?: () => void }

// part loads a file of the console that is needed now. After an upgrade of the server it may be gone, which is said, unless the
// server cannot be reached.
export async function part<Module>(load: () => Promise<Module>, gone?: () => void): Promise<Module> {
	try {
		return await load()
	} catch {
		await send("/console", { method: "HEAD" })
		gone?.()
		throw new Failure("A part of the console is gone, as after an upgrade of the server. Load this page again: what you have typed is kept, but for secrets and uploads", 0, "", 0)
	}
}

// Act is an act of the person: run carries it out, and failed is why it failed last, which fail sets.
type Act<Args extends unknown[]> = { run: (...args: Args) => Promise<void>; busy: boolean; failed: Failed | undefined; fail: (failed?: Failed) => void }

// useActs returns acts that are given to run by name and function. Several may be under way at once.
export function useActs(): Act<[what: string, act: () => Promise<unknown>]> {
	const [underWay, count] = useState(0)
	const [failed, fail] = useState<Failed>()
	const run = async (what: string, act: () => Promise<unknown>): Promise<void> => {
		count((n) => n + 1)
		fail(undefined)
		try {
			await act()
		} catch (error) {
			fail({ what, failure: failureOf(error), retry: () => void run(what, act) })
		}
		count((n) => n - 1)
	}
	return { run, busy: underWay > 0, failed, fail }
}

// useAct returns an act that calls a function, unless that is under way. A repetition has the arguments of the last call, and
// calls the function of the latest rendering.
export function useAct<Args extends unknown[]>(what: string, act: (...args: Args) => Promise<unknown>): Act<Args> {
	const acts = useActs()
	const now = useRef({ act, busy: false })
	now.current.act = act
	const once = async (...args: Args): Promise<unknown> => {
		if (now.current.busy) return
		now.current.busy = true
		return now.current.act(...args).finally(() => (now.current.busy = false))
	}
	return { ...acts, run: (...args) => acts.run(what, () => once(...args)) }
}

// submitting returns a handler for the submit event of a form, which carries out an act.
export const submitting = (act: Act<[]>) => (e: Event): void => (e.preventDefault(), void act.run())

// Placeholder is in the place of what is being loaded.
export const Placeholder = ({ what }: { what: string }): JSX.Element => <p class="placeholder" aria-busy="true"><span class="hidden">Loading {what}</span></p>

// Time is a time as seen from now, or as another text, with the exact one as its title.
export const Time = ({ at, as = relative, class: look }: { at: string; as?: (time: string) => string; class?: string }): JSX.Element => <time class={look} dateTime={at} title={exact(at)}>{as(at)}</time>

// Show shows what was loaded, a placeholder, or the failure with a way to try again. If again is given, what was loaded stays below
// the failure of loading it again, which is called so.
export function Show<Value>({ of, what, again, children }: { of: Loaded<Value>; what: string; again?: string; children: (value: Value) => ComponentChildren }): JSX.Element {
	const problem = of.failure && <Problem failure={of.failure} what={(of.value !== undefined && again) || `Loading ${what}`} retry={of.retry} />
	if (of.value !== undefined && (again || !of.failure)) return <>{problem}{children(of.value)}</>
	return problem ?? <Placeholder what={what} />
}

// Problem says that what failed, with the request's id to copy, ways to try again and to give up,
// and what else is said about it. It stands beside what failed.
export function Problem({ failure, what, retry, giveUp, children }: { failure: Failure; what: string; retry?: () => void; giveUp?: () => void; children?: ComponentChildren }): JSX.Element {
	const reason = failure.status === 503 ? "The server is busy or is being maintained" : failure.message
	return (
		<div class="problem" role="alert">
			<p><strong>{what} failed.</strong> {reason}.</p>
			{retry && failure.status !== 0 && failure.wait > 0 && <p>The server asks to wait {failure.wait === 1 ? "a second" : `${failure.wait} seconds`} before the next attempt.</p>}
			{children}
			{failure.status === 401 && !isOperators(location.pathname) && <p class="again"><a href={signInAddress()} target="_blank">Sign in again in a new tab</a>; what is here stays.</p>}
			<RequestId id={failure.request} />
			{retry && <button type="button" class="small" onClick={retry}>Try again</button>} {giveUp && <button type="button" class="small" onClick={giveUp}>Dismiss</button>}
		</div>
	)
}

// RequestId is the id of a request that was refused, if it is known, to copy.
export function RequestId({ id }: { id: string | undefined }): JSX.Element | null {
	return id ? <p class="soft">Request <code>{id}</code> <Copy text={id} /></p> : null
}

// Copy copies a text, and says so; what is the rest of its name. Browsers let pages copy over https and from localhost
// only: there is no button else.
export function Copy({ text, what = "", looks = "small" }: { text: string; what?: string; looks?: string }): JSX.Element | null {
	const [done, set] = useState({ text: "", said: "" })
	if (!navigator.clipboard) return null
	const say = (said: string) => (): void => {
		set({ text, said })
		announce(said)
	}
	// An alert around it is not to be read again for its label.
	return <button type="button" class={looks} aria-live="off" onClick={() => void navigator.clipboard.writeText(text).then(say("Copied"), say("Not copied"))}>{done.text === text && done.said ? done.said : "Copy"}{what && <span class="hidden"> {what}</span>}</button>
}
