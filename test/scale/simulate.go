package main

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// cell is one primary with the servers of its organisations, and the users who are active on a day.
type cell struct {
	users      float64
	servers    int
	anyStreams bool // the limit of streams does not count
}

// result is what a cell does in some seconds of an hour.
type result struct {
	rate            float64 // requests a second
	p50, p99        float64 // milliseconds from the arrival at a server to the response
	server, primary float64 // shares of the processors that are busy
	wal             float64 // bytes a second
	streams, memory float64 // of a server
	events          float64 // a second
	first           string  // the limit that is nearest
	used            float64 // of that limit
}

const streamLimit = "servers' streams"

// job is a request on its way. At at its next step begins.
type job struct {
	at, begun float64 // seconds
	step      int
	server    int
	kind      *request
}

// The steps of a job.
const (
	toServer = iota
	toPrimary
	toDisk
	back
	answered
)

// jobs is a heap by the time of the next step.
type jobs []*job

func (q jobs) Len() int           { return len(q) }
func (q jobs) Less(i, j int) bool { return q[i].at < q[j].at }
func (q jobs) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *jobs) Push(j any)        { *q = append(*q, j.(*job)) }
func (q *jobs) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// station is equal processors with one queue, of which other work takes a part.
type station struct {
	free   []float64 // when each processor is free
	others float64   // the share of other work
	busy   float64   // seconds of work
}

func newStation(processors, others float64) *station {
	return &station{free: make([]float64, int(processors)), others: min(others, 0.98)}
}

// serve returns when microseconds of work are done that arrive at a time.
func (s *station) serve(at, work float64) float64 {
	first := slices.Index(s.free, slices.Min(s.free))
	s.busy += work * 1e-6
	s.free[first] = max(at, s.free[first]) + work*1e-6/(1-s.others)
	return s.free[first]
}

// log is the disk of a primary. Writes that come during a flush share the next one.
type log struct{ begin, end float64 }

func (l *log) flush(at float64) float64 {
	if at > l.begin {
		l.begin = max(at, l.end)
		l.end = l.begin + flushSeconds
	}
	return l.end
}

// simulate has requests arrive for some seconds, as they do in the busiest minute of an hour.
func (c cell) simulate(hour int, seconds float64) result {
	random := rand.New(rand.NewPCG(uint64(hour), uint64(c.users)))
	r, others, othersOfPrimary := c.load(hour)
	servers := make([]*station, c.servers)
	for i := range servers {
		servers[i] = newStation(serverProcessors, others)
	}
	primary, disk := newStation(primaryProcs, othersOfPrimary), log{begin: -1}
	about := func(mean float64) float64 { return mean * (0.5 + 0.5*random.ExpFloat64()) }
	var queue jobs
	var taken []float64
	for next := random.ExpFloat64() / r.rate; next < seconds || len(queue) > 0; {
		if next < seconds && (len(queue) == 0 || next <= queue[0].at) {
			heap.Push(&queue, &job{at: next, begun: next, server: random.IntN(c.servers), kind: pick(random.Float64())})
			next += random.ExpFloat64() / r.rate
			continue
		}
		j := queue[0]
		switch j.step {
		case toServer:
			j.at, j.step = servers[j.server].serve(j.at, about(j.kind.server/2)), back
			if j.kind.primary() > 0 {
				j.at, j.step = j.at+wireSeconds, toPrimary
			}
		case toPrimary:
			j.at, j.step = primary.serve(j.at, about(j.kind.primary())), toDisk
			if j.kind.wal() == 0 {
				j.at, j.step = j.at+wireSeconds, back
			}
		case toDisk:
			j.at, j.step = disk.flush(j.at)+wireSeconds, back
		case back:
			j.at, j.step = servers[j.server].serve(j.at, about(j.kind.server/2)), answered
		case answered:
			taken = append(taken, (j.at-j.begun)*1000)
			heap.Pop(&queue)
			continue
		}
		heap.Fix(&queue, 0)
	}
	slices.Sort(taken)
	r.p50, r.p99 = taken[len(taken)/2], taken[len(taken)*99/100]
	r.server, r.primary = others, othersOfPrimary+primary.busy/seconds/primaryProcs
	for _, s := range servers {
		r.server += s.busy / seconds / serverProcessors / float64(c.servers)
	}
	for _, l := range []struct {
		name string
		used float64
	}{
		{"servers' processors", r.server / maxBusy}, {"servers' memory", r.memory / serverMemory}, {streamLimit, r.streams / maxStreams},
		{"primary's processors", r.primary / maxBusy}, {"primary's log", r.wal / maxWAL},
		{"primary's connections", serverConns * float64(c.servers) / maxConnections}, {"time of answers", r.p99 / maxP99},
	} {
		if l.used > r.used && !(c.anyStreams && l.name == streamLimit) {
			r.first, r.used = l.name, l.used
		}
	}
	return r
}

// pick returns a request by its share of all.
func pick(share float64) *request {
	n := share * daily()
	for i := range requests {
		if n -= requests[i].daily; n < 0 {
			return &requests[i]
		}
	}
	return &requests[len(requests)-1]
}

// daily is the number of requests of an active user.
func daily() (n float64) {
	for _, q := range requests {
		n += q.daily
	}
	return n
}

// perSecond is how often each user does in the busiest minute of an hour what they do n times a day.
func perSecond(n float64, hour int) float64 {
	var all float64
	for _, h := range hours {
		all += h
	}
	return n * hours[hour] / all / 3600 * burst
}

// load returns the part of a result that needs no simulation, and the shares of processors that
// streams, events and polls take, which are spread evenly.
func (c cell) load(hour int) (r result, server, primary float64) {
	n, online := float64(c.servers), c.users*onlineShare*hours[hour]
	var chunks float64
	for _, q := range requests {
		each := c.users * perSecond(q.daily, hour)
		r.rate += each
		r.events += each * q.events
		r.wal += each * q.wal() * fullPages
		chunks += each * q.chunks
	}
	r.streams = online / n
	r.memory = idleMemory + r.streams*streamMemory + chunks/chunksPerSecond/n*chatMemory
	// A server follows the organisations of its streams, each connected to a random one.
	inOrg := members * onlineShare * hours[hour]
	followers := n * (1 - math.Pow(1-1/n, inOrg)) // servers that follow an organisation
	server = (r.events*inOrg*deliveryCPU + online/heartbeatSeconds*deliveryCPU + chunks*chunkCPU) * 1e-6 / n / serverProcessors
	primary = (c.users/members*followers*statementNamed("poll the logs of 100 organisations").cpu/100 + r.events*followers*statementNamed("read an event").cpu) * 1e-6 / primaryProcs
	return r, server, primary
}

// window is how many seconds are simulated: those in which some thousand requests arrive.
func (c cell) window() float64 { return min(60, 4000/(c.users*perSecond(daily(), busiest))) }

// most returns the cell with the most users on its servers that stays within all limits in the busiest minute.
func most(c cell) (cell, result) {
	low, high := 100.0, 1e8
	for high/low > 1.03 {
		c.users = math.Sqrt(low * high)
		if c.simulate(busiest, c.window()).used <= 1 {
			low = c.users
		} else {
			high = c.users
		}
	}
	c.users = low
	return c, c.simulate(busiest, c.window())
}
