// Releases of the desktop application: which there are, how far their rollouts are, and what devices
// report. Nothing is shown before the server has done it.
import type { ComponentChildren, JSX } from "preact"
import { useMemo, useState } from "preact/hooks"
import { DayChart, useDays } from "../chart"
import { useDraft } from "../draft"
import { all, call } from "../interface"
import { announce } from "../live"
import { Copy, Problem, Show, Time, submitting, useAct, useLoaded, useLook } from "../loading"
import { Markdown } from "../markdown"
import { addressWith, useChoice, useQuery } from "../router"
import { count, day, exact, size } from "../text"
import type { Me, Release, ReleaseDraft, ReleasePatch } from "../types"

const platforms: Record<string, string> = { DARWIN: "macOS", WIN32: "Windows", LINUX: "Linux" }
const arches: Record<string, string> = { X64: "x64", ARM64: "ARM64", UNIVERSAL: "Universal" }
const channels: Record<string, string> = { STABLE: "Stable", BETA: "Beta", CANARY: "Canary" }
const states: Record<string, string> = { offered: "Offered", paused: "Paused", withdrawn: "Withdrawn", superseded: "Superseded" }
const filters = { platform: platforms, arch: arches, channel: channels, state: states }

// Elsewhere is what managers of an organisation see that does not publish releases.
function Elsewhere(): JSX.Element {
	return (
		<>
			<h1>Releases</h1>
			<p>This organisation does not publish releases of the desktop application here. The operator of the server names those that do, in <code>COLLAB_RELEASE_ORGS</code>.</p>
			<p><a href="/console">Home</a></p>
		</>
	)
}

// first is how many releases are read at a time.
const first = 200
const every = 15_000 // milliseconds between reads while the page is in front

const target = (r: Release): string => `${platforms[r.platform]} · ${arches[r.arch]} · ${channels[r.channel]}`
const plain = (version: string): string => version.split("+")[0] ?? version

// stateOf returns the state of a release among all with a higher version, which are before it.
function stateOf(r: Release, all: Release[]): keyof typeof states {
	if (!r.active) return "withdrawn"
	for (const e of all) {
		if (plain(e.version) === plain(r.version)) break
		if (e.active && e.platform === r.platform && e.channel === r.channel && (e.arch === r.arch || e.arch === "UNIVERSAL")) return "superseded"
	}
	return r.pausedAt === null ? "offered" : "paused"
}

function State({ of, state }: { of: Release; state: string }): JSX.Element {
	const text = state === "paused" ? `Paused ${of.pausedByReports ? "by itself" : "by hand"} at ${of.rolloutPercentage} %`
		: state === "offered" ? of.rolloutPercentage === 100 ? "Offered to all" : `Rolling out at ${of.rolloutPercentage} %` : states[state]
	return <span class="badge" data-state={state === "paused" ? "paused" : state === "offered" ? undefined : "past"}>{text}</span>
}

