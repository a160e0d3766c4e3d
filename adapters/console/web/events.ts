// Server-sent events of a response.

// readEvents calls event with the fields of each event of a body (comments have the name ""), and
// heard whenever something arrives. It returns when the body ends.
export async function readEvents(body: ReadableStream<Uint8Array>, heard: () => void, event: (fields: Map<string, string>) => void): Promise<void> {
	const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader()
	let text = ""
	for (;;) {
		const { value, done } = await reader.read()
		if (done) return
		heard()
		const blocks = (text + value).split("\n\n")
		text = blocks.pop() ?? ""
		for (const block of blocks) event(new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trimStart()])))
	}
}
