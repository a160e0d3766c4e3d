// The root of the console: the session of this browser as this tab and the others know it, and the pages without one.
import { render, type ComponentType, type JSX } from "preact"
import { useEffect, useState } from "preact/hooks"
import { forgetChats, forgetOthers } from "./device"
import { keepFocus } from "./focus"
import { Frame } from "./frame"
import { Mark } from "./icons"
import { actAs, call, onRefused, signOut, switchTo } from "./interface"
import { sayLimits } from "./limits"
import { Problem, useLoaded, useLook } from "./loading"
import { isOperators, signInAddress, usePath } from "./router"
import { endUndo } from "./undo"

const tabs = new BroadcastChannel("collab-console")

// The messages of the tabs: one has signed out, or says whose session it found.
type Message = "signed out" | { user: string; org: string | undefined }

// backFromSignOut is whether the identity provider has redirected here after this tab's sign-out.
const expectedState = sessionStorage.getItem("sign-out")
const backFromSignOut = location.pathname === "/console/signed-out" && expectedState !== null && new URLSearchParams(location.search).get("state") === expectedState
if (location.pathname === "/console/signed-out") {
	sessionStorage.removeItem("sign-out")
	history.replaceState(null, "", "/console")
}

function Console(): JSX.Element {
	const [out, setOut] = useState<"no" | "expired" | "removed" | "left">(backFromSignOut ? "left" : "no")
	const me = useLoaded(async () => {
		const own = await call("GET /api/v1/auth/me")
		actAs(own)
		return own
	}, [])
	// become changes the state, unless the person has signed out.
	const become = (state: "no" | "expired"): void => setOut((was) => (was === "left" ? was : state))
	const look = useLook(() => me.value && me.retry())
	useEffect(() => onRefused((status) => {
		if (status === 401) become("expired")
		else if (out === "no") look() // the role or the membership has changed, perhaps
	}))
	useEffect(() => {
		if (me.failure?.status === 403) setOut("removed")
	}, [me.failure])
	useEffect(() => {
		const own = me.value && { user: me.value.user.id, org: me.value.org?.id }
		if (own) {
			become("no")
			forgetOthers(own.user)
			tabs.postMessage(own satisfies Message)
		}
		tabs.onmessage = ({ data }: MessageEvent<Message>) => {
			if (data === "signed out") {
				void forgetChats()
				setOut("left")
			} else if (own?.user === data.user && own.org === data.org) become("no")
			else if (own) location.assign("/console")
		}
	}, [me.value])
	if (out === "left" || me.value === undefined && out === "expired") return <SignIn left={out === "left"} />
	if (me.failure && me.value === undefined) {
		if (me.failure.status === 403) return <Refused />
		return <main class="narrow"><h1>Collab</h1><Problem failure={me.failure} what="Loading your account" retry={me.retry} /></main>
	}
	if (me.value === undefined) return <main class="narrow" aria-busy="true"><h1 class="hidden">Loading</h1></main>
	const leave = async (everywhere: boolean): Promise<void> => {
		await endUndo()
		const provider = await signOut(everywhere)
		await forgetChats()
		tabs.postMessage("signed out" satisfies Message)
		if (provider === null) return setOut("left")
		sessionStorage.setItem("sign-out", new URL(provider).searchParams.get("state") ?? "")
		location.assign(provider)
	}
	const change = async (organisation: string): Promise<void> => {
		await endUndo()
		await switchTo(organisation)
		location.assign("/console")
	}
	return <Frame me={me.value} ended={out} leave={leave} change={change} />
}

function SignIn({ left }: { left: boolean }): JSX.Element {
	useEffect(() => void (document.title = "Sign in · Collab"), [])
	return (
		<main class="narrow">
			<Mark size={40} />
			<h1>{left ? "You are signed out" : "Sign in to Collab"}</h1>
			{backFromSignOut && <p>Here, and at the identity provider.</p>}
			<p class="soft">You choose account and organisation at the identity provider, and come back here.</p>
			<p><a class="button" href={left ? "/console/sign-in" : signInAddress()}>Sign in</a></p>
			<p class="soft">For programs: <a href="/docs">the documents</a>, and <a href="/docs#description/how-to-get-a-token">how to get a token</a>.</p>
		</main>
	)
}

function Refused(): JSX.Element {
	return (
		<main class="narrow">
			<h1>You are not a member any more</h1>
			<p>Your membership in the organisation of this session has ended, or the organisation is closed.</p>
			<p><a class="button" href="/console/sign-in">Sign in to another organisation</a></p>
		</main>
	)
}

// Operators has the pages of operators, which do without a member's session.
function Operators(): JSX.Element {
	const page = useLoaded<{ default: ComponentType }>(() => import("./pages/operator"), [])
	if (page.value) return <page.value.default />
	return <main class="narrow" aria-busy={!page.failure}><h1>Operator</h1>{page.failure && <p>The page could not be loaded. <button type="button" onClick={() => location.reload()}>Load it again</button></p>}</main>
}

const Root = (): JSX.Element => (isOperators(usePath()) ? <Operators /> : <Console />)

keepFocus()
sayLimits()
const root = document.getElementById("app")
if (root) render(<Root />, root)
