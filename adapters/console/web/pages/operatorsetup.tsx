// What remains to be set up: the findings of the doctor, by what is to be done about them.
import type { JSX } from "preact"
import { useEffect, useState } from "preact/hooks"
import { call } from "../interface"
import { announce } from "../live"
import { Show, Time, useLoaded } from "../loading"
import { go, useQuery } from "../router"
import { count } from "../text"
import type { DoctorFinding } from "../types"
import { clock, Heading, type View } from "./operatorparts"

// nameOf returns the name of a check: public-url is "Public url".
const nameOf = (check: string): string => check.charAt(0).toUpperCase() + check.slice(1).replaceAll("-", " ")

const things = (n: number): string => (n === 1 ? "One thing" : `${count(n)} things`)

export function Setup({ signIns, used }: View): JSX.Element {
	const [checking, setChecking] = useState(true)
	const loaded = useLoaded(async () => {
		setChecking(true)
		try {
			return { checks: (await call("GET /api/v1/admin/doctor")).checks, at: new Date().toISOString() }
		} finally {
			setChecking(false)
		}
	}, [signIns])
	const checks = loaded.value?.checks ?? []
	const wrong = checks.filter((f) => f.verdict === "wrong")
	const open = checks.filter((f) => f.verdict === "note" && f.remedy !== "")
	const done = checks.filter((f) => !wrong.includes(f) && !open.includes(f))
	const state = wrong.length > 0 ? `${things(wrong.length)} must be repaired.` : open.length > 0 ? "Nothing is broken." : "Everything is set up."
	const left = new Set([...wrong, ...open].map((f) => f.check))
	const all = new Set(checks.map((f) => f.check)).size
	const steps = [{ name: "Repair what is broken", list: wrong }, { name: "Do what remains", list: open }].filter((s) => s.list.length > 0)
	const [query, change] = useQuery()
	useEffect(() => {
		if (!loaded.value || query.get("after") !== "sign-in") return
		change({ after: undefined }, true)
		if (steps.length === 0) go("/console/operator")
	}, [loaded.value])
	useEffect(() => {
		if (loaded.value) announce(`${state} ${things(open.length)} to do.`)
	}, [loaded.value])
	return (
		<>
			<header class="bar">
				<Heading>Setup</Heading>
				{loaded.value && <span class="soft">{checking ? "Checking, for 15 seconds at most" : <>Checked at <Time at={loaded.value.at} as={clock} /></>}</span>}
				<button type="button" class="primary" disabled={checking} onClick={() => (used(), loaded.retry())}>Check again</button>
			</header>
			<p class="soft">The server that answers has tried what its settings name: databases, stores, providers, keys. Settings are variables of its environment, and a change needs a restart. <code>collabd doctor</code> prints the same on the machine.</p>
			<Show of={loaded} what="the findings" again="Checking again">
				{() => (
					<>
						<p><b>{state}</b> {open.length > 0 && `${things(open.length)} to look at before people rely on this server.`}</p>
						<progress max={Math.max(all, 1)} value={all - left.size} aria-label="Checks that are done" />
						<p class="soft">{count(all - left.size)} of {count(all)} checks are done.</p>
						{steps.map((s, i) => <section key={s.name}><h2>{i + 1}. {s.name} <small class="soft">{count(s.list.length)} left</small></h2><Findings list={s.list} /></section>)}
						<section><h2>In order</h2><details><summary>{count(done.length)} {done.length === 1 ? "finding" : "findings"} with nothing to do</summary><Findings list={done} /></details></section>
					</>
				)}
			</Show>
		</>
	)
}

// Findings has the findings of one check together, and the help of each variable where it is named first.
function Findings({ list }: { list: DoctorFinding[] }): JSX.Element {
	const checks = new Map<string, DoctorFinding[]>()
	for (const f of list) checks.set(f.check, [...(checks.get(f.check) ?? []), f])
	const helped = new Set<string>()
	return (
		<dl class="findings">
			{[...checks].map(([check, findings]) => (
				<div key={check}>
					<dt>{nameOf(check)}</dt>
					<dd>
						{findings.map((f) => {
							const fresh = f.variables.filter((v) => !helped.has(v.name))
							for (const v of fresh) helped.add(v.name)
							return (
								<div key={f.message}>
									<p>{f.verdict === "wrong" && <span class="badge" data-state="paused">Broken</span>} {f.message}</p>
									{f.remedy && <p>→ {f.remedy}</p>}
									{f.verdict !== "ok" && f.remedy && fresh.length > 0 && <ul class="soft">{fresh.map((v) => <li key={v.name}><code>{v.name}</code>: {v.help}</li>)}</ul>}
								</div>
							)
						})}
					</dd>
				</div>
			))}
		</dl>
	)
}
