// Package updater has stock updaters read the feeds of a real collabd:
// electron-updater under Node.
package updater

import (
	"encoding/json"
	"testing"

	"collab/test/must"
	"collab/test/nodejs"
)

// updaters are electron-updater, installed, and the script that runs it.
type updaters struct {
	*testing.T
	directory *nodejs.Directory
}

func install(t *testing.T) updaters {
	t.Helper()
	return updaters{t, nodejs.Install(t, "electron-updater does not read the feeds in this run", "check.js")}
}

// device is one that checks for an update.
type device struct {
	Platform  string `json:"platform"`
	Arch      string `json:"arch"`
	Version   string `json:"version"`
	ID        string `json:"id"`
	URL       string `json:"url"`
	Channel   string `json:"channel"`   // which the application sets; empty: it does not
	Everybody bool   `json:"everybody"` // the application thinks itself in every rollout
	Download  bool   `json:"download"`
}

// feedResult is what an updater makes of the feed.
type feedResult struct {
	Available      bool
	Version        string
	Notes          *string
	Date           string
	File           string // that it would download
	Content        string // of the file that it has downloaded
	AllowDowngrade bool
	Error          string
}

// check has devices check for updates.
func (u updaters) check(all ...device) []feedResult {
	u.Helper()
	input := must.Do(json.Marshal(all)).Or(u)
	var responses []feedResult
	output := u.directory.Run(input, "node", "check.js")
	if err := json.Unmarshal(output, &responses); err != nil || len(responses) != len(all) {
		u.Fatalf("%v: %s", err, output)
	}
	return responses
}
