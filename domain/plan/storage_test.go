package plan

import (
	"maps"
	"testing"

	"collab/domain/fault"
	"collab/domain/object"
)

func TestParseStorageLimits(t *testing.T) {
	for text, want := range map[string]StorageLimits{
		"off":                          {},
		"FREE=1MiB":                    {Free: 1 << 20},
		"NO_PLAN=5GiB, PREMIUM=1TiB":   {None: 5 << 30, Premium: 1 << 40},
		"ENTERPRISE=1048576TiB":        {Enterprise: 1 << 60},
		"STANDARD=100GiB,FREE=1048MiB": {Standard: 100 << 30, Free: 1048 << 20},
	} {
		if limits, err := ParseStorageLimits(text); err != nil || !maps.Equal(limits, want) {
			t.Errorf("%q is %v, want %v, error %v", text, limits, want, err)
		}
	}
	for _, text := range []string{
		"", "FREE", "FREE=", "FREE=1", "FREE=1KiB", "FREE=0MiB", "FREE=-1MiB", "FREE=1.5GiB", "FREE=1048577TiB", "free=1MiB", "GOLD=1MiB", "FREE=1MiB,FREE=2MiB",
		"FREE=1MiB,", "off,FREE=1MiB", "FREE=off",
	} {
		if limits, err := ParseStorageLimits(text); err == nil {
			t.Errorf("%q is %v", text, limits)
		}
	}
}

func TestContentGrowsUpToTheLimitOfThePlan(t *testing.T) {
	limits := StorageLimits{Free: 10}
	for _, c := range []struct {
		plan         Plan
		used, growth int64
		want         bool
	}{
		{Free, 0, 10, true}, {Free, 0, 11, false}, {Free, 9, 1, true}, {Free, 10, 1, false}, {Free, 10, 0, true}, {Free, 11, 0, true}, {Free, 30, -1, true},
		{Free, 30, 1, false}, {Free, 0, 1<<63 - 1, false}, {Premium, 1 << 50, 1 << 50, true},
	} {
		err := limits.Check(c.plan, object.Usage{1: c.used}, c.growth)
		if c.want != (err == nil) || err != nil && !fault.Is(err, fault.Forbidden) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
