// What the console keeps of a person on this device, and its removal.
import { forgetDrafts } from "./draft"

export const database = "collab-chats"

const marker = "chats-of" // in localStorage: the id of the person whose chats are kept

// keepFor says that chats of a person are kept from now on.
export function keepFor(person: string): void {
	localStorage.setItem(marker, person)
}

// forgetOthers removes the chats of another person than this one.
export function forgetOthers(person: string): void {
	if ((localStorage.getItem(marker) ?? person) !== person) void forgetChats()
}

// forgetChats removes all chats, and what this tab keeps of what was typed on any page. Tabs that have chats open close them at once. It
// returns when nothing is left, or when the browser will remove it by itself.
export function forgetChats(): Promise<void> {
	localStorage.removeItem(marker)
	forgetDrafts()
	return new Promise((resolve) => {
		const removal = indexedDB.deleteDatabase(database)
		removal.onsuccess = removal.onerror = removal.onblocked = () => resolve()
	})
}
