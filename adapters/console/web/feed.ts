// The feed of the changes of files. Of all tabs of a browser one holds the connection and passes on
// what it says; if that tab is closed another one goes on where it was.
import { useEffect, useRef, useState } from "preact/hooks"
import { readEvents } from "./events"
import { account, Failure, failureOf, send } from "./interface"
import type { ChangeEvent } from "./types"

// Feed is the state of the connection: failure is why it is down.
export type Feed = { state: "connecting" | "live" | "down"; failure?: Failure }

// Follower is called for each change, and without one when anything may have changed: after a
// connection has begun, and when the server's log does not reach back far enough.
type Follower = (change?: ChangeEvent) => void

// Message is what tabs tell each other.
type Message = { feed: { state: Feed["state"]; reason?: { message: string; status: number; request: string } } } | { position: string; change?: ChangeEvent } | { ask: "state" | "retry" }

const silence = 75_000 // milliseconds after which a connection without its heartbeat is given up
const longest = 60_000 // milliseconds between attempts

// The tabs of an account share a connection: pages load this file when it is known.
const name = `collab-feed ${account}`
const tabs = new BroadcastChannel(name)
const followers = new Set<Follower>()
const observers = new Set<(feed: Feed) => void>()
let feed: Feed = { state: "connecting" }
let position: string | undefined // the id of the last event
let holding = false // whether this tab has the connection
let leave: AbortController | undefined
let wake = (): void => undefined // ends the wait before the next attempt

tabs.onmessage = ({ data }: MessageEvent<Message>) => {
	if ("ask" in data) {
		if (holding) data.ask === "retry" ? wake() : tell(feed)
	} else if ("feed" in data) {
		const { state, reason } = data.feed
		become({ state, failure: reason && new Failure(reason.message, reason.status, reason.request, 0) })
	} else {
		pass(data.position, data.change)
	}
}

// useFeed has follower called while the component is there, and returns the state of the feed.
export function useFeed(follower: Follower): Feed {
	const [state, set] = useState(feed)
	const current = useRef(follower)
	useEffect(() => {
		current.current = follower
	})
	useEffect(() => {
		const follow: Follower = (change) => current.current(change)
		followers.add(follow)
		observers.add(set)
		if (followers.size === 1) take()
		set(feed)
		return () => {
			followers.delete(follow)
			observers.delete(set)
			if (followers.size === 0) leave?.abort()
		}
	}, [])
	return state
}

// retryFeed has the tab with the connection attempt it now.
export function retryFeed(): void {
	holding ? wake() : tabs.postMessage({ ask: "retry" } satisfies Message)
}

// take waits until no other tab has the connection, and holds it then.
function take(): void {
	const controller = (leave = new AbortController())
	tabs.postMessage({ ask: "state" } satisfies Message)
	navigator.locks.request(name, { signal: controller.signal }, () => hold(controller.signal)).catch(() => undefined) // it was aborted
}

function become(next: Feed): void {
	const began = next.state === "live" && feed.state !== "live"
	feed = next
	for (const observer of observers) observer(next)
	if (began) for (const follower of followers) follower()
}

function tell({ state, failure }: Feed): void {
	tabs.postMessage({ feed: { state, reason: failure && { message: failure.message, status: failure.status, request: failure.request } } } satisfies Message)
}

function pass(at: string, change?: ChangeEvent): void {
	position = at
	for (const follower of followers) follower(change)
}

// hold keeps the connection until the signal ends it. The first attempt after a break is quiet; from
// the second on the feed is down. The pauses between attempts double up to a minute.
async function hold(signal: AbortSignal): Promise<void> {
	holding = true
	let failed = 0
	const report = (next: Feed): void => {
		tell(next)
		become(next)
	}
	report({ state: "connecting" }) // so that all catch up once it is live
	while (!signal.aborted) {
		let failure: Failure | undefined
		try {
			await read(signal, () => {
				failed = 0
				report({ state: "live" })
			})
		} catch (error) {
			failure = failureOf(error)
		}
		if (signal.aborted) break
		failed++
		report(failure && (failure.status !== 0 || failed > 1) ? { state: "down", failure } : { state: "connecting" })
		await pause(Math.max(Math.min(500 * 2 ** failed, longest) * (0.75 + Math.random() / 2), 1000 * (failure && failure.status !== 0 ? failure.wait : 0)), signal)
	}
	holding = false
	feed = { state: "connecting" }
}

// pause waits some milliseconds, or until the browser is online again, retryFeed or the signal.
function pause(time: number, signal: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		const end = (): void => {
			clearTimeout(timer)
			removeEventListener("online", end)
			signal.removeEventListener("abort", end)
			resolve()
		}
		const timer = setTimeout(end, time)
		addEventListener("online", end)
		signal.addEventListener("abort", end)
		wake = end
	})
}

// read passes on events from the last position on, until the connection ends.
async function read(signal: AbortSignal, began: () => void): Promise<void> {
	const connection = new AbortController()
	const end = (): void => connection.abort()
	signal.addEventListener("abort", end)
	let watch = setTimeout(end, silence)
	try {
		const headers: Record<string, string> = { Accept: "text/event-stream" }
		if (position !== undefined) headers["Last-Event-ID"] = position
		const response = await send("/console/api/v1/sync/changes", { headers, signal: connection.signal })
		if (!response.body) return
		began()
		await readEvents(response.body, () => {
			clearTimeout(watch)
			watch = setTimeout(end, silence)
		}, event)
	} finally {
		clearTimeout(watch)
		signal.removeEventListener("abort", end)
	}
}

// event passes on an event of the stream. One without data has a position alone.
function event(fields: Map<string, string>): void {
	const id = fields.get("id"), data = fields.get("data")
	if (id === undefined) return
	if (data === undefined) {
		position = id
		return
	}
	const change = fields.get("event") === "resync" ? undefined : (JSON.parse(data) as ChangeEvent)
	tabs.postMessage({ position: id, change } satisfies Message)
	pass(id, change)
}
