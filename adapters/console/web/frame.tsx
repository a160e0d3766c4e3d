// The frame of all pages: the navigation, the account, and the page of the address.
import { Fragment, type ComponentType, type JSX, type TargetedMouseEvent } from "preact"
import { useEffect, useMemo, useRef, useState } from "preact/hooks"
import { Icon, Initials, Mark, icons } from "./icons"
import { call } from "./interface"
import { keyName } from "./keys"
import { Announcer } from "./live"
import { part, Placeholder, Problem, Show, useActs, useLoaded } from "./loading"
import { groups, isFor, isListed, pages, type PageOf } from "./pages"
import { signInAddress, usePath } from "./router"
import { roles } from "./text"
import type { Me } from "./types"
import { UndoBar } from "./undo"

// The palette opens by Command+K on Apple's systems, where Ctrl+K deletes a line's rest, and by Ctrl+K on others.
const apple = /^(Mac|iP)/.test(navigator.platform)

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

type FrameOf = { me: Me; ended: "no" | "expired" | "removed"; leave: (everywhere: boolean) => Promise<void>; change: (organisation: string) => Promise<void> }

export function Frame({ me, ended, leave, change }: FrameOf): JSX.Element {
	const path = usePath()
	const at = pages.find((p) => p.path === path)
	const main = useRef<HTMLElement>(null)
	const { run: attempt, failed, fail } = useActs()
	const [wanted, want] = useState(false)
	const first = useRef(true)
	const role = useRef(me.role) // when the page was opened
	const wide = useWide()
	useEffect(() => {
		document.title = `${at?.name ?? "Not found"} · Collab`
		if (!first.current) main.current?.focus()
		first.current = false
		role.current = me.role
	}, [path])
	const end = (everywhere: boolean): void => void attempt("Signing out", () => leave(everywhere))
	const switchTo = (organisation: string): void => void attempt("Switching the organisation", () => change(organisation))
	const [Palette, setPalette] = useState<typeof import("./palette").Palette>()
	const [finding, find] = useState(false)
	const openPalette = (): void => {
		find(true)
		void attempt("Opening the commands", async () => {
			const loaded = await part(() => import("./palette"))
			setPalette(() => loaded.Palette)
		})
	}
	useEffect(() => {
		const onKey = (e: KeyboardEvent): void => {
			if (keyName(e) !== "k" || e.shiftKey || e.altKey || e.metaKey !== apple || e.ctrlKey === apple) return
			e.preventDefault()
			openPalette()
		}
		addEventListener("keydown", onKey)
		return () => removeEventListener("keydown", onKey)
	}, [])
	const name = me.user.name ?? me.user.email ?? "You"
	// shut closes a menu whose link was followed. The focus must not stay on the menu's button: Enter follows
	// a link when it goes down, and its second event, keypress, would press the button and open the menu again.
	const shut = (e: TargetedMouseEvent<HTMLElement>): void => {
		if (!(e.target instanceof Element) || !e.target.closest("a") || !e.currentTarget.matches(":popover-open")) return
		e.currentTarget.hidePopover()
		main.current?.focus()
	}
	return (
		<>
			<a class="skip" href="#main">Skip to the page</a>
			<div class="frame">
				<header class="side">
					<button type="button" class="plain to-pages" popoverTarget="pages" aria-label="Pages"><Icon path={icons.menu} /></button>
					<a class="brand" href="/console"><Mark size={22} /> Collab</a>
					<button type="button" class="account" popoverTarget="account" onPointerEnter={() => want(true)} onFocus={() => want(true)}><Initials of={me.org?.name ?? name} /> <span class="who"><span>{me.org?.name ?? name}</span>{me.org && <span class="soft">{name}</span>}</span><Icon path={icons.choose} /></button>
					<div id="account" popover="auto" class="menu" onToggle={() => want(true)} onClick={shut}>
						<p><b>{name}</b><br /><span class="soft">{me.user.email}</span></p>
						<a href="/console/sessions">Sessions</a>
						<a href="/console/sign-in">Sign in with another account</a>
						<a href="/docs">Documents</a>
						<button type="button" popoverTarget="account" popoverTargetAction="hide" onClick={() => end(false)}>Sign out</button>
						<button type="button" popoverTarget="account" popoverTargetAction="hide" onClick={() => end(true)}>Sign out everywhere</button>
						{me.org ? wanted && <Organisations change={switchTo} /> : <p class="soft">No organisation</p>}
					</div>
					<button type="button" class="find" aria-keyshortcuts={apple ? "Meta+K" : "Control+K"} onClick={openPalette}><Icon path={icons.find} /><span>Go to</span> <kbd>{apple ? "⌘K" : "Ctrl K"}</kbd></button>
					<nav id="pages" aria-label="Pages" popover={wide ? undefined : "auto"} onClick={shut}>
						{groups.map((group) => {
							const listed = pages.filter((p) => (p.group ?? "Work") === group && isListed(p, me))
							return listed.length > 0 && (
								<Fragment key={group}>
									<p id={`group-${group}`}>{group}</p>
									<ul aria-labelledby={`group-${group}`}>{listed.map((p) => <li key={p.path}><a href={p.path} aria-current={p.path === path ? "page" : undefined}><Icon path={p.icon} />{p.name}</a></li>)}</ul>
								</Fragment>
							)
						})}
					</nav>
				</header>
				<div class="page">
					{ended !== "no" && (
						<div class="notice" role="alert">
							<p>
								<b>{ended === "expired" ? "Your session has ended." : `You are not a member of ${me.org?.name ?? "the organisation"} any more, or it is closed.`}</b> What is on this page stays until you leave it.{" "}
								{ended === "expired" ? <a href={signInAddress()} target="_blank">Sign in again in a new tab</a> : <a href="/console/sign-in">Sign in to another organisation</a>}
							</p>
						</div>
					)}
					<main id="main" ref={main} tabIndex={-1}>
						{me.role && me.role !== role.current && <p class="waits" role="status">Your role is {roles[me.role]} now. This page offers what it permits, and keeps what you have typed.</p>}
						{failed && <Problem {...failed} giveUp={() => fail()} />}
						{!at
							? <><h1>There is no such page</h1><p>The address may be mistyped. <a href="/console">Home</a></p></>
							: isFor(at, me)
								? at.alone || me.org
									? <Shown key={at.path} at={at} me={me} />
									: <><h1>{at.name}</h1><p>You belong to no organisation yet. Somebody who manages one can invite you.</p></>
								: <><h1>{at.name}</h1><p>Your role in {me.org?.name ?? "the organisation"} has no access to this page. Its owners and admins change roles.</p></>}
					</main>
				</div>
			</div>
			{finding && Palette && <Palette me={me} pages={pages.filter((p) => isListed(p, me))} onClose={() => find(false)} leave={() => end(false)} change={switchTo} />}
			<UndoBar refused={fail} />
			<Announcer />
		</>
	)
}

