package harness

import (
	"time"

	"collab/app/upkeep"
)

// serverActs are what happens to the server, and the clock.
var serverActs = []*act{
	{
		who: clock, on: "time?",
		does: "Moves the time on, by a length (`clock +14d`, `clock +3h30m`), to an instant (`clock 2026-03-02T09:00:00Z`), or to the next midnight in UTC (`clock tomorrow`). The first line of a scenario can set it to any time. When it has moved, the payment provider has renewed what was due meanwhile, providers have sent again what was not taken, and the server has done its regular work. Answers with `now`; without an argument it only tells.",
		do:   pass,
	},
	{
		who: server, name: "work",
		does: "Does the regular work at once: trials that are over, connectors, counts, upkeep, garbage. Moving the clock does it too.",
		do:   does(func(c *call) error { return c.Work(c.ctx) }),
	},
	{
		who: server, name: "restart",
		does: "Puts another server in the place of this one: what it remembered is gone, what it kept is there. Nobody listens any more.",
		do: func(c *call) (any, error) {
			c.run.hush()
			return done, c.Restart()
		},
	},
	{
		who: server, name: "fail", on: "call", args: "how*",
		does: "The next call of that name fails: refused (nothing is done), unheard (all of it is done, but the answer is lost), killed-before or killed-after (the server dies before it is done, or after; another takes its place), repeated (a transaction runs twice). The calls are listed below.",
		do:   planFailure,
	},
	{
		who: server, name: "collect-garbage", args: "whole dry",
		does: "Removes the contents that no file has named for a day, and lists them: name, reason, since. With `whole=true` it looks through the whole store as well; with `dry=true` it removes nothing.",
		do: func(c *call) (any, error) {
			whole, dry := c.flag("whole"), c.flag("dry")
			return answered(c, func() ([]upkeep.Garbage, error) {
				return collect(func(each func(upkeep.Garbage) error) error { return c.Upkeep.Collect(c.ctx, whole, dry, each) })
			})
		},
	},
	{
		who: server, name: "blobs",
		does: "Lists the contents in the store: name, size.",
		do: func(c *call) (any, error) {
			all := []any{}
			err := c.Blobs.List(c.ctx, func(name string, size int64, _ time.Time) error {
				all = append(all, record{{"name", name}}.with("size", size))
				return nil
			})
			return all, err
		},
	},
}

// lineCalls are the calls that can be planned to fail.
var lineCalls = []string{
	"Atomic", "Storage.Replace", "Objects.Get", "Objects.At", "Objects.List", "Objects.Add", "Objects.Put", "Objects.Remove", "Changes.Lock", "Changes.Append",
	"BlobNames.Announce", "BlobNames.Forget", "BlobNames.Discard", "BlobNames.Expire", "BlobNames.Due", "BlobNames.Known",
	"Blobs.Put", "Blobs.Open", "Blobs.Remove", "Blobs.List",
	"Payments.Customer", "Payments.Open", "Payments.Session", "Payments.Expire", "Payments.Portal", "Payments.Subscription", "Payments.Change", "Payments.Cancel",
}

var ways = map[string]Failure{"refused": Refused, "unheard": Unheard, "killed-before": KilledBefore, "killed-after": KilledAfter, "repeated": Repeated}

func planFailure(c *call) (any, error) {
	f, ok := ways[c.text("how")]
	if !ok {
		return nil, &misuse{"a call fails refused, unheard, killed-before, killed-after or repeated"}
	}
	for _, name := range lineCalls {
		if name == c.subject() {
			c.Line.Plan(name, f)
			return done, nil
		}
	}
	return nil, &misuse{"there is no call " + c.subject() + suggest(c.subject(), lineCalls)}
}

func pass(c *call) (any, error) {
	now := c.Clock.Now()
	to := now
	if c.on != nil {
		ok := true
		if to = now.Truncate(24 * time.Hour).Add(24 * time.Hour); *c.on != "tomorrow" {
			to, ok = parseInstant(*c.on)
		}
		switch {
		case !ok:
			return nil, &misuse{*c.on + " is no time: write +14d, +3h30m, 2026-03-02T09:00:00Z or tomorrow"}
		case c.run.started && to.Before(now):
			return nil, &misuse{"the clock does not go back"}
		case to.After(end):
			return nil, &misuse{"the clock does not go beyond the year 2200"}
		}
	}
	if !c.run.started {
		c.Clock.Set(to)
		return record{{"now", instant(to)}}, nil
	}
	if to.After(now) {
		c.run.report.Simulated += to.Sub(now)
		if err := c.Pass(c.ctx, to); err != nil {
			return nil, err
		}
	}
	return record{{"now", instant(c.Clock.Now())}}, nil
}

// hush ends all feeds.
func (r *run) hush() {
	for _, f := range r.feeds {
		f.close()
	}
	clear(r.feeds)
}
