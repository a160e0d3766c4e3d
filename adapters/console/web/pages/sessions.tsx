// The places where the person is signed in.
import type { JSX } from "preact"
import { useState } from "preact/hooks"
import { call, Failure } from "../interface"
import { Problem, Show, useLoaded } from "../loading"
import { exact, relative } from "../text"

export default function Sessions(): JSX.Element {
	const sessions = useLoaded(() => call("GET /api/v1/auth/sessions"), [])
	const [failed, fail] = useState<{ failure: Failure; again: () => void }>()
	const end = async (id: string): Promise<void> => {
		fail(undefined)
		try {
			await call("DELETE /api/v1/auth/sessions/{id}", { path: { id } })
			document.querySelector<HTMLElement>("h1")?.focus()
			sessions.retry()
		} catch (error) {
			if (!(error instanceof Failure)) throw error
			fail({ failure: error, again: () => void end(id) })
		}
	}
	return (
		<>
			<h1 tabIndex={-1}>Sessions</h1>
			<p class="soft">Each is a browser, a command line or an application that is signed in as you. One that ends is refused at its next request.</p>
			{failed && <Problem failure={failed.failure} what="Ending the session" retry={failed.again} />}
			<Show of={sessions} what="your sessions">
				{(list) => (
					<ul class="rows">
						{list.map((s) => (
							<li key={s.id}>
								<div>
									<b>{s.userAgent || "Unknown program"}</b>
									<p class="soft">{s.address ?? "Unknown address"} · used <time dateTime={s.lastUsedAt} title={exact(s.lastUsedAt)}>{relative(s.lastUsedAt)}</time> · since <time dateTime={s.createdAt} title={exact(s.createdAt)}>{relative(s.createdAt)}</time></p>
								</div>
								{s.current ? <span class="badge">This browser</span> : <button type="button" class="small" onClick={() => void end(s.id)} aria-label={`End the session of ${s.userAgent || "an unknown program"}`}>End</button>}
							</li>
						))}
					</ul>
				)}
			</Show>
		</>
	)
}
