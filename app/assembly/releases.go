package assembly

import (
	"context"
	"time"

	"go.uber.org/fx"

	"collab/adapters/loopback"
	"collab/app/access"
	"collab/app/releases"
	"collab/domain/release"
	"collab/ports"
)

type releasesParams struct {
	fx.In
	CommonParams
	Access *access.Access
	Bus    ports.Bus
}

// newReleases makes the use cases of releases, which read them between start and stop, and
// store their counts at stop.
func newReleases(lc fx.Lifecycle, p releasesParams) *releases.Releases {
	hosts := release.Hosts{Names: p.Config.ReleaseHosts}
	if !p.Config.Production() {
		hosts.AllowsHTTP = loopback.IsHost
	}
	s := releases.New(releases.Options{
		Store: p.Store, Bus: p.Bus, Clock: p.Clock, IDs: p.IDs, Log: p.Log, Atomic: p.Access.Atomic, From: access.From(p.Store), Origin: access.Origin,
		Publishers: p.Config.ReleaseOrgs, AnyOrganisation: len(p.Config.ReleaseOrgs) == 0 && !p.Config.Production(), Hosts: hosts,
	})
	poll, count := time.NewTicker(releases.PollEvery), time.NewTicker(releases.CountEvery)
	lc.Append(fx.StartStopHook(
		func(start context.Context) error { return s.Start(start, poll.C, count.C) },
		drainHook(settleTimeout, func(drain context.Context) error {
			poll.Stop()
			count.Stop()
			return s.Close(drain)
		}, p.Log.Error, "update check counts dropped"),
	))
	return s
}