export default function Releases({ me }: { me: Me }): JSX.Element {
	const [query, change] = useQuery()
	const [pages, setPages] = useState(1)
	const [changed, setChanged] = useState<ReadonlyMap<string, Release>>(new Map())
	const id = query.get("release")
	const loaded = useLoaded(() => all("GET /api/v1/updates/releases", { limit: first }, (read) => read.length >= pages * first && (id === null || read.some((r) => r.id === id))), [pages, id])
	useLook(loaded.retry, every)
	const releases = useMemo(() => loaded.value?.map((r) => {
		const here = changed.get(r.id)
		return here && here.updatedAt > r.updatedAt ? here : r
	}) ?? [], [loaded.value, changed])
	const put = (r: Release): void => setChanged((was) => new Map(was).set(r.id, r))
	if (loaded.failure?.status === 403) return <Elsewhere />
	if (query.has("publish")) {
		return <Publish org={me.org?.id ?? ""} releases={releases} onDone={(r) => (announce(`${r.version} is published`), loaded.retry(), change({ publish: undefined, release: r.id }, true))} />
	}
	const stale = loaded.failure && <Problem failure={loaded.failure} what="Loading the releases" retry={loaded.retry} />
	if (!loaded.value) return <><h1>Releases</h1>{stale ?? <Show of={loaded} what="the releases">{() => null}</Show>}</>
	if (id !== null) {
		const r = releases.find((one) => one.id === id)
		return <>{stale}{r
			? <One key={id} release={r} state={stateOf(r, releases)} put={put} />
			: <><h1>There is no such release</h1><p>The address may be mistyped. <a href="/console/releases">All releases</a></p></>}</>
	}
	const shown = releases.filter((r) => (["platform", "arch", "channel"] as const).every((f) => !query.get(f) || query.get(f) === r[f]) && (!query.get("state") || query.get("state") === stateOf(r, releases)))
	return (
		<>
			<header class="bar"><h1 class="grow">Releases</h1><a class="button" href={addressWith({ publish: "new" })}>Publish…</a></header>
			{stale}
			<div class="bar filters" role="group" aria-label="Filters">
				{Object.entries(filters).map(([name, values]) => (
					<label key={name}>{name[0]?.toUpperCase()}{name.slice(1)} <select value={query.get(name) ?? ""} onChange={(e) => change({ [name]: e.currentTarget.value || undefined })}>
						<option value="">All</option>{Object.entries(values).map(([value, text]) => <option key={value} value={value}>{text}</option>)}
					</select></label>
				))}
			</div>
			{shown.length > 0
				? <ul class="rows releases" aria-label="Releases">{shown.map((r) => (
					<li key={r.id}><a href={addressWith({ release: r.id })}>
						<b>{r.version}</b><span class="grow soft">{target(r)}{r.mandatory && " · mandatory"}</span>
						<Time class="soft" at={r.publishedAt} /><State of={r} state={stateOf(r, releases)} />
					</a></li>
				))}</ul>
				: releases.length > 0
					? <p class="empty">No release fits these filters. <a href="/console/releases">All releases</a></p>
					: <p class="empty">There are no releases yet. Devices are offered the first one when you <a href={addressWith({ publish: "new" })}>publish</a> it.</p>}
			{loaded.value.next && <p><button type="button" onClick={() => setPages((n) => n + 1)}>Show more</button> <span class="soft">The first {count(releases.length)} are shown.</span></p>}
			<Adoption query={query} />
		</>
	)
}

// Adoption is which versions devices have, by day, of the targets that the address selects.
function Adoption({ query }: { query: URLSearchParams }): JSX.Element {
	const { first, last, field } = useDays()
	const of = Object.fromEntries((["platform", "arch", "channel"] as const).flatMap((f) => (query.get(f) ? [[f, query.get(f) ?? ""]] : [])))
	const adoption = useLoaded(async () => {
		const found = await all("GET /api/v1/updates/adoption", { from: first, to: last, ...of }, 20)
		return { first, complete: found.next === undefined, figures: found.map((t) => ({ date: t.day, series: t.version, amount: t.checks })) }
	}, [first, last, JSON.stringify(of)])
	return (
		<section class="tall">
			<header class="bar">
				<h2>Update checks by installed version</h2>
				{field}
			</header>
			<Show of={adoption} what="the adoption">
				{(a) => a.figures.length === 0
					? <p class="empty">No device of these has checked for updates since {day(a.first)}. Checks are shown here by day from the first one on.</p>
					: <DayChart {...a} last={last} name="Update checks by version" file={`adoption-${a.first}-${last}.csv`} />}
			</Show>
		</section>
	)
}

// Change changes a release, and says so.
type Change = (patch: ReleasePatch, said: string) => Promise<void>

