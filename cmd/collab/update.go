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

// checkForUpdate asks the server for a newer release of the program if that is due and a person is at
// the terminal. It returns the channel that gets a line about it, or nil.
func (a *app) checkForUpdate(ctx context.Context) <-chan result[string] {
	if version == "devel" || !a.interactive(a.outTerminal, a.errTerminal) || a.env("COLLAB_NO_UPDATE_CHECK") != "" {
		return nil
	}
	server, err := a.chosenServer()
	if err != nil {
		return nil
	}
	directory, err := a.makeDirectory()
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
	return begin(func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, updateTimeout)
		defer cancel()
		notice, err := newerRelease(ctx, server, strconv.Itoa(state.Device))
		if err != nil && apiclient.Status(err) == 0 {
			return "", err // the next command tries again
		}
		state.Checked = now
		if text, err := json.Marshal(state); err == nil {
			_ = atomicfile.Replace(file, atomicfile.Content(text)) // otherwise the next command tries again
		}
		return notice, nil
	})
}

// reportUpdate says that there is an update if the response is there. It does not wait.
func (a *app) reportUpdate(check <-chan result[string]) {
	select {
	case notice := <-check:
		if notice.value != "" {
			a.printErrf("%s", a.paint(a.errTerminal, dim, notice.value))
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
