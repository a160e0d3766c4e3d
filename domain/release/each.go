package release

// OfferEach returns what a device that has not sent its architecture is offered at
// a version: the same version for each architecture that has releases, X64's first;
// nil: nothing. The device chooses, so none is offered before all are. X64's must be
// among them, as ARM64 systems run X64 programs but not the reverse.
func (s *Snapshot) OfferEach(p Platform, c Channel, at Version, client string) []*Release {
	var all []*Release
	for _, arch := range []Arch{X64, ARM64} {
		t := Target{p, arch, c}
		if arch != X64 && s.latest[t] == nil {
			continue
		}
		r := s.Offer(t, at, client)
		if r == nil || len(all) > 0 && r.Version.Compare(all[0].Version) != 0 {
			return nil
		}
		if len(all) == 0 || r != all[0] { // a universal one is for both
			all = append(all, r)
		}
	}
	return all
}
