// The owner's archives of the organisation: what is in them, and those that were asked for.
import type { JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { dropKey, once } from "../draft"
import { call, failureOf, type Failure } from "../interface"
import { announce } from "../live"
import { Problem, Show, useLoaded } from "../loading"
import { count, exact, relative, size } from "../text"
import type { Export, Me } from "../types"

const every = 3_000 // milliseconds between reads while an archive is being made

const isOpen = (e: Export): boolean => e.status === "PENDING" || e.status === "RUNNING"

// Attempt is what failed: beside an export, or beside the button that starts one if there is none.
type Attempt = { of?: Export; failure: Failure; again: () => void }

export default function Exports({ me }: { me: Me }): JSX.Element {
	const exports = useLoaded(() => call("GET /api/v1/org/exports"), [])
	const [failed, fail] = useState<Attempt>()
	const [busy, setBusy] = useState(false)
	const list = exports.value ?? []
	const open = list.find(isOpen)
	const was = useRef<string>(undefined)
	const newest = list[0]?.id

	useEffect(() => { // what was asked for is in the list, also if the response was lost
		dropKey("export")
		fail(undefined)
	}, [newest])
	useEffect(() => {
		const done = list.find((e) => e.id === was.current)
		if (done && !isOpen(done)) announce(done.status === "READY" ? "The archive is ready" : "The export has failed")
		was.current = open?.id
		if (!open || exports.failure) return
		const timer = setInterval(() => document.visibilityState === "visible" && exports.retry(), every)
		return () => clearInterval(timer)
	}, [exports.value, exports.failure])

	// attempt does one thing at a time; what fails is shown beside the export that it is of.
	const attempt = async (of: Export | undefined, act: () => Promise<void>): Promise<void> => {
		if (busy) return
		setBusy(true)
		fail(undefined)
		try {
			await act()
		} catch (error) {
			fail({ ...(of && { of }), failure: failureOf(error), again: () => void attempt(of, act) })
		}
		setBusy(false)
		exports.retry()
	}
	const start = (): Promise<void> => attempt(undefined, async () => {
		await once("export", "", ({ headers }) => call("POST /api/v1/org/export", { headers }))
		announce("The export has been asked for")
	})
	const download = (e: Export): Promise<void> => attempt(e, async () => {
		const is = await call("GET /api/v1/org/exports/{id}", { path: { id: e.id } }) // its address may be valid for minutes only
		is.downloadUrl === null ? announce("The archive has expired") : save(is.id, is.downloadUrl)
	})
	const problemOf = (of?: Export): JSX.Element | false => failed !== undefined && failed.of?.id === of?.id && (
		<Problem failure={failed.failure} what={of ? "The download" : "Asking for the export"} retry={failed.again} giveUp={() => fail(undefined)}>
			{!of && failed.failure.status === 409 && !open && <p>Another owner has asked for it, and alone can see and download it. Yours can begin when that one has ended.</p>}
			{failed.failure.status === 429 && failed.failure.wait > 0 && <p>The next one is possible {relative(new Date(Date.now() + failed.failure.wait * 1000).toISOString())}.</p>}
		</Problem>
	)

	return (
		<>
			<h1>Export</h1>
			<p class="soft">An archive of {me.org?.name ?? "the organisation"} as of one moment, to keep, to read, or to import into another deployment of Collab. It is made in the background; you can leave this page meanwhile.</p>
			<p class="bar"><button type="button" class="primary" disabled={busy || open !== undefined} onClick={() => void start()}>Make an archive</button>{open && <span class="soft">One is being made; the next can begin when it has ended.</span>}</p>
			{problemOf()}
			<section>
				<h2>Your archives of the last 30 days</h2>
				<Show of={exports} what="your archives" again="Following the progress">
					{(all) => all.length === 0
						? <p class="empty">You have not made one. Only you will see yours, and be able to download it.</p>
						: <ul class="rows exports" aria-label="Archives">{all.map((e) => <Row key={e.id} of={e} busy={busy} download={() => void download(e)}>{problemOf(e)}</Row>)}</ul>}
				</Show>
			</section>
			<section>
				<h2>What is in it</h2>
				<div class="sides">
					<div>
						<p><b>It has</b></p>
						<ul>
							<li>members, teams and workspaces</li>
							<li>tasks with their history</li>
							<li>files and memories, with their content</li>
							<li>connectors without credentials, and pending invitations</li>
							<li>the plan, the usage and the audit log</li>
						</ul>
					</div>
					<div>
						<p><b>It does not have</b></p>
						<ul>
							<li>personal teams, files and memories of other members</li>
							<li>credentials, sessions and other secrets</li>
							<li>earlier versions of files, and deleted files</li>
							<li>records of members who have left</li>
							<li>conversations, which are on people's devices alone</li>
						</ul>
					</div>
				</div>
				<p class="soft">The file is a <code>.tar.gz</code>: a manifest, a file of JSON lines for each kind of record, and the files as they are. An organisation makes one at a time, and at most ten in 24 hours. Each request is in the <a href="/console/audit?action=organisation.export_requested">audit log</a>.</p>
			</section>
		</>
	)
}

// save has the browser download an archive: through the console if it is at this server.
function save(id: string, address: string): void {
	const path = `/api/v1/org/exports/${id}/archive`
	const link = document.createElement("a")
	link.href = new URL(address).pathname.endsWith(path) ? `/console${path}` : address
	link.download = ""
	link.rel = "noreferrer"
	link.click()
}

const states = { PENDING: "Waiting", RUNNING: "Being made", READY: "Ready", FAILED: "Failed", EXPIRED: "Expired" }

function Row({ of: e, busy, download, children }: { of: Export; busy: boolean; download: () => void; children: JSX.Element | false }): JSX.Element {
	const made = new Date(e.createdAt).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" })
	const until = e.expiresAt && <time dateTime={e.expiresAt} title={relative(e.expiresAt)}>{exact(e.expiresAt)}</time>
	return (
		<li data-export={e.status}>
			<div>
				<b><time dateTime={e.createdAt} title={exact(e.createdAt)}>{made}</time></b> <span class="badge" data-state={e.status === "FAILED" ? "paused" : e.status === "EXPIRED" ? "past" : undefined}>{states[e.status]}</span>
				{e.status === "RUNNING" && e.files > 0 && <progress max={e.files} value={e.filesDone} aria-label={`${count(e.filesDone)} of ${count(e.files)} files`} />}
				<p class="soft">
					{e.status === "PENDING" && "A server begins within a minute."}
					{e.status === "RUNNING" && `${count(e.records)} records read, ${count(e.filesDone)} of ${count(e.files)} files (${size(e.fileBytes)}). The figures are renewed every 15 seconds.`}
					{e.status === "READY" && <>{size(e.size ?? 0)} with {count(e.records)} records and {count(e.files)} {e.files === 1 ? "file" : "files"}. It can be downloaded until {until}.</>}
					{e.status === "FAILED" && <>{e.error ?? "The archive could not be made"}. Nothing of it is left; make another one.</>}
					{e.status === "EXPIRED" && <>The archive was removed on {until}; make another one.</>}
				</p>
				{children}
			</div>
			{e.status === "READY" && <button type="button" class="primary" disabled={busy} aria-label={`Download the archive of ${made}`} onClick={download}>Download</button>}
		</li>
	)
}
