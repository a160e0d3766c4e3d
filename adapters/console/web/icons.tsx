// The icons, of 16 by 16, drawn with a stroke.
import type { JSX } from "preact"

// Icon is an icon with this path. What it means is said beside it.
export const Icon = ({ path }: { path: string | undefined }): JSX.Element => <svg class="drawn" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d={path ?? ""} /></svg>

// Initials are the first letters of a name, as a picture beside or instead of it.
export const Initials = ({ of, title }: { of: string; title?: string }): JSX.Element => <span class="initials" aria-hidden="true" title={title}>{of.split(/\s+/).map((word) => [...word][0] ?? "").slice(0, 2).join("").toUpperCase()}</span>

// Mark is Collab's own, of a size in pixels.
export const Mark = ({ size }: { size: number }): JSX.Element => <svg class="mark" viewBox="0 0 32 32" width={size} height={size} aria-hidden="true"><circle cx="12" cy="16" r="9" /><circle cx="20" cy="16" r="9" opacity=".45" /></svg>

// icons are the paths of those of the frame.
export const icons = {
	home: "M2.5 7.5 8 3l5.5 4.5V13h-4V9.5h-3V13h-4z",
	chat: "M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z",
	tasks: "m2.5 4.5 1 1 2-2M2.5 11l1 1 2-2M8 4.5h5.5M8 11h5.5",
	files: "M2 3.5h4L7.5 5H14v8H2z",
	file: "M3.5 2h6l3 3v9h-9zM9.5 2v3h3",
	memories: "M4 2.5h8v11L8 11l-4 2.5z",
	people: "M6 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c.5-2.5 2-4 4.5-4s4 1.5 4.5 4M10.5 3.2a2.5 2.5 0 0 1 0 4.600M12 9.800c1.5.6 2.300 1.900 2.5 3.700",
	teams: "M2.5 2.5H7V7H2.5zM9 2.5h4.5V7H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z",
	connectors: "M5.5 2v3M10.5 2v3M4 5h8v2.5a4 4 0 0 1-8 0zM8 11.5V14",
	audit: "M3.5 2h6l3 3v9h-9zM6 7.5h4M6 10.5h4",
	billing: "M2 3.5h12v9H2zM2 6.5h12M4.5 9.5H7",
	export: "M8 10V2M5 5l3-3 3 3M2.5 9.5v4h11v-4",
	releases: "M8 2v8.5M4.5 7 8 10.5 11.5 7M2.5 13.5h11",
	operator: "m8 1.5 5.5 2v4c0 3.5-2.5 5.5-5.5 7-3-1.5-5.5-3.5-5.5-7v-4z",
	sessions: "M2 3h12v8H2zM5.5 13.5h5",
	find: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5 14 14",
	menu: "M2 4h12M2 8h12M2 12h12",
	choose: "m5 6.5 3-3 3 3M5 9.5l3 3 3-3",
}
