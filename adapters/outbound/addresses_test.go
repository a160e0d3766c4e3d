package outbound_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"collab/adapters/outbound"
)

// special are the networks that are not public by the registries (RFC 6890, RFC 4291). The
// list is independent of the library's.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/8", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:2::/48", "2001:20::/28", "2001:db8::/32", "2002::/16",
	"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsGlobalUnicast() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// needs6 skips a test of IPv6 addresses if there are no IPv6 sockets.
func needs6(t *testing.T, a netip.Addr) {
	t.Helper()
	if !a.Is6() || a.Is4In6() {
		return
	}
	l, err := net.ListenPacket("udp6", "[::]:0")
	if err != nil {
		t.Skip("no IPv6")
	}
	_ = l.Close()
}

// neverConnects checks that a call to the host fails without a connection, and returns its
// error.
func neverConnects(t *testing.T, o outbound.Options, host string) error {
	t.Helper()
	o.Insecure = true
	c := newClient(t, o)
	w := follow(c, true)
	_, err := get(t, c, "http://"+host+"/?token="+secret)
	if err == nil || errors.Is(err, errStopped) {
		t.Errorf("%s: got %v", host, err)
	}
	if got := w.addresses(); len(got) > 0 {
		t.Errorf("%s: was let connect to %v", host, got)
	}
	return err
}

func TestAnAddressThatIsNotPublicIsNeverConnectedTo(t *testing.T) {
	all := parsed("::ffff:169.254.169.254", "::ffff:127.0.0.1", "::ffff:0:127.0.0.1")
	for _, network := range special {
		bits := network.Addr().AsSlice()
		for i := network.Bits(); i < 8*len(bits); i++ {
			bits[i/8] |= 0x80 >> (i % 8)
		}
		last, _ := netip.AddrFromSlice(bits)
		all = append(all, network.Addr(), last)
	}
	for _, a := range all {
		t.Run(a.String(), func(t *testing.T) {
			needs6(t, a)
			names := newDNS(t, always(a.String()))
			for _, host := range []string{netip.AddrPortFrom(a, 8080).String(), "name.test:8080", "name.test.:8080"} {
				if err := neverConnects(t, outbound.Options{Resolver: names.resolver()}, host); !outbound.Blocked(err) {
					t.Errorf("%s: got %v", host, err)
				}
			}
		})
	}
}

func TestTheAddressIsCheckedHoweverTheHostIsWritten(t *testing.T) {
	names := newDNS(t, always(closed))
	for _, host := range []string{
		"localhost", "LOCALHOST", "localhost.", "sub.localhost", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "127.0.0.01",
		"①②⑦.⓪.⓪.①", "127。0。0。1", "127.0.0.1%2f", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "127.0.0.1.nip.test",
	} {
		// Go's resolver does not accept numbers in old forms; others do.
		neverConnects(t, outbound.Options{Resolver: names.resolver()}, host+":8080")
	}
}

func TestAddressesWithAZoneAreRefused(t *testing.T) {
	needs6(t, netip.IPv6Loopback())
	for _, host := range []string{"[fe80::1%25lo]", "[::1%25lo]", "[::1%251]", "[fe80::1%25nothing]", "[2606:4700::1111%251]", "[64:ff9b::7f00:1%251]"} {
		neverConnects(t, outbound.Options{Networks: prefixes("fe81::/16", "fd00::/8")}, host+":8080")
	}
}

