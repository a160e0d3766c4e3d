// Texts that are too long for their field.
import { count } from "./text"

// sayLimits has fields refuse a text that is longer than the room they have, as of a paste, and say so. Browsers would insert
// its beginning. What an input method composes cannot be refused, and may be longer until it is done.
export function sayLimits(): void {
	addEventListener("beforeinput", (e) => {
		const field = e.target
		if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) || field.maxLength < 0 || !e.data || !e.cancelable) return
		const { selectionStart: start, selectionEnd: end } = field // of e-mail addresses, browsers do not tell them
		const replaced = start === null || end === null ? field.value.length : end - start
		const length = field.value.length - replaced + e.data.replace(/\r?\n/g, field instanceof HTMLTextAreaElement ? "\n" : "").length
		if (length <= field.maxLength) return
		e.preventDefault()
		field.setCustomValidity(`This would be ${count(length)} characters. At most ${count(field.maxLength)} fit here.`)
		field.reportValidity()
		for (const next of ["keydown", "input", "blur"]) field.addEventListener(next, () => field.setCustomValidity(""), { once: true })
	})
}