function One({ release: r, state, put }: { release: Release; state: string; put: (r: Release) => void }): JSX.Element {
	const change: Change = async (patch, said) => {
		put(await call("PATCH /api/v1/updates/{id}", { path: { id: r.id }, body: patch }))
		announce(said)
	}
	const { run, busy, failed } = useAct("Changing the release", change)
	const progress = useLoaded(() => call("GET /api/v1/updates/releases/{id}/progress", { path: { id: r.id } }), [r.id, r.updatedAt])
	const at = r.pausedAt
	return (
		<>
			<p><a href={addressWith({ release: undefined })}>← All releases</a></p>
			<header class="bar"><h1>{r.version}</h1><span class="soft grow">{target(r)}</span><State of={r} state={state} /></header>
			<section aria-label="State">
				{at !== null && <p>The rollout is paused since <Time at={at} />: {r.pausedByReports
					? <>it paused by itself, because <b>{count(r.pausedByReports.failed)} of {count(r.pausedByReports.failed + r.pausedByReports.succeeded)} reported installations had failed</b>, more than {r.failureLimit ?? "the limit of that time in"} %.</>
					: "by a member."} No device is offered this version, nor an older one in its place. Resuming starts the counting of failures anew.</p>}
				{!r.active && <p>The release is withdrawn: devices are offered the latest active one before it. Those that have it keep it until a higher version.</p>}
				{state === "superseded" && <p>A release with a higher version is offered in its place.</p>}
				<p class="bar">
					{r.active && (at === null
						? <button type="button" disabled={busy} onClick={() => void run({ paused: true }, "The rollout is paused")}>Pause the rollout</button>
						: <button type="button" class="primary" disabled={busy} onClick={() => void run({ paused: false }, "The rollout is resumed")}>Resume the rollout</button>)}
					{r.active
						? <button type="button" disabled={busy} onClick={() => void run({ active: false }, "The release is withdrawn")}>Withdraw</button>
						: <button type="button" class="primary" disabled={busy} onClick={() => void run({ active: true }, "The release is restored")}>Restore</button>}
					<span class="soft">Changed <Time at={r.updatedAt} /></span>
				</p>
				{failed && <Problem {...failed} />}
			</section>
			<Rollout release={r} change={change} devices={progress.value?.devices} />
			{progress.failure && <Problem failure={progress.failure} what="Counting the devices" retry={progress.retry} />}
			<Guard release={r} change={change} counted={progress.value?.reports} />
			<Reports release={r} />
			<Devices release={r} />
			<Feeds release={r} />
			<section aria-label="Download">
				<h2>Download</h2>
				<dl class="pairs">
					{([["Address", <a href={r.downloadUrl}>{r.downloadUrl}</a>], ["Size", r.fileSizeBytes === null ? null : size(r.fileSizeBytes)], ["SHA-512", r.sha512], ["SHA-1", r.sha1], ["Signature", r.signature], ["Minimum system", r.minOsVersion], ["Mandatory", r.mandatory ? "Yes" : "No"], ["Published", exact(r.publishedAt)]] as [string, ComponentChildren][])
						.map(([name, value]) => <><dt>{name}</dt><dd>{value ?? <span class="soft">None</span>}</dd></>)}
				</dl>
				{r.releaseNotes && <><h3>Release notes</h3><Markdown text={r.releaseNotes} /></>}
			</section>
		</>
	)
}

// Rollout says how many devices a percentage reaches, before and until it is applied.
function Rollout({ release: r, change, devices }: { release: Release; change: Change; devices: number | undefined }): JSX.Element {
	const [wanted, want] = useDraft<{ percent: number; of: number }>(`rollout ${r.id}`)
	const percent = wanted?.percent ?? r.rolloutPercentage
	const reach = (n: number): number => Math.round((devices ?? 0) * n / 100)
	const set = (n: number): void => want(Number.isInteger(n) && n >= 0 && n <= 100 ? { percent: n, of: wanted?.of ?? r.rolloutPercentage } : undefined)
	const moved = wanted !== undefined && wanted.of !== r.rolloutPercentage
	const apply = useAct("Changing the rollout", async () => {
		await change({ rolloutPercentage: percent }, `The rollout is at ${percent} %`)
		want((is) => (is === wanted || !is ? undefined : { ...is, of: percent })) // what was chosen meanwhile stays
	})
	const more = reach(percent) - reach(r.rolloutPercentage)
	return (
		<section aria-label="Rollout">
			<h2>Rollout</h2>
			<form onSubmit={submitting(apply)}>
				<div class="bar">
					<input type="range" min="0" max="100" aria-label="Rollout in percent" aria-describedby="reach" value={percent} onInput={(e) => set(e.currentTarget.valueAsNumber)} />
					<label>Percent <input class="percent" type="number" min="0" max="100" required value={percent} onInput={(e) => set(e.currentTarget.valueAsNumber)} /></label>
				</div>
				<p id="reach">{devices === undefined ? <span class="soft">Counting the devices…</span> : devices === 0
					? "No device of this platform, architecture and channel has told its id in the last 7 days, so nobody knows how many this reaches."
					: <><b>{percent} % reaches about {count(reach(percent))} of {count(devices)} devices</b>{more !== 0 && <>, {count(Math.abs(more))} {more > 0 ? "more" : "fewer"} than now</>}.</>}</p>
				<p class="soft">Devices of this platform, architecture and channel that checked in the last 7 days and told their id. Those that told none are offered the release at 100 % alone.{more < 0 && " Devices that have it already keep it."}</p>
				{moved && <p class="warning" role="alert">Somebody else has set the rollout to {r.rolloutPercentage} % meanwhile; it was {wanted.of} % when you began.</p>}
				{apply.failed && <Problem {...apply.failed} />}
				<p class="bar">
					<button type="submit" class="primary" disabled={apply.busy || percent === r.rolloutPercentage}>Apply {percent} %</button>
					{wanted && <button type="button" onClick={() => want(undefined)}>Back to {r.rolloutPercentage} %</button>}
				</p>
			</form>
		</section>
	)
}

