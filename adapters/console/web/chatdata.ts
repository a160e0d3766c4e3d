// Chats: requests to the interface with their history, and answers as they come.
import type { Answer, Conversation, Conversations, Exchange } from "./conversations"
import { lockOf } from "./conversations"
import { readEvents } from "./events"
import { send } from "./interface"
import { announce } from "./live"
import { beginning } from "./text"
import type { ChatChunk, ChatRequest, HistoryBlock, HistoryMessage, Model } from "./types"

const silence = 60_000 // milliseconds after which a stream without a comment is given up; the server sends one every 15 seconds

// What the interface accepts of a history.
const mostMessages = 2000
const mostBlocks = 200
const mostBytes = 1_000_000 // of the whole request, somewhat less than 1 MiB
export const longestMessage = 400_000 // characters
export const longestPrompt = 200_000

// tokensOf estimates the tokens of a text as the server does: rather too many.
function tokensOf(text: string): number {
	const bytes = new TextEncoder().encode(text).length
	let ascii = 0
	for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) < 128) ascii++
	return Math.ceil(ascii / 3) + Math.ceil((2 * (bytes - ascii)) / 3)
}

// messagesOf returns an exchange as messages of a history. What the provider ran itself is left out, as
// models are not sent it again. ids has those of the calls of earlier exchanges.
function messagesOf(e: Exchange, ids: Set<string>): HistoryMessage[] {
	const messages: HistoryMessage[] = e.message.trim() === "" ? [] : [{ role: "user", content: e.message }]
	let blocks: HistoryBlock[] = []
	let results: HistoryBlock[] = []
	const flush = (): void => {
		if (blocks.length > 0) messages.push({ role: "assistant", content: blocks })
		if (results.length > 0) messages.push({ role: "user", content: results })
		blocks = []
		results = []
	}
	for (const part of e.answer.parts) {
		if (results.length > 0 && part.type === "text" || blocks.length >= mostBlocks) flush()
		if (part.type === "text") {
			if (part.text.trim() !== "") blocks.push({ type: "text", text: beginning(part.text, longestMessage) })
		} else if (!part.call.serverHandled) {
			let id = part.call.id
			for (let n = 2; ids.has(id); n++) id = `${part.call.id.slice(0, 240)}_${n}`
			ids.add(id)
			blocks.push({ type: "tool_use", id, name: part.call.name, input: part.call.args })
			if (part.result !== undefined) results.push({ type: "tool_result", toolUseId: id, content: part.result as string })
		}
	}
	flush()
	return messages
}

// Cost is what a part of a request takes.
type Cost = { tokens: number; bytes: number; messages: number }

const costs = new WeakMap<Exchange, Cost>()

function costOf(e: Exchange): Cost {
	let cost = costs.get(e)
	if (!cost) {
		const messages = messagesOf(e, new Set())
		const json = JSON.stringify(messages)
		cost = { tokens: 8 * messages.length + tokensOf(json), bytes: new TextEncoder().encode(json).length, messages: messages.length }
		costs.set(e, cost)
	}
	return cost
}

// included returns how many of the last exchanges fit into a request to a model, beside a text that
// goes with it and the answer.
export function included(exchanges: Exchange[], model: Model | undefined, maxTokens: number | undefined, text: string): number {
	const room = model ? Math.max(model.contextWindow - Math.min(maxTokens ?? model.maxOutputTokens, model.maxOutputTokens), model.contextWindow / 4) : Infinity
	const total: Cost = { tokens: 1000 + tokensOf(text), bytes: 4000 + new TextEncoder().encode(JSON.stringify(text)).length, messages: 0 }
	for (let n = 0; n < exchanges.length; n++) {
		const cost = costOf(exchanges[exchanges.length - 1 - n] as Exchange)
		total.tokens += cost.tokens
		total.bytes += cost.bytes
		total.messages += cost.messages
		if (total.tokens > room || total.bytes > mostBytes || total.messages > mostMessages) return n
	}
	return exchanges.length
}

// Question is what is asked: an exchange to answer again, or a message that goes at the end of the
// conversation, in place of an exchange if replaces is set.
type Question = { conversation: Conversation; begins: boolean; message: string; again?: Exchange; replaces?: Exchange; model: Model | undefined }

const stops = new Map<string, AbortController>() // of the answers that this tab is being given, by their conversations

// answering reports whether this tab is being given an answer of a conversation.
export const answering = (conversation: string): boolean => stops.has(conversation)

