package prometheus

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"
)

// single returns a family of one sample.
func single(name, help, kind string, value float64) family {
	return family{name, help, kind, []sample{{value: value}}}
}

// runtimeFamilies returns the metrics of Go's runtime (go_goroutines, go_memstats_* and so on).
func runtimeFamilies() []family {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	gauge := func(name, help string, value uint64) family { return single(name, help, "gauge", float64(value)) }
	counter := func(name, help string, value uint64) family { return single(name, help, "counter", float64(value)) }
	settings := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}, {Name: "/sched/threads/total:threads"}}
	metrics.Read(settings)
	setting := func(i int) uint64 { return settings[i].Value.Uint64() }
	return []family{
		gcDurations(),
		gauge("go_gc_gogc_percent", "Growth of the heap at which a collection begins (GOGC).", setting(0)),
		gauge("go_gc_gomemlimit_bytes", "Memory that the runtime tries to stay below (GOMEMLIMIT).", setting(1)),
		gauge("go_goroutines", "Goroutines that exist.", uint64(runtime.NumGoroutine())),
		{"go_info", "Version of Go.", "gauge", []sample{{labels: label("version", runtime.Version()), value: 1}}},
		gauge("go_memstats_alloc_bytes", "Allocated on the heap and in use.", m.Alloc),
		counter("go_memstats_alloc_bytes_total", "Allocated on the heap since the start.", m.TotalAlloc),
		gauge("go_memstats_buck_hash_sys_bytes", "Memory of the profiler's tables.", m.BuckHashSys),
		counter("go_memstats_frees_total", "Objects freed since the start.", m.Frees),
		gauge("go_memstats_gc_sys_bytes", "Memory of the garbage collector.", m.GCSys),
		gauge("go_memstats_heap_alloc_bytes", "The same as go_memstats_alloc_bytes.", m.HeapAlloc),
		gauge("go_memstats_heap_idle_bytes", "Heap in spans without objects.", m.HeapIdle),
		gauge("go_memstats_heap_inuse_bytes", "Heap in spans with objects.", m.HeapInuse),
		gauge("go_memstats_heap_objects", "Objects on the heap.", m.HeapObjects),
		gauge("go_memstats_heap_released_bytes", "Heap returned to the system.", m.HeapReleased),
		gauge("go_memstats_heap_sys_bytes", "Heap obtained from the system.", m.HeapSys),
		single("go_memstats_last_gc_time_seconds", "End of the last collection, since 1970.", "gauge", float64(m.LastGC)/1e9),
		counter("go_memstats_mallocs_total", "Objects allocated since the start.", m.Mallocs),
		gauge("go_memstats_mcache_inuse_bytes", "Memory of caches of processors, in use.", m.MCacheInuse),
		gauge("go_memstats_mcache_sys_bytes", "Memory of caches of processors.", m.MCacheSys),
		gauge("go_memstats_mspan_inuse_bytes", "Memory of descriptions of spans, in use.", m.MSpanInuse),
		gauge("go_memstats_mspan_sys_bytes", "Memory of descriptions of spans.", m.MSpanSys),
		gauge("go_memstats_next_gc_bytes", "Size of the heap at which the next collection ends.", m.NextGC),
		gauge("go_memstats_other_sys_bytes", "Memory of the runtime in no other metric.", m.OtherSys),
		gauge("go_memstats_stack_inuse_bytes", "Stacks in use.", m.StackInuse),
		gauge("go_memstats_stack_sys_bytes", "Stacks obtained from the system.", m.StackSys),
		gauge("go_memstats_sys_bytes", "Memory obtained from the system.", m.Sys),
		gauge("go_sched_gomaxprocs_threads", "Threads that run Go code at a time (GOMAXPROCS).", uint64(runtime.GOMAXPROCS(0))),
		gauge("go_threads", "Threads of the system.", setting(2)),
	}
}

// gcDurations returns the quartiles of the pauses for garbage collections.
func gcDurations() family {
	stats := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&stats)
	f := family{name: "go_gc_duration_seconds", help: "Pauses of the program for collections.", kind: "summary"}
	for i, pause := range stats.PauseQuantiles {
		f.samples = append(f.samples, sample{labels: label("quantile", formatFloat(float64(i)/4)), value: pause.Seconds()})
	}
	f.samples = append(f.samples, sample{suffix: "_sum", value: stats.PauseTotal.Seconds()}, sample{suffix: "_count", value: float64(stats.NumGC)})
	return f
}

// processFamilies returns the metrics of the process (process_*), read from /proc. It returns
// none where there is no /proc.
func processFamilies() (families []family) {
	read := func(name string) string {
		text, _ := os.ReadFile(name)
		return string(text)
	}
	add := func(name, help, kind string, value float64) {
		families = append(families, single(name, help, kind, value))
	}
	// The fields from the third on follow the name of the program in parentheses.
	line := read("/proc/self/stat")
	stat := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	boot := fieldsAfter(read("/proc/stat"), "btime")
	if len(stat) > 21 && len(boot) > 0 {
		const ticks = 100 // a second, on every architecture of Go
		add("process_cpu_seconds_total", "Processor time of the program and for it.", "counter", (parseNumber(stat[11])+parseNumber(stat[12]))/ticks)
		add("process_resident_memory_bytes", "Memory that is resident.", "gauge", parseNumber(stat[21])*float64(os.Getpagesize()))
		add("process_start_time_seconds", "Start of the process, since 1970.", "gauge", parseNumber(boot[0])+parseNumber(stat[19])/ticks)
		add("process_virtual_memory_bytes", "Addresses in use.", "gauge", parseNumber(stat[20]))
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		add("process_open_fds", "File descriptors that are open.", "gauge", float64(len(files)))
	}
	limits := read("/proc/self/limits")
	if limit := fieldsAfter(limits, "Max open files"); len(limit) > 0 {
		add("process_max_fds", "File descriptors that may be open.", "gauge", parseNumber(limit[0]))
	}
	if limit := fieldsAfter(limits, "Max address space"); len(limit) > 0 {
		add("process_virtual_memory_max_bytes", "Addresses that may be in use.", "gauge", parseNumber(limit[0]))
	}
	// A line with names is followed by one with their values.
	netstat := read("/proc/self/net/netstat")
	names := fieldsAfter(netstat, "IpExt:")
	_, netstat, _ = strings.Cut(netstat, "IpExt:")
	octets := fieldsAfter(netstat, "IpExt:")
	for _, direction := range []struct{ column, metric, help string }{
		{"InOctets", "process_network_receive_bytes_total", "Bytes received in the network namespace."},
		{"OutOctets", "process_network_transmit_bytes_total", "Bytes sent in the network namespace."},
	} {
		if i := slices.Index(names, direction.column); i >= 0 && i < len(octets) {
			add(direction.metric, direction.help, "counter", parseNumber(octets[i]))
		}
	}
	return families
}

// parseNumber returns a number, 0 for an invalid one and the maximum for "unlimited".
func parseNumber(s string) float64 {
	if s == "unlimited" {
		return math.MaxUint64
	}
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

// fieldsAfter returns the fields after the label that begins a line.
func fieldsAfter(text, label string) []string {
	_, rest, _ := strings.Cut("\n"+text, "\n"+label)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}
