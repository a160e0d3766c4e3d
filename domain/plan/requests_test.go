package plan

import (
	"maps"
	"testing"

	"collab/test/must"
)

func TestParseRequestLimits(t *testing.T) {
	for text, want := range map[string]RequestLimits{
		"off":                    {},
		"FREE=600":               {Free: 600},
		"NO_PLAN=60, PREMIUM=1":  {None: 60, Premium: 1},
		"ENTERPRISE=1000000000":  {Enterprise: 1e9},
		"STANDARD=6000,FREE=600": {Standard: 6000, Free: 600},
	} {
		if limits, err := ParseRequestLimits(text); err != nil || !maps.Equal(limits, want) {
			t.Errorf("%q is %v, want %v, error %v", text, limits, want, err)
		}
	}
	for _, text := range []string{"", "FREE", "FREE=", "FREE=0", "FREE=-1", "FREE=600/m", "FREE=1000000001", "free=1", "GOLD=1", "FREE=1,FREE=2", "FREE=1,", "FREE=off"} {
		if limits, err := ParseRequestLimits(text); err == nil {
			t.Errorf("%q is %v", text, limits)
		}
	}
}

func TestServerAllowancesAreATenthOfTheLimit(t *testing.T) {
	limits := RequestLimits{Free: 50, Standard: 600}
	must.Is(t, [...]int64{10, 60, 10, 50, Unlimited}, [...]int64{ServerAllowance(50), ServerAllowance(600), limits.MinServerAllowance(), limits.Of(Free), limits.Of(Premium)})
}
