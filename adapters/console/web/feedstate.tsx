// What pages that follow the feed say about it.
import type { ComponentChildren, JSX } from "preact"
import { retryFeed, type Feed } from "./feed"
import { Problem } from "./loading"

const states: Record<Feed["state"], string> = { live: "Live", down: "Not live", connecting: "Connecting" }

// Live is the state of the feed, beside a page's heading.
export const Live = ({ feed }: { feed: Feed }): JSX.Element => <span class="badge" data-feed={feed.state}>{states[feed.state]}</span>

// NotLive says why the feed is down, if it is, and what that means for the page.
export function NotLive({ feed, children }: { feed: Feed; children: ComponentChildren }): JSX.Element | null {
	return feed.state === "down" && feed.failure ? <Problem failure={feed.failure} what="Following changes" retry={retryFeed}>{children}</Problem> : null
}
