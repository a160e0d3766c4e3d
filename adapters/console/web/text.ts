// Numbers, sizes, times, people, roles and plans as texts.
import type { Plan, Role } from "./types"

// roles and plans are the names of roles and plans.
export const roles: Record<Role, string> = { OWNER: "Owner", ADMIN: "Admin", MEMBER: "Member", VIEWER: "Viewer" }
export const plans: Record<Plan, string> = { NO_PLAN: "No plan", FREE: "Free", STANDARD: "Standard", PREMIUM: "Premium", ENTERPRISE: "Enterprise" }

// nameOf returns what a person is called: the name, or else the e-mail address.
export const nameOf = (person: { name: string | null; email: string | null }): string => person.name ?? person.email ?? "A member"

// hasWords returns a function that reports whether a text has all words of a search, in any case. The server's searches
// fold letters by the same table, which expressions without regard to case have.
export function hasWords(search: string): (text: string) => boolean {
	const words = search.normalize().split(/\s+/).map((word) => new RegExp(word.replace(/[$()*+.?[\\\]^{|}]/g, "\\$&"), "iu"))
	return (text) => {
		const normal = text.normalize()
		return words.every((word) => word.test(normal))
	}
}

// beginning returns the first characters of a text: at most some units of UTF-16, and no half of a character.
export const beginning = (text: string, most: number): string => text.slice(0, most).replace(/[\ud800-\udbff]$/, "")

// count returns a number with separators.
export const count = (n: number): string => n.toLocaleString("en")

// size returns bytes in units of 1,024, as the limits of the plans are set.
export function size(bytes: number): string {
	const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
	let i = 0
	for (; Math.round(bytes) >= 1024 && i < units.length - 1; i++) bytes /= 1024
	return `${Number(bytes.toFixed(bytes < 10 ? 1 : 0))} ${units[i]}`
}

// isDate reports whether a text is a date without a time, such as 2026-01-31. It is the same in all time zones.
const isDate = (time: string): boolean => time.length === 10

// dated returns a function that writes a time in the time zone of this device, and a date as one; what is neither is
// empty. It makes the formats once, which takes far longer than to use them.
function dated(options: Intl.DateTimeFormatOptions, ofTimes: Intl.DateTimeFormatOptions = {}): (time: string) => string {
	const dates = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" }), times = new Intl.DateTimeFormat("en-GB", { ...options, ...ofTimes })
	return (time) => {
		const at = new Date(time)
		return Number.isNaN(at.getTime()) ? "" : (isDate(time) ? dates : times).format(at)
	}
}

// exact returns a time in full.
export const exact = dated({ dateStyle: "full" }, { timeStyle: "long" })

// day returns the date of a time.
export const day = dated({ day: "numeric", month: "long", year: "numeric" })

// startOf returns when a date begins on this device, or one that is some days after it; what is no date is left as it is.
export function startOf(date: string, after = 0): string {
	const at = new Date(`${date}T00:00`)
	if (!/^\d{4}-\d\d-\d\d$/.test(date) || Number.isNaN(at.getTime())) return date
	at.setDate(at.getDate() + after)
	return at.toISOString()
}

// dateOf returns the date of a time on this device, as fields for dates have it.
export const dateOf = (time: string): string => new Date(time).toLocaleDateString("sv-SE")

const aDay = 86_400_000 // milliseconds
const steps: [Intl.RelativeTimeFormatUnit, number][] = [["hour", 3_600_000], ["minute", 60_000]]
const distances = new Intl.RelativeTimeFormat("en", { numeric: "auto" })
const midnight = (time: string | number): number => new Date(time).setHours(0, 0, 0, 0)

// relative returns a time as seen from now: "3 hours ago"; from a day on as calendars of this device have it, and beyond
// a month its date.
export function relative(time: string, now = Date.now()): string {
	const distance = new Date(time).getTime() - now
	if (Math.abs(distance) > 30 * aDay) return day(time)
	if (Math.abs(distance) >= aDay) return distances.format(Math.round((midnight(time) - midnight(now)) / aDay), "day")
	for (const [unit, length] of steps) {
		if (Math.abs(distance) >= length) return distances.format(Math.trunc(distance / length), unit)
	}
	return distance > 0 ? "in a moment" : "just now"
}
