package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/race"
)

// A trusted proxy requests for many devices over one connection, which the server
// takes over from net/http meanwhile: each device has the limit of its own
// address, whatever it says of itself, and the log has it.
func TestDevicesBehindAProxyHaveLimitsOfTheirOwn(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	const devices, each = 5, 6
	s := collabd.Start(t, "COLLAB_TRUSTED_PROXIES=127.0.0.0/8,::1", fmt.Sprintf("COLLAB_RATE_LIMITS=address=%d/h", each))
	proxy := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 10 * time.Second}
	t.Cleanup(proxy.CloseIdleConnections)
	check := func(lines ...string) (status int, remaining string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/updates/check?version=1.0.0&platform=linux&arch=x64&clientId=device", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["X-Forwarded-For"] = lines
		res, err := proxy.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header.Get("RateLimit-Remaining")
	}
	for n := range each {
		for device := range devices {
			address := fmt.Sprintf("192.0.2.%d", device)
			status, remaining := check(fmt.Sprintf("198.51.100.%d, 127.0.0.1", n), address)
			if status != http.StatusOK || remaining != fmt.Sprint(each-1-n) {
				t.Fatalf("check %d of %s is %d with %q left", n, address, status, remaining)
			}
		}
	}
	for device := range devices {
		if status, _ := check(fmt.Sprintf("203.0.113.%d, 192.0.2.%d", device, device)); status != http.StatusTooManyRequests {
			t.Errorf("one more of device %d is %d", device, status)
		}
	}
	if status, remaining := check(); status != http.StatusOK || remaining != fmt.Sprint(each-1) {
		t.Errorf("the proxy's own check is %d with %q left", status, remaining)
	}

	s.Stop(t)
	for device := range devices {
		if n := strings.Count(s.Log(), fmt.Sprintf(`"address":"192.0.2.%d"`, device)); n != each+1 {
			t.Errorf("device %d is in the log %d times", device, n)
		}
	}
	for _, said := range []string{`"198.51.100.`, `"203.0.113.`} {
		if strings.Contains(s.Log(), said) {
			t.Errorf("the log has an address %s… that a device said of itself", said)
		}
	}
}
