// Windows for pages of other sites.

// Popup is a window for an address that is not known yet.
export type Popup = {
	go: (address: string) => void
	close: () => void
	closed: () => boolean // also true when the page in it has cut its tie to this one
}

// openPopup opens a window, small if a name is given and a tab else. It must be called while a click is
// handled, and returns undefined if the browser keeps the window from opening. The page that is shown
// in it cannot reach this one.
export function openPopup(text: string, small: boolean): Popup | undefined {
	const w = window.open("", "_blank", small ? "popup,width=560,height=720" : "")
	if (!w) return undefined
	w.opener = null
	w.document.title = text
	w.document.body.textContent = text
	return { go: (address) => w.location.replace(address), close: () => w.close(), closed: () => w.closed }
}
