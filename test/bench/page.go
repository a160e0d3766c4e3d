package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// partResult is the section of a part in the page.
type partResult struct {
	tables   strings.Builder
	verdicts []verdict
}

// verdict is a row of the table at the top of the page.
type verdict struct{ part, load, figure, delivered, goal, result string }

func (v verdict) cells() []string {
	return []string{v.part, v.load, v.figure, v.delivered, v.goal, v.result}
}

// verdictColumns are the columns of the table of verdicts.
var verdictColumns = []string{"part", "load", "figure", "measured", "goal", ""}

// verdictsSection is the name of the section of the page with the verdicts. Every part
// has a section of its own name.
const verdictsSection = "verdicts"

// updatePage writes the results of a part into its section of the page, and its verdicts into the table of all.
// It keeps the rest of the page, which is written by hand.
func (b *bench) updatePage(part string) error {
	text, err := os.ReadFile(b.page)
	if err != nil {
		return err
	}
	page, err := insert(string(text), part, b.origin()+b.result.tables.String(), b.result.verdicts)
	if err != nil {
		return fmt.Errorf("%s: %w", b.page, err)
	}
	return os.WriteFile(b.page, []byte(page), 0o644)
}

// insert returns the page with the tables and the verdicts of a part in the place of the previous ones.
func insert(page, part, tables string, verdicts []verdict) (string, error) {
	before, _, after, err := cutSection(page, part)
	if err != nil {
		return "", err
	}
	page = before + "\n" + tables + "\n" + after
	before, all, after, err := cutSection(page, verdictsSection)
	if err != nil {
		return "", err
	}
	kept := slices.DeleteFunc(readVerdicts(all), func(v verdict) bool { return v.part == part })
	return before + "\n" + writeVerdicts(append(kept, verdicts...)) + "\n" + after, nil
}

// cutSection returns the text of a section, which is between two comments, and the text before and after it with
// the comments.
func cutSection(page, name string) (before, text, after string, err error) {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(page, begin)
	if ok {
		text, after, ok = strings.Cut(rest, end)
	}
	if !ok {
		return "", "", "", fmt.Errorf("the page has no section %s", name)
	}
	return before + begin, text, end + after, nil
}

// writeVerdicts returns the table of verdicts, in the order of the parts.
func writeVerdicts(all []verdict) string {
	order := map[string]int{}
	for i, p := range parts {
		order[p.name] = i
	}
	slices.SortStableFunc(all, func(a, b verdict) int { return cmp.Compare(order[a.part], order[b.part]) })
	var s strings.Builder
	writeRow(&s, verdictColumns...)
	s.WriteString(strings.Repeat("|---", len(verdictColumns)) + "|\n")
	for _, v := range all {
		writeRow(&s, v.cells()...)
	}
	return s.String()
}

// readVerdicts reads the table of verdicts.
func readVerdicts(table string) (all []verdict) {
	rows := strings.Split(strings.TrimSpace(table), "\n")
	for _, row := range rows[min(2, len(rows)):] {
		c := strings.Split(strings.Trim(row, "|"), "|")
		for i := range c {
			c[i] = strings.TrimSpace(c[i])
		}
		if len(c) == len(verdictColumns) {
			all = append(all, verdict{c[0], c[1], c[2], c[3], c[4], c[5]})
		}
	}
	return all
}

func writeRow(s *strings.Builder, cells ...string) {
	s.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// origin describes where and how the figures were measured.
func (b *bench) origin() string {
	database := ""
	if b.postgres != "" {
		database = ", Postgres " + b.postgres
	}
	commit, _ := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output() // of a checkout
	return fmt.Sprintf("Measured on %s at commit %s: %s, %d processors, Linux %s, %s%s; %d rounds of %v after %v of warm-up.\n",
		time.Now().UTC().Format(time.DateOnly), cmp.Or(strings.TrimSpace(string(commit)), "unknown"), after("/proc/cpuinfo", "model name\t: "), runtime.NumCPU(),
		after("/proc/sys/kernel/osrelease", ""), runtime.Version(), database, b.rounds, b.run, b.warm)
}

// after returns the rest of the first line of a file that begins with the prefix.
func after(file, prefix string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}
