package limit

import (
	"fmt"
	"strconv"
	"strings"
)

// Budgets are the bytes that all requests of one server may use at once. One caller, or one
// address without a caller, has at most as much of each as remains free.
type Budgets struct {
	Anonymous int64 // memory for requests whose caller is not known
	Callers   int64 // memory for bodies, pages, downloads and uploads of known callers
	Spool     int64 // disk for spooled bodies and lists

	Connections int64 // memory for connections and the headers of requests
}

// ParseBudgets reads a text such as "callers=256MiB,spool=16uploads" over the defaults, which are
// such a text with all budgets. An upload has at most maxUpload bytes.
func ParseBudgets(defaults, s string, maxUpload int64) (b Budgets, err error) {
	err = parseList(defaults, s, "budget such as callers=256MiB, of anonymous, callers, connections or spool, in MiB, GiB or uploads",
		map[string]*int64{"anonymous": &b.Anonymous, "callers": &b.Callers, "connections": &b.Connections, "spool": &b.Spool}, parseBytes(maxUpload))
	if err != nil {
		return Budgets{}, err
	}
	// The longest body of an upload is six times its content, if all of it is escaped in
	// JSON, an object store takes 10 MiB for one, and a single caller may have half.
	for name, least := range map[string][2]int64{
		"anonymous": {b.Anonymous, 4 << 20}, "callers": {b.Callers, 32 << 20},
		"connections": {b.Connections, 16 << 20}, "spool": {b.Spool, 2 * maxUpload},
	} {
		if least[0] < least[1] {
			return Budgets{}, fmt.Errorf("%s must be at least %d MiB", name, (least[1]+1<<20-1)>>20)
		}
	}
	return b, nil
}

// parseBytes returns a function for parseList that parses a number of bytes.
func parseBytes(upload int64) func(string) (int64, bool) {
	return func(value string) (int64, bool) {
		for suffix, unit := range map[string]int64{"MiB": 1 << 20, "GiB": 1 << 30, "uploads": upload} {
			if count, ok := strings.CutSuffix(value, suffix); ok {
				n, err := strconv.ParseInt(count, 10, 32)
				return n * unit, err == nil && n >= 1 && n <= 1<<20
			}
		}
		return 0, false
	}
}