// useWide reports whether there is space for the pages' list beside the page, as in the style.
function useWide(): boolean {
	const query = useMemo(() => matchMedia("(min-width: 60rem)"), [])
	const [wide, set] = useState(query.matches)
	useEffect(() => {
		const update = (): void => set(query.matches)
		query.addEventListener("change", update)
		return () => query.removeEventListener("change", update)
	}, [])
	return wide
}

// Shown is a page, loaded first where it is a file of its own. If that is gone the console is loaded again, once.
function Shown({ at, me }: { at: PageOf; me: Me }): JSX.Element {
	const page = useLoaded(async () => {
		const loaded = at.load && await part(at.load, () => {
			if (sessionStorage.getItem("reloaded")) return
			sessionStorage.setItem("reloaded", "yes")
			location.reload()
		})
		sessionStorage.removeItem("reloaded")
		return (loaded?.default ?? at.page) as ComponentType<{ me: Me }> // to whom it is shown belongs to an organisation if it needs one
	}, [at.path])
	const Page = at.page ?? page.value
	if (Page) return <Page me={me} />
	if (page.failure) return <><h1>{at.name}</h1><Problem failure={page.failure} what="Loading the page" retry={page.retry} /></>
	return <><h1>{at.name}</h1><Placeholder what="the page" /></>
}
