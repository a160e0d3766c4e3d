package loopback_test

import (
	"net/http"
	"testing"

	"collab/adapters/loopback"
)

func TestHostsOfThisMachine(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "a.b.localhost": false, "127.0.0.1": true, "127.8.9.10": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "mylocalhost": false, "localhost.": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "127.0.0.1.example": false, "127.1": false, "0x7f.0.0.1": false, "0177.0.0.1": false, "2130706433": false,
	} {
		if loopback.IsHost(host) != want {
			t.Errorf("IsHost(%q) is %v", host, !want)
		}
	}
}

func TestRequestsNameALoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{"localhost:8080": true, "[::1]:8080": true, "127.0.0.1": true, "A.localhost:8080": true, "rebound.example:8080": false, "": false} {
		if loopback.IsRequest(&http.Request{Host: host}) != want {
			t.Errorf("IsRequest with the host %q is %v", host, !want)
		}
	}
}

func check(listen, base string) (string, error) {
	return loopback.CheckServer("server", true, listen, base)
}

func TestListenAddresses(t *testing.T) {
	for listen, valid := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "a.localhost:1": false, "[::1]:1": true, "": false, ":8080": false, "0.0.0.0:1": false, "192.168.1.4:8080": false, "127.0.0.1": false,
	} {
		if _, err := check(listen, "http://localhost"); (err == nil) != valid {
			t.Errorf("%q: %v", listen, err)
		}
	}
}

func TestBaseURLs(t *testing.T) {
	for base, want := range map[string]string{
		"http://localhost:8080/": "http://localhost:8080", "https://[::1]": "https://[::1]", "http://a.localhost": "http://a.localhost", "": "", "http://a b": "",
		"https://collab.example": "", "http://localhost.example": "", "http://localhost@example.com": "", "http://u@localhost": "",
		"http://localhost/collab": "", "http://localhost?a=b": "", "http://localhost#a": "", "ftp://localhost": "",
	} {
		if got, err := check("localhost:1", base); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", base, got, err)
		}
	}
}
