// Chats with models: conversations that are kept on this device, answers as they come, and what
// they use of today's quota.
import type { JSX } from "preact"
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks"
import { answering, ask, included, longestMessage, longestPrompt, stop } from "../chatdata"
import { conversationsOf, mostConversations, type Answer, type Conversation, type Conversations, type Exchange, type Part, type Settings } from "../conversations"
import { Dialog } from "../dialog"
import { useDraft } from "../draft"
import { call, failureOf, type Failure } from "../interface"
import { Copy, Placeholder, Problem, RequestId, Time, useLoaded, type Loaded } from "../loading"
import { Markdown } from "../markdown"
import { Menu } from "../menu"
import type { Belonging } from "../pages"
import { addressWith, useQuery, useTyped } from "../router"
import { beginning, count, exact, relative } from "../text"
import type { Model, Quota } from "../types"
import { offerUndo } from "../undo"

const shownFirst = 30 // exchanges of a long conversation, and as many more at a time
const near = 60 // pixels from the end within which the page follows an answer

export default function Chat({ me }: { me: Belonging }): JSX.Element {
	const writes = me.role !== "VIEWER", all = conversationsOf(me.user.id, me.org.id)
	const [query, change] = useQuery()
	const [, render] = useReducer((n: number) => n + 1, 0)
	const [listed, list] = useState(false)
	const models = useLoaded(() => call("GET /api/v1/models"), [])
	const id = query.get("c") ?? undefined
	useEffect(() => all.observe(() => render(undefined)), [all])
	useEffect(() => {
		if (id !== undefined) all.open(id)
		list(false)
	}, [all, id])
	return (
		<div class="chat">
			<div class="talks" data-open={listed}>
				<header class="bar">
					<h1 tabIndex={-1}>Chat</h1>
					<button type="button" class="small toggle" aria-expanded={listed} onClick={() => list(!listed)}>Conversations</button>
					{writes && <a class="button small" href="/console/chat">New chat</a>}
				</header>
				<Listed all={all} shown={id} open={(c) => change({ c })} />
			</div>
			<Talk key={id ?? "new"} all={all} id={id} models={models} writes={writes} />
		</div>
	)
}

// Listed are the conversations, with those acts that need not be open for.
function Listed({ all, shown, open }: { all: Conversations; shown: string | undefined; open: (id: string | undefined) => void }): JSX.Element {
	const typed = useTyped("q"), text = typed.value
	const [found, find] = useState<Set<string>>()
	const [renamed, rename] = useState<Conversation>()
	useEffect(() => {
		let current = true
		if (text.trim() === "") return find(undefined)
		const timer = setTimeout(() => void all.matching(text.trim()).then((ids) => current && find(ids)), 150)
		return () => {
			current = false
			clearTimeout(timer)
		}
	}, [all, text])
	const rows = all.list?.filter((c) => !found || found.has(c.id))
	const remove = async (c: Conversation): Promise<void> => {
		stop(c.id)
		const undo = await all.remove(c.id)
		if (c.id === shown) open(undefined)
		offerUndo({ text: `The conversation “${c.title}” is deleted.`, undo: () => (undo(), c.id === shown && location.pathname === "/console/chat" && open(c.id)) })
	}
	return (
		<nav aria-label="Conversations">
			<input type="search" class="full" aria-label="Search conversations" placeholder="Search" {...typed} />
			{all.failure !== undefined && <div class="problem" role="alert"><p><strong>This device does not keep conversations.</strong> What you see is lost when you leave the console. {all.failure}.</p></div>}
			{rows?.length === 0 && <p class="empty">{found ? "No conversation has these words." : "No conversation yet. Each begins with your first message, and is kept here."}</p>}
			<ul>
				{rows?.map((c) => (
					<li key={c.id}>
						<a href={addressWith({ c: c.id })} aria-current={c.id === shown ? "page" : undefined}>
							<span class="title">{c.title}</span>
							<span class="soft">{answering(c.id) ? "Being answered" : <Time at={new Date(c.at).toISOString()} />}</span>
						</a>
						<Menu label={`Acts on “${c.title}”`} class="small plain" choices={() => [{ text: "Rename", act: () => rename(c) }, { text: "Delete", act: () => void remove(c) }]}>⋯</Menu>
					</li>
				))}
			</ul>
			<p class="soft">Conversations are kept on this device only, until you sign out: at most {mostConversations}, of which the oldest go first.</p>
			{renamed && <Rename c={renamed} all={all} close={() => rename(undefined)} />}
		</nav>
	)
}

