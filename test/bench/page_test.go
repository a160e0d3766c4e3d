package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"collab/test/must"
	"collab/test/pages"
)

const performancePage = "docs/performance.md"

func TestThePageHasWhatPartsFound(t *testing.T) {
	page := pages.Read(t, performancePage)
	_, table, _, err := cutSection(page, verdictsSection)
	must.NoError(t, err)
	verdicts := readVerdicts(table)
	if table != "\n"+writeVerdicts(slices.Clone(verdicts))+"\n" {
		t.Errorf("make bench would write the verdicts otherwise:\n%s", table)
	}
	unmeasured := map[string]bool{}
	for _, p := range parts {
		_, section, _, err := cutSection(page, p.name)
		must.NoError(t, err)
		if unmeasured[p.name] = section == ""; unmeasured[p.name] {
			continue
		}
		if !strings.HasPrefix(section, "\nMeasured on ") || !strings.Contains(section, "|---|") {
			t.Errorf("the section of %s has no origin or no table", p.name)
		}
	}
	declared, judged := map[string]*goal{}, map[*goal]bool{}
	for _, g := range goals {
		declared[fmt.Sprint(g.part, ": ", g.figure, ": ", g)] = g
	}
	for _, v := range verdicts {
		name := fmt.Sprint(v.part, ": ", v.figure, ": ", v.goal)
		g := declared[name]
		if g == nil {
			t.Errorf("no part has the goal %q: measure %s again", name, v.part)
			continue
		}
		judged[g] = true
		if v.result != g.verdict(v.delivered) {
			t.Errorf("%s, %s: %s is %s", name, v.load, v.delivered, v.result)
		}
	}
	for _, g := range goals {
		if !judged[g] && !unmeasured[g.part] {
			t.Errorf("%s: the page has no verdict on the goal %q, %v: measure the part again", g.part, g.figure, g)
		}
	}
}

func TestInsert(t *testing.T) {
	const page = `What people say.

<!-- begin verdicts -->
<!-- end verdicts -->

<!-- begin start -->
<!-- end start -->

<!-- begin feed -->
<!-- end feed -->
What it took.
`
	one := verdict{"start", "empty folder", "until ready", "300 ms", "at most 500 ms", "reached"}
	two := verdict{"feed", "1000 subscribers", "deliveries/s", "0.80", "at least 1.00", "MISSED"}
	again := two
	again.delivered, again.result = "1.10", "reached"
	text := page
	for _, p := range []struct {
		part, tables string
		verdicts     []verdict
	}{{"feed", "old tables\n", []verdict{two, two}}, {"start", "its tables\n", []verdict{one}}, {"feed", "new tables\n", []verdict{again}}} {
		var err error
		if text, err = insert(text, p.part, p.tables, p.verdicts); err != nil {
			t.Fatal(err)
		}
	}
	want := `What people say.

<!-- begin verdicts -->

| part | load | figure | measured | goal |  |
|---|---|---|---|---|---|
| start | empty folder | until ready | 300 ms | at most 500 ms | reached |
| feed | 1000 subscribers | deliveries/s | 1.10 | at least 1.00 | reached |

<!-- end verdicts -->

<!-- begin start -->

its tables

<!-- end start -->

<!-- begin feed -->

new tables

<!-- end feed -->
What it took.
`
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if _, err := insert(page, "chat", "", nil); err == nil {
		t.Error("a part without a section is no error")
	}
}

func TestJudge(t *testing.T) {
	least, most := &goal{bound: 0.85, format: "%.2f"}, &goal{bound: 500, peak: true, format: "%.0f ms"}
	for _, c := range []struct {
		goal      *goal
		delivered float64
		want      string
	}{
		{least, 0.851, "at least 0.85: reached"},
		{least, 0.846, "at least 0.85: reached"}, // printed as 0.85
		{least, 0.84, "at least 0.85: MISSED"},
		{most, 500, "at most 500 ms: reached"},
		{most, 501, "at most 500 ms: MISSED"},
	} {
		if got := new(bench).judge(c.goal, "", c.delivered); got != c.want {
			t.Errorf("%v is judged as %q, want %q", c.delivered, got, c.want)
		}
	}
}
