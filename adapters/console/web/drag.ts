// Dragging rows of windowed lists by mouse, pen and finger. There must be another way to each
// movement: see WCAG 2.5.7.

type Drag = {
	name: (id: string) => string // the text that follows the pointer
	// dropped is called with the row's id, the list (data-list) and the place there, counted with
	// the row itself where it was.
	dropped: (id: string, list: string, at: number) => void
}

const distance = 6 // pixels after which a press becomes a drag
const edge = 48 // pixels at the ends of a list in which it scrolls

// dragRows returns a handler of pointerdown for what contains the lists: elements with data-list
// that contain a Windowed each. Rows are dragged by mouse anywhere, otherwise by data-grip.
export function dragRows({ name, dropped }: Drag): (down: PointerEvent) => void {
	return (down) => {
		const pressed = down.target as Element
		const row = pressed.closest<HTMLElement>("[data-id]")
		const grip = pressed.closest("[data-grip]")
		if (!row || down.button !== 0 || !grip && (down.pointerType !== "mouse" || pressed.closest("button, input, select, [popover]"))) return
		const id = row.dataset.id ?? ""
		const ghost = document.createElement("div"), line = document.createElement("div")
		ghost.className = "ghost"
		ghost.textContent = name(id)
		line.className = "drop"
		let on = false, frame = 0, x = down.clientX, y = down.clientY
		let target: { list: string; at: number } | undefined

		const aim = (): void => {
			row.classList.toggle("dragged", row.dataset.id === id) // an element is another row's when this one is not rendered
			ghost.style.transform = `translate(${x + 12}px, ${y + 8}px)`
			const list = document.elementFromPoint(x, y)?.closest<HTMLElement>("[data-list]")
			const box = list?.querySelector<HTMLElement>(".windowed")
			const rows = box?.querySelector("ul")
			if (!list || !box || !rows) {
				target = undefined
				line.remove()
				return
			}
			const seen = box.getBoundingClientRect()
			if (y < seen.top + edge) box.scrollTop -= 12
			else if (y > seen.bottom - edge) box.scrollTop += 12
			const height = box.querySelector(".probe")?.getBoundingClientRect().height ?? 1
			const at = Math.max(0, Math.min(Math.round(rows.offsetHeight / height), Math.round((y - rows.getBoundingClientRect().top) / height)))
			target = { list: list.dataset.list ?? "", at }
			if (line.parentNode !== box) box.append(line)
			line.style.transform = `translateY(${at * height}px)`
		}
		const loop = (): void => {
			aim()
			frame = requestAnimationFrame(loop)
		}
		const move = (e: PointerEvent): void => {
			;[x, y] = [e.clientX, e.clientY]
			if (on || Math.hypot(x - down.clientX, y - down.clientY) < distance) return
			on = true
			document.body.append(ghost)
			loop()
		}
		const end = (drop: boolean): void => {
			for (const [type, fn] of listeners) removeEventListener(type, fn as EventListener, true)
			if (!on) return
			if (drop) aim()
			cancelAnimationFrame(frame)
			ghost.remove()
			line.remove()
			row.classList.remove("dragged")
			addEventListener("click", swallow, { capture: true, once: true })
			setTimeout(() => removeEventListener("click", swallow, true))
			if (drop && target) dropped(id, target.list, target.at)
		}
		const listeners: [string, (e: never) => void][] = [
			["pointermove", move], ["pointerup", () => end(true)], ["pointercancel", () => end(false)],
			["selectstart", (e: Event) => e.preventDefault()], ["dragstart", (e: Event) => e.preventDefault()],
			["keydown", (e: KeyboardEvent) => e.key === "Escape" && end(false)],
		]
		for (const [type, fn] of listeners) addEventListener(type, fn as EventListener, true)
	}
}

function swallow(e: Event): void {
	e.preventDefault()
	e.stopPropagation()
}