function Rename({ c, all, close }: { c: Conversation; all: Conversations; close: () => void }): JSX.Element {
	const [draft, set] = useDraft<string>(`title ${c.id}`)
	const title = draft ?? c.title
	const save = (): void => {
		set(undefined)
		if (title.trim() !== "") void all.change(c.id, { title: title.trim() })
		close()
	}
	return (
		<Dialog title="Rename the conversation" onClose={close}>
			<form onSubmit={(e) => (e.preventDefault(), save())}>
				<p class="fields"><label>Title<input value={title} maxLength={200} onInput={(e) => set(e.currentTarget.value)} /></label></p>
				<button type="submit" class="primary">Save</button>
			</form>
		</Dialog>
	)
}

let begun: string | undefined // the conversation that a message has just begun, whose field takes the focus over

// By the fields of messages, also while others are shown: the conversations of those whose answers have not begun, and
// why the last ones were not sent.
const sent = new Map<string, string>(), refused = new Map<string, { failure: Failure; again: Exchange | undefined }>()

type TalkOf = { all: Conversations; id: string | undefined; models: Loaded<Model[]>; writes: boolean }

// Talk is a conversation, or a new one that its first message begins.
function Talk({ all, id, models, writes }: TalkOf): JSX.Element {
	const [, change] = useQuery()
	const slot = `chat ${id ?? "new"}`
	const [draft, setText, drop] = useDraft<unknown>(slot)
	const text = typeof draft === "string" ? draft : ""
	const [chosen, choose, dropChosen] = useDraft<Settings>("chat settings") // of a new conversation
	const [edited, edit] = useDraft<string>(`${slot} edited`) // the id of the exchange that is sent again
	const field = `${all.owner} ${slot}`
	const sending = sent.get(field), failed = refused.get(field)
	const [set, setting] = useState(false)
	const area = useRef<HTMLTextAreaElement>(null)
	useLayoutEffect(() => {
		if (id !== undefined && id === begun) area.current?.focus()
		begun = undefined
	}, [])
	const known = id === undefined ? undefined : all.find(id)
	const exchanges = (id === undefined ? undefined : all.of(id)) ?? none
	const last = exchanges.at(-1)
	const ended = exchanges.filter((e) => e.answer.state !== "running").length
	const quota = useLoaded(() => call("GET /api/v1/metering/quota"), [ended, failed])
	const settings = known?.settings ?? chosen ?? {}
	const model = models.value?.find((m) => m.id === settings.model) ?? models.value?.[0]
	const here = id !== undefined && answering(id)
	const elsewhere = !here && last?.answer.state === "running"
	const fits = useMemo(() => included(here ? exchanges.slice(0, -1) : exchanges, model, settings.maxTokens, settings.system ?? ""), [exchanges.length, here, model, settings])
	const adjust = (to: Settings): void => void (known ? void all.change(known.id, { settings: { ...settings, ...to } }) : choose({ ...settings, ...to }))

	const forget = (): void => {
		refused.delete(field)
		all.changed()
	}

	// put sends a message, or has the last one answered again.
	const put = async (message: string, again?: Exchange): Promise<void> => {
		if (here || elsewhere || sent.has(field) || !again && message.trim() === "") return
		const conversation: Conversation = known ?? { form: 1, owner: all.owner, id: crypto.randomUUID(), title: titleOf(message), at: Date.now(), size: 0, settings }
		const replaces = again ? undefined : exchanges.find((e) => e.id === edited && e === last)
		sent.set(field, conversation.id)
		forget()
		try {
			const e = await ask(all, { conversation, begins: !known, message, model, ...(again && { again }), ...(replaces && { replaces }) })
			if (e && !again) {
				drop(message)
				edit(undefined)
			}
			if (e && replaces) {
				const back = all.take(replaces)
				const running = (): boolean => all.of(conversation.id)?.find((o) => o.id === e.id)?.answer.state === "running"
				offerUndo({ text: "Your last message and its answer are replaced.", undo: () => (running() && stop(conversation.id), all.take(e), back()) })
			}
			if (e && !known) {
				dropChosen(chosen)
				if (location.pathname !== "/console/chat" || new URLSearchParams(location.search).has("c")) return // the person has gone elsewhere
				begun = conversation.id
				change({ c: conversation.id }, true)
			}
		} catch (error) {
			refused.set(field, { failure: failureOf(error), again })
		} finally {
			sent.delete(field)
			all.changed()
		}
	}
	const busy = here || sending !== undefined
	const halt = (): void => stop(id ?? sending ?? "")
	const revise = (e: Exchange): void => {
		edit(e.id)
		setText(e.message)
		area.current?.focus()
	}

	if (id !== undefined && all.list && !known) {
		return <section class="talk" aria-label="Conversation"><p class="empty">There is no such conversation on this device. It may have been deleted, or be on another one. {writes && <a href="/console/chat">New chat</a>}</p></section>
	}
	return (
		<section class="talk" aria-label={known?.title ?? "New conversation"} onKeyDown={(e) => {
			if (e.key !== "Escape" || e.isComposing || e.defaultPrevented || !busy || (e.target as Element).closest("dialog")) return
			e.preventDefault()
			halt()
		}}>
			<Log exchanges={exchanges} fits={fits} loading={id !== undefined && all.of(id) === undefined} writes={writes} here={here} again={(e) => void put(e.message, e)} revise={revise} />
			{!writes
				? <p class="notice">You may read here what this device keeps. Chats are for members: a VIEWER has read-only access.</p>
				: quota.value?.limit === 0
					? <p class="notice">The organisation’s plan includes no tokens for chats. A trial or a plan gives some: <a href="/console/billing">Billing</a>.</p>
					: (
						<form class="composer" onSubmit={(e) => (e.preventDefault(), void put(text))}>
							{failed && <Problem failure={failed.failure} what="Sending" retry={() => void put(failed.again?.message ?? text, failed.again)} giveUp={forget}><p>What you wrote is kept here. {failed.failure.status === 403 && quota.value && <Left quota={quota.value} />}</p></Problem>}
							{models.failure && <Problem failure={models.failure} what="Loading the models" retry={models.retry}><p>The default model answers until then.</p></Problem>}
							{edited !== undefined && edited === last?.id && <p class="bar soft">You are changing your last message: sending it replaces the answer. <button type="button" class="small" onClick={() => (edit(undefined), setText(undefined), area.current?.focus())}>Keep the answer</button></p>}
							<textarea ref={area} aria-label="Message" placeholder="Write a message" rows={2} maxLength={longestMessage} value={text} readOnly={sending !== undefined && !here} onInput={(e) => setText(e.currentTarget.value || undefined)} onKeyDown={(e) => {
								if (e.key !== "Enter" || e.shiftKey || e.isComposing) return
								e.preventDefault()
								void put(text)
							}} />
							<div class="bar">
								{models.value && <select aria-label="Model" value={model?.id} onChange={(e) => adjust({ model: e.currentTarget.value })}>{models.value.map((m) => <option key={m.id} value={m.id}>{m.displayName}</option>)}</select>}
								{model?.capabilities.includes("web_search") && <label class="check"><input type="checkbox" checked={settings.search ?? false} onChange={(e) => adjust({ search: e.currentTarget.checked })} /> Web search</label>}
								<button type="button" class="small" onClick={() => setting(true)}>Instructions{settings.system || settings.maxTokens ? " ✓" : ""}</button>
								<span class="soft left">{quota.value && <Left quota={quota.value} />}{quota.failure && <>How many tokens are left is unknown. <button type="button" class="small" onClick={quota.retry}>Try again</button></>}</span>
								{busy
									? <button type="button" class="end" onClick={halt}>Stop</button>
									: <button type="submit" class="primary end" disabled={elsewhere}>Send</button>}
							</div>
							{elsewhere && <p class="soft">Another tab is being given an answer in this conversation.</p>}
						</form>
					)}
			{set && <Instructions slot={slot} settings={settings} model={model} save={adjust} close={() => setting(false)} />}
		</section>
	)
}

