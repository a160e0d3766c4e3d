// Markdown of untrusted origin as nodes of the page. HTML in it is text, nothing is loaded, and
// links lead to http, https and mail addresses alone.
import type { JSX } from "preact"
import { useRef } from "preact/hooks"
import { Copy } from "./loading"

const longestRow = 2000 // characters of the second line of a table
const deepest = 8 // quotes and lists within each other; what is deeper is a paragraph

// Markdown shows a text. While the text grows, what stands before its last blocks is not parsed again.
export function Markdown({ text }: { text: string }): JSX.Element {
	const parsed = useRef({ text: "", settled: "", lines: 0, before: [] as JSX.Element[], nodes: [] as JSX.Element[] })
	const now = parsed.current
	const next = text.replace(/\r\n?/g, "\n")
	if (next !== now.text) {
		if (!next.startsWith(now.settled)) Object.assign(now, { settled: "", lines: 0, before: [] })
		const rest = next.slice(now.settled.length)
		let nodes = parse(rest, now.lines)
		if (nodes.length > 1) {
			// A line that is not complete may become another block, so that it settles none.
			const last = parse(rest.slice(0, rest.lastIndexOf("\n") + 1), now.lines).at(-1)
			const from = Number(last?.key ?? now.lines) // the line
			const settled = rest.split("\n").slice(0, from - now.lines).map((line) => line + "\n").join("")
			now.before = [...now.before, ...nodes.filter((node) => Number(node.key) < from)]
			nodes = nodes.filter((node) => Number(node.key) >= from)
			Object.assign(now, { settled: now.settled + settled, lines: from })
		}
		Object.assign(now, { text: next, nodes: [...now.before, ...nodes] })
	}
	return <div class="markdown">{now.nodes}</div>
}

// parse returns the nodes of a text whose first line has a number.
const parse = (text: string, first: number): JSX.Element[] => blocks(text.replace(/\t/g, "    ").split("\n"), 0, first)

const fence = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)/
const heading = /^ {0,3}(#{1,6})(?= |$)/
const rule = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/
const quote = /^ {0,3}> ?/
const item = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|$)/
const under = /^ {0,3}(=+|-+)\s*$/
const divider = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/
const blank = (line: string | undefined): boolean => line === undefined || line.trim() === ""

