package limit

import (
	"testing"

	"collab/domain/fault"
	"collab/test/must"
)

func TestInFlightIsLimitedPerCaller(t *testing.T) {
	w := &InFlight{}
	var releases []func()
	for range maxInFlight {
		releases = append(releases, must.Do(w.Acquire("ada")).Or(t))
	}
	must.Fail(t, must.ErrorOf(w.Acquire("ada")), fault.Limited)
	releases = append(releases, must.Do(w.Acquire("bob")).Or(t))
	releases[0]()
	releases[0] = must.Do(w.Acquire("ada")).Or(t)
	for _, release := range releases {
		release()
	}
	must.Is(t, 0, len(w.count))
}
