// The pages by their paths. A page is the default export of one file, which is loaded when it is
// opened first.
import type { ComponentType } from "preact"
import Home from "./pages/home"
import type { Me } from "./types"

export type PageOf = { path: string; name: string; menu?: boolean; page?: ComponentType<{ me: Me }>; load?: () => Promise<{ default: ComponentType<{ me: Me }> }> }

export const pages: PageOf[] = [
	{ path: "/console", name: "Home", menu: true, page: Home },
	{ path: "/console/tasks", name: "Tasks", menu: true, load: () => import("./pages/tasks") },
	{ path: "/console/files", name: "Files", menu: true, load: () => import("./pages/files") },
	{ path: "/console/memories", name: "Memories", menu: true, load: () => import("./pages/memories") },
	{ path: "/console/sessions", name: "Sessions", load: () => import("./pages/sessions") },
]
