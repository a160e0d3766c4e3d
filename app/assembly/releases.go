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

type releasesNeeds struct {
	fx.In
	Basics
	Access *access.Access
	Bus    ports.Bus
}

// newReleases makes the use cases of releases, which read them between start and stop, and
// store their counts at stop.
func newReleases(lc fx.Lifecycle, n releasesNeeds) *releases.Releases {
	hosts := release.Hosts{Names: n.Config.ReleaseHosts}
	if !n.Config.Production() {
		hosts.AllowsHTTP = loopback.IsHost
	}
	s := releases.New(releases.Options{
		Store: n.Store, Bus: n.Bus, Clock: n.Clock, IDs: n.IDs, Log: n.Log, Atomic: n.Access.Atomic, From: access.From(n.Store), Origin: access.Origin,
		Publishers: n.Config.ReleaseOrgs, AnyOrganisation: len(n.Config.ReleaseOrgs) == 0 && !n.Config.Production(), Hosts: hosts,
	})
	poll, count := time.NewTicker(releases.PollEvery), time.NewTicker(releases.CountEvery)
	lc.Append(fx.StartStopHook(
		func(start context.Context) error { return s.Start(start, poll.C, count.C) },
		drainHook(settleTime, func(drain context.Context) error {
			poll.Stop()
			count.Stop()
			return s.Close(drain)
		}, n.Log.Error, "update check counts lost"),
	))
	return s
}
