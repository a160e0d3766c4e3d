package limit

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"collab/test/must"
)

// networks parses networks, separated by spaces.
func networks(s string) (all []netip.Prefix) {
	for n := range strings.FieldsSeq(s) {
		all = append(all, netip.MustParsePrefix(n))
	}
	return all
}

// forwarded returns a request from the remote address with the lines of X-Forwarded-For.
func forwarded(remote string, lines ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/test", nil)
	r.RemoteAddr = remote
	if lines != nil {
		r.Header["X-Forwarded-For"] = lines
	}
	return r
}

func TestClientAddressBehindProxies(t *testing.T) {
	const proxy = "10.0.0.1:4000"
	many := func(n int) string { return strings.Repeat(", 10.0.0.9", n) }
	for name, test := range map[string]struct {
		proxies string
		remote  string
		lines   []string
		want    string
	}{
		"no trusted proxies":                {"", proxy, []string{"192.0.2.1"}, "10.0.0.1"},
		"proxy without the header":          {"10.0.0.0/8", proxy, nil, "10.0.0.1"},
		"other client":                      {"10.0.0.0/8", "192.0.2.9:4000", []string{"192.0.2.1"}, "192.0.2.9"},
		"other client over IPv6":            {"10.0.0.0/8", "[2001:db8::9]:4000", []string{"192.0.2.1"}, "2001:db8::9"},
		"no remote address":                 {"10.0.0.0/8", "@", []string{"192.0.2.1"}, "@"},
		"proxy":                             {"10.0.0.0/8", proxy, []string{"192.0.2.1"}, "192.0.2.1"},
		"network of one address":            {"10.0.0.1/32", proxy, []string{"192.0.2.1"}, "192.0.2.1"},
		"address beside the network":        {"10.0.0.2/32", proxy, []string{"192.0.2.1"}, "10.0.0.1"},
		"second network":                    {"fd00::/8 10.0.0.0/8", proxy, []string{"192.0.2.1"}, "192.0.2.1"},
		"proxy over IPv6":                   {"fd00::/8", "[fd00::1]:4000", []string{"2001:db8::1"}, "2001:db8::1"},
		"proxy with a zone":                 {"fe80::/10", "[fe80::1%eth0]:4000", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv4-mapped proxy":                 {"10.0.0.0/8", "[::ffff:10.0.0.1]:4000", []string{"192.0.2.1"}, "192.0.2.1"},
		"entry of the client":               {"10.0.0.0/8", proxy, []string{"198.51.100.1, 192.0.2.1"}, "192.0.2.1"},
		"proxy in an entry of the client":   {"10.0.0.0/8", proxy, []string{"198.51.100.1, 10.0.0.7, 192.0.2.1"}, "192.0.2.1"},
		"line of the client":                {"10.0.0.0/8", proxy, []string{"198.51.100.1", "192.0.2.1"}, "192.0.2.1"},
		"chain of proxies":                  {"10.0.0.0/8", proxy, []string{"198.51.100.1, 192.0.2.1, 10.0.0.3,10.0.0.2"}, "192.0.2.1"},
		"chain of proxies in several lines": {"10.0.0.0/8", proxy, []string{"198.51.100.1", "192.0.2.1", "10.0.0.3", "10.0.0.2"}, "192.0.2.1"},
		"untrusted proxy":                   {"10.0.0.0/8", proxy, []string{"198.51.100.1, 203.0.113.1, 10.0.0.2"}, "203.0.113.1"},
		"only proxies":                      {"10.0.0.0/8", proxy, []string{"10.0.0.4", "10.0.0.3, 10.0.0.2"}, "10.0.0.4"},
		"name":                              {"10.0.0.0/8", proxy, []string{"192.0.2.1, unknown"}, "10.0.0.1"},
		"name before a proxy":               {"10.0.0.0/8", proxy, []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		"empty line":                        {"10.0.0.0/8", proxy, []string{""}, "10.0.0.1"},
		"empty entry":                       {"10.0.0.0/8", proxy, []string{"192.0.2.1,,10.0.0.2"}, "10.0.0.2"},
		"empty entry before the client":     {"10.0.0.0/8", proxy, []string{",192.0.2.1"}, "192.0.2.1"},
		"maxForwarded entries":              {"10.0.0.0/8", proxy, []string{"192.0.2.1" + many(maxForwarded-1)}, "192.0.2.1"},
		"more entries":                      {"10.0.0.0/8", proxy, []string{"192.0.2.1" + many(maxForwarded)}, "10.0.0.9"},
		"more entries in several lines":     {"10.0.0.0/8", proxy, append([]string{"192.0.2.1"}, slices.Repeat([]string{"10.0.0.9"}, maxForwarded)...), "10.0.0.9"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Is(t, test.want, ClientAddress(forwarded(test.remote, test.lines...), networks(test.proxies)))
		})
	}
}

func TestParseForwarded(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":              "192.0.2.1",
		" \t192.0.2.1 ":          "192.0.2.1",
		"192.0.2.1:5":            "192.0.2.1",
		"2001:DB8:0::1":          "2001:db8::1",
		"[2001:db8::1]":          "2001:db8::1",
		"[2001:db8::1]:5":        "2001:db8::1",
		"::ffff:192.0.2.1":       "192.0.2.1",
		"[::ffff:192.0.2.1]:5":   "192.0.2.1",
		"fe80::1%eth0":           "fe80::1",
		"[fe80::1%eth0]:5":       "fe80::1",
		"":                       "",
		"_hidden":                "",
		"unknown":                "",
		"localhost":              "",
		"192.0.2":                "",
		"192.0.2.01":             "",
		"192.0.2.1:":             "",
		"192.0.2.1:x":            "",
		"192.0.2.1:65536":        "",
		"192.0.2.1/32":           "",
		"192.0.2.1 192.0.2.2":    "",
		"2001:db8::1]":           "",
		"[2001:db8::1":           "",
		"[":                      "",
		"[]":                     "",
		"[]:5":                   "",
		"[2001:db8::1]5":         "",
		`"[2001:db8::1]:5"`:      "",
		"for=192.0.2.1":          "",
		"192.0.2.1\x00":          "",
		"2001:db8::1:2:3:4:5:6":  "",
		strings.Repeat("1", 1e4): "",
		strings.Repeat(":", 1e4): "",
	} {
		if a, ok := parseForwarded(text); ok != (want != "") || ok && a.String() != want {
			t.Errorf("%.40q is %v, %v, want %q", text, a, ok, want)
		}
	}
}

