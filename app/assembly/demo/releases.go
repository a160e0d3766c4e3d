package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"collab/adapters/apiclient"
	"collab/adapters/httpapi"
)

// device is an installation of the companion app.
type device struct {
	target
	id      string
	address string // the network that it is in
	version string
}

// devices is the number of installations.
const devices = 90

// failureLimit and failureMinimum are those of each release, in percent and in reports.
const (
	failureLimit   int64 = 20
	failureMinimum int64 = 20
)

// planReleases plans the releases and their rollouts, and what installations ask and report on
// each day.
func (f *loader) planReleases() {
	for _, e := range editions {
		ids := make([]string, len(targets))
		for stage, s := range e.rollout {
			percent := int64(s.percent)
			f.schedule(s.day, 7*time.Hour, "publishing "+e.version, func(ctx context.Context) error {
				for i, t := range targets {
					if stage > 0 {
						if _, err := f.members[milan].ChangeRelease(ctx, ids[i], apiclient.ReleasePatch{RolloutPercentage: &percent}); err != nil {
							return err
						}
						continue
					}
					limit, minimum := failureLimit, failureMinimum
					made, err := f.members[milan].PublishRelease(ctx, apiclient.ReleaseDraft{
						Version: e.version, Platform: t.platform, Arch: t.arch, ReleaseNotes: &e.notes,
						DownloadURL:       fmt.Sprintf("https://downloads.larkspur.example/%s/%s", e.version, t.file),
						RolloutPercentage: &percent, FailureLimit: &limit, FailureMinimum: &minimum,
					})
					if err != nil {
						return err
					}
					ids[i] = made.ID
				}
				return nil
			})
		}
	}
	for n := range devices {
		d := &device{target: targets[n%len(targets)], id: fmt.Sprintf("larkspur-device-%03d", n), address: fmt.Sprintf("198.51.100.%d", n+1), version: editions[0].version}
		if n%6 == 0 {
			d.version = "1.3.2"
		}
		for day := 2; day < days; day++ {
			if f.Random(4) == 0 {
				continue // it is not started
			}
			installs, works := f.Random(3) > 0, f.Random(20) > 0
			f.schedule(day, f.workingTime(), "checking for updates", func(ctx context.Context) error { return f.check(ctx, d, installs, works) })
		}
	}
}

// check asks for an update as the device, and reports its installation.
func (f *loader) check(ctx context.Context, d *device, installs, works bool) error {
	from := http.Header{"X-Forwarded-For": {d.address}}
	query := url.Values{"version": {d.version}, "platform": {strings.ToLower(d.platform)}, "arch": {strings.ToLower(d.arch)}, "clientId": {d.id}}
	response, err := f.anonymous.Do(ctx, http.MethodGet, httpapi.CheckPath+"?"+query.Encode(), from, nil)
	if err != nil {
		return err
	}
	offer, err := apiclient.Decode[struct{ LatestVersion string }](response)
	if err != nil || offer.LatestVersion == "" || !installs {
		return err
	}
	outcome := "failure"
	if works {
		outcome, d.version = "success", offer.LatestVersion
	}
	return f.send(ctx, f.anonymous, httpapi.ReportsPath, from, map[string]string{
		"version": offer.LatestVersion, "platform": strings.ToLower(d.platform), "arch": strings.ToLower(d.arch), "outcome": outcome,
	})
}
