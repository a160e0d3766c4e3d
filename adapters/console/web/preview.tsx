// What is shown of a file's content, which nobody has checked: text as text, Markdown as nodes,
// pictures as such, and PDF by the browser's viewer, which runs apart from this page.
import type { JSX } from "preact"
import { useEffect, useState } from "preact/hooks"
import { send } from "./interface"
import { Show, useLoaded } from "./loading"
import { Markdown } from "./markdown"
import { fileName } from "./records"
import { size } from "./text"

// Content is a file, or a version of one, by the address of its bytes.
export type Content = { address: string; path: string; mimeType: string; size: number; checksum: string }

// addressOf returns the address of the bytes of a file, or of a version of it.
export const addressOf = (id: string, version?: number): string => `/console/api/v1/sync/files/${id}${version === undefined ? "" : `/versions/${version}`}?raw=1`

const pictures: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", bmp: "image/bmp", ico: "image/x-icon", svg: "image/svg+xml" }
const texts = /^(txt|csv|tsv|json|jsonl|ndjson|ya?ml|toml|ini|conf|log|xml|html?|css|[cm]?[jt]sx?|go|py|rb|rs|java|kt|c|h|cc|cpp|cs|sh|sql|php|lua|swift|env|diff|patch|tex|rst|svg)$/
const pdf = "application/pdf"
export const mostText = 256 << 10 // bytes of a text that are shown
const mostShown = 25 << 20 // bytes of a picture or PDF that are loaded

type Kind = "text" | "markdown" | "picture" | "pdf" | "none"

// kindOf returns how a content is shown.
export function kindOf({ path, mimeType }: { path: string; mimeType: string }): Kind {
	const ending = endingOf(path)
	const media = mimeType.split(";")[0]?.trim().toLowerCase() ?? ""
	if (media === "text/markdown" || ending === "md" || ending === "markdown") return "markdown"
	if (ending in pictures) return "picture"
	if (media === pdf || ending === "pdf") return "pdf"
	return media.startsWith("text/") || media === "application/json" || texts.test(ending) ? "text" : "none"
}

// textOf returns the beginning of a content as text.
export async function textOf({ address, size: length }: Content): Promise<string> {
	const response = await send(address, length > mostText ? { headers: { Range: `bytes=0-${mostText - 1}` } } : {})
	return response.text()
}

// Preview shows a content.
export function Preview({ of }: { of: Content }): JSX.Element {
	const kind = kindOf(of)
	if (kind === "none") return <p class="empty">Files of the type {of.mimeType} are not shown here. Download it to open it.</p>
	if ((kind === "picture" || kind === "pdf") && of.size > mostShown) return <p class="empty">It is not shown here, as it has more than {size(mostShown)}. Download it to open it.</p>
	if (kind === "picture" || kind === "pdf") return <Bytes key={typeOf(of, kind)} of={of} type={typeOf(of, kind)} />
	return <Text of={of} markdown={kind === "markdown"} />
}

function Text({ of, markdown }: { of: Content; markdown: boolean }): JSX.Element {
	const text = useLoaded(() => textOf(of), [of.checksum])
	const [source, setSource] = useState(false)
	return (
		<Show of={text} what="the content">
			{(t) => t === ""
				? <p class="empty">The file is empty.</p>
				: <>
					{of.size > mostText && <p class="soft">This is the beginning, the first {size(mostText)} of {size(of.size)}.</p>}
					{markdown && <p><button type="button" class="small" aria-pressed={source} onClick={() => setSource(!source)}>Source</button></p>}
					{markdown && !source ? <Markdown text={t} /> : <pre class="content" tabIndex={0}>{t}</pre>}
				</>}
		</Show>
	)
}

// endingOf returns the ending of a path in lower case, empty if there is none.
const endingOf = (path: string): string => /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? ""

// typeOf returns the media type by which a picture or PDF is shown.
const typeOf = (of: Content, kind: "picture" | "pdf"): string => (kind === "pdf" ? pdf : pictures[endingOf(of.path)] ?? "")

// Bytes shows a picture or PDF by an address of this page's own. Its type is decided here, so that it
// is never a document in which scripts run. It must be rendered anew for another type: the content of a
// picture that is renamed must not come into a frame.
function Bytes({ of, type }: { of: Content; type: string }): JSX.Element {
	const loaded = useLoaded(async () => {
		const bytes = await (await send(of.address, {})).arrayBuffer()
		if (type === pdf && !new TextDecoder("latin1").decode(bytes.slice(0, 1024)).includes("%PDF-")) return null
		return new Blob([bytes], { type })
	}, [of.checksum])
	const [address, setAddress] = useState<string>()
	const [broken, setBroken] = useState(false)
	useEffect(() => {
		if (!loaded.value) return
		const made = URL.createObjectURL(loaded.value)
		setAddress(made)
		setBroken(false)
		return () => URL.revokeObjectURL(made)
	}, [loaded.value])
	const name = fileName(of.path)
	return (
		<Show of={loaded} what="the content">
			{(blob) => broken || blob === null
				? <p class="empty">The content is not that of such a file. Download it to look at it otherwise.</p>
				: address && (type === pdf ? <iframe class="content" src={address} title={name} /> : <img class="content" src={address} alt={name} onError={() => setBroken(true)} />)}
		</Show>
	)
}