func TestPublicAddressesAreCalledOnAnyPort(t *testing.T) {
	for _, address := range []string{"8.8.8.8:443", "1.1.1.1:8443", "100.63.255.255:80", "100.128.0.0:25", "172.32.0.1:22", "[2606:4700::1111]:443", "[2a00:1450::1]:9000"} {
		a := netip.MustParseAddrPort(address)
		t.Run(address, func(t *testing.T) {
			needs6(t, a.Addr())
			names := newDNS(t, func(string, int) []netip.Addr { return []netip.Addr{a.Addr()} })
			c := newClient(t, outbound.Options{Resolver: names.resolver()})
			w := follow(c, true)
			for _, host := range []string{address, fmt.Sprintf("name.test:%d", a.Port())} {
				_, err := get(t, c, "https://"+host+"/")
				if !errors.Is(err, errStopped) || outbound.Blocked(err) {
					t.Errorf("%s: got %v", host, err)
				}
			}
			if got := w.take(); !slices.Equal(got, []netip.AddrPort{a, a}) {
				t.Errorf("was let connect to %v", got)
			}
		})
	}
}

func TestNetworksOfTheOperatorAreCalled(t *testing.T) {
	c := newClient(t, outbound.Options{Insecure: true, Networks: prefixes("10.1.0.0/16", "fd01::/16")})
	w := follow(c, true)
	for _, host := range []string{"10.1.2.3", "10.2.0.0", "[::ffff:10.1.2.4]", "[fd01::1]", "[fd02::1]"} {
		_, _ = get(t, c, "http://"+host+"/")
	}
	got := slices.DeleteFunc(w.addresses(), netip.Addr.Is6)
	if want := parsed("10.1.2.3", "10.1.2.4"); !slices.Equal(got, want) {
		t.Errorf("was let connect to %v, want %v", got, want)
	}
	t.Run("of IPv6", func(t *testing.T) {
		needs6(t, netip.IPv6Loopback())
		got := slices.DeleteFunc(w.addresses(), netip.Addr.Is4)
		if want := parsed("fd01::1"); !slices.Equal(got, want) {
			t.Errorf("was let connect to %v, want %v", got, want)
		}
	})
}

func TestANameThatChangesToAPrivateAddressIsRefused(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	private := trap(t, s)
	names := newDNS(t, func(_ string, earlier int) []netip.Addr {
		if earlier == 0 {
			return parsed(open)
		}
		return parsed(closed)
	})
	c := newClient(t, outbound.Options{Insecure: true, Networks: opened, Resolver: names.resolver()})
	w := follow(c, false)
	address := "http://rebind.test:" + port(s) + "/"
	if text, err := get(t, c, address); text != "hello" || err != nil {
		t.Fatalf("got %q, %v", text, err)
	}
	c.CloseIdleConnections()
	if _, err := get(t, c, address); !outbound.Blocked(err) {
		t.Errorf("got %v", err)
	}
	if got := w.addresses(); !slices.Equal(got, parsed(open)) {
		t.Errorf("was let connect to %v", got)
	}
	empty(t, private)
}

func TestOfManyAddressesOfANameOnlyPublicOnesAreTried(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	private := trap(t, s)
	const deaf = "127.0.0.3" // allowed, without a listener
	networks := append(prefixes(deaf+"/32"), opened...)
	for name, tt := range map[string]struct {
		addresses []string
		text      string
	}{
		"one private first":     {[]string{closed, open}, "hello"},
		"one private last":      {[]string{open, closed}, "hello"},
		"many private":          {[]string{closed, "10.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fd00::1", open}, "hello"},
		"the public one fails":  {[]string{deaf, closed}, ""},
		"no public one":         {[]string{closed, "10.0.0.1", "::1"}, ""},
		"IPv6 beside a private": {[]string{"::1", "fe80::1", closed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			names := newDNS(t, always(tt.addresses...))
			c := newClient(t, outbound.Options{Insecure: true, Networks: networks, Resolver: names.resolver()})
			w := follow(c, false)
			text, err := get(t, c, "http://many.test:"+port(s)+"/")
			if text != tt.text || (err == nil) != (tt.text != "") {
				t.Errorf("got %q, %v", text, err)
			}
			for _, a := range w.addresses() {
				if !slices.Contains(parsed(open, deaf), a) {
					t.Errorf("was let connect to %v", a)
				}
			}
			empty(t, private)
		})
	}
}

