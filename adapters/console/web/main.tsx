// The frame of all pages: who is signed in, the menu, and the page of the address.
import { render, type ComponentType, type JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { call, Failure, failureOf, onExpired, signOut, switchTo } from "./interface"
import { Announcer } from "./live"
import { Problem, Show, useLoaded } from "./loading"
import { pages, type PageOf } from "./pages"
import { usePath } from "./router"
import type { Me } from "./types"
import { UndoBar } from "./undo"

const tabs = new BroadcastChannel("collab-console")

// The messages of the tabs: one has signed out, or says whose session it found.
type Message = "signed out" | { user: string; org: string | undefined }

// backFromSignOut is whether the identity provider has redirected here after this tab's sign-out.
const backFromSignOut = location.pathname === "/console/signed-out" && new URLSearchParams(location.search).get("state") === (sessionStorage.getItem("sign-out") ?? "none")
if (location.pathname === "/console/signed-out") {
	sessionStorage.removeItem("sign-out")
	history.replaceState(null, "", "/console")
}

function Console(): JSX.Element {
	const [out, setOut] = useState<"no" | "expired" | "left">(backFromSignOut ? "left" : "no")
	const me = useLoaded(() => call("GET /api/v1/auth/me"), [])
	useEffect(() => {
		onExpired(() => setOut((was) => (was === "no" ? "expired" : was)))
	}, [])
	useEffect(() => {
		const own = me.value && { user: me.value.user.id, org: me.value.org?.id }
		if (own) tabs.postMessage(own satisfies Message)
		tabs.onmessage = ({ data }: MessageEvent<Message>) => {
			if (data === "signed out") setOut("left")
			else if (own?.user === data.user && own.org === data.org) setOut((was) => (was === "expired" ? "no" : was))
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
		const provider = await signOut(everywhere)
		tabs.postMessage("signed out" satisfies Message)
		if (provider === null) return setOut("left")
		sessionStorage.setItem("sign-out", new URL(provider).searchParams.get("state") ?? "")
		location.assign(provider)
	}
	const change = async (organisation: string): Promise<void> => {
		await switchTo(organisation)
		location.assign("/console")
	}
	return <Frame me={me.value} expired={out === "expired"} leave={leave} change={change} />
}

// back returns the address of the sign-in that leads back to this page.
const back = (): string => "/console/sign-in?" + new URLSearchParams({ to: location.pathname + location.search })

function SignIn({ left }: { left: boolean }): JSX.Element {
	useEffect(() => void (document.title = "Sign in · Collab"), [])
	return (
		<main class="narrow">
			<h1>{left ? "You are signed out" : "Sign in to Collab"}</h1>
			{backFromSignOut && <p>Here, and at the identity provider.</p>}
			<p class="soft">You choose account and organisation at the identity provider, and come back here.</p>
			<p><a class="button" href={left ? "/console/sign-in" : back()}>Sign in</a></p>
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

// Organisations are those of the person, as buttons that switch to them. They are the end of the menu,
// as nothing may move under the pointer when they arrive.
function Organisations({ change }: { change: (organisation: string) => void }): JSX.Element {
	const own = useLoaded(() => call("GET /api/v1/auth/organisations"), [])
	return (
		<Show of={own} what="your organisations">
			{(list) => list.length > 0 && (
				<ul aria-label="Organisations">
					{list.map((o) => (
						<li key={o.id}>
							<button type="button" aria-current={o.current ? "true" : undefined} popoverTarget="account" popoverTargetAction="hide" onClick={() => o.current || change(o.id)}>
								{o.name ?? "An organisation"} <span class="soft">{o.role.toLowerCase()}</span>
							</button>
						</li>
					))}
				</ul>
			)}
		</Show>
	)
}

type FrameOf = { me: Me; expired: boolean; leave: (everywhere: boolean) => Promise<void>; change: (organisation: string) => Promise<void> }

function Frame({ me, expired, leave, change }: FrameOf): JSX.Element {
	const path = usePath()
	const at = pages.find((p) => p.path === path)
	const main = useRef<HTMLElement>(null)
	const [failed, fail] = useState<{ failure: Failure; what: string }>()
	const [wanted, want] = useState(false)
	const first = useRef(true)
	useEffect(() => {
		document.title = `${at?.name ?? "Not found"} · Collab`
		if (!first.current) main.current?.focus()
		first.current = false
	}, [path])
	const attempt = (what: string, act: Promise<void>): void => {
		act.catch((error: unknown) => fail({ failure: failureOf(error), what }))
	}
	const end = (everywhere: boolean): void => attempt("Signing out", leave(everywhere))
	const name = me.user.name ?? me.user.email ?? "You"
	return (
		<>
			<a class="skip" href="#main">Skip to the page</a>
			<header class="top">
				<a class="brand" href="/console"><svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><circle cx="12" cy="16" r="9" /><circle cx="20" cy="16" r="9" opacity=".45" /></svg> Collab</a>
				<nav aria-label="Pages">{pages.filter((p) => p.menu).map((p) => <a key={p.path} href={p.path} aria-current={p.path === path ? "page" : undefined}>{p.name}</a>)}</nav>
				<button type="button" class="account" popoverTarget="account" onPointerEnter={() => want(true)} onFocus={() => want(true)}><span class="initials" aria-hidden="true">{initials(name)}</span> <span class="who">{me.org?.name ?? name}</span></button>
				<div id="account" popover="auto" class="menu" onToggle={() => want(true)} onClick={(e) => e.target instanceof HTMLAnchorElement && e.currentTarget.hidePopover()}>
					<p><b>{name}</b><br /><span class="soft">{me.user.email}</span></p>
					<a href="/console/sessions">Sessions</a>
					<a href="/console/sign-in">Sign in with another account</a>
					<a href="/docs">Documents</a>
					<button type="button" onClick={() => end(false)}>Sign out</button>
					<button type="button" onClick={() => end(true)}>Sign out everywhere</button>
					{me.org ? wanted && <Organisations change={(organisation) => attempt("Switching the organisation", change(organisation))} /> : <p class="soft">No organisation</p>}
				</div>
			</header>
			{expired && <div class="notice" role="alert"><p><b>Your session has ended.</b> What is on this page stays until you leave it. <a href={back()} target="_blank">Sign in again in a new tab</a></p></div>}
			<main id="main" ref={main} tabIndex={-1}>
				{failed && <Problem {...failed} retry={() => fail(undefined)} />}
				{at ? <Shown key={at.path} at={at} me={me} /> : <><h1>There is no such page</h1><p>The address may be mistyped. <a href="/console">Home</a></p></>}
			</main>
			<UndoBar />
			<Announcer />
		</>
	)
}

// Shown is a page, loaded first where it is a file of its own. After an upgrade of the server the
// file may be gone: the console is then loaded again, once.
function Shown({ at, me }: { at: PageOf; me: Me }): JSX.Element {
	const page = useLoaded<ComponentType<{ me: Me }>>(async () => {
		if (at.page) return at.page
		try {
			const loaded = await at.load?.()
			sessionStorage.removeItem("reloaded")
			if (loaded) return loaded.default
		} catch {
			if (!sessionStorage.getItem("reloaded")) {
				sessionStorage.setItem("reloaded", "yes")
				location.reload()
			}
		}
		throw new Failure("The console could not be loaded", 0, "", 0)
	}, [at.path])
	const Page = at.page ?? page.value
	if (Page) return <Page me={me} />
	if (page.failure) return <><h1>{at.name}</h1><Problem failure={page.failure} what="Loading the page" retry={page.retry} /></>
	return <h1>{at.name}</h1>
}

const initials = (name: string): string => name.split(/\s+/).map((word) => word[0] ?? "").slice(0, 2).join("").toUpperCase()

const root = document.getElementById("app")
if (root) render(<Console />, root)