// stop ends the answer of a conversation.
export function stop(conversation: string): void {
	stops.get(conversation)?.abort("stopped")
}

// ask sends a question, and returns its exchange when the answer has begun, undefined if it was
// stopped before. It throws a Failure if the question was refused, when nothing has changed.
export async function ask(all: Conversations, { conversation: c, begins, message, again, replaces, model }: Question): Promise<Exchange | undefined> {
	if (stops.has(c.id)) return undefined
	const controller = new AbortController()
	stops.set(c.id, controller)
	all.closed.signal.addEventListener("abort", () => controller.abort("stopped"), { once: true })
	const { system, maxTokens, search } = c.settings
	const before = (all.of(c.id) ?? []).filter((e) => e.id !== replaces?.id && (!again || e.at < again.at))
	const ids = new Set<string>()
	const history = before.slice(before.length - included(before, model, maxTokens, (system ?? "") + message)).flatMap((e) => messagesOf(e, ids))
	const request: ChatRequest = { message, history }
	if (model) request.model = model.id
	if (system) request.systemPrompt = system
	if (maxTokens) request.maxTokens = model ? Math.min(maxTokens, model.maxOutputTokens) : maxTokens
	if (search && model?.capabilities.includes("web_search")) request.enableWebSearch = true
	let response: Response
	try {
		response = await send("/console/api/v1/chat", { method: "POST", headers: { "Content-Type": "application/json", Accept: "text/event-stream" }, body: JSON.stringify(request), signal: controller.signal })
	} catch (error) {
		stops.delete(c.id)
		if (controller.signal.aborted) return undefined
		throw error
	}
	const answer: Answer = { state: "running", model: model?.displayName ?? "", parts: [], request: response.headers.get("X-Request-Id") ?? "" }
	const e: Exchange = again ? { ...again, answer } : { form: 1, owner: all.owner, conversation: c.id, at: Math.max(Date.now(), (before.at(-1)?.at ?? 0) + 1), id: crypto.randomUUID(), message, answer }
	await new Promise<void>((begun) => {
		void navigator.locks.request(lockOf(e), async () => {
			all.add(e, begins ? c : undefined)
			announce("The answer begins.")
			begun()
			const ended = await receive(all, e, response, controller)
			stops.delete(c.id)
			all.update({ ...e, answer: ended })
			announce({ running: "", done: "The answer is complete.", stopped: "The answer is stopped.", cut: "The answer was cut off.", failed: `The answer failed. ${ended.error ?? ""}` }[ended.state])
		})
	})
	return e
}

// receive follows a stream, and returns the answer as it is at the end.
async function receive(all: Conversations, e: Exchange, response: Response, controller: AbortController): Promise<Answer> {
	const answer = { ...e.answer }
	let due = false
	const show = (): void => { // the events of one read together
		if (due) return
		due = true
		queueMicrotask(() => {
			due = false
			if (answer.state === "running" && !all.update({ ...e, answer: { ...answer } })) controller.abort("stopped")
		})
	}
	const take = (chunk: ChatChunk): void => {
		if (answer.state !== "running") return
		const parts = [...answer.parts]
		const last = parts.at(-1)
		if (chunk.type === "text") {
			last?.type === "text" ? (parts[parts.length - 1] = { type: "text", text: last.text + chunk.text }) : parts.push({ type: "text", text: chunk.text })
		} else if (chunk.type === "tool_call") {
			parts.push({ type: "tool", call: chunk.toolCall })
		} else if (chunk.type === "tool_result") {
			const { callId, result } = chunk.toolResult
			answer.parts = parts.map((p) => (p.type === "tool" && p.call.id === callId ? { ...p, result } : p))
			return show()
		} else {
			Object.assign(answer, chunk.type === "done" ? { state: "done", usage: chunk.usage } : { state: "failed", error: chunk.error })
		}
		answer.parts = parts
		show()
	}
	const quiet = (): void => controller.abort("silent")
	let watch = setTimeout(quiet, silence)
	try {
		if (response.body) {
			await readEvents(response.body, () => {
				clearTimeout(watch)
				watch = setTimeout(quiet, silence)
			}, (fields) => {
				const data = fields.get("data")
				if (data !== undefined) take(JSON.parse(data) as ChatChunk)
			})
		}
	} catch {
		controller.abort("unreadable")
	}
	clearTimeout(watch)
	if (answer.state === "running") answer.state = controller.signal.reason === "stopped" ? "stopped" : "cut"
	return answer
}
