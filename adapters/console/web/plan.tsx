// The plan of an organisation as a person reads it.
import type { JSX } from "preact"
import { Time } from "./loading"
import { count, day, plans } from "./text"
import type { Subscription } from "./types"

const statuses: Record<Subscription["status"], string> = { TRIALING: "Trial", ACTIVE: "Active", PAST_DUE: "Payment is due", CANCELED: "Not subscribed", PAUSED: "Paused" }

const left = (end: string): number => Math.max(0, Math.ceil((new Date(end).getTime() - Date.now()) / 86_400_000))

// PlanNow is the plan with its status, and when it ends.
export function PlanNow({ of: s }: { of: Subscription }): JSX.Element {
	const trial = s.status === "TRIALING" ? s.trialEnd ?? s.currentPeriodEnd : null
	return (
		<>
			<p class="figure">{plans[s.plan]} <span class="badge" data-status={s.status}>{s.managedExternally ? "Set by the operator" : statuses[s.status]}</span></p>
			{trial ? <p class="soft">{count(left(trial))} {left(trial) === 1 ? "day" : "days"} left: the trial ends on <Time at={trial} as={day} />, then the plan becomes Free.</p>
				: s.currentPeriodEnd ? <p class="soft">{s.cancelAtPeriodEnd || s.managedExternally ? "Ends" : "Renews"} on <Time at={s.currentPeriodEnd} as={day} />.</p>
					: <p class="soft">{s.plan === "NO_PLAN" ? "Chats need a plan." : "It does not end by itself."}</p>}
		</>
	)
}