// TestClientCannotChooseItsAddress checks that the address is that of the connection to the first trusted proxy, for
// any headers of the client and number of proxies.
func TestClientCannotChooseItsAddress(t *testing.T) {
	proxies := networks("10.0.0.0/8 192.0.2.128/25 fd00::/8")
	ours := rapid.SampledFrom([]string{"10.0.0.1", "10.255.1.2", "192.0.2.200", "fd00::1", "fd12:3456::ffff"})
	theirs := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.127", "198.51.100.7", "2001:db8::1", "fe80::1", "11.0.0.1", "::1"})
	sent := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-f:., %\[\]]*`), ours, theirs), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		// written returns one of the texts of an address.
		written := func(address string) string {
			a := netip.MustParseAddr(address)
			forms := []string{address, netip.AddrPortFrom(a, 4000).String(), " " + address + "\t"}
			if a.Is4() {
				forms = append(forms, "::ffff:"+address, "[::ffff:"+address+"]:4000")
			} else {
				forms = append(forms, address+"%eth0", "["+address+"]", "["+address+"%eth0]:4000", strings.ToUpper(address), a.StringExpanded())
			}
			return rapid.SampledFrom(forms).Draw(t, "form")
		}
		client := theirs.Draw(t, "client")
		lines := sent.Draw(t, "sent")
		remote := netip.AddrPortFrom(netip.MustParseAddr(client), 4000).String()
		last := client
		for range rapid.IntRange(0, maxForwarded).Draw(t, "proxies") {
			if saw := written(last); len(lines) > 0 && rapid.Bool().Draw(t, "same line") {
				lines[len(lines)-1] += "," + saw
			} else {
				lines = append(lines, saw)
			}
			last = ours.Draw(t, "proxy")
			remote = netip.AddrPortFrom(netip.MustParseAddr(last), 4000).String()
		}
		if got := ClientAddress(forwarded(remote, lines...), proxies); got != client {
			t.Fatalf("from %s with %q: %q, want %s", remote, lines, got, client)
		}
	})
}

func TestClientAddressAllocations(t *testing.T) {
	direct := forwarded("192.0.2.9:4000", "198.51.100.1, 192.0.2.1")
	behind := forwarded("10.0.0.1:4000", "198.51.100.1, [2001:db8::1]:5", "10.0.0.3:80, 10.0.0.2")
	for _, test := range []struct {
		name    string
		r       *http.Request
		proxies []netip.Prefix
		most    float64
	}{
		{"no trusted proxies", behind, nil, 0},
		{"other client", direct, networks("10.0.0.0/8"), 0},
		{"chain of proxies", behind, networks("fd00::/8 10.0.0.0/8"), 1},
	} {
		if n := testing.AllocsPerRun(100, func() { ClientAddress(test.r, test.proxies) }); n > test.most {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1":           "192.0.2.1",
		"2001:db8:1:2:3::4":   "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::": "2001:db8:1:2::/64",
		"fe80::1%eth0":        "fe80::/64",
		"::ffff:192.0.2.1":    "::ffff:192.0.2.1",
		"@":                   "@",
	} {
		if got := Network(address); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	for remote, want := range map[string]string{"192.0.2.1:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::1", "@": "@", "": ""} {
		if got := hostOf(remote); got != want {
			t.Errorf("%q is %q, want %q", remote, got, want)
		}
	}
}