// Guard is the rule that pauses a rollout by itself.
function Guard({ release: r, change, counted }: { release: Release; change: Change; counted: { succeeded: number; failed: number } | undefined }): JSX.Element {
	const [draft, write, drop] = useDraft<{ limit: string; minimum: string }>(`rule ${r.id}`)
	const now = draft ?? { limit: r.failureLimit?.toString() ?? "", minimum: (r.failureMinimum ?? 50).toString() }
	const n = counted ? counted.failed + counted.succeeded : 0
	const save = useAct("Saving the rule", async () => {
		const patch: ReleasePatch = now.limit === "" ? { failureLimit: null } : { failureLimit: Number(now.limit), failureMinimum: Number(now.minimum) }
		await change(patch, "The rule is saved")
		drop(draft)
	})
	return (
		<section aria-label="Pausing by itself">
			<h2>Pausing by itself</h2>
			<p>{r.failureLimit === null ? "The rollout does not pause by itself." : `The rollout pauses once more than ${r.failureLimit} % of at least ${count(r.failureMinimum ?? 0)} reported installations have failed.`}
				{r.failureLimit !== null && counted && <> So far {n === 0 ? "none count" : <><b>{count(counted.failed)} of {count(n)}</b> have failed ({(counted.failed / n * 100).toFixed(1)} %)</>}, since the limit was set or the rollout was resumed.</>}</p>
			<form onSubmit={submitting(save)}>
				<div class="fields">
					<label>Failures allowed, in percent (empty: no limit)<input type="number" min="0" max="99" value={now.limit} onInput={(e) => write({ ...now, limit: e.currentTarget.value })} /></label>
					<label>From this number of reports on<input type="number" min="20" max="1000000" required value={now.minimum} onInput={(e) => write({ ...now, minimum: e.currentTarget.value })} /></label>
				</div>
				{save.failed && <Problem {...save.failed} />}
				<p class="bar"><button type="submit" disabled={save.busy}>Save the rule</button>{draft && <button type="button" onClick={() => write(undefined)}>Discard changes</button>}</p>
			</form>
		</section>
	)
}

const outcomes = ["Succeeded", "Failed"]
const spans: Record<string, string> = { 24: "24 hours", 72: "3 days", 168: "7 days" }