func TestAnInvalidURLIsRefusedBeforeItsNameIsResolved(t *testing.T) {
	for name, tt := range map[string]struct {
		insecure bool
		address  string
	}{
		"http":                         {false, "http://name.test/?token=" + secret},
		"another scheme":               {true, "ftp://name.test/" + secret},
		"a file":                       {true, "file:///etc/" + secret},
		"no scheme":                    {true, "//name.test/?token=" + secret},
		"no host":                      {true, "https:///" + secret},
		"only a port":                  {true, "https://:443/" + secret},
		"no slashes":                   {true, "https:name.test"},
		"a user":                       {false, "https://" + secret + "@name.test/"},
		"a user and a password":        {false, "https://user:" + secret + "@name.test/"},
		"a user of nothing":            {false, "https://@name.test/"},
		"a password in what is no URL": {false, "https://user:" + secret + "/x@name.test/"},
		"a scheme in capitals":         {false, "HTTP://name.test/?" + secret},
	} {
		names := newDNS(t, always("8.8.8.8"))
		c := newClient(t, outbound.Options{Insecure: tt.insecure, Resolver: names.resolver()})
		w := follow(c, true)
		_, err := get(t, c, tt.address)
		if !outbound.Blocked(err) {
			t.Errorf("%s: got %v", name, err)
		}
		if names.questions() > 0 || len(w.addresses()) > 0 {
			t.Errorf("%s: the name is looked up", name)
		}
	}
}

// FuzzNoAddressThatIsNotPublicIsConnectedTo calls random URLs with random addresses of their
// names.
func FuzzNoAddressThatIsNotPublicIsConnectedTo(f *testing.F) {
	loopback, mapped := netip.MustParseAddr(open).AsSlice(), netip.MustParseAddr("::ffff:10.0.0.1").AsSlice()
	public := netip.MustParseAddr("8.8.8.8").AsSlice()
	for _, address := range []string{
		"http://name.test/", "https://name.test:8443/path?query#fragment", "http://localhost/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.01/",
		"http://[::1]/", "http://[::ffff:127.0.0.1]:80/", "http://[fe80::1%25eth0]/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::]/", "http://[::]/",
		"http://127.0.0.1./", "http://0/", "http://①②⑦.1/", "http://user:pass@10.0.0.1/", "http://8.8.8.8/", "https://[2606:4700::1111]/", "http://name.test:0/",
		"http://169.254.169.254/latest/meta-data", "//name.test", "http:/name.test", "http://a@b@127.0.0.1/", "http://127.0.0.1\\@name.test/", "http://name.test#@127.0.0.1/",
	} {
		f.Add(address, public, loopback)
		f.Add(address, append(loopback, public...), mapped)
	}
	var first, later []netip.Addr
	names := newDNS(f, func(_ string, earlier int) []netip.Addr {
		if earlier == 0 {
			return first
		}
		return later
	})
	c := newClient(f, outbound.Options{Insecure: true, Resolver: names.resolver()})
	w := follow(c, true)
	f.Fuzz(func(t *testing.T, address string, one, other []byte) {
		names.mu.Lock()
		first, later = read(one), read(other)
		clear(names.asked)
		names.mu.Unlock()
		for range 2 {
			_, err := get(t, c, address)
			if err == nil {
				t.Errorf("%q: a call succeeds", address)
			}
		}
		for _, a := range w.take() {
			if !isPublic(a.Addr()) {
				t.Errorf("%q: was let connect to %v", address, a)
			}
		}
	})
}

// read decodes bytes as a list of addresses, of IPv6 if 16 bytes are left, else of IPv4.
func read(text []byte) []netip.Addr {
	var list []netip.Addr
	for len(text) >= 4 && len(list) < 8 {
		n := 4
		if len(text) >= 16 {
			n = 16
		}
		a, _ := netip.AddrFromSlice(text[:n])
		list, text = append(list, a), text[n:]
	}
	return list
}
