// The places where the person is signed in.
import type { JSX } from "preact"
import { call, callDelete } from "../interface"
import { Problem, Show, Time, useAct, useLoaded, useLook } from "../loading"

const browsers = { Edg: "Edge", OPR: "Opera", Firefox: "Firefox", FxiOS: "Firefox", Chrome: "Chrome", CriOS: "Chrome", Version: "Safari" }
const systems = { iPhone: "iPhone", iPad: "iPad", Android: "Android", CrOS: "ChromeOS", Windows: "Windows", "Mac OS X": "macOS", Linux: "Linux" }

// programOf returns a browser with its system, or what a program calls itself.
function programOf(userAgent: string | null): string {
	if (!userAgent?.startsWith("Mozilla/")) return userAgent || "Unknown program"
	const [, browser] = Object.entries(browsers).find(([part]) => userAgent.includes(`${part}/`)) ?? []
	const [, system] = Object.entries(systems).find(([part]) => userAgent.includes(part)) ?? []
	if (!browser) return userAgent
	return system ? `${browser} on ${system}` : browser
}

export default function Sessions(): JSX.Element {
	const sessions = useLoaded(() => call("GET /api/v1/auth/sessions"), [])
	useLook(sessions.retry)
	const end = useAct("Ending the session", async (id: string) => {
		const at = document.activeElement // which is gone with the session
		await callDelete("DELETE /api/v1/auth/sessions/{id}", { path: { id } })
		if (document.activeElement === at || document.activeElement === document.body) document.querySelector<HTMLElement>("h1")?.focus()
		sessions.retry()
	})
	return (
		<>
			<h1 tabIndex={-1}>Sessions</h1>
			<p class="soft">Each is a browser, a command line or an application that is signed in as you. One that ends is refused at its next request.</p>
			{end.failed && <Problem {...end.failed} />}
			<Show of={sessions} what="your sessions">
				{(list) => (
					<ul class="rows">
						{list.map((s) => (
							<li key={s.id}>
								<div>
									<b title={s.userAgent ?? undefined}>{programOf(s.userAgent)}</b>
									<p class="soft">{s.address ?? "Unknown address"} · used <Time at={s.lastUsedAt} /> · since <Time at={s.createdAt} /></p>
								</div>
								{s.current ? <span class="badge">This browser</span> : <button type="button" class="small" disabled={end.busy} onClick={() => void end.run(s.id)} aria-label={`End the session of ${programOf(s.userAgent)}`}>End</button>}
							</li>
						))}
					</ul>
				)}
			</Show>
		</>
	)
}
