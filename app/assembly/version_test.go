package assembly

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"

	"collab/adapters/gormdb"
	"collab/test/must"
)

func TestABuildHasItsCommit(t *testing.T) {
	with := func(settings ...debug.BuildSetting) *debug.BuildInfo { return &debug.BuildInfo{Settings: settings} }
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	date := debug.BuildSetting{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}
	tail := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	for want, info := range map[string]*debug.BuildInfo{
		"1.0.0 (" + tail:                                                 nil,
		"1.0.0 (commit 0123456789ab, " + tail:                            with(revision),
		"1.0.0 (commit 0123456789ab of 2026-01-02, " + tail:              with(revision, date),
		"1.0.0 (commit 0123456789ab of 2026-01-02 with changes, " + tail: with(revision, date, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
	} {
		must.Is(t, want, buildOf("1.0.0", info))
	}
}

func TestTheChangelogNamesTheSchemaOfEachRelease(t *testing.T) {
	text := must.Do(os.ReadFile("../../CHANGELOG.md")).Or(t)
	releases := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if want := fmt.Sprintf("%s (schema %d)", number, gormdb.Schema()); releases[0][1] != want {
		t.Errorf("CHANGELOG.md begins with %q, want %q", releases[0][1], want)
	}
	for _, r := range releases[1:] {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+ \(schema \d+, commit [0-9a-f]{8}\)$`).MatchString(r[1]) {
			t.Errorf("CHANGELOG.md has the release %q, want its version, schema and commit", r[1])
		}
	}
}