// blocks returns the nodes of lines, with the numbers of their lines as keys.
function blocks(lines: string[], depth: number, first = 0): JSX.Element[] {
	const nodes: JSX.Element[] = []
	for (let i = 0; i < lines.length; ) {
		const line = lines[i] ?? ""
		const key = first + i
		let m: RegExpExecArray | null
		if (blank(line)) {
			i++
		} else if ((m = fence.exec(line))) {
			const end = new RegExp(`^ {0,3}${m[1]?.[0]}{${m[1]?.length},}\\s*$`)
			const from = ++i
			while (i < lines.length && !end.test(lines[i] ?? "")) i++
			nodes.push(<Code key={key} text={lines.slice(from, i++).join("\n")} language={m[2] ?? ""} />)
		} else if ((m = heading.exec(line))) {
			nodes.push(titled(key, m[1]?.length ?? 1, line.slice(m[0].length).trimEnd().replace(/ (?<!#)#+$/, "")))
			i++
		} else if (rule.test(line)) {
			nodes.push(<hr key={key} />)
			i++
		} else if (depth < deepest && quote.test(line)) {
			const from = i
			while (i < lines.length && !blank(lines[i])) i++
			nodes.push(<blockquote key={key}>{blocks(lines.slice(from, i).map((l) => l.replace(quote, "")), depth + 1)}</blockquote>)
		} else if (depth < deepest && (m = item.exec(line))) {
			const [node, after] = list(lines, i, m, depth)
			nodes.push(<div key={key}>{node}</div>)
			i = after
		} else if (line.startsWith("    ")) {
			const from = i
			while (i < lines.length && (blank(lines[i]) || lines[i]?.startsWith("    "))) i++
			nodes.push(<pre key={key} tabIndex={0}><code>{lines.slice(from, i).map((l) => l.slice(4)).join("\n").trimEnd()}</code></pre>)
		} else if (line.includes("|") && (lines[i + 1]?.length ?? 0) < longestRow && divider.test(lines[i + 1] ?? "") && cells(line).length === cells(lines[i + 1] ?? "").length) {
			const from = i + 2
			for (i = from; i < lines.length && lines[i]?.includes("|"); ) i++
			const head = cells(line)
			nodes.push(
				<div key={key} class="scroll" role="region" aria-label="Table" tabIndex={0}>
					<table>
						<thead><tr>{head.map((c, n) => <th key={n} scope="col">{inline(c)}</th>)}</tr></thead>
						<tbody>{lines.slice(from, i).map((l, n) => <tr key={n}>{cells(l).slice(0, head.length).map((c, k) => <td key={k}>{inline(c)}</td>)}</tr>)}</tbody>
					</table>
				</div>,
			)
		} else {
			const from = i++
			while (i < lines.length && !under.test(lines[i] ?? "") && !interrupts(lines[i] ?? "")) i++
			if (i < lines.length && (m = under.exec(lines[i] ?? ""))) {
				nodes.push(titled(key, m[1]?.[0] === "=" ? 1 : 2, lines.slice(from, i++).join(" ")))
			} else {
				nodes.push(<p key={key}>{inline(lines.slice(from, i).map((l) => l.trimStart()).join("\n"))}</p>)
			}
		}
	}
	return nodes
}

// Code is a block of code with its language and a button that copies it.
function Code({ text, language }: { text: string; language: string }): JSX.Element {
	return (
		<div class="code">
			<div class="bar"><span class="soft">{language}</span><Copy text={text} what="code" looks="small plain" /></div>
			<pre tabIndex={0}><code>{text}</code></pre>
		</div>
	)
}

// interrupts reports whether a line ends a paragraph.
const interrupts = (line: string): boolean => blank(line) || fence.test(line) || heading.test(line) || rule.test(line) || quote.test(line) || /^ {0,3}([-*+]|1[.)]) +\S/.test(line)

// titled returns a heading two levels below that of the page and of what is shown.
function titled(key: number, level: number, text: string): JSX.Element {
	const Tag = `h${Math.min(level + 2, 6)}` as "h3"
	return <Tag key={key} class={`h${level}`}>{inline(text.trim())}</Tag>
}

// list returns the list that begins at a line, and the line after it.
function list(lines: string[], i: number, first: RegExpExecArray, depth: number): [JSX.Element, number] {
	const kind = (marker: string): string => marker.slice(-1)
	const items: JSX.Element[] = []
	let m: RegExpExecArray | null = first
	while (m && kind(m[2] ?? "") === kind(first[2] ?? "") && !rule.test(lines[i] ?? "")) {
		const width = Math.min(m[0].length, (m[1]?.length ?? 0) + (m[2]?.length ?? 0) + 4)
		const own = [(lines[i] ?? "").slice(width)]
		for (i++; i < lines.length; i++) {
			const line = lines[i] ?? ""
			const indent = line.length - line.trimStart().length
			if (blank(line) ? blank(lines[i + 1]) : indent < width && (blank(own.at(-1)) || interrupts(line) || item.test(line))) break
			own.push(line.slice(Math.min(indent, width)))
		}
		const task = /^\[([ xX])\] +/.exec(own[0] ?? "")
		if (task) own[0] = (own[0] ?? "").slice(task[0].length)
		const inner = blocks(own, depth + 1)
		const only = inner.length === 1 && inner[0]?.type === "p" ? inner[0].props.children : inner
		items.push(<li key={items.length}>{task && <><input type="checkbox" disabled checked={task[1] !== " "} aria-label={task[1] === " " ? "To do" : "Done"} /> </>}{only}</li>)
		while (blank(lines[i]) && i < lines.length) i++
		m = item.exec(lines[i] ?? "")
	}
	const from = parseInt(first[2] ?? "", 10)
	return [Number.isNaN(from) ? <ul>{items}</ul> : <ol start={from}>{items}</ol>, i]
}

// cells returns the cells of a row of a table.
const cells = (line: string): string[] => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((c) => c.trim().replaceAll("\\|", "|"))

// Of each part of a text the first alternative that matches: an escape, code, an image, a link, an
// address, what is strong, stressed or struck out, and a line break. None looks back, and each is
// bounded, so that no text takes long.
const parts = /\\([!-/:-@[-`{-~])|(`{1,3})(?!`)([^\n]{0,400}?[^`\n])\2(?!`)|(!?)\[([^\[\]\n]{0,500})\]\(<?([^\s()<>]{0,400})>?(?:\s+"[^"\n]{0,500}")?\)|<?(https?:\/\/[^\s<>]{1,400}|mailto:[^\s<>]{1,300})>?|(\*\*|__)(?=\S)([^\n]{0,400}?\S)\8|(\*|_)(?=[^\s*_])([^\n*_]{0,400}[^\s*_])\10(?![A-Za-z0-9])|~~(?=\S)([^\n~]{1,400})~~|(?<! ) {2,}\n|\\\n/g

// inline returns the nodes of a text within a block.
function inline(text: string, depth = 0): (JSX.Element | string)[] {
	const nodes: (JSX.Element | string)[] = []
	let at = 0
	for (const m of text.matchAll(parts)) {
		const [whole, escaped, , code, picture, name, to, address, , strong, mark, stressed, struck] = m
		const word = /[A-Za-z0-9]/.test(text[m.index - 1] ?? "")
		let node: JSX.Element | string = whole
		if (escaped !== undefined) node = escaped
		else if (code !== undefined) node = <code>{code.replace(/^ (.*[^ ].*) $/, "$1")}</code>
		else if (to !== undefined) node = link(to, picture ? [`Image: ${name || to}`] : depth < 4 ? inline(name ?? "", depth + 1) : [name ?? ""])
		else if (address !== undefined) {
			const trimmed = address.replace(/[.,;:!?'")\]]+$/, "")
			nodes.push(text.slice(at, m.index), link(trimmed, [trimmed]), address.slice(trimmed.length))
			at = m.index + whole.length
			continue
		} else if (strong !== undefined && depth < 4) node = <strong>{inline(strong, depth + 1)}</strong>
		else if (stressed !== undefined && depth < 4 && !(word && mark === "_")) node = <em>{inline(stressed, depth + 1)}</em>
		else if (struck !== undefined && depth < 4) node = <s>{inline(struck, depth + 1)}</s>
		else if (whole.endsWith("\n")) node = <br />
		nodes.push(text.slice(at, m.index), node)
		at = m.index + whole.length
	}
	return [...nodes, text.slice(at)]
}

// link returns a link that opens in another tab, or its text where it leads elsewhere.
function link(to: string, children: (JSX.Element | string)[]): JSX.Element {
	return /^(https?:\/\/|mailto:)/i.test(to) ? <a href={to} target="_blank" rel="noopener noreferrer">{children}</a> : <span title={to}>{children}</span>
}
