package mcp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/mcp"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/test/must"
	"collab/test/toolserver"
)

func TestToolsAreCalledInASession(t *testing.T) {
	for _, transport := range []connector.Transport{connector.HTTP, connector.SSE} {
		s := toolserver.Start(t)
		s.RequireBearer(func(token string) bool { return token == secret })
		session := must.Do(servers(t).Open(t.Context(), bearerOf(transport, s))).Or(t)
		tools, err := session.Tools(t.Context())
		if err != nil || len(tools) != 1 || tools[0].Name != "echo" || tools[0].Schema["type"] != "object" {
			t.Errorf("%s: %+v, %v", transport, tools, err)
		}
		for range 70 { // more requests than a visit has
			if text, failed, err := session.Call(t.Context(), "echo", map[string]any{"a": "b"}); err != nil || failed || text != `{"a":"b"}` {
				t.Fatal(transport, text, failed, err)
			}
		}
		if _, _, err := session.Call(t.Context(), "nothing", nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: a tool that is not there: %v", transport, err)
		}
		must.NoError(t, session.Close())
	}
}

// lateServer is a server whose response to the last request that opens a session comes after the time for it.
type lateServer struct{}

func (lateServer) RoundTrip(r *http.Request) (*http.Response, error) {
	request, err := io.ReadAll(r.Body)
	response := &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: r}
	switch text := string(request); {
	case strings.Contains(text, `"server/discover"`):
		response.StatusCode = http.StatusNotFound
	case strings.Contains(text, `"initialize"`):
		response.StatusCode, response.Header = http.StatusOK, http.Header{"Content-Type": {"application/json"}}
		response.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"late","version":"1"}}}`))
	case strings.Contains(text, `"notifications/initialized"`):
		time.Sleep(time.Minute)
	}
	return response, err
}

func TestNothingIsLeftOfASessionThatIsOpenTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcp.NewServers(&http.Client{Transport: lateServer{}}, isBlocked)
		must.Fail(t, must.ErrorOf(s.Open(t.Context(), open("https://late.example/mcp"))), fault.Unavailable)
	})
}

func TestResultsOfACall(t *testing.T) {
	s := toolserver.Start(t)
	session := must.Do(servers(t).Open(t.Context(), open(s.HTTP()))).Or(t)
	defer session.Close()
	for result, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AA=="}],"structuredContent":{"b":1}}`: "a\n" + `{"type":"image","mimeType":"image/png","data":"AA=="}`,
		`{"content":[],"structuredContent":{"b":1}}`: `{"b":1}`,
		`{"structuredContent":[1,"b"]}`:              `[1,"b"]`,
		`{"content":[]}`:                             "",
	} {
		s.On("tools/call", toolserver.Answer(result))
		if text, failed, err := session.Call(t.Context(), "echo", nil); text != want || failed || err != nil {
			t.Errorf("%s: %q, %v, %v", result, text, failed, err)
		}
	}
	many := "[" + strings.Repeat("1,", 80_000) + "1]" // values
	s.On("tools/call", toolserver.Answer(`{"structuredContent":`+many+`}`))
	if text, _, err := session.Call(t.Context(), "echo", nil); text != many || err != nil {
		t.Errorf("%d bytes of %d, %v", len(text), len(many), err)
	}
	s.On("tools/call", toolserver.Answer(`{"resultType":"input_required","requestState":"s"}`))
	if _, _, err := session.Call(t.Context(), "echo", nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a result that is not complete: %v", err)
	}
}

func TestASessionHasTheLimitsOfAVisitForEachCall(t *testing.T) {
	s := toolserver.Start(t)
	must.Fail(t, must.ErrorOf(servers(t).Open(t.Context(), bearer(connector.HTTP, "file:///etc/passwd"))), fault.Invalid)
	session := must.Do(servers(t).Open(t.Context(), open(s.HTTP()))).Or(t)
	defer session.Close()
	for behaviour, b := range map[string]toolserver.Behaviour{"an endless answer": toolserver.Endless, "an enormous event": toolserver.EnormousEvent, "an error": toolserver.Status(http.StatusInternalServerError)} {
		s.On("tools/call", b)
		if _, _, err := session.Call(t.Context(), "echo", nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", behaviour, err)
		}
	}
}

func TestACallIsRepeatableUnlessARequestOfItWasAccepted(t *testing.T) {
	s := toolserver.Start(t)
	sessionless := toolserver.Answer(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	for name, c := range map[string]struct {
		call     toolserver.Behaviour
		discover toolserver.Behaviour
		kind     fault.Kind
		want     bool
	}{
		"a refused call":                {toolserver.Status(http.StatusUnauthorized), nil, fault.Forbidden, true},
		"a refused response to a ping":  {toolserver.Ping, nil, fault.Forbidden, false},
		"a call whose session is gone":  {toolserver.Status(http.StatusNotFound), nil, fault.Unavailable, true},
		"a call without a session":      {toolserver.Status(http.StatusNotFound), sessionless, fault.Unavailable, false},
		"a call without a response":     {toolserver.EndStream, nil, fault.Unavailable, false},
		"a response of another service": {toolserver.Page, nil, fault.Unavailable, false},
	} {
		s.On("POST", nil)
		s.On("server/discover", c.discover)
		session := must.Do(servers(t).Open(t.Context(), open(s.HTTP()))).Or(t)
		s.On("tools/call", c.call)
		s.On("POST", toolserver.Status(http.StatusUnauthorized))
		if _, _, err := session.Call(t.Context(), "echo", nil); !fault.Is(err, c.kind) || session.Repeatable() != c.want {
			t.Errorf("%s: %v, repeatable %v", name, err, session.Repeatable())
		}
		calls := s.Calls("tools/call")
		if _, _, err := session.Call(t.Context(), "echo", nil); err == nil || s.Calls("tools/call") != calls || !session.Repeatable() {
			t.Errorf("%s: the session goes on, %v", name, err)
		}
		_ = session.Close() // its connection has failed
	}
}
