// One file: what it is, its content, and its versions with their differences.
import type { JSX } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { Difference } from "./diff"
import { call, failureOf } from "./interface"
import { Problem, Show, Time, useAct, useLoaded } from "./loading"
import type { Members } from "./members"
import type { Acts } from "./pages/files"
import { addressOf, kindOf, mostText, Preview, textOf, type Content } from "./preview"
import { fileName, memoryAddressOf } from "./records"
import { addressWith, useQuery } from "./router"
import { count, exact, size } from "./text"
import type { StoredObject, StoredVersion } from "./types"
import { offerUndo, sayRefused } from "./undo"

type FileOf = { record: StoredObject; members: Members; writes: boolean; acts: Acts; version: number | undefined }

// FileView shows a file, or one of its versions.
export function FileView({ record, members, writes, acts, version }: FileOf): JSX.Element {
	const heading = useRef<HTMLHeadingElement>(null)
	useEffect(() => heading.current?.focus(), [])
	const versions = useLoaded(() => call("GET /api/v1/sync/files/{id}/versions", { path: { id: record.id } }), [record.id, record.version])
	const name = fileName(record.path)
	const memory = memoryAddressOf(record)
	const of = (v: number): StoredVersion | undefined => versions.value?.find((one) => one.version === v)
	const earlier = version !== undefined && version !== record.version ? of(version) : undefined
	const contentOf = (o: StoredObject | StoredVersion, v?: number): Content => ({ address: addressOf(o.id, v), path: o.path, mimeType: o.mimeType, size: o.size, checksum: o.checksum })
	return (
		<article class="file">
			<h2 ref={heading} tabIndex={-1}>{name}</h2>
			<p class="soft">{size(record.size)} · {record.mimeType} · version {count(record.version)} · changed <Time at={record.updatedAt} /> by {members.nameOf(record.updatedBy, "a")}</p>
			<div class="bar">
				<a class="button" href={addressOf(record.id, version)} download={name}>Download</a>
				{writes && memory && <a class="button" href={memory}>Edit</a>}
				{writes && <button type="button" onClick={() => acts.rename(record)}>Rename</button>}
				{writes && <button type="button" onClick={() => acts.remove(record)}>Delete</button>}
			</div>
			{version === undefined || version === record.version
				? <Preview of={contentOf(record)} />
				: <Show of={versions} what="the version">
					{() => earlier
						? <Earlier key={version} record={record} earlier={earlier} now={contentOf(record)} then={contentOf(earlier, version)} writes={writes} stored={acts.stored} />
						: <p class="empty">The version {version} is not kept any more. <a href={addressWith({ version: undefined })}>The present one</a></p>}
				</Show>}
			<h3>Versions</h3>
			<Show of={versions} what="the versions">
				{(list) => (
					<ul class="rows">
						{list.map((v) => (
							<li key={v.version}>
								<div>
									<a href={addressWith({ version: v.version === record.version ? undefined : String(v.version) })} aria-current={v.version === (version ?? record.version) ? "true" : undefined}>Version {v.version}</a>
									<p class="soft"><Time at={v.updatedAt} /> by {members.nameOf(v.updatedBy, "a")} · {size(v.size)}{v.path !== record.path && <> · {v.path}</>}{v.expiresAt && <> · kept until {exact(v.expiresAt)}</>}</p>
								</div>
								{v.version === record.version && <span class="badge">Present</span>}
							</li>
						))}
					</ul>
				)}
			</Show>
		</article>
	)
}

// Earlier shows an earlier version, as what has changed since or by itself, and restores it.
function Earlier({ record, earlier, now, then, writes, stored }: { record: StoredObject; earlier: StoredVersion; now: Content; then: Content; writes: boolean; stored: (o: StoredObject) => void }): JSX.Element {
	const written = ["text", "markdown"].includes(kindOf(now)) && ["text", "markdown"].includes(kindOf(then))
	const [, change] = useQuery()
	const [compared, compare] = useState(written)
	const texts = useLoaded(async () => (compared ? Promise.all([textOf(then), textOf(now)]) : ["", ""]), [compared, then.checksum, now.checksum])
	const put = async (version: number, expectedVersion: number): Promise<StoredObject> => {
		const o = await call("POST /api/v1/sync/files/{id}/restore", { path: { id: record.id }, body: { version, expectedVersion } })
		stored(o)
		change({ version: undefined }, true)
		return o
	}
	const what = "Restoring the version"
	const restore = useAct(what, async () => {
		const o = await put(earlier.version, record.version)
		offerUndo({ text: `The content of version ${earlier.version} is the present one now.`, undo: () => void put(record.version, o.version).catch((error: unknown) => sayRefused({ what, failure: failureOf(error) })) })
	})
	return (
		<>
			<div class="bar">
				<h3>Version {earlier.version}</h3>
				{written && <button type="button" class="small" aria-pressed={compared} onClick={() => compare(!compared)}>Changes since</button>}
				{writes && <button type="button" class="small primary" onClick={() => void restore.run()}>Restore this version</button>}
				<a href={addressWith({ version: undefined })}>The present one</a>
			</div>
			{restore.failed && <Problem {...restore.failed} giveUp={() => restore.fail()} />}
			{compared && Math.max(now.size, then.size) > mostText && <p class="soft">Only the first {size(mostText)} of each are compared.</p>}
			{compared
				? <Show of={texts} what="both versions">{([first = "", second = ""]) => <Difference first={first} second={second} label={`Changes from version ${earlier.version} to ${record.version}`} />}</Show>
				: <Preview of={then} />}
		</>
	)
}
