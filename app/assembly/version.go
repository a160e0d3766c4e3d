package assembly

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"collab/adapters/gormdb"
)

// number is the version of this tree, the first one in CHANGELOG.md.
const number = "0.2.0"

// oldest is the oldest version whose servers run on the database schema of this one, so that it
// can be installed again.
const oldest = "0.1.0"

// built replaces number if the linker sets it.
var built string

// Version returns the version of the server.
func Version() string {
	if built != "" {
		return built
	}
	return number
}

// Build returns the version with the commit and its date, if the binary was built in a
// repository, the release of Go and the platform, and in a second line the version of the
// database schema.
func Build() string {
	info, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%s\nschema %d, on which servers from version %s on run", buildOf(Version(), info), gormdb.Schema(), oldest)
}

// buildOf is Build for the build information of a binary, which may be nil.
func buildOf(version string, info *debug.BuildInfo) string {
	details := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if revision := settings["vcs.revision"]; revision != "" {
			commit := "commit " + revision[:min(12, len(revision))]
			if day, _, found := strings.Cut(settings["vcs.time"], "T"); found {
				commit += " of " + day
			}
			if settings["vcs.modified"] == "true" {
				commit += " with changes"
			}
			details = append([]string{commit}, details...)
		}
	}
	return fmt.Sprintf("%s (%s)", version, strings.Join(details, ", "))
}
