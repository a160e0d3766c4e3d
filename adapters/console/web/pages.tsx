// The pages by their paths. A page is the default export of one file, which is loaded when it is
// opened first.
import type { ComponentType } from "preact"
import { icons } from "./icons"
import Home from "./pages/home"
import type { Me, Role } from "./types"

// Group is a part of the navigation.
type Group = "Work" | "Organisation" | "Operation"

// Belonging is somebody who belongs to an organisation.
export type Belonging = Me & { org: NonNullable<Me["org"]> }

// PageOf is a page: menu lists it in the navigation, in a group (Work if it names none), for the
// roles that may use it (all if it names none). alone says that people without an organisation may use it as well.
export type PageOf = {
	path: string; name: string; menu?: boolean; group?: Group; icon?: string; roles?: Role[]; alone?: boolean
	page?: ComponentType<{ me: Me }>; load?: () => Promise<{ default: ComponentType<{ me: Belonging }> }>
}

export const groups: Group[] = ["Work", "Organisation", "Operation"]

export const pages: PageOf[] = [
	{ path: "/console", name: "Home", menu: true, icon: icons.home, alone: true, page: Home },
	{ path: "/console/tasks", name: "Tasks", menu: true, icon: icons.tasks, load: () => import("./pages/tasks") },
	{ path: "/console/chat", name: "Chat", menu: true, icon: icons.chat, load: () => import("./pages/chat") },
	{ path: "/console/files", name: "Files", menu: true, icon: icons.files, load: () => import("./pages/files") },
	{ path: "/console/memories", name: "Memories", menu: true, icon: icons.memories, load: () => import("./pages/memories") },
	{ path: "/console/releases", name: "Releases", menu: true, group: "Organisation", icon: icons.releases, roles: ["OWNER", "ADMIN"], load: () => import("./pages/releases") },
	{ path: "/console/people", name: "People", menu: true, group: "Organisation", icon: icons.people, load: () => import("./pages/people") },
	{ path: "/console/teams", name: "Teams", menu: true, group: "Organisation", icon: icons.teams, load: () => import("./pages/teams") },
	{ path: "/console/connectors", name: "Connectors", menu: true, group: "Organisation", icon: icons.connectors, load: () => import("./pages/connectors") },
	{ path: "/console/billing", name: "Billing", menu: true, group: "Organisation", icon: icons.billing, load: () => import("./pages/billing") },
	{ path: "/console/audit", name: "Audit log", menu: true, group: "Organisation", icon: icons.audit, roles: ["OWNER", "ADMIN"], load: () => import("./pages/audit") },
	{ path: "/console/export", name: "Export", menu: true, group: "Organisation", icon: icons.export, roles: ["OWNER"], load: () => import("./pages/export") },
	{ path: "/console/sessions", name: "Sessions", icon: icons.sessions, alone: true, load: () => import("./pages/sessions") },
]

// isListed reports whether the navigation has a page.
export const isListed = (p: PageOf, me: Me): boolean => p.menu === true && isFor(p, me)

// isFor reports whether a person may use a page.
export const isFor = (p: PageOf, me: Me): boolean => !p.roles || (me.role !== null && p.roles.includes(me.role))
