package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"collab/adapters/apiclient"
	"collab/adapters/mcp"
	"collab/adapters/outbound"
	"collab/domain/chat"
	"collab/domain/connector"
	"collab/test/must"
	"collab/test/toolserver"
)

// offered returns a toolbox with tools of one server, and what it warns of.
func offered(t *testing.T, tools ...mcp.Tool) (*toolbox, *strings.Builder) {
	t.Helper()
	a, _, stderr := terminal(t, 80, nil)
	box, server := &toolbox{app: a, tools: map[string]offeredTool{}}, &toolServer{label: "Wiki"}
	for _, tool := range tools {
		must.Do(box.addTool(server, tool)).Or(t)
	}
	return box, stderr
}

func TestToolsHaveNamesThatAChatTakes(t *testing.T) {
	long := strings.Repeat("x", 70)
	names := []string{"pages.list", "pages_list", "pages/list", "", "web_search", "größe", long, long + "y"}
	var tools []mcp.Tool
	for _, name := range names {
		tools = append(tools, mcp.Tool{Name: name})
	}
	box, _ := offered(t, tools...)
	var got []string
	for _, d := range box.definitions() {
		got = append(got, d.Name+" is "+box.tools[d.Name].name)
	}
	must.Equal(t, []string{
		"_2 is ", "gr__e is größe", "pages_list is pages.list", "pages_list_2 is pages_list", "pages_list_3 is pages/list", "web_search_2 is web_search",
		long[:62] + "_2 is " + long + "y", long[:64] + " is " + long,
	}, got)
}

func TestAToolThatIsListedTwiceIsOfferedOnce(t *testing.T) {
	box, stderr := offered(t, mcp.Tool{Name: "search", Description: "first"}, mcp.Tool{Name: "search", Description: "second"})
	if all := box.definitions(); len(all) != 1 || *all[0].Description != "first" || stderr.String() != "" {
		t.Errorf("the model is told of %+v after %q", all, stderr)
	}
}

func TestToolsOfSeveralServersMayHaveOneName(t *testing.T) {
	box, _ := offered(t, mcp.Tool{Name: "search"}, mcp.Tool{Name: "read"})
	wiki, other := box.tools["search"].server, &toolServer{label: "Other"}
	must.Do(box.addTool(other, mcp.Tool{Name: "search"})).Or(t)
	if box.tools["search_2"].server != other {
		t.Errorf("the model is told of %+v", box.definitions())
	}
	box.app.in = strings.NewReader("a\nn\n")
	must.Is(t, true, must.Do(box.authorize(t.Context(), wiki, apiclient.ToolCall{Name: "search"})).Or(t))
	must.Is(t, false, must.Do(box.authorize(t.Context(), other, apiclient.ToolCall{Name: "search"})).Or(t)) // asked again
	must.Is(t, true, must.Do(box.authorize(t.Context(), wiki, apiclient.ToolCall{Name: "search"})).Or(t))

	box.allowed = []string{"read"} // which of them is not clear
	if _, err := box.addTool(other, mcp.Tool{Name: "read"}); err == nil {
		t.Error("a second tool is allowed by the name of the first one")
	}
}

func TestToolsOfAProviderThatTheCatalogHasNoMoreAreNotOffered(t *testing.T) {
	box, _ := offered(t)
	err := box.addConnector(t.Context(), nil, apiclient.Connector{Transport: "HTTP", ServerID: "wiki"}, apiclient.ConnectorProvider{})
	if err == nil || !strings.Contains(err.Error(), "no longer in the catalog") {
		t.Errorf("the error is %v", err)
	}
}

func TestToolsThatNoChatTakesAreLeftOut(t *testing.T) {
	large := func(n int) map[string]any {
		return map[string]any{"type": "object", "description": strings.Repeat("x", n)}
	}
	box, stderr := offered(t, mcp.Tool{Name: "wordy", Description: "\x00\xff" + strings.Repeat("ä", 2*chat.MaxToolText)},
		mcp.Tool{Name: "text", Schema: map[string]any{"type": "string"}}, mcp.Tool{Name: "large", Schema: large(chat.MaxSchema)})
	all := box.definitions()
	if len(all) != 1 || *all[0].Description != "\ufffd"+strings.Repeat("ä", chat.MaxToolText-1) {
		t.Errorf("the model is told of %d tools", len(all))
	}
	for _, want := range []string{"Wiki: text is left out", "Wiki: large is left out"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it says %q", stderr)
		}
	}
	for schema, most := range map[int]int{1: chat.MaxTools, 50_000: 7} {
		box, _ := offered(t)
		for i := range 2 * chat.MaxTools {
			if fits := must.Do(box.addTool(&toolServer{}, mcp.Tool{Name: fmt.Sprint(i), Schema: large(schema)})).Or(t); fits != (i < most) {
				t.Fatalf("tool %d with a schema of %d bytes: %v", i, schema, fits)
			}
		}
	}
}

