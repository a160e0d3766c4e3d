package release_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"collab/domain/fault"
	"collab/domain/release"
)

func version(t testing.TB, s string) release.Version {
	t.Helper()
	v, err := release.ParseVersion(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return v
}

func TestVersions(t *testing.T) {
	for _, c := range []struct{ s, full, key string }{
		{"1.2.3", "1.2.3", "1.2.3"},
		{"0.0.0", "0.0.0", "0.0.0"},
		{"v1.2.3", "1.2.3", "1.2.3"},
		{"V1.2.3", "1.2.3", "1.2.3"},
		{"v1.2", "1.2.0", "1.2.0"},
		{"1.2", "1.2.0", "1.2.0"},
		{"1.2-beta.1", "1.2.0-beta.1", "1.2.0-beta.1"},
		{"1.2+5", "1.2.0+5", "1.2.0"},
		{"1.2-beta.1+5.x", "1.2.0-beta.1+5.x", "1.2.0-beta.1"},
		{"1.2.3-0", "1.2.3-0", "1.2.3-0"},
		{"1.2.3-rc.10.x-y-", "1.2.3-rc.10.x-y-", "1.2.3-rc.10.x-y-"},
		{"1.2.3--1", "1.2.3--1", "1.2.3--1"},
		{"1.2.3-0a", "1.2.3-0a", "1.2.3-0a"},
		{"1.2.3-99999999999999999999a", "1.2.3-99999999999999999999a", "1.2.3-99999999999999999999a"},
		{"1.2.3+001", "1.2.3+001", "1.2.3"},
		{"1.2.3+a-b", "1.2.3+a-b", "1.2.3"},
		{"1.2.3+99999999999999999999", "1.2.3+99999999999999999999", "1.2.3"},
		{"18446744073709551615.0.0-18446744073709551615", "18446744073709551615.0.0-18446744073709551615", "18446744073709551615.0.0-18446744073709551615"},
		{"1.2.3-" + strings.Repeat("a", 122), "1.2.3-" + strings.Repeat("a", 122), "1.2.3-" + strings.Repeat("a", 122)},
	} {
		v := version(t, c.s)
		if v.String() != c.full || v.Key() != c.key {
			t.Errorf("%q is %q with the key %q, want %q, %q", c.s, v, v.Key(), c.full, c.key)
		}
	}
	for _, s := range []string{
		"", "v", "vv1.2.3", "v.1.2", "1", "v1", "1.", "1.2.", "1.2.3.", ".1.2", "1..3", "1.2.3.4", "latest", "1.x", "1.2.x", "*", ">=1.2.3", "^1.2.3", "1.2.3 - 2.0.0",
		"01.2.3", "1.02.3", "1.2.03", "01.2", "1.02", "1.2.3-01", "1.2.3-a.00", "-1.2.3", "+1.2.3", "1.-2.3", "1.2.+3", "1.2.3-", "1.2.3+", "1.2-", "1.2+", "1.2.3-a..b", "1.2.3-.a", "1.2.3-a.",
		"1.2.3+a+b", "1.2.3+a..b", "1.2.3-a_b", "1.2.3-ä", "1.2.3+ä", "1.2.3-a b", "1.2.3-a/b", "1.2.3-<b>", "1.2.3-'", "1.2.3-\"",
		" 1.2.3", "1.2.3 ", "1.2.3\n", "1.2\n", "\t1.2.3", "1. 2.3", "v 1.2.3", "1.2.3\x00", "\xff", "1.2.3-\xff", "\ufeff1.2.3", "１.２.３", "١.٢.٣", "1.2.３", "1․2․3", "²..",
		"1e3.0.0", "0x1.2.3", "1_0.2.3", "1,2,3", "18446744073709551616.0.0", "0.18446744073709551616.0", "0.0.18446744073709551616", "0.18446744073709551616",
		"1.2.3-18446744073709551616", "1.2.3-a.99999999999999999999.b", "1.2.3-" + strings.Repeat("a", 123), strings.Repeat("1", 1<<20), "1.2.3-" + strings.Repeat("a.", 1<<20),
	} {
		if v, err := release.ParseVersion(s); !fault.Is(err, fault.Invalid) || v.String() != "" || !strings.HasPrefix(err.Error(), "version ") {
			t.Errorf("%.40q is %q, %v", s, v, err)
		}
	}
}

func TestTheOrderOfVersions(t *testing.T) {
	for i, all := range [][]string{
		{"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"}, // the specification's
		{"0.9.0", "0.10.0", "1.0.0-0", "1.0.0", "1.0.1", "1.1.0", "2.0.0", "10.0.0"},
		{"1.0.0-0", "1.0.0-9", "1.0.0-10", "1.0.0-18446744073709551615", "1.0.0--", "1.0.0--1", "1.0.0-1a", "1.0.0-A", "1.0.0-Z", "1.0.0-a", "1.0.0-a.0", "1.0.0-a.0.0", "1.0.0-a-", "1.0.0-aa"},
	} {
		for a := range all {
			for b := range all {
				va, vb := version(t, all[a]), version(t, all[b])
				if got, want := va.Compare(vb), sign(a-b); got != want {
					t.Errorf("%d: %s to %s is %d, want %d", i, va, vb, got, want)
				}
			}
		}
	}
	one := version(t, "1.2.3-a+x")
	if one.Compare(version(t, "v1.2.3-a+y")) != 0 || one.Compare(version(t, "1.2.3-a")) != 0 {
		t.Error("build metadata has a part in the order")
	}
	var none release.Version
	if none.Compare(one) != -1 || one.Compare(none) != 1 || none.Compare(none) != 0 || none.Key() != "" {
		t.Error("none does not come before all others")
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

// versions makes valid versions, often alike.
func versions() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		number := rapid.SampledFrom([]string{"0", "1", "2", "9", "10", "11", "4294967296", "18446744073709551615"})
		s := number.Draw(t, "major") + "." + number.Draw(t, "minor") + "." + number.Draw(t, "patch")
		identifier := rapid.OneOf(number, rapid.SampledFrom([]string{"a", "A", "alpha", "beta", "rc", "-", "--1", "0a", "1a", "99999999999999999999z", "a-b"}),
			rapid.StringMatching(`[0-9A-Za-z-]{0,3}[A-Za-z-]`))
		if n := rapid.IntRange(0, 3).Draw(t, "identifiers"); n > 0 {
			s += "-" + strings.Join(rapid.SliceOfN(identifier, n, n).Draw(t, "prerelease"), ".")
		}
		return s + rapid.SampledFrom([]string{"", "", "+1", "+build.01"}).Draw(t, "build")
	})
}