function Reports({ release: r }: { release: Release }): JSX.Element {
	const [hours, setHours] = useChoice("hours", Object.keys(spans), "72")
	const reports = useLoaded(async () => {
		const hour = (ago: number): string => new Date(Date.now() - ago * 3_600_000).toISOString().slice(0, 13)
		const from = hour(Number(hours) - 1), found = await all("GET /api/v1/updates/releases/{id}/reports", { from: `${from}:00:00Z` }, 1, { path: { id: r.id } })
		return { from, to: hour(0), figures: found.flatMap((f) => outcomes.map((series, i) => ({ date: f.hour.slice(0, 13), series, amount: i === 0 ? f.succeeded : f.failed }))) }
	}, [r.id, r.updatedAt, hours])
	return (
		<section aria-label="Reported installations">
			<header class="bar"><h2>Reported installations</h2><label>Last <select value={hours} onChange={(e) => setHours(e.currentTarget.value)}>{Object.entries(spans).map(([n, text]) => <option key={n} value={n}>{text}</option>)}</select></label></header>
			<Show of={reports} what="the reports">
				{(f) => f.figures.length === 0
					? <p class="empty">No device has reported an installation in this time. <a href="/docs#tag/updates">How devices report</a></p>
					: <DayChart {...f} first={f.from} last={f.to} name="Reported installations" file={`reports-${r.version}.csv`} order={outcomes} />}
			</Show>
		</section>
	)
}

// Devices says whether the release is offered to devices, by their ids.
function Devices({ release: r }: { release: Release }): JSX.Element {
	const [ids = "", write] = useDraft<string>(`devices ${r.id}`)
	const [asked, ask] = useState<string>()
	const clients = (asked ?? "").split(/[\s,]+/).filter(Boolean).slice(0, 100)
	const rollout = useLoaded(async () => (clients.length === 0 ? undefined : (await call("GET /api/v1/updates/releases/{id}/rollout", { path: { id: r.id }, query: { clientIds: clients.join(",") } })).devices), [r.id, r.updatedAt, asked])
	return (
		<section aria-label="Is this device in the rollout?">
			<h2>Is this device in the rollout?</h2>
			<form class="bar" onSubmit={(e) => (e.preventDefault(), ask(ids))}>
				<label class="grow">Ids of devices, up to 100, with commas between <input class="full" value={ids} maxLength={20_000} onInput={(e) => write(e.currentTarget.value || undefined)} /></label>
				<button type="submit">Check</button>
			</form>
			{rollout.failure && <Problem failure={rollout.failure} what="Checking the devices" retry={rollout.retry} />}
			{asked !== undefined && rollout.value && !rollout.failure && (
				<div class="scroll" tabIndex={0} role="region" aria-label="Devices">
					<table>
						<thead><tr><th scope="col">Device</th><th scope="col">Offered</th><th scope="col">Why</th><th scope="col" class="number">Bucket</th></tr></thead>
						<tbody>{rollout.value.map((d) => <tr key={d.clientId}><th scope="row"><code>{d.clientId}</code></th><td>{d.offered ? "Yes" : "No"}</td><td>{d.reason}</td><td class="number">{d.bucket}</td></tr>)}</tbody>
					</table>
				</div>
			)}
			{asked !== undefined && rollout.value && <p class="soft">If the device has an older version. A rollout of n % includes the buckets below n.</p>}
		</section>
	)
}

type Feed = { name: string; address: string; lacks?: string | false }

function feedsOf(r: Release): Feed[] {
	const base = `${location.origin}/api/v1/updates/feeds`, arch = r.arch.toLowerCase(), given = r.arch === "UNIVERSAL" ? "{arch}" : arch
	const with_ = (query: Record<string, string | false>): string => {
		const q = new URLSearchParams(Object.entries(query).filter((e): e is [string, string] => e[1] !== false))
		return q.size > 0 ? `?${q}` : ""
	}
	const channel = r.channel !== "STABLE" && r.channel.toLowerCase(), only = r.arch !== "UNIVERSAL" && arch
	return [
		{ name: "electron-updater", address: `${base}/electron${with_({ arch: only, channel })}`, lacks: r.sha512 === null && "a SHA-512" },
		...(r.platform === "DARWIN" ? [
			{ name: "Electron's autoUpdater", address: `${base}/squirrel/darwin/${given}/{version}${with_({ channel })}` },
			{ name: "Sparkle", address: `${base}/sparkle/appcast.xml${with_({ arch: only, channel })}` },
		] : []),
		...(r.platform === "WIN32" ? [{ name: "Squirrel.Windows", address: `${base}/squirrel/win32/${given}/{version}${with_({ channel })}`, lacks: (r.sha1 === null || r.fileSizeBytes === null) && "a SHA-1 and a size" }] : []),
		{ name: "Tauri", address: `${base}/tauri/{{target}}/{{arch}}/{{current_version}}${with_({ channel })}`, lacks: r.signature === null && "a signature" },
	]
}