const none: Exchange[] = []

// titleOf returns the title of a conversation that a message begins.
function titleOf(message: string): string {
	const line = message.trim().replace(/\s+/g, " ")
	return line.length <= 60 ? line : beginning(line, 60).replace(/\s\S*$/, "") + "…"
}

// Left says how much of today's quota is left.
function Left({ quota: q }: { quota: Quota }): JSX.Element {
	return <span title={`${count(q.used)} of ${count(q.limit)} tokens used. The quota resets at 00:00 UTC: ${exact(q.resetsAt)}`}>{count(q.remaining)} tokens left today{q.remaining < q.limit / 10 && <>; resets {relative(q.resetsAt)}, at 00:00 UTC</>}</span>
}

type LogOf = { exchanges: Exchange[]; fits: number; loading: boolean; writes: boolean; here: boolean; again: (e: Exchange) => void; revise: (e: Exchange) => void }

// Log shows the exchanges, the last ones first, and follows the answer while its end is in view.
function Log({ exchanges, fits, loading, writes, here, again, revise }: LogOf): JSX.Element {
	const box = useRef<HTMLDivElement>(null)
	const following = useRef(true)
	const [away, setAway] = useState(false)
	const [most, more] = useState(shownFirst)
	const shown = exchanges.slice(-most)
	const last = exchanges.at(-1)
	const acts = useRef({ again, revise })
	acts.current = { again, revise }
	const toEnd = (): void => {
		following.current = true
		setAway(false)
		box.current?.scrollTo({ top: box.current.scrollHeight })
	}
	useLayoutEffect(() => toEnd(), [last?.id])
	useLayoutEffect(() => {
		if (following.current) box.current?.scrollTo({ top: box.current.scrollHeight })
		else setAway(true)
	}, [last])
	const scrolled = (): void => {
		const b = box.current
		if (!b) return
		following.current = b.scrollHeight - b.scrollTop - b.clientHeight < near
		setAway(!following.current)
	}
	return (
		<div class="record">
			<div ref={box} class="log" role="region" aria-label="Messages" tabIndex={0} onScroll={scrolled}>
				{loading && <Placeholder what="the conversation" />}
				{!loading && exchanges.length === 0 && <p class="empty begin">Ask something. The model sees this conversation, and nothing else of the organisation.</p>}
				{exchanges.length > shown.length && <p><button type="button" class="small" onClick={() => more(most + shownFirst)}>Earlier messages</button></p>}
				{shown.map((e, i) => {
					const at = exchanges.length - shown.length + i
					return (
						<div key={e.id}>
							{at === exchanges.length - fits && at > 0 && <p class="cut soft" role="note">The model does not see what is above: the conversation is longer than it accepts.</p>}
							<Shown e={e} latest={e === last} here={here && e === last} writes={writes} acts={acts} />
						</div>
					)
				})}
				{fits === 0 && exchanges.length > 0 && <p class="cut soft" role="note">The model does not see what is above: the conversation is longer than it accepts.</p>}
			</div>
			{away && <button type="button" class="small latest" onClick={toEnd}>Jump to latest</button>}
		</div>
	)
}

