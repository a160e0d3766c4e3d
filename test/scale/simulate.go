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
	bottleneck      string  // the limit that is nearest
	utilization     float64 // of that limit
}

const streamLimit = "servers' streams"

// job is a request during the simulation. Its next step begins at at.
type job struct {
	at, arrivedAt float64 // seconds
	step          int
	server        int
	kind          *request
}

// The steps of a job.
const (
	toServer = iota
	toPrimary
	toDisk
	backAtServer
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

// station is a queue for equal processors, of which background work takes a share.
type station struct {
	free       []float64 // when each processor is free
	background float64   // the share of other work
	busy       float64   // seconds of work
}

func newStation(processors, background float64) *station {
	return &station{free: make([]float64, int(processors)), background: min(background, 0.98)}
}

// serve returns when work in microseconds that arrives at a time is done.
func (s *station) serve(at, work float64) float64 {
	first := slices.Index(s.free, slices.Min(s.free))
	s.busy += work * 1e-6
	s.free[first] = max(at, s.free[first]) + work*1e-6/(1-s.background)
	return s.free[first]
}

// log is the write-ahead log of a primary. Writes during a flush share the next one.
type log struct{ begin, end float64 }

func (l *log) flush(at float64) float64 {
	if at > l.begin {
		l.begin = max(at, l.end)
		l.end = l.begin + flushSeconds
	}
	return l.end
}

// simulate simulates seconds of the busiest minute of an hour.
func (c cell) simulate(hour int, seconds float64) result {
	random := rand.New(rand.NewPCG(uint64(hour), uint64(c.users)))
	r, background, primaryBackground := c.load(hour)
	servers := make([]*station, c.servers)
	for i := range servers {
		servers[i] = newStation(serverProcessors, background)
	}
	primary, disk := newStation(primaryProcs, primaryBackground), log{begin: -1}
	sample := func(mean float64) float64 { return mean * (0.5 + 0.5*random.ExpFloat64()) }
	var queue jobs
	var responseTimes []float64
	for next := random.ExpFloat64() / r.rate; next < seconds || len(queue) > 0; {
		if next < seconds && (len(queue) == 0 || next <= queue[0].at) {
			heap.Push(&queue, &job{at: next, arrivedAt: next, server: random.IntN(c.servers), kind: pickRequest(random.Float64())})
			next += random.ExpFloat64() / r.rate
			continue
		}
		j := queue[0]
		switch j.step {
		case toServer:
			j.at, j.step = servers[j.server].serve(j.at, sample(j.kind.server/2)), backAtServer
			if j.kind.primary() > 0 {
				j.at, j.step = j.at+wireSeconds, toPrimary
			}
		case toPrimary:
			j.at, j.step = primary.serve(j.at, sample(j.kind.primary())), toDisk
			if j.kind.wal() == 0 {
				j.at, j.step = j.at+wireSeconds, backAtServer
			}
		case toDisk:
			j.at, j.step = disk.flush(j.at)+wireSeconds, backAtServer
		case backAtServer:
			j.at, j.step = servers[j.server].serve(j.at, sample(j.kind.server/2)), answered
		case answered:
			responseTimes = append(responseTimes, (j.at-j.arrivedAt)*1000)
			heap.Pop(&queue)
			continue
		}
		heap.Fix(&queue, 0)
	}
	slices.Sort(responseTimes)
	r.p50, r.p99 = responseTimes[len(responseTimes)/2], responseTimes[len(responseTimes)*99/100]
	r.server, r.primary = background, primaryBackground+primary.busy/seconds/primaryProcs
	for _, s := range servers {
		r.server += s.busy / seconds / serverProcessors / float64(c.servers)
	}
	for _, l := range []struct {
		name        string
		utilization float64
	}{
		{"servers' processors", r.server / maxBusy}, {"servers' memory", r.memory / serverMemory}, {streamLimit, r.streams / maxStreams},
		{"primary's processors", r.primary / maxBusy}, {"primary's log", r.wal / maxWAL},
		{"primary's connections", serverConns * float64(c.servers) / maxConnections}, {"time of answers", r.p99 / maxP99},
	} {
		if l.utilization > r.utilization && !(c.anyStreams && l.name == streamLimit) {
			r.bottleneck, r.utilization = l.name, l.utilization
		}
	}
	return r
}

// pickRequest returns the request at a share of all, in [0, 1).
func pickRequest(share float64) *request {
	n := share * requestsPerDay()
	for i := range requests {
		if n -= requests[i].perDay; n < 0 {
			return &requests[i]
		}
	}
	return &requests[len(requests)-1]
}

// requestsPerDay returns the number of requests of an active user in a day.
func requestsPerDay() (n float64) {
	for _, q := range requests {
		n += q.perDay
	}
	return n
}

// peakRate returns the rate per second, in the busiest minute of an hour, of what a user does n times a day.
func peakRate(n float64, hour int) float64 {
	var all float64
	for _, h := range hourlyActivity {
		all += h
	}
	return n * hourlyActivity[hour] / all / 3600 * burst
}

// load returns the fields of a result that need no simulation, and the shares of processors that
// streams, events and polls take.
func (c cell) load(hour int) (r result, server, primary float64) {
	n, online := float64(c.servers), c.users*onlineShare*hourlyActivity[hour]
	var chunks float64
	for _, q := range requests {
		each := c.users * peakRate(q.perDay, hour)
		r.rate += each
		r.events += each * q.events
		r.wal += each * q.wal() * fullPages
		chunks += each * q.chunks
	}
	r.streams = online / n
	r.memory = idleMemory + r.streams*streamMemory + chunks/chunksPerSecond/n*chatMemory
	// A server follows the organisations of its streams, each connected to a random one.
	onlineMembers := members * onlineShare * hourlyActivity[hour]
	subscribedServers := n * (1 - math.Pow(1-1/n, onlineMembers)) // servers that follow an organisation
	server = (r.events*onlineMembers*deliveryCPU + online/heartbeatSeconds*deliveryCPU + chunks*chunkCPU) * 1e-6 / n / serverProcessors
	primary = (c.users/members*subscribedServers*statementNamed("poll the logs of 100 organisations").cpu/100 + r.events*subscribedServers*statementNamed("read an event").cpu) * 1e-6 / primaryProcs
	return r, server, primary
}

// window returns the seconds to simulate, in which some thousand requests arrive.
func (c cell) window() float64 { return min(60, 4000/(c.users*peakRate(requestsPerDay(), peakHour))) }

// maxUsers returns the cell with the most users with which it stays within all limits in the busiest minute.
func maxUsers(c cell) (cell, result) {
	low, high := 100.0, 1e8
	for high/low > 1.03 {
		c.users = math.Sqrt(low * high)
		if c.simulate(peakHour, c.window()).utilization <= 1 {
			low = c.users
		} else {
			high = c.users
		}
	}
	c.users = low
	return c, c.simulate(peakHour, c.window())
}
