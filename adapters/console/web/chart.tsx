// A chart of days, hours or minutes, with the same figures as a table and as CSV.
import type { JSX } from "preact"
import { useMemo } from "preact/hooks"
import { offer } from "./csv"
import { useChoice } from "./router"
import { count, day } from "./text"

// Figure is the amount of one series on one day, or in the hour or minute that begins so: 2026-01-31T13, 2026-01-31T13:05.
export type Figure = { date: string; series: string; amount: number }

const ranges = ["7", "30", "90", "365"] // numbers of days

// useDays returns the first and the last of the days that the address selects, which end today in UTC, and the field that
// selects others.
export function useDays(): { first: string; last: string; field: JSX.Element } {
	const [range, setRange] = useChoice("days", ranges, "30")
	const last = new Date().toISOString().slice(0, 10)
	const first = new Date(Date.parse(last) - (Number(range) - 1) * 86_400_000).toISOString().slice(0, 10)
	return { first, last, field: <label>Days <select value={range} onChange={(e) => setRange(e.currentTarget.value)}>{ranges.map((n) => <option key={n} value={n}>{n}</option>)}</select></label> }
}

const most = 6 // series with a colour of their own; the others are one
const width = 1000, height = 100 // of the drawing, which is stretched

// DayChart shows amounts of the days from first to last, or of the hours or minutes if those are such, stacked by
// series: the largest first, or as order has them. Amounts that are a level have no sum. With gaps set, what has no figure
// is shown as unknown, and not as zero. Without complete set to false the figures are all.
export function DayChart({ figures, first, last, name, file, order, level, gaps, complete = true }: { figures: Figure[]; first: string; last: string; name: string; file: string; order?: string[]; level?: boolean; gaps?: boolean; complete?: boolean }): JSX.Element {
	const { days, series, top } = useMemo(() => arrange(figures, first, last, order), [figures, first, last, order])
	const step = width / days.length
	const total = figures.reduce((sum, f) => sum + f.amount, 0)
	return (
		<figure class="chart">
			{!complete && <p class="warning">There are more figures than are read here: those from {end(figures.at(-1)?.date ?? first)} on are missing or not all.</p>}
			<p class="ends"><span>{count(top)}</span></p>
			<svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`${name}: ${level ? `at most ${count(top)}` : count(total)} from ${end(first)} to ${end(last)}. The figures are in the table below.`}>
				{days.map((d, i) => {
					if (gaps && !d.known) return <rect key={d.date} class="unknown" x={i * step} y={0} width={step} height={height}><title>{`${written(d.date)}: unknown`}</title></rect>
					let y = height
					return d.amounts.map((amount, s) => {
						const h = top === 0 ? 0 : (amount / top) * height
						y -= h
						return amount > 0 && <rect key={`${d.date} ${s}`} class={`series-${s}`} x={i * step + step / 10} y={y} width={step * 0.8} height={h}><title>{`${written(d.date)} · ${series[s]}: ${count(amount)}`}</title></rect>
					})
				})}
			</svg>
			<p class="ends"><span>{end(first)}</span><span>{end(last)}</span></p>
			<figcaption>
				{series.map((s, i) => <span class="key" key={s}><svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"><rect class={`series-${i}`} width="10" height="10" /></svg> {s}</span>)}
				{gaps && days.some((d) => !d.known) && <span class="key"><svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"><rect class="unknown" width="10" height="10" /></svg> Unknown</span>}
			</figcaption>
			<details>
				<summary>Figures</summary>
				<p><a href="#figures" download={file} onClick={(e) => offer(e.currentTarget, [["date", "series", name], ...figures.map((f) => [f.date, f.series, f.amount])])}>Download as CSV</a></p>
				<div class="scroll" tabIndex={0} role="region" aria-label={`${name} as a table`}>
					<table>
						<thead><tr><th scope="col">{first.length > 13 ? "Minute" : first.length > 10 ? "Hour" : "Day"} (UTC)</th>{series.map((s) => <th scope="col" class="number" key={s}>{s}</th>)}</tr></thead>
						<tbody>{days.filter((d) => d.amounts.some((a) => a > 0)).map((d) => <tr key={d.date}><th scope="row">{written(d.date)}</th>{d.amounts.map((a) => <td class="number">{count(a)}</td>)}</tr>)}</tbody>
					</table>
				</div>
			</details>
		</figure>
	)
}

// written returns a date, or one with an hour or a minute, as a text.
const written = (date: string): string => day(date.slice(0, 10)) + (date.length > 10 ? `, ${`${date.slice(11)}:00`.slice(0, 5)}` : "")

// end returns the text at an end of the axis: of a minute the time alone.
const end = (date: string): string => `${date.length > 13 ? date.slice(11) : written(date)} UTC`

// Day is one day, or hour or minute: known is whether it has a figure.
type Day = { date: string; known: boolean; amounts: number[] }

function arrange(figures: Figure[], first: string, last: string, order?: string[]): { days: Day[]; series: string[]; top: number } {
	const totals = new Map<string, number>()
	for (const f of figures) totals.set(f.series, (totals.get(f.series) ?? 0) + f.amount)
	let series = order ?? [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name)
	if (series.length > most) series = [...series.slice(0, most - 1), "Others"]
	const days: Day[] = []
	const [step, rest] = first.length > 13 ? [60_000, "Z"] : first.length > 10 ? [3_600_000, ":00Z"] : [86_400_000, ""]
	for (let at = Date.parse(first + rest); days.length < 400; at += step) {
		const date = new Date(at).toISOString().slice(0, first.length)
		days.push({ date, known: false, amounts: series.map(() => 0) })
		if (date >= last) break
	}
	const place = new Map(days.map((d) => [d.date, d]))
	for (const f of figures) {
		const day = place.get(f.date)
		const i = series.indexOf(f.series)
		const at = i < 0 ? series.length - 1 : i
		if (!day) continue
		day.known = true
		day.amounts[at] = (day.amounts[at] ?? 0) + f.amount
	}
	return { days, series, top: Math.max(0, ...days.map((d) => d.amounts.reduce((a, b) => a + b, 0))) }
}
