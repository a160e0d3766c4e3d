package release

// OfferEach decides what a device at a version is offered that has not told its
// architecture: the same version for each architecture that has releases, X64's
// first; nil: nothing. Which of them the device takes is its own affair, so none
// is offered before all are. X64's has to be among them, as systems of ARM64 run
// programs of X64 and not the other way round.
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