func FuzzParseVersion(f *testing.F) {
	for _, s := range []string{"1.2.3", "v1.2", "V0.0.0-0+0", "1.2-beta.1+5", "1.0.0-rc.1+build.7", "01.2.3", "1.2.3-01", "1.2.3-18446744073709551616", "1.2.3+a+b", "1.2.3-\xff", "１.２.３", " 1.2.3", "", "vv1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := release.ParseVersion(s)
		if err != nil {
			if !fault.Is(err, fault.Invalid) || v.String() != "" {
				t.Fatalf("%q is %q, %v", s, v, err)
			}
			return
		}
		full := v.String()
		for i := range len(full) {
			if c := full[i]; !strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-+", rune(c)) {
				t.Fatalf("%q became %q", s, full)
			}
		}
		again, err := release.ParseVersion(full)
		if err != nil || again.String() != full || again.Compare(v) != 0 || again.Key() != v.Key() {
			t.Fatalf("%q became %q, and that %q, %v", s, full, again, err)
		}
		key, err := release.ParseVersion(v.Key())
		if err != nil || key.Compare(v) != 0 || key.String() != v.Key() || strings.ContainsRune(v.Key(), '+') {
			t.Fatalf("%q has the key %q, %v", full, v.Key(), err)
		}
	})
}