// TestAChatGoesOnAfterAnyResult has a model that calls a tool of another name in all responses but the last one.
func TestAChatGoesOnAfterAnyResult(t *testing.T) {
	tools := toolserver.Start(t)
	var token atomic.Value
	token.Store("1")
	tools.RequireBearer(func(got string) bool { return got == token.Load() })
	content := "\x00" + strings.Repeat("<\x01", 60_000)
	const arguments = `{"id":9007199254740993,"n":1234567890123456789}`
	tools.On("tools/list", toolserver.Answer(`{"tools": [{"name": "wiki.read", "inputSchema": {"type": "object"}}]}`))
	tools.On("tools/call", func(w http.ResponseWriter, r toolserver.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if !strings.Contains(string(r.Body), arguments) {
			t.Errorf("the tool is called with %s", r.Body)
		}
		text := must.Get(json.Marshal(content))
		toolserver.Answer(`{"content": [{"type": "text", "text": `+string(text)+`}]}`)(w, r)
	})
	const rounds = 5
	var asked []apiclient.ChatRequest
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, apiclient.Prefix); path {
		case "/connector-providers":
			fmt.Fprintf(w, `[{"serverId": "wiki", "authMode": "API_KEY", "mcpUrl": %q, "headers": {"Authorization": "Bearer {key}"}}]`, tools.HTTP())
		case "/connectors":
			fmt.Fprint(w, `[{"id": "1", "serverId": "wiki", "label": "Wiki", "transport": "HTTP", "hasCredentials": true}]`)
		case "/connectors/1/credentials":
			fmt.Fprintf(w, `{"credentials": {"key": %q}}`, token.Load())
		case "/chat":
			body := must.Get(io.ReadAll(r.Body))
			if len(body) > 1<<20 || strings.Contains(string(body), `\u0000`) {
				t.Errorf("the request has %d bytes, or U+0000", len(body))
			}
			if strings.Count(string(body), arguments) != len(asked) {
				t.Errorf("the history of request %d has other arguments", len(asked))
			}
			var request apiclient.ChatRequest
			must.Succeed(t, json.Unmarshal(body, &request))
			asked = append(asked, request)
			token.Store(fmt.Sprint(len(asked) + 1)) // the one before has expired
			w.Header().Set("Content-Type", "text/event-stream")
			if len(asked) <= rounds {
				fmt.Fprintf(w, "data: {\"type\":\"tool_call\",\"toolCall\":{\"id\":\"%d\",\"name\":%q,\"args\":%s}}\n\n", len(asked), request.Tools[0].Name, arguments)
			}
			fmt.Fprint(w, "data: {\"type\":\"done\"}\n\n")
		default:
			t.Errorf("it asks for %s", path)
		}
	}))
	defer s.Close()
	a, _, stderr := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret", "CI": "1"})
	if code := a.run(t.Context(), []string{"chat", "--tools", "Wiki", "--allow", "wiki.read", "Hello"}); code != 0 || len(asked) != rounds+1 {
		t.Fatalf("it exits with %d after %d requests and %q", code, len(asked), stderr)
	}
	history := must.Get(json.Marshal(asked[rounds].History))
	if asked[0].Tools[0].Name != "wiki_read" || strings.Count(string(history), omittedResult) != rounds-1 || !strings.Contains(string(history), "(cut off)") {
		t.Errorf("of %d results %d are left out", rounds, strings.Count(string(history), omittedResult))
	}
}

