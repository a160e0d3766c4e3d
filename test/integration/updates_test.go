package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"collab/test/collabd"
)

// A proxy requests for many devices over one connection, which the server takes over
// from net/http meanwhile, and sends other requests over it as well. Nobody can
// tell, and a server that goes away does not wait for it.
func TestOneConnectionAsksForManyDevices(t *testing.T) {
	s := collabd.Start(t)
	boss := s.SignIn(t, "anna@updates.example", "Updates", "owner")
	publish := func(version string) {
		boss.Must(t, http.StatusCreated, "POST", "/updates",
			map[string]any{"version": version, "platform": "linux", "arch": "x64", "downloadUrl": "https://dl.example.com/collab.zip"}, nil)
	}
	publish("2.0.0")

	proxy := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: 10 * time.Second}
	t.Cleanup(proxy.CloseIdleConnections)
	connections := map[net.Conn]bool{}
	send := func(request string, status int, headers ...string) (http.Header, string) {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { connections[i.Conn] = true },
		}), method, s.URL+"/api/v1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		res, err := proxy.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status {
			t.Fatalf("%s: status %d, %v, %s", request, res.StatusCode, err, body)
		}
		return res.Header, string(body)
	}
	offered := func(device int) (version, tag string) {
		t.Helper()
		h, body := send(fmt.Sprintf("GET /updates/check?version=1.0.0&platform=linux&arch=x64&clientId=device-%d", device), 200, "X-Request-Id", fmt.Sprintf("device-%d", device))
		if h.Get("X-Request-Id") != fmt.Sprintf("device-%d", device) || h.Get("Date") == "" || h.Get("Content-Type") != "application/json" {
			t.Fatalf("%v", h)
		}
		var answer struct{ LatestVersion string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		return answer.LatestVersion, h.Get("Etag")
	}

	const devices = 50
	for i := range devices {
		version, tag := offered(i)
		if version != "2.0.0" {
			t.Fatalf("device %d is offered %q", i, version)
		}
		send("GET /updates/check?version=1.0.0&platform=linux&arch=x64", 304, "If-None-Match", tag)
		switch i % 10 {
		case 3:
			send("GET /updates/check?version=1.0.0&platform=linux", 400)
		case 5:
			send("HEAD /updates/check?version=1.0.0&platform=linux&arch=x64", 200)
		case 7:
			send("GET /tasks", 401)
		}
	}
	publish("3.0.0")
	if version, _ := offered(devices); version != "3.0.0" {
		t.Errorf("after a release came a device is offered %q", version)
	}
	if len(connections) != 1 {
		t.Errorf("it took %d connections", len(connections))
	}

	began := time.Now()
	s.Stop(t)
	if took := time.Since(began); took > goneWithin {
		t.Errorf("the server took %v to go away", took)
	}
	for i := range devices + 1 {
		if n := strings.Count(s.Log(), fmt.Sprintf(`"request":"device-%d"`, i)); n != 1 {
			t.Errorf("device %d is in the log %d times", i, n)
		}
	}
}
