package httpapi

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"collab/domain/fault"
)

func TestRatesAreParsed(t *testing.T) {
	for text, want := range map[string]Rates{
		"off": {},
		"caller=1200/m,address=600/m,chat=60/m,credentials=30/m,webhook=9/s": {Rate{1200, time.Minute}, Rate{600, time.Minute}, Rate{60, time.Minute}, Rate{30, time.Minute}, Rate{9, time.Second}},
		" address=5/s ": {Address: Rate{5, time.Second}},
		"caller=1/h":    {Caller: Rate{1, time.Hour}},
	} {
		if got, err := ParseRates(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "caller", "caller=", "caller=5", "caller=5/d", "caller=0/m", "caller=-1/m", "other=5/m", "caller=5/m,caller=6/m", "caller=5/m,", "caller=x/m"} {
		if got, err := ParseRates(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// clock is moved by hand.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func TestRequestsWithoutACallerAreLimitedPerAddress(t *testing.T) {
	hand := &clock{time.Unix(1_800_000_000, 0)}
	a := serving(t, http.MethodGet, open, (*call).succeed, func(o *Options) {
		o.Now, o.Rates = hand.now, Rates{Address: Rate{3, time.Minute}}
	})
	from := func(address string) *http.Request {
		r := get("/test")
		r.RemoteAddr = address
		return r
	}
	for left := 2; left >= 0; left-- {
		w := send(a, from("192.0.2.1:1000"))
		reset := fmt.Sprint((3 - left) * 20)
		for header, want := range map[string]string{
			"RateLimit-Limit": "3", "RateLimit-Remaining": fmt.Sprint(left), "RateLimit-Reset": reset,
			"RateLimit-Policy": `"address";q=3;w=60`, "RateLimit": fmt.Sprintf(`"address";r=%d;t=%s`, left, reset), "Retry-After": "",
		} {
			if got := w.Header().Get(header); w.Code != 200 || got != want {
				t.Errorf("with %d left: %d, %s is %q, want %q", left, w.Code, header, got, want)
			}
		}
	}
	w := send(a, from("192.0.2.1:2000"))
	refused(t, w, http.StatusTooManyRequests)
	if got := w.Header().Get("Retry-After"); got != "20" {
		t.Errorf("Retry-After is %q", got)
	}
	if w := send(a, from("192.0.2.2:1000")); w.Code != 200 {
		t.Errorf("another address gets %d", w.Code)
	}
	hand.at = hand.at.Add(20 * time.Second)
	if w := send(a, from("192.0.2.1:1000")); w.Code != 200 {
		t.Errorf("after Retry-After it is %d", w.Code)
	}
}

func TestFailedCredentialsAreChargedToTheAddress(t *testing.T) {
	hand := &clock{time.Unix(1_800_000_000, 0)}
	for _, test := range []struct {
		guard  guard
		handle handler
	}{
		{member, nil}, // without a token it is never reached
		{operating, nil},
		{signed, nil},
	} {
		t.Run(string(test.guard), func(t *testing.T) {
			var a *api
			a = serving(t, http.MethodPost, test.guard, func(c *call) error {
				return a.charged(c, fault.New(fault.Unauthenticated, "Bad signature"), refusedCredentials...)
			}, everything, func(o *Options) {
				o.Now, o.Rates = hand.now, Rates{Address: Rate{2, time.Hour}}
			})
			for _, status := range []int{401, 401, 429} {
				refused(t, send(a, post("/test", "{}")), status)
			}
		})
	}
}

func TestTheServersOwnEndpointsAreNotLimited(t *testing.T) {
	a := built(t, func(o *Options) { o.Rates = Rates{Address: Rate{1, time.Hour}} })
	for range 5 {
		if w := send(a, get("/healthz")); w.Code != 200 || w.Header().Get("RateLimit-Limit") != "" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
	}
}

func TestNetworksAreLimitedTogetherWhereTheyAreOneClient(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1":           "192.0.2.1",
		"2001:db8:1:2:3::4":   "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::": "2001:db8:1:2::/64",
		"fe80::1%eth0":        "fe80::/64",
		"::ffff:192.0.2.1":    "::ffff:192.0.2.1",
		"@":                   "@",
	} {
		if got := network(address); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	for remote, want := range map[string]string{"192.0.2.1:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::1", "@": "@", "": ""} {
		if got := addressOf(remote); got != want {
			t.Errorf("%q is %q, want %q", remote, got, want)
		}
	}
}
