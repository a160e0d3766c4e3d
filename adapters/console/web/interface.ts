// Calls of the HTTP interface, with types generated from its document.
import type { Me, Operations } from "./types"

type Operation = keyof Operations
type Arguments<Name extends Operation> = Omit<Operations[Name], "answer"> & Sending
// Sending is how a request is sent, beside what it says.
type Sending = { headers?: Record<string, string>; keepalive?: boolean; signal?: AbortSignal }
// Operations without required arguments may be called without any.
type Optional<Value> = object extends Value ? [Value?] : [Value]

// Answer is the body of an operation's success.
export type Answer<Name extends Operation> = Operations[Name]["answer"]

// Failure is an error of the interface, or of the way to it.
export class Failure extends Error {
	constructor(
		message: string,
		readonly status: number, // 0: the server was not reached
		readonly request: string, // the request's id; empty: unknown
		readonly wait: number, // seconds until a repetition makes sense
		readonly replayed = false, // it is that of an earlier request with the same idempotency key
	) {
		super(message)
	}
}

// Page is an answer with its headers.
export type Page<Value> = { value: Value; headers: Headers }

let refused = (_status: number): void => undefined

// onRefused has fn called with the status of a refusal: 401 if the session has ended, 403 if the role or the membership
// may have.
export function onRefused(fn: (status: number) => void): void {
	refused = fn
}

let operatorExpired = (): void => undefined

// onOperatorExpired has fn called when a call finds that there is no operator's session.
export function onOperatorExpired(fn: () => void): void {
	operatorExpired = fn
}

// refusal passes on a refusal, and returns its text for people: the server's of an ended session is about tokens.
export function refusal(status: number, text: string): string {
	if (status === 401 || status === 403) refused(status)
	return status === 401 ? "The session of this page has ended" : text
}

// call calls an operation by the session of this browser. It throws a Failure.
export async function call<Name extends Operation>(operation: Name, ...given: Optional<Arguments<Name>>): Promise<Answer<Name>> {
	return (await page(operation, ...given)).value
}

// page is call with the headers of the answer.
export async function page<Name extends Operation>(operation: Name, ...given: Optional<Arguments<Name>>): Promise<Page<Answer<Name>>> {
	const of: { path?: Record<string, string>; query?: Record<string, unknown>; body?: unknown } & Sending = given[0] ?? {}
	const [method = "GET", template = ""] = operation.split(" ")
	const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(of.path?.[name] ?? ""))
	const query = new URLSearchParams()
	for (const [name, value] of Object.entries(of.query ?? {})) if (value !== undefined) query.set(name, String(value))
	const headers: Record<string, string> = { Accept: "application/json", ...of.headers }
	const init: RequestInit & { headers: Record<string, string> } = { method, headers, keepalive: of.keepalive ?? false, signal: of.signal ?? null }
	if (of.body !== undefined) {
		headers["Content-Type"] = "application/json"
		init.body = JSON.stringify(of.body)
	}
	const response = await send("/console" + path + (query.size > 0 ? `?${query}` : ""), init)
	const value = (await response.json().catch((error: unknown) => {
		throw failureOf(error) // the response was cut
	})) as Answer<Name>
	return { value, headers: response.headers }
}

// Listed are records of a list. next is the cursor of those after them, undefined if there are none.
export type Listed<Records> = Records & { next: string | undefined }

// all returns the records of a list, from the query's cursor on, until it ends or they are enough: so many pages, or those for
// which a function says so.
export async function all<Name extends Operation>(
	operation: Name, query: Operations[Name] extends { query?: infer Query } ? Query : never, enough: number | ((records: Answer<Name>, pages: number) => boolean) = 10, more: Sending & { path?: Record<string, string> } = {},
): Promise<Listed<Answer<Name>>> {
	const records: unknown[] = []
	let { cursor } = query as { cursor?: string | undefined }, pages = 0
	do {
		const { value, headers } = await page(operation, ...([{ ...more, query: { limit: 1000, ...(query as object), cursor } }] as unknown as Optional<Arguments<Name>>))
		records.push(...(value as unknown[]))
		const next = /[?&]cursor=([^&>]+)[^>]*>; *rel="next"/.exec(headers.get("Link") ?? "")?.[1]
		cursor = next && decodeURIComponent(next)
		pages++
	} while (cursor !== undefined && !(typeof enough === "number" ? pages >= enough : enough(records as Answer<Name>, pages)))
	return Object.assign(records, { next: cursor }) as Listed<Answer<Name>>
}

// callDelete calls an operation that deletes something. What is gone already, as after a lost response, is deleted.
export async function callDelete<Name extends Operation & `DELETE ${string}`>(operation: Name, ...given: Optional<Arguments<Name>>): Promise<void> {
	await call(operation, ...given).catch((error: unknown) => {
		if (failureOf(error).status !== 404) throw error
	})
}

// failureOf returns an error as a Failure.
export function failureOf(error: unknown): Failure {
	return error instanceof Failure ? error : new Failure(String(error), 0, "", 0)
}

let alone = false // whether a sign-out has ended all other sessions of the person

// signOut ends the session of this browser, and before that all others of the person where
// everywhere is set. It returns the address at which the browser signs out at the identity provider
// too, null if there is none.
export async function signOut(everywhere: boolean): Promise<string | null> {
	if (everywhere) {
		await call("DELETE /api/v1/auth/sessions").catch((error: unknown) => {
			if (!alone || failureOf(error).status !== 401) throw error // otherwise this session has ended, too, and the response was lost
		})
		alone = true
	}
	const answer = await send("/console/sign-out", { method: "POST" })
	return ((await answer.json()) as { url: string | null }).url
}

// switchTo moves the session of this browser, in all tabs, to another organisation of the person.
export async function switchTo(orgId: string): Promise<void> {
	await send("/console/switch", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ orgId }) })
}

// account is whose page this is: the person's id and that of the organisation, empty until both are
// known. What belongs to one account is kept apart under it.
export let account = ""

// actAs has the requests of this page refused once the browser has a session of another account,
// which another tab may have begun.
export function actAs({ user, org }: Me): void {
	account = `${user.id}/${org?.id ?? ""}`
}

// accountHeaders are the headers of each request that say whose page sends it.
export const accountHeaders = (): Record<string, string> => (account === "" ? {} : { "Collab-Console-Account": account })

// operators are the addresses of operators' sessions, whose end is not that of the member's.
const operators = /^\/console\/(operator|api\/v1\/admin)\//

// send sends a request to an address of this server. It throws a Failure for errors.
export async function send(address: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
	let response: Response
	try {
		response = await fetch(address, { ...init, headers: { ...accountHeaders(), ...init.headers } })
	} catch {
		throw new Failure("The server cannot be reached", 0, "", 5)
	}
	if (response.ok) return response
	const problem = (await response.json().catch(() => ({}))) as { message?: string }
	let text = problem.message ?? response.statusText
	if (!operators.test(address)) text = refusal(response.status, text)
	else if (response.status === 401) operatorExpired()
	throw new Failure(text, response.status, response.headers.get("X-Request-Id") ?? "", Number(response.headers.get("Retry-After") ?? 0), response.headers.has("Idempotent-Replayed"))
}
