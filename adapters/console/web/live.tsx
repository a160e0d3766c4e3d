// What happened, said to those who do not see it.
import type { JSX } from "preact"
import { useEffect, useState } from "preact/hooks"

let say: (text: string) => void = () => undefined

// announce has screen readers say a text when they have said what they are at.
export function announce(text: string): void {
	say(text)
}

// Announcer is the place of what is announced. The frame has one.
export function Announcer(): JSX.Element {
	const [said, set] = useState({ text: "", times: 0 })
	useEffect(() => {
		say = (text) => set((was) => ({ text, times: was.times + 1 }))
	}, [])
	return <p class="hidden" role="status" id="said"><span key={said.times}>{said.text}</span></p>
}
