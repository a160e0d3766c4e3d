package main

import (
	"fmt"
	"math"
	"strings"
)

// insert returns the document with the tables between its comments begin and end.
func insert(page string) (string, error) {
	for _, s := range []struct {
		name  string
		table func() string
	}{{"inputs", inputTable}, {"statements", statementTable}, {"user", userTable}, {"records", recordTable}, {"carries", carriesTable}, {"populations", populationTable}, {"day", dayTable}} {
		begin, end := "<!-- begin "+s.name+" -->\n", "<!-- end "+s.name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		_, after, found := strings.Cut(rest, end)
		if !ok || !found {
			return "", fmt.Errorf("the document has no section %s", s.name)
		}
		page = before + begin + "\n" + s.table() + "\n" + end + after
	}
	return page, nil
}

// table returns rows in Markdown, the first of which is the head.
func table(rows ...[]string) string {
	var s strings.Builder
	for i, row := range rows {
		s.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			s.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return s.String()
}

// figure formats a number with significant digits.
func figure(v float64, digits int) string {
	if v <= 0 {
		return "0"
	}
	last := math.Pow(10, math.Floor(math.Log10(v))-float64(digits-1))
	v = math.Round(v/last) * last
	for _, unit := range []struct {
		from, size float64
		name       string
	}{{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if v >= unit.from {
			return fmt.Sprintf("%.4g%s", v/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.4g", v)
}

func number(v float64) string { return figure(v, 2) }

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

func ms(v float64) string { return fmt.Sprintf("%.1f", v) }

func inputTable() string {
	rows := [][]string{{"input", "value", "source"}}
	for _, i := range inputs {
		rows = append(rows, []string{i.name, i.value, i.source})
	}
	return table(rows...)
}

func statementTable() string {
	rows := [][]string{{"statement", "µs of Postgres' processor time", "bytes of log"}}
	for _, s := range statements {
		rows = append(rows, []string{s.name, figure(s.cpu, 3), figure(s.wal, 4)})
	}
	return table(rows...)
}

func userTable() string {
	rows := [][]string{{"request", "a day (assumed)", "server µs", "from performance.md", "statements", "primary µs"}}
	for i, q := range requests {
		rows = append(rows, []string{q.name, number(q.perDay), figure(q.server, 3), q.source, strings.Join(q.statements, "; "), figure(requests[i].primary(), 3)})
	}
	return table(append(rows, []string{"all", figure(requestsPerDay(), 3), "", "", "", ""})...)
}

func recordTable() string {
	rows := [][]string{{"table", "rows a day (assumed)", "bytes of a row with indexes (-measure)", "MB of a user in a year"}}
	for _, r := range records {
		rows = append(rows, []string{r.table, number(r.perDay), figure(r.bytes, 4), fmt.Sprintf("%.2f", r.bytesPerYear()/1e6)})
	}
	return table(append(rows, []string{"all", "", "", fmt.Sprintf("%.2f", bytesPerYear()/1e6)})...)
}

// bytesPerYear returns the bytes of the records that an active user leaves in all tables in a year.
func bytesPerYear() (bytes float64) {
	for _, r := range records {
		bytes += r.bytesPerYear()
	}
	return bytes
}

var resultHead = []string{"requests/s", "servers busy", "primary busy", "p50 ms", "p99 ms", "streams of a server", "log MB/s"}

func (r result) cells() []string {
	return []string{number(r.rate), percent(r.server), percent(r.primary), ms(r.p50), ms(r.p99), number(r.streams), fmt.Sprintf("%.1f", r.wal/1e6)}
}

func carriesTable() string {
	rows := [][]string{append([]string{"servers", "limit of streams", "users"}, append(resultHead, "first limit")...)}
	for _, anyStreams := range []bool{false, true} {
		for _, n := range []int{1, 2, 4, 8, 15} {
			c, r := maxUsers(cell{servers: n, anyStreams: anyStreams})
			rows = append(rows, append([]string{fmt.Sprint(n), map[bool]string{false: "yes", true: "no"}[anyStreams], number(c.users)}, append(r.cells(), r.bottleneck)...))
		}
	}
	return table(rows...)
}

// minServers returns the number of primaries and the cell with the fewest servers for some users.
func minServers(users float64) (primaries float64, c cell, r result) {
	for primaries = 1; ; primaries++ {
		for _, n := range []int{1, 2, 3, 4, 6, 8, 10, 12, 15} {
			c = cell{users: users / primaries, servers: n}
			if r = c.simulate(peakHour, c.window()); r.utilization <= 1 {
				return primaries, c, r
			}
		}
		if primaries > 8 {
			primaries = math.Floor(primaries * 1.1)
		}
	}
}

func populationTable() string {
	rows := [][]string{append([]string{"users", "servers", "primaries"}, append(resultHead, "records a year, TB", "bus deliveries/s", "of its limit")...)}
	for _, users := range []float64{1e4, 1e6, 1e8} {
		primaries, c, r := minServers(users)
		servers := primaries * float64(c.servers)
		deliveries := primaries * r.events * servers
		rows = append(rows, append([]string{number(users), number(servers), number(primaries)},
			append(r.cells(), fmt.Sprintf("%.2f", users*bytesPerYear()/1e12), number(deliveries), percent(deliveries/maxBus))...))
	}
	return table(rows...)
}

func dayTable() string {
	rows := [][]string{append([]string{"hour"}, resultHead...)}
	_, c, _ := minServers(1e6)
	for hour := 0; hour < 24; hour += 2 {
		rows = append(rows, append([]string{fmt.Sprintf("%02d", hour)}, c.simulate(hour, c.window()).cells()...))
	}
	return table(rows...)
}
