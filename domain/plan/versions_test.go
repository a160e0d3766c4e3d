package plan

import (
	"maps"
	"testing"

	"collab/domain/object"
)

func TestParseVersionRetention(t *testing.T) {
	for text, want := range map[string]VersionRetention{
		"off":                           {},
		"FREE=7d/10":                    {Free: {Days: 7, Versions: 10}},
		"NO_PLAN=0, PREMIUM=3650d/1000": {None: {}, Premium: {Days: 3650, Versions: 1000}},
	} {
		if got, err := ParseVersionRetention(text); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q is %v, want %v, error %v", text, got, want, err)
		}
	}
	for _, text := range []string{
		"", "FREE", "FREE=", "FREE=7", "FREE=7d", "FREE=7d/", "FREE=/10", "FREE=0d/10", "FREE=7d/0", "FREE=3651d/1", "FREE=1d/1001", "FREE=-1d/1", "FREE=7d/10d/1",
		"free=7d/10", "GOLD=7d/10", "FREE=7d/10,FREE=0", "off,FREE=0",
	} {
		if got, err := ParseVersionRetention(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	if VersionRetention(nil).Of(Free).Enabled() || !(VersionRetention{Free: object.Retention{Days: 1, Versions: 1}}).Of(Free).Enabled() {
		t.Error("a plan keeps what another one does")
	}
}
