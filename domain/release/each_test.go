package release_test

import (
	"strings"
	"testing"

	"collab/domain/release"
)

func TestADeviceWithoutArchitectureIsOfferedAReleaseForEach(t *testing.T) {
	at := version(t, "1.0.0")
	for name, test := range map[string]struct {
		releases string // version/architecture, with the rollout where it is not 100
		client   string
		want     string
	}{
		"nothing":                        {},
		"X64 alone":                      {releases: "2.0.0/X64", want: "2.0.0/X64"},
		"ARM64 alone":                    {releases: "2.0.0/ARM64"},
		"both":                           {releases: "2.0.0/ARM64 2.0.0/X64", want: "2.0.0/X64 2.0.0/ARM64"},
		"universal":                      {releases: "2.0.0/UNIVERSAL", want: "2.0.0/UNIVERSAL"},
		"universal for one":              {releases: "2.0.0/UNIVERSAL 2.0.0/ARM64", want: "2.0.0/UNIVERSAL 2.0.0/ARM64"},
		"one is behind":                  {releases: "2.0.0/X64 1.9.0/ARM64"},
		"one is behind and as it is":     {releases: "2.0.0/X64 1.0.0/ARM64"},
		"a higher universal one":         {releases: "2.0.0/X64 2.0.0/ARM64 2.1.0/UNIVERSAL", want: "2.1.0/UNIVERSAL"},
		"build metadata is no version":   {releases: "2.0.0+1/X64 2.0.0+2/ARM64", want: "2.0.0+1/X64 2.0.0+2/ARM64"},
		"as it is":                       {releases: "1.0.0/X64 1.0.0/ARM64"},
		"one has not reached the device": {releases: "2.0.0/X64 2.0.0/ARM64/20", client: "device-1"}, // whose bucket is 20
		"both have reached the device":   {releases: "2.0.0/X64 2.0.0/ARM64/21", client: "device-1", want: "2.0.0/X64 2.0.0/ARM64"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []release.Release
			for i, text := range strings.Fields(test.releases) {
				part := strings.Split(text, "/")
				r := on(t, i, part[0], release.Win32, release.Arch(part[1]), release.Stable)
				if len(part) > 2 {
					r.Rollout = map[string]int{"20": 20, "21": 21}[part[2]]
				}
				all = append(all, r)
			}
			var got []string
			for _, r := range snapshot(1, all).OfferEach(release.Win32, release.Stable, at, test.client) {
				got = append(got, r.Version.String()+"/"+string(r.Arch))
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("it is offered %q, want %q", got, test.want)
			}
		})
	}
}
