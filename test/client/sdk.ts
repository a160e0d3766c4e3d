// A client that Hey API generates from the OpenAPI document, run with the address of a
// server as its argument.
import { chat, createTask, exchangeToken, followChanges, getManifest, listTasks, seedOnboarding, startTrial, updateTask, uploadFile } from "./sdk/index.js"
import { client } from "./sdk/client.gen.js"

declare const process: { argv: string[] }

function equal<Value>(got: Value, want: Value, what: string): void {
	if (got !== want) throw new Error(`${what} is ${String(got)}, not ${String(want)}`)
}

const baseUrl = process.argv[2] ?? ""
const signIn = await fetch(`${baseUrl}/dev/identity/token`, {
	method: "POST",
	body: new URLSearchParams({ email: "ada@collab.example", name: "Ada", org: "Analytical Engines", role: "owner" }),
})
const { identityToken } = (await signIn.json()) as { identityToken: string }
client.setConfig({ baseUrl })
const session = (await exchangeToken({ body: { identityToken }, throwOnError: true })).data
client.setConfig({ baseUrl, auth: () => session.token })
await seedOnboarding({ throwOnError: true })
await startTrial({ throwOnError: true })

const task = (await createTask({ body: { title: "Write the report" }, throwOnError: true })).data
equal(task.priority, "MEDIUM", "the default priority")
const done = (await updateTask({ path: { id: task.id }, body: { status: "DONE" }, throwOnError: true })).data
equal(typeof done.completedAt, "string", "completedAt")
equal((await listTasks({ query: { status: "DONE" }, throwOnError: true })).data[0]?.id, task.id, "the finished task")
const refused = await createTask({ body: { title: "" } })
equal(refused.error?.statusCode, 400, "the status of a task without a title")

const end = new AbortController()
const cursor = (await getManifest({ throwOnError: true })).response.headers.get("X-Sync-Cursor") ?? ""
await uploadFile({ body: { path: "reports/january.md", content: "# January\n" }, throwOnError: true })
const changes = await followChanges({ headers: { "Last-Event-ID": cursor }, signal: end.signal })
for await (const change of changes.stream) {
	equal("path" in change ? change.path : "", "reports/january.md", "the changed file")
	break
}
end.abort()

let said = ""
for await (const chunk of (await chat({ body: { message: "Hello" } })).stream) {
	if (chunk.type === "text") said += chunk.text
	if (chunk.type === "done") equal(chunk.usage.outputTokens > 0, true, "that tokens were used")
}
equal(said !== "", true, "that the model answers")
console.log("ok")
