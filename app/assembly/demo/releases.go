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
	address string // its IP address
	version string
}

// devices is the number of installations.
const devices = 90

// failureLimit, in percent, and failureMinimum, in reports, are those of each release.
const (
	failureLimit   int64 = 20
	failureMinimum int64 = 20
)

// planReleases plans the releases, their rollouts, and the devices' update checks and reports.
func (f *loader) planReleases() {
	for _, r := range releases {
		ids := make([]string, len(targets))
		for stage, s := range r.rollout {
			percent := int64(s.percent)
			f.schedule(s.day, 7*time.Hour, "publishing "+r.version, func(ctx context.Context) error {
				for i, t := range targets {
					if stage > 0 {
						if _, err := f.members[milan].ChangeRelease(ctx, ids[i], apiclient.ReleasePatch{RolloutPercentage: &percent}); err != nil {
							return err
						}
						continue
					}
					limit, minimum := failureLimit, failureMinimum
					created, err := f.members[milan].PublishRelease(ctx, apiclient.ReleaseDraft{
						Version: r.version, Platform: t.platform, Arch: t.arch, ReleaseNotes: &r.notes,
						DownloadURL:       fmt.Sprintf("https://downloads.larkspur.example/%s/%s", r.version, t.file),
						RolloutPercentage: &percent, FailureLimit: &limit, FailureMinimum: &minimum,
					})
					if err != nil {
						return err
					}
					ids[i] = created.ID
				}
				return nil
			})
		}
	}
	for n := range devices {
		d := &device{
			target: targets[n%len(targets)], version: releases[0].version,
			id: fmt.Sprintf("larkspur-device-%03d", n), address: fmt.Sprintf("198.51.100.%d", n+1),
		}
		if n%6 == 0 {
			d.version = "1.3.2"
		}
		for day := 2; day < days; day++ {
			if f.Random(4) == 0 {
				continue // it is not started
			}
			installs, works := f.Random(3) > 0, f.Random(20) > 0
			f.schedule(day, f.workingTime(), "checking for updates", func(ctx context.Context) error {
				return f.check(ctx, d, installs, works)
			})
		}
	}
}

// check checks for an update as the device, installs it and reports the outcome.
func (f *loader) check(ctx context.Context, d *device, installs, works bool) error {
	header := http.Header{"X-Forwarded-For": {d.address}}
	platform, arch := strings.ToLower(d.platform), strings.ToLower(d.arch)
	query := url.Values{"version": {d.version}, "platform": {platform}, "arch": {arch}, "clientId": {d.id}}
	response, err := f.anonymous.Do(ctx, http.MethodGet, httpapi.CheckPath+"?"+query.Encode(), header, nil)
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
	return f.send(ctx, f.anonymous, httpapi.ReportsPath, header, map[string]string{
		"version": offer.LatestVersion, "platform": platform, "arch": arch, "outcome": outcome,
	})
}