type ShownOf = { e: Exchange; latest: boolean; here: boolean; writes: boolean; acts: { current: { again: (e: Exchange) => void; revise: (e: Exchange) => void } } }

const endings: Record<Answer["state"], string> = { running: "", done: "", stopped: "The answer was stopped.", cut: "The answer was cut off before its end.", failed: "The answer failed." }

// Shown is a message with its answer.
function Shown({ e, latest, here, writes, acts }: ShownOf): JSX.Element {
	return useMemo(() => {
		const a = e.answer
		const ended = a.state !== "running"
		return (
			<article class="exchange">
				<h2 class="hidden">You</h2>
				<div class="said">{e.message}</div>
				<h2 class="hidden">{a.model || "The model"}</h2>
				<div class="answer" data-state={a.state}>
					{a.parts.map((p, i) => (p.type === "text" ? <Markdown key={i} text={p.text} /> : <Tool key={i} part={p} ended={ended} />))}
					{!ended && a.parts.length === 0 && <p class="soft">{here ? "Waiting for the first words." : "Another tab is being given the answer."}</p>}
					{a.state !== "done" && ended && (
						<div class={a.state === "stopped" ? "soft" : "problem"}>
							<p><strong>{endings[a.state]}</strong> {a.error} {a.parts.length > 0 && "What came of it is kept."}</p>
							{a.state !== "stopped" && <RequestId id={a.request} />}
							{latest && writes && <button type="button" class="small" onClick={() => acts.current.again(e)}>Try again</button>}
						</div>
					)}
					{ended && (
						<p class="about soft">
							{a.model}{a.usage && <span title="Tokens that count against the quota: what the model read, and what it wrote"> · {count(a.usage.inputTokens)} tokens in, {count(a.usage.outputTokens)} out</span>} · <Time at={new Date(e.at).toISOString()} />
							{a.parts.length > 0 && <Copy text={a.parts.map((p) => (p.type === "text" ? p.text : "")).join("")} what="the answer" looks="small plain" />}
							{latest && writes && <button type="button" class="small plain" onClick={() => acts.current.revise(e)}>Edit my message</button>}
						</p>
					)}
				</div>
			</article>
		)
	}, [e, latest, here, writes])
}

