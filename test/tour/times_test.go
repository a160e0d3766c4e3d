package tour

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"collab/app/changes"
	"collab/app/chats"
	"collab/app/releases"
	"collab/domain/connector"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/release"
	"collab/domain/replay"
)

// within reads a constant such as upkeepEvery = 10 * time.Minute, which has no name
// outside of its package, from the source.
func within(t *testing.T, folder, name string) time.Duration {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	constant := regexp.MustCompile(`(?m)^\s*(?:const )?` + name + `\s+= ((?:\d+ \* )*)time\.(Second|Minute|Hour)\b`)
	unit := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
	for _, f := range files {
		rel, err := filepath.Rel(root, f)
		if err != nil {
			t.Fatal(err)
		}
		m := constant.FindStringSubmatch(read(t, rel))
		if m == nil {
			continue
		}
		d := unit[m[2]]
		for _, factor := range strings.Fields(strings.ReplaceAll(m[1], "*", " ")) {
			n, err := strconv.Atoi(factor)
			if err != nil {
				t.Fatal(err)
			}
			d *= time.Duration(n)
		}
		return d
	}
	t.Fatalf("%s has no %s", folder, name)
	return 0
}

// said reads a time as pages have it: the first number in a text and its unit.
func said(t *testing.T, text string) time.Duration {
	t.Helper()
	m := regexp.MustCompile(`(\d+) (ms|s|minute|hour|day)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%q has no time", text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	}[m[2]]
}

func TestThePageOnOperationsSaysTheTimes(t *testing.T) {
	want := map[string]time.Duration{
		"looks whether releases":    releases.PollEvery,
		"looks whether there are":   changes.PollEvery,
		"connectors: looks":         within(t, "app/assembly", "workEvery"),
		"adds what it has counted":  releases.CountEvery,
		"extends the reservations":  chats.KeepEvery,
		"writes down trials":        within(t, "app/assembly", "billingEvery"),
		"upkeep, see below":         within(t, "app/assembly", "upkeepEvery"),
		"ids of providers'":         within(t, "app/upkeep", "inboxRetention"),
		"answers kept for":          replay.Retention,
		"authorizations of":         connector.FlowLifetime,
		"clients at authorization":  connector.ClientRetention,
		"counts of update checks":   release.Retention,
		"organisations that":        org.Retention,
		"content that was replaced": object.Grace,
	}
	for _, cells := range rows(section(t, "docs/operations.md", "## Jobs")) {
		for begins, d := range want {
			what, when := cells[1], cells[0]
			if strings.HasPrefix(cells[0], begins) {
				what, when = cells[0], cells[1]
			}
			if !strings.HasPrefix(what, begins) {
				continue
			}
			delete(want, begins)
			if got := said(t, when); got != d {
				t.Errorf("%s: the page says %v, and it is %v", what, got, d)
			}
		}
	}
	for begins := range want {
		t.Errorf("the page says no time of what begins with %q", begins)
	}
}
