package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"collab/adapters/apiclient"
	"collab/adapters/atomicfile"
)

const (
	updateInterval = 24 * time.Hour
	updateTimeout  = 10 * time.Second
	// updateDevices is how many numbers devices choose from. It suffices for rollouts in percent,
	// and identifies no device.
	updateDevices = 1000
)

// updateState is the file with the last check for an update.
type updateState struct {
	Checked time.Time `json:"checked"`
	Device  int       `json:"device"` // the number that decides about rollouts
}

// updateCheck is a check that has begun.
type updateCheck struct {
	file  string
	state updateState           // to be stored in the file
	done  <-chan result[string] // gets a line about a newer release
}

// checkForUpdate asks the server for a newer release of the program if that is due and a person is at
// the terminal; otherwise it returns nil.
func (a *app) checkForUpdate(ctx context.Context) *updateCheck {
	if version == "devel" || !a.interactive(a.outTerminal, a.errTerminal) || a.env("COLLAB_NO_UPDATE_CHECK") != "" {
		return nil
	}
	server, err := a.chosenServer()
	if err != nil {
		return nil
	}
	directory, err := a.makeConfigDirectory()
	if err != nil {
		return nil
	}
	file, now := filepath.Join(directory, "update.json"), a.now()
	state := updateState{Device: rand.IntN(updateDevices)}
	if text, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(text, &state) // a damaged one is replaced
	}
	if age := now.Sub(state.Checked); age >= 0 && age < updateInterval {
		return nil
	}
	state.Checked = now
	return &updateCheck{file, state, startCall(func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, updateTimeout)
		defer cancel()
		return newerRelease(ctx, server, strconv.Itoa(state.Device))
	})}
}

// reportUpdate says that there is an update if the response is there, and stores the check. It does not
// wait for the response: without one, the next command tries again.
func (a *app) reportUpdate(check *updateCheck) {
	if check == nil {
		return
	}
	select {
	case notice := <-check.done:
		if notice.err != nil && apiclient.Status(notice.err) == 0 {
			return
		}
		if notice.value != "" {
			a.printErrf("%s", a.paint(a.errTerminal, dim, notice.value))
		}
		if text, err := json.Marshal(check.state); err == nil {
			_ = atomicfile.Replace(check.file, atomicfile.Content(text)) // otherwise the next command tries again
		}
	default:
	}
}

// newerRelease returns a line about the release that a server offers a device. It is empty without one, or if
// the name of its file shows that it is another program's.
func newerRelease(ctx context.Context, server, device string) (string, error) {
	client, err := apiclient.New(apiclient.Config{Server: server, UserAgent: userAgent(), Attempts: 1})
	if err != nil {
		return "", err
	}
	query := url.Values{"version": {version}, "platform": {runtime.GOOS}, "arch": {runtime.GOARCH}, "clientId": {device}}
	if runtime.GOOS == "windows" {
		query.Set("platform", "win32")
	}
	if runtime.GOARCH == "amd64" {
		query.Set("arch", "x64")
	}
	response, err := client.Do(ctx, "GET", apiclient.Prefix+"/updates/check?"+query.Encode(), nil, nil)
	if err != nil {
		return "", err
	}
	offer, err := apiclient.Decode[struct {
		UpdateAvailable            bool
		LatestVersion, DownloadURL string
	}](response)
	if err != nil || !offer.UpdateAvailable || !strings.HasPrefix(path.Base(offer.DownloadURL), "collab_") {
		return "", err
	}
	return "collab " + offer.LatestVersion + " is available: " + offer.DownloadURL, nil
}
