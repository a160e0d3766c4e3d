// Numbers, sizes, times, people, roles and plans as texts.
import type { Plan, Role } from "./types"

// roles and plans are the names of roles and plans.
export const roles: Record<Role, string> = { OWNER: "Owner", ADMIN: "Admin", MEMBER: "Member", VIEWER: "Viewer" }
export const plans: Record<Plan, string> = { NO_PLAN: "No plan", FREE: "Free", STANDARD: "Standard", PREMIUM: "Premium", ENTERPRISE: "Enterprise" }

// nameOf returns what a person is called: the name, or else the e-mail address.
export const nameOf = (person: { name: string | null; email: string | null }): string => person.name ?? person.email ?? "A member"

// count returns a number with separators.
export const count = (n: number): string => n.toLocaleString("en")

// size returns bytes in units of 1,000.
export function size(bytes: number): string {
	const units = ["bytes", "kB", "MB", "GB", "TB", "PB"]
	let i = 0
	for (; bytes >= 1000 && i < units.length - 1; i++) bytes /= 1000
	return `${i === 0 ? bytes : bytes.toFixed(bytes < 10 ? 1 : 0)} ${units[i]}`
}

// exact returns a time in full, in the time zone of this device.
export const exact = (time: string): string => new Date(time).toLocaleString("en-GB", { dateStyle: "full", timeStyle: "long" })

// day returns a time as a date.
export const day = (time: string): string => new Date(time).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" })

const steps: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000]]

// relative returns a time as seen from now: "3 hours ago"; beyond a month its date.
export function relative(time: string, now = Date.now()): string {
	const distance = new Date(time).getTime() - now
	if (Math.abs(distance) > 30 * 86_400_000) return day(time)
	for (const [unit, length] of steps) {
		if (Math.abs(distance) >= length) return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(Math.trunc(distance / length), unit)
	}
	return distance > 0 ? "in a moment" : "just now"
}
