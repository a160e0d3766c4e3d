package releases

import (
	"collab/domain/release"
)

// Feed returns the releases that a device is offered whose updater reads a feed, nil for none,
// and counts the check. It offers nothing unless fits accepts every release. A device without
// an architecture gets a release for each (release.Snapshot.OfferEach) and is counted as
// universal; one without a version is offered the latest. Feed reads only memory. The caller
// must not change the releases.
func (s *Releases) Feed(q Check, fits func(*release.Release) bool) []*release.Release {
	now := s.snapshot.Load()
	var offered []*release.Release
	if q.Arch == "" {
		offered = now.OfferEach(q.Platform, q.Channel, q.Version, q.Client)
		q.Arch = release.Universal
	} else if r := now.Offer(q.Target, q.Version, q.Client); r != nil {
		offered = []*release.Release{r}
	}
	for _, r := range offered {
		if !fits(r) {
			offered = nil
			break
		}
	}
	s.count(now, q, offered != nil)
	return offered
}
