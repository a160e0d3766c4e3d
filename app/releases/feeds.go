package releases

import (
	"collab/domain/release"
)

// Feed decides what a device is offered whose updater reads a feed and takes only
// what fits, and counts that it asked; nil: nothing. A device that tells no
// architecture gets a release for each, as release.Snapshot.OfferEach has them, and
// is counted as universal; one that tells no version is offered whatever is the
// latest. It reads memory alone. The caller does not change the releases.
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
	s.counts.add(release.DayOf(s.Clock.Now()), q.Target, q.Version, now.Known(q.Version), offered != nil)
	return offered
}
