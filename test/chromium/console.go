package chromium

// Limits of the web console.
const (
	FirstLoadBytes    = 80_000 // of all responses of the first load of its first page
	FirstLoadRequests = 8
	PageBytes         = 25_000 // of the files, as they are transferred, that a further page loads
)

// ConsoleFiles is in the addresses of the console's files.
const ConsoleFiles = "/console/assets/"

// ScrollList is a script that scrolls the list of tasks to its end, 900 pixels in each frame. It returns the
// longest time in milliseconds that the page has answered nothing, the number of rows of the list, and how
// many of them are rendered.
const ScrollList = `(async () => {
	const box = document.querySelector(".windowed"), frame = () => new Promise(requestAnimationFrame)
	const every = 5 // milliseconds
	let longest = 0, due = performance.now() + every
	const timer = setInterval(() => {
		const now = performance.now()
		longest = Math.max(longest, now - due)
		due = now + every
	}, every)
	for (let still = 0, last = -1; still < 60; still = box.scrollTop === last ? still + 1 : 0) {
		last = box.scrollTop
		box.scrollTop += 900
		await frame()
	}
	clearInterval(timer)
	return [longest, Math.round(box.querySelector("ul").offsetHeight / box.querySelector(".probe").offsetHeight), box.querySelectorAll("li").length]
})()`
