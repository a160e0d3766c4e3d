// What changed lately: files as the feed tells, tasks, and who has joined.
import type { JSX } from "preact"
import { useFeed } from "./feed"
import { NotLive } from "./feedstate"
import { all, call, Failure, page } from "./interface"
import { Placeholder, Problem, Time, useLoaded, useLook } from "./loading"
import { first } from "./members"
import { nameOf } from "./text"
import type { Task } from "./types"

type Change = { at: string; key: string; text: JSX.Element }

const listed = 12 // changes
const readTasks = 100 // the newest, among which changes are looked for

export function Lately(): JSX.Element {
	const files = useLoaded(filesChanged, [])
	const tasks = useLoaded(tasksChanged, [])
	const members = useLoaded(membersJoined, [])
	const readFiles = useLook(files.retry)
	useLook(() => {
		tasks.retry()
		members.retry()
	})
	const feed = useFeed(readFiles)
	const parts = [files, tasks, members]
	const changes = parts.flatMap((p) => p.value ?? []).sort((a, b) => b.at.localeCompare(a.at)).slice(0, listed)
	const loading = parts.some((p) => p.value === undefined && !p.failure)
	return (
		<>
			<NotLive feed={feed}><p>Files that others change appear here when the connection is back. It is attempted again by itself.</p></NotLive>
			{files.failure && <Problem failure={files.failure} what="Loading changed files" retry={files.retry} />}
			{tasks.failure && <Problem failure={tasks.failure} what="Loading changed tasks" retry={tasks.retry} />}
			{members.failure && <Problem failure={members.failure} what="Loading who joined" retry={members.retry} />}
			{changes.length > 0
				? <ul class="lately" aria-busy={loading}>{changes.map((c) => <li key={c.key}>{c.text} <Time at={c.at} /></li>)}</ul>
				: loading
					? <Placeholder what="what changed lately" />
					: parts.every((p) => !p.failure) && <p class="empty">No file has changed yet, no task was made, and nobody has joined in the last 30 days.</p>}
		</>
	)
}

// filesChanged returns the files among the last 20 entries of the feed.
async function filesChanged(signal: AbortSignal): Promise<Change[]> {
	const { headers } = await page("GET /api/v1/sync/manifest", { query: { limit: 1 }, signal })
	const [epoch, position] = (headers.get("X-Sync-Cursor") ?? "").split("-")
	if (!epoch || !Number(position)) return []
	try {
		const records = await call("GET /api/v1/sync/manifest", { query: { since: `${epoch}-${Math.max(0, Number(position) - 20)}` }, signal })
		return records.map((r) => ({ at: r.deletedAt ?? r.updatedAt, key: r.storageKey + r.version, text: <><b>{r.path}</b> was {r.deleted ? "deleted" : r.version === 1 ? "added" : "changed"}</> }))
	} catch (error) {
		if (error instanceof Failure && error.status === 410) return [] // what one sees has changed since
		throw error
	}
}

// tasksChanged returns the last changes of the newest tasks.
async function tasksChanged(signal: AbortSignal): Promise<Change[]> {
	return (await call("GET /api/v1/tasks", { query: { sort: "newest", limit: readTasks }, signal })).map((t) => ({ at: t.updatedAt, key: t.id, text: <><b>{t.title}</b> {changeOf(t)}</> }))
}

function changeOf(t: Task): string {
	if (t.updatedAt === t.createdAt) return "was made a task"
	if (t.updatedAt === t.completedAt) return "was done"
	return t.status === "TODO" ? "was changed" : `was changed and is ${t.status.toLowerCase().replace("_", " ")}`
}

// membersJoined returns those who joined in the last 30 days, in organisations whose members one request lists: the last ones of a
// longer list are not read.
async function membersJoined(signal: AbortSignal): Promise<Change[]> {
	const since = new Date(Date.now() - 30 * 86_400_000).toISOString()
	const members = await all("GET /api/v1/org/members", { limit: first }, 1, { signal })
	return members.next === undefined ? members.filter((m) => m.joinedAt > since).map((m) => ({ at: m.joinedAt, key: m.userId, text: <><b>{nameOf(m)}</b> joined</> })) : []
}
