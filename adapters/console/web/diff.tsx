// The difference of two texts by lines.
import type { JSX } from "preact"
import { useMemo } from "preact/hooks"

// Line is one of a difference: of both texts, of the first alone, or of the second alone.
export type Line = { of: "both" | "first" | "second"; text: string }

const most = 1000 // edits that are looked for; texts that differ more are shown one after the other

// difference returns the lines of two texts in a shortest sequence of removals and additions (Myers,
// An O(ND) Difference Algorithm, 1986).
export function difference(first: string, second: string): Line[] {
	const a = first.split("\n"), b = second.split("\n")
	let begin = 0
	while (begin < a.length && begin < b.length && a[begin] === b[begin]) begin++
	let end = 0
	while (end < a.length - begin && end < b.length - begin && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
	const line = (of: Line["of"]) => (text: string): Line => ({ of, text })
	return [...a.slice(0, begin).map(line("both")), ...edits(a.slice(begin, a.length - end), b.slice(begin, b.length - end)), ...a.slice(a.length - end).map(line("both"))]
}

function edits(a: string[], b: string[]): Line[] {
	const trace: Map<number, number>[] = []
	const furthest = new Map([[1, 0]])
	const down = (v: Map<number, number>, k: number, d: number): boolean => k === -d || k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)
	for (let d = 0; d <= Math.min(most, a.length + b.length); d++) {
		trace.push(new Map(furthest))
		for (let k = -d; k <= d; k += 2) {
			let x = down(furthest, k, d) ? furthest.get(k + 1) ?? 0 : (furthest.get(k - 1) ?? 0) + 1
			while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++
			furthest.set(k, x)
			if (x < a.length || x - k < b.length) continue
			const lines: Line[] = []
			let y = x - k
			for (let back = d; back >= 0; back--) {
				const v = trace[back] ?? furthest
				const at = x - y
				const before = down(v, at, back) ? at + 1 : at - 1
				const fromX = back === 0 ? 0 : v.get(before) ?? 0
				const fromY = back === 0 ? 0 : fromX - before
				while (x > fromX && y > fromY) lines.push({ of: "both", text: a[--x] ?? "" }), y--
				if (back > 0) lines.push(x > fromX ? { of: "first", text: a[--x] ?? "" } : { of: "second", text: b[--y] ?? "" })
			}
			return lines.reverse()
		}
	}
	return [...a.map((text): Line => ({ of: "first", text })), ...b.map((text): Line => ({ of: "second", text }))]
}

const around = 3 // lines shown before and after a change
const marks = { both: " ", first: "−", second: "+" }
const said = { both: "", first: "Removed: ", second: "Added: " }

// Difference shows what makes the second text of the first, with some lines around each change.
export function Difference({ first, second, label }: { first: string; second: string; label: string }): JSX.Element {
	const lines = useMemo(() => difference(first, second), [first, second])
	if (lines.every((l) => l.of === "both")) return <p class="empty">There is no difference.</p>
	const near = lines.map(() => false)
	lines.forEach((l, i) => l.of !== "both" && near.fill(true, Math.max(0, i - around), i + around + 1))
	return (
		<div class="difference scroll" role="region" aria-label={label} tabIndex={0}>
			{lines.map((l, i) => near[i]
				? <div key={i} class={l.of}><span aria-hidden="true">{marks[l.of]}</span><code><span class="hidden">{said[l.of]}</span>{l.text || " "}</code></div>
				: near[i - 1] !== false && <div key={i} class="soft">…</div>)}
		</div>
	)
}
