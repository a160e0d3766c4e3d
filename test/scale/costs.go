package main

import (
	"slices"
	"strings"
)

// input is a row of the table of inputs.
type input struct{ name, value, source string }

var inputs []input

// newInput adds a row to the table of inputs and returns its value.
func newInput(value float64, unit, name, source string) float64 {
	inputs = append(inputs, input{name, strings.TrimSpace(figure(value, 3) + unit), source})
	return value
}

const (
	performance = "measured: performance.md, "
	assumed     = "assumed"
)

// Costs and machines. Processor times are in microseconds.
var (
	deliveryCPU      = newInput(10.8, " µs", "server: an event or a heartbeat to one stream", performance+"Change feed, 5000 subscribers")
	chunkCPU         = newInput(37.2, " µs", "server: a chunk of a chat", performance+"Chats, 500 that follow each other")
	streamMemory     = newInput(6.9*1024, " bytes", "server: memory of an idle stream", performance+"Change feed, 5000 subscribers")
	chatMemory       = newInput(63.9*1024, " bytes", "server: memory of an open chat", performance+"Chats")
	idleMemory       = newInput(47e6, " bytes", "server: memory when idle", performance+"Start and memory")
	serverProcessors = newInput(8, "", "server: processors like the measured ones", assumed)
	serverMemory     = newInput(16e9, " bytes", "server: memory", assumed)
	serverConns      = newInput(32, "", "server: connections to the primary", "the default: four for each processor")
	primaryProcs     = newInput(32, "", "primary: processors like the measured ones", assumed)
	flushSeconds     = newInput(0.001, " s", "primary: a log flush, shared by waiting writes", assumed)
	fullPages        = newInput(2, "", "primary: ratio of the log with page images to the log without", assumed)
	wireSeconds      = newInput(0.00025, " s", "between server and primary, one way", assumed)
	maxBusy          = newInput(0.7, "", "limit: busy processors", assumed)
	maxP99           = newInput(100, " ms", "limit: p99 of response times", assumed)
	maxConnections   = newInput(500, "", "limit: connections to a primary without a pooler", assumed)
	maxWAL           = newInput(100e6, " bytes/s", "limit: log of a primary, followed by replicas and archives", assumed)
	maxStreams       = newInput(65_536, "", "limit: streams of a server; `COLLAB_CONNECTIONS` allows 16,384 unless it is raised", assumed+", 12,000 were measured")
	maxBus           = newInput(1e6, " messages/s", "limit: deliveries of a bus", assumed)
	onlineShare      = newInput(0.6, "", "user: share with an open stream in the busiest hour", assumed)
	members          = newInput(20, "", "user: active members of an organisation", assumed)
	heartbeatSeconds = newInput(30, " s", "stream: time between heartbeats", "the default of `COLLAB_HEARTBEAT`")
	chunksPerSecond  = newInput(20, "", "chat: chunks a second", assumed)
	burst            = newInput(1.5, "", "ratio of the busiest minute's rate to its hour's", assumed)
)

// hourlyActivity is the activity in each hour of a working day in one time zone, relative to the busiest hour.
var hourlyActivity = [24]float64{0.03, 0.02, 0.01, 0.01, 0.02, 0.05, 0.12, 0.3, 0.65, 0.95, 1, 0.95, 0.6, 0.8, 0.95, 0.9, 0.8, 0.55, 0.3, 0.2, 0.15, 0.12, 0.1, 0.06}

// peakHour is an hour at which hourlyActivity is 1.
const peakHour = 10

// statement is what -measure found of an operation of its: microseconds of Postgres' processor time
// and bytes of its log without images of pages.
type statement struct {
	name     string
	cpu, wal float64
}

var statements = []statement{
	{"epoch of an organisation", 18.9, 0},
	{"get a task", 35.2, 0},
	{"list 50 tasks by status", 123.6, 0},
	{"add a task", 156.4, 1704},
	{"change a task, with its history", 175.5, 1195},
	{"list a task's history", 19.0, 0},
	{"get a file's record", 21.4, 0},
	{"announce content", 23.7, 332},
	{"store a file's new record, with its event", 165.6, 3596},
	{"read an event", 33.7, 0},
	{"reserve tokens of a chat", 148.5, 745},
	{"settle a chat", 228.4, 2650},
	{"sum a month of an organisation", 88.8, 0},
	{"poll the logs of 100 organisations", 201.4, 0},
}

func statementNamed(name string) statement {
	return statements[slices.IndexFunc(statements, func(s statement) bool { return s.name == name })]
}

// request is one kind of request.
type request struct {
	name           string
	perDay         float64 // of an active user: assumed
	server         float64 // microseconds of processor time
	source         string  // of that, in performance.md
	statements     []string
	events, chunks float64
}

// primary returns the microseconds of processor time of the request's statements.
func (q *request) primary() (cpu float64) {
	for _, name := range q.statements {
		cpu += statementNamed(name).cpu
	}
	return cpu
}

// wal returns the bytes of log that the request's statements write.
func (q *request) wal() (bytes float64) {
	for _, name := range q.statements {
		bytes += statementNamed(name).wal
	}
	return bytes
}

var requests = []request{
	{"list tasks", 30, 205, "Requests", []string{"list 50 tasks by status"}, 0, 0},
	{"get a task", 20, 75, "Requests", []string{"get a task"}, 0, 0},
	{"other reads, as a profile", 40, 33, "The path of a request", []string{"epoch of an organisation"}, 0, 0},
	{"add a task", 3, 150, "Requests", []string{"add a task"}, 0, 0},
	{"change a task", 10, 225, "Requests: get and create", []string{"get a task", "change a task, with its history"}, 0, 0},
	{"list a task's history", 2, 75, "Requests: get", []string{"list a task's history"}, 0, 0},
	{"get a file", 30, 62, "Files: 4 KiB", []string{"get a file's record"}, 0, 0},
	{"store a file", 10, 647, "Small durable writes: new file", []string{"get a file's record", "announce content", "store a file's new record, with its event"}, 1, 0},
	{"chat with 400 chunks", 10, 629, "Chats: first chunks", []string{"reserve tokens of a chat", "settle a chat"}, 0, 400},
	{"sum a month of usage", 1, 205, "Requests: list", []string{"sum a month of an organisation"}, 0, 0},
	{"check for an update", 4, 30, "Checks for updates", nil, 0, 0},
}

// record is what a user leaves in a table.
type record struct {
	table     string
	perDay    float64 // new rows of an active user: assumed
	bytes     float64 // with indexes: measured by -measure
	retention float64 // days, 0 for ever
}

// bytesPerYear returns the bytes of the rows that an active user leaves in the table in a year of 250 days.
func (r record) bytesPerYear() float64 {
	days := 250.0
	if r.retention > 0 {
		days = r.retention
	}
	return r.perDay * r.bytes * days
}

var records = []record{
	{"tasks", 3, 1072, 0}, {"task_tags", 6, 213, 0}, {"task_history", 10, 370, 0}, {"objects", 2, 1844, 0},
	{"changes", 10, 885, 7}, {"usage_entries", 10, 468, 0}, {"sums of usage", 8, 285, 0}, {"audit", 1, 852, 0},
}
