package tour

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"collab/adapters/gormdb"
	"collab/app/access"
	"collab/app/changes"
	"collab/app/chats"
	"collab/app/releases"
	"collab/domain/connector"
	"collab/domain/export"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/release"
	"collab/domain/replay"
	"collab/domain/session"
	"collab/domain/upload"
	"collab/test/must"
	"collab/test/pages"
)

// within reads an unexported constant such as upkeepEvery = 10 * time.Minute from the
// source.
func within(t *testing.T, directory, name string) time.Duration {
	t.Helper()
	files := must.Do(filepath.Glob(filepath.Join(root, directory, "*.go"))).Or(t)
	constant := regexp.MustCompile(`(?m)^\s*(?:const )?` + name + `\s+= ((?:\d+ \* )*)time\.(Second|Minute|Hour)\b`)
	unit := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
	for _, f := range files {
		rel := must.Do(filepath.Rel(root, f)).Or(t)
		m := constant.FindStringSubmatch(pages.Read(t, rel))
		if m == nil {
			continue
		}
		d := unit[m[2]]
		for _, factor := range strings.Fields(strings.ReplaceAll(m[1], "*", " ")) {
			n := must.Do(strconv.Atoi(factor)).Or(t)
			d *= time.Duration(n)
		}
		return d
	}
	t.Fatalf("%s has no %s", directory, name)
	return 0
}

// duration returns the first number with a unit in a text of a page.
func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	m := regexp.MustCompile(`(\d+) (ms|s|minute|hour|day)`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%q has no duration", text)
	}
	n := must.Do(strconv.Atoi(m[1])).Or(t)
	return time.Duration(n) * map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	}[m[2]]
}

func TestThePageOnOperationsHasTheTimes(t *testing.T) {
	for heading, want := range map[string]map[string]time.Duration{
		"## Jobs": {
			"releases":     releases.PollEvery,
			"changes":      changes.PollEvery,
			"replicas":     gormdb.PollReplicasEvery,
			"samples":      within(t, "adapters/httpapi", "sampleEvery"),
			"exports":      within(t, "app/assembly", "exportEvery"),
			"clocks":       within(t, "app/assembly", "compareEvery"),
			"claims":       export.ExtendEvery,
			"sessions":     access.FlushEvery,
			"connectors":   within(t, "app/assembly", "workEvery"),
			"checks":       releases.CountEvery,
			"reservations": chats.ExtendEvery,
			"billing":      within(t, "app/assembly", "billingEvery"),
			"upkeep":       within(t, "app/assembly", "upkeepEvery"),
		},
		"## Upkeep": {
			"events":        within(t, "app/upkeep", "inboxRetention"),
			"keys":          replay.Retention,
			"sessions":      session.Lifetime + session.GracePeriod,
			"devices":       session.DeviceLifetime,
			"exports":       export.Retention,
			"invitations":   invitation.Retention,
			"uploads":       upload.Lifetime,
			"requests":      within(t, "app/upkeep", "requestsRetention"),
			"reports":       release.Retention,
			"flows":         connector.FlowLifetime,
			"clients":       connector.ClientRetention,
			"checks":        release.Retention,
			"organisations": org.Retention,
			"content":       object.BlobGracePeriod,
		},
	} {
		for _, cells := range rows(section(t, heading)) {
			name := names(cells[0])[0]
			d, ok := want[name]
			if !ok {
				continue // the time is that of a variable
			}
			delete(want, name)
			if got := duration(t, cells[1]); got != d {
				t.Errorf("%s: %s is %v on the page and %v in the source", heading, name, got, d)
			}
		}
		for name := range want {
			t.Errorf("%s has no row %s", heading, name)
		}
	}
}
