package assembly

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestABuildSaysItsCommit(t *testing.T) {
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
		if got := buildOf("1.0.0", info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTheChangelogBeginsWithTheVersion(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	must(t, err)
	_, first, _ := strings.Cut(string(text), "\n## ")
	if line, _, _ := strings.Cut(first, "\n"); line != number && !strings.HasPrefix(line, number+" ") {
		t.Errorf("CHANGELOG.md begins with %q, and the version is %s", line, number)
	}
}