// Tool is a call of a tool with its result.
function Tool({ part, ended }: { part: Part & { type: "tool" }; ended: boolean }): JSX.Element {
	const { call: c, result } = part
	const pages = Array.isArray(result) ? result.filter((r): r is { title?: unknown; url: string } => typeof r?.url === "string" && /^https?:\/\//i.test(r.url)) : []
	const search = c.name === "web_search" && c.serverHandled
	const failed = search && result !== undefined && !Array.isArray(result)
	return (
		<details class="tool">
			<summary>
				{search ? <>Web search: {String(c.args.query ?? "")}</> : <>Tool: {c.name}</>}{" "}
				<span class="soft">{failed ? "failed" : search && result !== undefined ? `${pages.length} ${pages.length === 1 ? "page" : "pages"}` : result !== undefined ? "run by the provider" : c.serverHandled ? (ended ? "without a result" : "running") : "not run: the console has no tools"}</span>
			</summary>
			{search ? null : <><p class="soft">Arguments</p><pre tabIndex={0}><code>{JSON.stringify(c.args, null, 2)}</code></pre></>}
			{pages.length > 0
				? <ul>{pages.map((p, i) => <li key={i}><a href={p.url} target="_blank" rel="noopener noreferrer">{typeof p.title === "string" && p.title !== "" ? p.title : p.url}</a> <span class="soft">{hostOf(p.url)}</span></li>)}</ul>
				: result !== undefined && <><p class="soft">Result</p><pre tabIndex={0}><code>{typeof result === "string" ? result : JSON.stringify(result, null, 2)}</code></pre></>}
		</details>
	)
}

function hostOf(url: string): string {
	try {
		return new URL(url).host
	} catch {
		return ""
	}
}

// Instructions edits what goes with each message of a conversation.
function Instructions({ slot, settings, model, save, close }: { slot: string; settings: Settings; model: Model | undefined; save: (to: Settings) => void; close: () => void }): JSX.Element {
	const [draft, keep] = useDraft<{ system?: string; tokens?: string }>(`${slot} instructions`)
	const system = draft?.system ?? settings.system ?? ""
	const tokens = draft?.tokens ?? settings.maxTokens?.toString() ?? ""
	const submit = (): void => {
		keep(undefined)
		save({ system: system.trim() === "" ? undefined : system, maxTokens: tokens === "" ? undefined : Number(tokens) } as Settings)
		close()
	}
	return (
		<Dialog title="Instructions" onClose={close}>
			<form onSubmit={(e) => (e.preventDefault(), submit())}>
				<div class="fields">
					<label class="long">What the model is told before each message (system prompt)<textarea value={system} maxLength={longestPrompt} placeholder="Answer in one sentence." onInput={(e) => keep({ ...draft, system: e.currentTarget.value })} /></label>
					<label>Longest answer, in tokens<input type="number" min={1} max={model?.maxOutputTokens} step={1} value={tokens} placeholder={model && String(model.maxOutputTokens)} onInput={(e) => keep({ ...draft, tokens: e.currentTarget.value })} /></label>
				</div>
				<p class="soft">For this conversation only.{model && <> The model {model.displayName} answers with at most {count(model.maxOutputTokens)} tokens.</>}</p>
				<button type="submit" class="primary">Save</button>
			</form>
		</Dialog>
	)
}