function Feeds({ release: r }: { release: Release }): JSX.Element {
	return (
		<section aria-label="Feeds of updaters">
			<h2>Feeds of updaters</h2>
			<p class="soft">What applications for {platforms[r.platform]} ask for updates. Words in braces are the device's; <code>clientId</code> in the query is its id.</p>
			<ul class="rows feeds">
				{feedsOf(r).map((f) => (
					<li key={f.name}><div><p><b>{f.name}</b></p><code>{f.address}</code>{f.lacks && <p class="soft">It does not offer this release, which has not got {f.lacks}.</p>}</div>
						<Copy text={f.address} what={`the address for ${f.name}`} /></li>
				))}
			</ul>
		</section>
	)
}

type Form = Record<"version" | "platform" | "arch" | "channel" | "downloadUrl" | "sha512" | "sha1" | "fileSizeBytes" | "releaseNotes" | "minOsVersion" | "signature" | "rolloutPercentage" | "failureLimit" | "failureMinimum" | "publishedAt", string> & { mandatory: boolean; active: boolean }

const empty: Form = {
	version: "", platform: "DARWIN", arch: "UNIVERSAL", channel: "STABLE", downloadUrl: "", sha512: "", sha1: "", fileSizeBytes: "", releaseNotes: "", minOsVersion: "", signature: "",
	rolloutPercentage: "5", failureLimit: "", failureMinimum: "50", publishedAt: "", mandatory: false, active: true,
}
const semantic = /^v?\d+\.\d+(\.\d+)?(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/

// full returns a version as the server stores it, without its build metadata.
function full(version: string): string {
	const [, core = "", rest = ""] = /^v?([\d.]+)(.*)$/i.exec(plain(version)) ?? []
	return (core.split(".").length === 2 ? `${core}.0` : core) + rest
}

// Publish is the form of a new release, which this tab keeps until it is published.
function Publish({ org, releases, onDone }: { org: string; releases: Release[]; onDone: (r: Release) => void }): JSX.Element {
	const [kept, keep, drop] = useDraft<Form>(`release ${org}`)
	const f: Form = { ...empty, ...kept }
	const set = (changes: Partial<Form>): void => keep({ ...f, ...changes })
	const same = releases.find((r) => plain(r.version) === full(f.version) && r.platform === f.platform && r.arch === f.arch && r.channel === f.channel)
	const latest = releases.find((r) => r.active && r.platform === f.platform && r.channel === f.channel && (r.arch === f.arch || r.arch === "UNIVERSAL"))
	const send = useAct("Publishing", async () => {
		const number = (text: string): number | undefined => (text === "" ? undefined : Number(text))
		const given = (text: string): string | undefined => text.trim() || undefined
		const body = Object.fromEntries(Object.entries({
			version: f.version.trim(), platform: f.platform, arch: f.arch, channel: f.channel, downloadUrl: f.downloadUrl.trim(), sha512: given(f.sha512), sha1: given(f.sha1), fileSizeBytes: number(f.fileSizeBytes),
			releaseNotes: given(f.releaseNotes), minOsVersion: given(f.minOsVersion), signature: given(f.signature), mandatory: f.mandatory, active: f.active, rolloutPercentage: number(f.rolloutPercentage),
			publishedAt: given(f.publishedAt), ...(f.failureLimit !== "" && { failureLimit: Number(f.failureLimit), failureMinimum: Number(f.failureMinimum) }),
		}).filter(([, value]) => value !== undefined)) as ReleaseDraft
		const made = await call("POST /api/v1/updates", { body })
		drop(kept)
		onDone(made)
	})
	const text = (name: keyof Form & string, label: string, more: JSX.IntrinsicElements["input"] = {}): JSX.Element => <label>{label}<input value={f[name] as string} {...more} onInput={(e) => set({ [name]: e.currentTarget.value })} /></label>
	const choice = (name: keyof Form, label: string, values: Record<string, string>): JSX.Element => <label>{label}<select value={f[name] as string} onChange={(e) => set({ [name]: e.currentTarget.value })}>{Object.entries(values).map(([value, shown]) => <option key={value} value={value}>{shown}</option>)}</select></label>
	return (
		<>
			<p><a href="/console/releases">← All releases</a></p>
			<h1>Publish a release</h1>
			<form class="fields" onSubmit={submitting(send)}>
				{text("version", "Version, such as 1.5.0", { required: true, maxLength: 128, pattern: semantic.source, title: "A semantic version such as 1.4.2 or 1.5.0-beta.1" })}
				{choice("platform", "Platform", platforms)}{choice("arch", "Architecture", arches)}{choice("channel", "Channel", channels)}
				{same && <p class="long warning">There is a release of this version for {target(same)}: <a href={addressWith({ publish: undefined, release: same.id })}>open it</a>. Versions that differ in what follows a + alone are equal.</p>}
				{!same && latest && semantic.test(f.version) && lower(full(f.version), plain(latest.version)) && <p class="long soft">The latest is {latest.version}: devices are offered the highest version, so nobody is offered this one while that is active.</p>}
				<label class="long">Address of the download<input type="url" required maxLength={2048} value={f.downloadUrl} placeholder="https://" onInput={(e) => set({ downloadUrl: e.currentTarget.value })} /></label>
				{text("sha512", "SHA-512, hexadecimal or base64")}{text("sha1", "SHA-1 (Squirrel.Windows)")}{text("fileSizeBytes", "Size in bytes", { type: "number", min: 0, max: 2 ** 40 })}
				{text("minOsVersion", "Minimum version of the system", { maxLength: 100 })}{text("publishedAt", "Published (empty: now)", { type: "date" })}
				<label class="long">Signature (Tauri, Sparkle)<input maxLength={8192} value={f.signature} onInput={(e) => set({ signature: e.currentTarget.value })} /></label>
				<label class="long">Release notes, in Markdown<textarea maxLength={65_536} value={f.releaseNotes} onInput={(e) => set({ releaseNotes: e.currentTarget.value })} /></label>
				{text("rolloutPercentage", "Rollout to begin with, in percent", { type: "number", min: 0, max: 100, required: true })}
				{text("failureLimit", "Pause by itself above this percentage of failures", { type: "number", min: 0, max: 99 })}
				{text("failureMinimum", "From this number of reports on", { type: "number", min: 20, max: 1_000_000, required: true })}
				<p class="long bar">
					<label class="bar"><input type="checkbox" checked={f.mandatory} onChange={(e) => set({ mandatory: e.currentTarget.checked })} /> Mandatory</label>
					<label class="bar"><input type="checkbox" checked={f.active} onChange={(e) => set({ active: e.currentTarget.checked })} /> Offered at once</label>
				</p>
				{send.failed && <Problem {...send.failed}>
					{send.failed.failure.status === 409 && <p>A version is published once for a platform, architecture and channel, and what was published is never replaced, since devices may have it. Publish the next version{same && <>, or <a href={addressWith({ publish: undefined, release: same.id })}>change that release</a></>}.</p>}
					<p>What you typed is kept here.</p>
				</Problem>}
				<p class="long bar">
					<button type="submit" class="primary" disabled={send.busy}>Publish</button>
					{kept && <button type="button" onClick={() => keep(undefined)}>Discard</button>}
					<span class="soft">{kept ? "A draft, kept in this tab." : ""} Devices in the rollout are offered it at once.</span>
				</p>
			</form>
		</>
	)
}

// lower reports whether a version comes before another, as semantic versions are ordered.
function lower(a: string, b: string): boolean {
	const [[coreA = "", ...preA], [coreB = "", ...preB]] = [a.split("-"), b.split("-")]
	const x = coreA.split(".").map(Number), y = coreB.split(".").map(Number)
	for (let i = 0; i < 3; i++) if (x[i] !== y[i]) return (x[i] ?? 0) < (y[i] ?? 0)
	if (preA.length === 0 || preB.length === 0) return preA.length > 0
	return preA.join("-").localeCompare(preB.join("-"), "en", { numeric: true }) < 0
}