func TestAnAnswerIsPrintedUpToItsFailure(t *testing.T) {
	for failure, want := range map[string]string{
		`data: {`: "a chunk that cannot be read", `data: {"type":"tool_call"}`: "a call without a tool", `data: {"type":"error","error":"Overloaded."}`: "Overloaded.", "": "cut off",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"type\":\"text\",\"text\":\"The beginning\"}\n\n%s\n\n", failure)
		}))
		defer s.Close()
		a, out, stderr := terminal(t, 80, map[string]string{"COLLAB_SERVER": s.URL, "COLLAB_TOKEN": "secret", "CI": "1"})
		if code := a.run(t.Context(), []string{"chat", "Hello"}); code == 0 || !strings.Contains(out.String(), "The beginning") || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: it exits with %d after %q and %q", failure, code, out, stderr)
		}
	}
}

// serverOf returns a tool server with a session, which is closed after the test.
func serverOf(t *testing.T, tools *toolserver.Server) *toolServer {
	servers := mcp.NewServers(outbound.NewConfigured(connectTimeout), func(error) bool { return false })
	server := &toolServer{open: func(ctx context.Context) (*mcp.Session, error) {
		return servers.Open(ctx, connector.Access{URL: tools.HTTP(), Transport: connector.HTTP, Auth: connector.NoAuth})
	}}
	server.Session = must.Do(server.open(t.Context())).Or(t)
	t.Cleanup(func() { _ = server.Close() }) // nothing is called any more
	return server
}

func TestACallThatTheServerMayHaveAcceptedIsNotRepeatedAndTheNextOneIsMade(t *testing.T) {
	for name, call := range map[string]toolserver.Behaviour{
		"a refused response to a ping": toolserver.Ping,
		"a call without a response":    toolserver.EndStream,
	} {
		tools := toolserver.Start(t)
		server := serverOf(t, tools)
		tools.On("POST", toolserver.Status(http.StatusUnauthorized))
		tools.On("tools/call", call)
		if _, _, err := server.call(t.Context(), "echo", nil); err == nil || tools.Calls("tools/call") != 1 {
			t.Errorf("%s: the tool is called %d times: %v", name, tools.Calls("tools/call"), err)
		}
		tools.On("tools/call", nil)
		if _, failed, err := server.call(t.Context(), "echo", nil); failed || err != nil {
			t.Errorf("%s: the next call: %v, %v", name, failed, err)
		}
	}
}

func TestACallIsMadeInANewSessionIfTheServerHasEndedTheLastOne(t *testing.T) {
	tools := toolserver.Start(t)
	server := serverOf(t, tools)
	tools.On("tools/call", func(w http.ResponseWriter, r toolserver.Request) {
		tools.On("tools/call", nil)
		toolserver.Status(http.StatusNotFound)(w, r)
	})
	if _, failed, err := server.call(t.Context(), "echo", nil); failed || err != nil || tools.Calls("server/discover") != 2 {
		t.Errorf("the call: %v, %v, in %d sessions", failed, err, tools.Calls("server/discover"))
	}
}

func TestTheNewestResultOfAToolIsCutOffAndNotLeftOut(t *testing.T) {
	result := func(n int) block {
		return block{"type": "tool_result", "content": "begin" + strings.Repeat("<", n)} // 6 bytes each in a request
	}
	for name, c := range map[string]struct {
		message int
		results []block
		want    string // with what the newest one ends
	}{
		"one that fits":                         {800_000, []block{result(10_000)}, "<"},
		"the only one":                          {800_000, []block{result(100_000)}, truncationNote},
		"the last of two":                       {800_000, []block{result(10_000), result(100_000)}, truncationNote},
		"the last of two where one may go":      {800_000, []block{result(10_000), result(10_000)}, "<"},
		"one beside a message that is too long": {2 * maxRequest, []block{result(10)}, truncationNote},
	} {
		var chat conversation
		chat.request.History = []apiclient.HistoryMessage{{Role: "user", Content: strings.Repeat("x", c.message)}, {Role: "user", Content: c.results}}
		chat.shorten()
		newest := c.results[len(c.results)-1]["content"].(string)
		text := must.Get(json.Marshal(chat.request))
		if !strings.HasSuffix(newest, c.want) || c.message < maxRequest && (len(text) > maxRequest || !strings.HasPrefix(newest, "begin")) {
			t.Errorf("%s: of %d bytes the newest result has %d", name, len(text), len(newest))
		}
	}
}
