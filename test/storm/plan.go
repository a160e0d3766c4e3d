// Package storm runs a fleet under mixed load and faults, and then checks its invariants: what was
// acknowledged, what followers received, quotas, subscriptions, content and audit logs. The plan of
// requests and faults follows from a seed.
package storm

import (
	"math/rand/v2"
	"slices"
	"time"
)

// request is one step of a client. What it is done to follows from Draws, as objects have ids that
// servers make.
type request struct {
	Kind  string
	Pause time.Duration // before it
	Draws [3]int
}

// mix has the kinds of requests with their weights.
var mix = []struct {
	kind   string
	weight int
}{
	{"task made", 10}, {"task read", 8}, {"task changed", 16}, {"task deleted", 2}, {"tasks listed", 2},
	{"tasks reordered", 6}, {"order read", 6},
	{"file made", 6}, {"file read", 8}, {"file replaced", 14}, {"file deleted", 3}, {"file moved", 4}, {"file sent to the store", 3}, {"files listed", 1},
	{"files changed at once", 5}, {"file sent in parts", 4}, {"version restored", 5},
	{"team made", 2}, {"team deleted", 1}, {"team renamed", 4}, {"team read", 4}, {"team joined", 2}, {"team left", 2}, {"team's members read", 3},
	{"workspace made", 2}, {"workspace deleted", 1}, {"workspace renamed", 4}, {"workspace moved", 1}, {"workspace read", 5},
	{"workspaces reordered", 4}, {"workspaces listed", 4},
	{"export requested", 1}, {"export read", 3},
	{"memory written", 8}, {"memory read", 3},
	{"chat", 10}, {"quota read", 5},
	{"member invited", 3}, {"invitation resent", 1}, {"invitation deleted", 1}, {"role changed", 4}, {"roles read", 4},
	{"organisation made", 1}, {"trial started", 2}, {"plan bought", 2}, {"plan given up", 1}, {"subscription read", 2},
	{"connector made", 2}, {"credentials stored", 3}, {"credentials read", 3}, {"connector deleted", 1},
	{"update checked", 4}, {"rollout changed", 2}, {"rollout read", 2},
	{"audit read", 1}, {"session renewed", 2}, {"signed in", 1}, {"profile read", 4},
}

// requestsOf returns the requests of one of the clients, which never end.
func requestsOf(seed uint64, client int) func() request {
	random := rand.New(rand.NewPCG(seed, uint64(client)))
	total := 0
	for _, m := range mix {
		total += m.weight
	}
	return func() (r request) {
		n := random.IntN(total)
		for _, m := range mix {
			if n -= m.weight; n < 0 {
				r.Kind = m.kind
				break
			}
		}
		r.Pause = time.Duration(5+random.IntN(120)) * time.Millisecond
		for i := range r.Draws {
			r.Draws[i] = random.IntN(1 << 20)
		}
		return r
	}
}

// plannedFault is one fault, from At after the start of the load for its Length.
type plannedFault struct {
	At, Length time.Duration
	Kind       string
	Target     string // a server's number or the name of a part
	Value      int    // of a toxic: milliseconds, bytes or KB/s
}

// The parts that have a fault-injecting proxy.
var parts = []string{"postgres", "nats", "store", "identity", "payments", "models"}

// faultsOf returns the faults of a load, ordered by their beginnings. They end before the load does.
func faultsOf(seed uint64, servers int, duration time.Duration) (all []plannedFault) {
	random := rand.New(rand.NewPCG(seed, 1<<32))
	between := func(low, high int) int { return low + random.IntN(high-low) }
	end := duration - 5*time.Second
	for at := 3 * time.Second; ; at += time.Duration(between(500, 3500)) * time.Millisecond {
		f := plannedFault{At: at, Length: time.Duration(between(500, 7000)) * time.Millisecond}
		if f.At+f.Length > end {
			break
		}
		server := string(rune('0' + random.IntN(servers)))
		part := parts[random.IntN(len(parts))]
		switch n := random.IntN(100); {
		case n < 14:
			f.Kind, f.Target = "killed", server
		case n < 26:
			f.Kind, f.Target = "frozen", server
		case n < 34:
			f.Kind, f.Target = "slowed", server
		case n < 50:
			f.Kind, f.Target = "cut", part
		case n < 66:
			f.Kind, f.Target, f.Value = "delayed", part, between(20, 400)
		case n < 76:
			f.Kind, f.Target, f.Value = "throttled", part, between(10, 200)
		case n < 88:
			f.Kind, f.Target, f.Value = "reset after some time", part, between(10, 800)
		default:
			f.Kind, f.Target, f.Value = "reset after some bytes", part, between(100, 40_000)
		}
		all = append(all, f)
	}
	for at := duration * 4 / 10; at < end; at += time.Minute {
		all = append(all, plannedFault{At: at, Kind: "failed over", Target: "postgres"})
	}
	slices.SortStableFunc(all, func(a, b plannedFault) int { return int(a.At - b.At) })
	return all
}
