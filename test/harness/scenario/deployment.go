package scenario

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/app/upkeep"
	"collab/domain/plan"
	"collab/test/harness"
)

// serverActs are what happens to the server, and the clock.
var serverActs = []*act{
	{
		party: clock, subject: "time",
		does: "Moves the clock by a duration (`clock +14d`, `clock +3h30m`) or to an instant (`clock 2026-03-02T09:00:00Z`). The first line of a scenario can set it to any time. After a move, the payment provider has renewed what was due, providers have resent messages that were not accepted, and the server has done its periodic work.",
		do:   without(moveClock),
	},
	{
		party: machinery, name: "work",
		does: "Does the periodic work now: ended trials, connectors, counts, upkeep, garbage. Moving the clock does it too.",
		do:   without(func(c *call) error { return c.Work(c.ctx) }),
	},
	{
		party: machinery, name: "restart",
		does: "Replaces the server: memory is lost, stored data is kept. Subscriptions are closed.",
		do:   without(func(c *call) error { return c.restart() }),
	},
	{
		party: machinery, name: "fail", subject: "call", args: "how*",
		does: "The next call of that name fails: refused (it is not done), response-lost (it is done), crash-before or crash-after (the server crashes before or after it and is replaced), retried (a transaction is rolled back and runs again). The calls are listed below.",
		do: without(func(c *call) error {
			f, ok := faults[c.text("how")]
			switch {
			case !ok:
				return &misuse{"a call fails " + strings.Join(slices.Sorted(maps.Keys(faults)), ", ")}
			case !slices.Contains(faultyCalls, c.subject()):
				return &misuse{"there is no call " + c.subject()}
			}
			c.pending[c.subject()] = f
			return nil
		}),
	},
	{
		party: machinery, name: "collect-garbage", args: "whole dry",
		does: "Removes contents unreferenced for a day and lists them: name, reason. `whole=true` also searches the whole store; `dry=true` removes nothing.",
		do: func(c *call) (any, error) {
			all := []any{}
			err := c.Upkeep.Collect(c.ctx, c.flag("whole"), c.flag("dry"), func(g upkeep.Garbage) error {
				all = append(all, object{"name": g.Name, "reason": string(g.Reason)})
				return nil
			})
			return all, err
		},
	},
	{
		party: machinery, name: "storage-limit", subject: "plan", args: "bytes*",
		does: "From now on limits the storage of organisations with the plan. By default plans have no limit.",
		do: without(func(c *call) error {
			of, known := plan.Parse(c.subject())
			limit, err := strconv.ParseInt(c.text("bytes"), 10, 64)
			if !known || err != nil || limit < 0 {
				return &misuse{"it limits a plan such as FREE to a number of bytes"}
			}
			c.StorageLimits[of] = limit
			return nil
		}),
	},
	{
		party: machinery, name: "blobs",
		does: "Lists the contents in the store: name, size.",
		do: func(c *call) (any, error) {
			all := []any{}
			err := c.Blobs.List(c.ctx, func(name string, size int64, _ time.Time) error {
				all = append(all, object{"name": name, "size": size})
				return nil
			})
			return all, err
		},
	},
}

// faultyCalls are the calls that can be made to fail.
var faultyCalls = []string{
	"Atomic", "Storage.Replace", "Objects.Get", "Objects.At", "Objects.List", "Objects.Add", "Objects.Put", "Objects.Remove", "Changes.Lock", "Changes.Append",
	"BlobNames.Announce", "BlobNames.Forget", "BlobNames.Discard", "BlobNames.Expire", "BlobNames.Due", "BlobNames.Known",
	"Blobs.Put", "Blobs.Open", "Blobs.Remove", "Blobs.List", "SignedBlobs.SignGet",
	"Payments.Customer", "Payments.Open", "Payments.Session", "Payments.Expire", "Payments.Portal", "Payments.Subscription", "Payments.Change", "Payments.Cancel",
}

var faults = map[string]harness.Fault{
	"refused": harness.Refused, "response-lost": harness.ResponseLost, "crash-before": harness.CrashBefore, "crash-after": harness.CrashAfter, "retried": harness.Retried,
}

func moveClock(c *call) error {
	now := c.Clock.Now()
	to, ok := parseInstant(c.subject())
	switch {
	case !ok:
		return &misuse{c.subject() + " is no time: write +14d, +3h30m or 2026-03-02T09:00:00Z"}
	case c.started && to.Before(now):
		return &misuse{"the clock does not go back"}
	case !c.started:
		c.Clock.Set(to)
		return nil
	}
	c.report.Simulated += to.Sub(now)
	return c.Advance(c.ctx, to)
}
