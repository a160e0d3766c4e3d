// The pages of operators, for whoever has given the operator's secret, signed in as a member or not.
import type { ComponentType, JSX } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { Dialog } from "../dialog"
import { forgetDrafts } from "../draft"
import { failureOf, onOperatorExpired, send } from "../interface"
import { Announcer } from "../live"
import { Problem, Time, useAct, useLoaded } from "../loading"
import { go, usePath } from "../router"
import { Health } from "./operatorhealth"
import { Organisations } from "./operatororganisations"
import { clock, Heading, type View } from "./operatorparts"
import { Setup } from "./operatorsetup"

// Session is an operator's session of this browser.
type Session = { expiresAt: string; endsAt: string }

const first = "/console/operator", setup = "/console/operator/setup"

const views: { path: string; name: string; page: ComponentType<View> }[] = [
	{ path: first, name: "Health", page: Health },
	{ path: "/console/operator/organisations", name: "Organisations", page: Organisations },
	{ path: setup, name: "Setup", page: Setup },
]

async function post(path: string, body?: object): Promise<Session> {
	const json = body && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }
	return (await (await send(`/console/operator/${path}`, { method: "POST", ...json })).json()) as Session
}

// renew returns the prolonged session of this browser, null if there is none.
async function renew(): Promise<Session | null> {
	try {
		return await post("session")
	} catch (error) {
		if (failureOf(error).status === 401) return null
		throw error
	}
}

export default function Operator(): JSX.Element {
	const found = useLoaded(renew, [])
	const [changed, change] = useState<Session | null>() // after it was found
	const [ended, end] = useState(false)
	const [signIns, countSignIn] = useState(0)
	useEffect(() => onOperatorExpired(() => end(true)), [])
	const begin = (session: Session): void => {
		change(session)
		end(false)
		countSignIn((n) => n + 1)
	}
	const session = changed === undefined ? found.value : changed
	// A sign-in at the first page leads to Setup, which goes on to Health if nothing is left to do.
	const enter = (next: Session): void => {
		if (location.pathname === first) go(`${setup}?after=sign-in`)
		begin(next)
	}
	if (session) {
		return (
			<>
				<Pages session={session} signIns={signIns} change={change} />
				{ended && (
					<Dialog title="Your operator’s session has ended" onClose={() => end(false)}>
						<p>What you have typed is kept. Sign in again to go on.</p>
						<SecretForm begin={begin} />
					</Dialog>
				)}
			</>
		)
	}
	return (
		<main class="narrow" aria-busy={session === undefined && !found.failure}>
			<h1>Operator</h1>
			{session === null && <>
				<p class="soft">The secret is that of <code>COLLAB_ADMIN_SECRET</code>. It is not kept in this browser; the session lasts 15 minutes after its last use, and an hour at most.</p>
				<SecretForm begin={enter} />
			</>}
			{found.failure?.status === 404 && <p>This deployment has no operator’s secret: set <code>COLLAB_ADMIN_SECRET</code> to use this page.</p>}
			{found.failure && found.failure.status !== 404 && <Problem failure={found.failure} what="Loading the session" retry={found.retry} />}
		</main>
	)
}

// SecretForm begins a session by the operator's secret.
function SecretForm({ begin }: { begin: (session: Session) => void }): JSX.Element {
	const [secret, type] = useState("")
	const field = useRef<HTMLInputElement>(null)
	useEffect(() => {
		document.title = "Operator · Collab"
		field.current?.focus()
	}, [])
	const { run, busy, failed } = useAct("The sign-in", async () => {
		field.current?.focus()
		begin(await post("sign-in", { secret }))
	})
	return (
		<form onSubmit={(e) => (e.preventDefault(), void run())}>
			<label>Operator’s secret <input ref={field} class="full" type="password" required autocomplete="current-password" value={secret} onInput={(e) => type(e.currentTarget.value)} /></label>
			{failed && <Problem failure={failed.failure} what={failed.what} />}
			<p><button type="submit" class="primary" disabled={busy}>Sign in</button></p>
		</form>
	)
}

// Pages shows the page at the address. Going to one prolongs the session.
function Pages({ session, signIns, change }: { session: Session; signIns: number; change: (next: Session | null) => void }): JSX.Element {
	const path = usePath()
	const opened = useRef(true)
	// What a page asks for next shows why a session cannot be prolonged.
	const used = useCallback((): void => void renew().then((next) => next && change(next), () => undefined), [])
	const view = views.find((v) => v.path === path)
	useEffect(() => {
		document.title = `${view?.name ?? "Operator"} · Collab`
		if (!opened.current) used()
		opened.current = false
	}, [path])
	const leave = useAct("Signing out", async () => {
		await send("/console/operator/sign-out", { method: "POST" })
		forgetDrafts("") // operators are of no account
		change(null)
	})
	return (
		<main class="operator">
			<header class="bar">
				<nav aria-label="Pages of operators">{views.map((v) => <a key={v.path} href={v.path} aria-current={v === view ? "page" : undefined}>{v.name}</a>)}</nav>
				<span class="soft">Signed in until <Time at={session.expiresAt} as={clock} />, with use until <Time at={session.endsAt} as={clock} /></span>
				<button type="button" class="small" onClick={() => void leave.run()}>Sign out</button>
			</header>
			{leave.failed && <Problem {...leave.failed} />}
			{view ? <view.page key={view.path} signIns={signIns} used={used} /> : <><Heading>There is no such page</Heading><p><a href="/console/operator">Health</a></p></>}
			<Announcer />
		</main>
	)
}
