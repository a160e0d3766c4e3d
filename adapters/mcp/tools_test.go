package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"collab/adapters/mcp"
	"collab/adapters/outbound"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/test/must"
	"collab/test/toolserver"

	"github.com/google/go-cmp/cmp"
)

const secret = "s3cret-0123456789"

// errBlocked is the error of the tests' clients for blocked addresses.
var errBlocked = errors.New("refused")

func isBlocked(err error) bool { return errors.Is(err, errBlocked) }

// servers returns Servers with a new client.
func servers(t *testing.T) *mcp.Servers {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return mcp.NewServers(&http.Client{Transport: transport}, isBlocked)
}

// bearer is access with a token.
func bearer(transport connector.Transport, address string) connector.Access {
	return connector.Access{
		URL: address, Transport: transport, Auth: connector.RemoteOAuth,
		Entries: `{"accessToken":"` + secret + `","tokenType":"Bearer"}`,
	}
}

// bearerOf is access to a server with a token.
func bearerOf(transport connector.Transport, s *toolserver.Server) connector.Access {
	if transport == connector.SSE {
		return bearer(transport, s.SSE())
	}
	return bearer(transport, s.HTTP())
}

// open is access without credentials.
func open(address string) connector.Access {
	return connector.Access{URL: address, Transport: connector.HTTP, Auth: connector.NoAuth}
}

var echo = []connector.Tool{{Name: "echo", Description: "Says what it is told."}}

func TestTools(t *testing.T) {
	for _, c := range []struct {
		about     string
		transport connector.Transport
		prepare   func(*toolserver.Server)
	}{
		{"over HTTP", connector.HTTP, func(*toolserver.Server) {}},
		{"over HTTP, from a server that knows sessions only", connector.HTTP, func(s *toolserver.Server) {
			s.On("server/discover", toolserver.Status(http.StatusNotFound))
		}},
		{"over server-sent events", connector.SSE, func(*toolserver.Server) {}},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := toolserver.Start(t)
			s.RequireBearer(func(token string) bool { return token == secret })
			c.prepare(s)
			got := must.Do(servers(t).Tools(t.Context(), bearerOf(c.transport, s))).Or(t)
			must.Equal(t, echo, got)
			for _, r := range s.Requests() {
				if r.Header.Get("User-Agent") != "collab" {
					t.Errorf("%s %s came from %q", r.Method, r.Call, r.Header.Get("User-Agent"))
				}
			}
		})
	}
}

func TestASessionIsClosed(t *testing.T) {
	s := toolserver.Start(t)
	s.On("server/discover", toolserver.Status(http.StatusNotFound))
	must.Do(servers(t).Tools(t.Context(), open(s.HTTP()))).Or(t)
	s.On("tools/list", toolserver.Status(http.StatusInternalServerError))
	if _, err := servers(t).Tools(t.Context(), open(s.HTTP())); err == nil {
		t.Fatal("a list came from a server that fails")
	}
	must.Is(t, 2, s.Calls(http.MethodDelete))
}

func TestNothingIsOfferedToServers(t *testing.T) {
	s := toolserver.Start(t)
	s.On("server/discover", toolserver.Status(http.StatusNotFound))
	must.Do(servers(t).Tools(t.Context(), open(s.HTTP()))).Or(t)
	for _, r := range s.Requests() {
		if r.Call != "initialize" {
			continue
		}
		var message struct {
			Params struct {
				Capabilities map[string]any
				ClientInfo   struct{ Name string }
			}
		}
		must.NoError(t, json.Unmarshal(r.Body, &message))
		if len(message.Params.Capabilities) > 0 || message.Params.ClientInfo.Name != "collab" {
			t.Errorf("initialize said %+v", message.Params)
		}
	}
	if s.Calls("initialize") != 1 || s.Calls(http.MethodGet) != 0 {
		t.Errorf("%d calls of initialize and %d streams, want 1 and none", s.Calls("initialize"), s.Calls(http.MethodGet))
	}
}

func TestAServerWithoutToolsIsNotAskedForThem(t *testing.T) {
	s := toolserver.Start(t)
	s.On("server/discover", toolserver.Answer(`{"supportedVersions":["2026-07-28"],"capabilities":{}}`))
	got, err := servers(t).Tools(t.Context(), open(s.HTTP()))
	if err != nil || got == nil || len(got) > 0 || s.Calls("tools/list") > 0 {
		t.Errorf("got %v, %v after %d questions", got, err, s.Calls("tools/list"))
	}
}

func TestCredentialsThatAreRevoked(t *testing.T) {
	for _, transport := range []connector.Transport{connector.HTTP, connector.SSE} {
		t.Run(string(transport), func(t *testing.T) {
			s := toolserver.Start(t)
			s.Require("X-Api-Key", secret)
			a := bearerOf(transport, s)
			a.Auth, a.CredentialTemplates, a.Entries = connector.APIKey, map[string]string{"X-Api-Key": "{key}"}, `{"key":"`+secret+`"}`
			must.Do(servers(t).Tools(t.Context(), a)).Or(t)
			s.Revoke()
			s.Challenge(`Bearer resource_metadata="` + s.URL + `/` + secret + `"`)
			_, err := servers(t).Tools(t.Context(), a)
			wantFault(t, err, fault.Forbidden, "The server does not accept the credentials")
		})
	}
}

// wantFault checks an error. It must contain neither secrets nor text of the server.
func wantFault(t *testing.T, err error, kind fault.Kind, message string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind || f.Message != message {
		t.Errorf("got the error %v of kind %d, want %q of kind %d", err, fault.KindOf(err), message, kind)
	}
	if err == nil {
		return
	}
	for _, hidden := range []string{secret, "s3cret", "127.0.0.1", "no: ", "who are you", "doctype"} {
		if strings.Contains(fmt.Sprintf("%v %+v %s", err, err, errors.Unwrap(err)), hidden) {
			t.Errorf("the error %q holds %q", err, hidden)
		}
	}
}

// captureLog collects the output of the default log during the test.
func captureLog(t *testing.T) *strings.Builder {
	before := slog.Default()
	var b strings.Builder
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &b
}

const (
	noProtocol = "The server does not speak the Model Context Protocol"
	tooMuch    = "The server's answer is too long"
	elsewhere  = "The server redirects to another origin"
	brokenOff  = "The server closed the connection during its response"
	ownError   = "The server answered with an error of its protocol"
)

// violation is a fault of a server and the resulting error.
type violation struct {
	about   string
	what    string // see toolserver.Server.On
	does    toolserver.Behaviour
	kind    fault.Kind
	message string
}

func TestServersThatViolateTheProtocol(t *testing.T) {
	log := captureLog(t)
	other := toolserver.Start(t)
	for transport, violations := range map[connector.Transport][]violation{
		connector.HTTP: {
			{"no credentials are taken", "", toolserver.Status(401), fault.Forbidden, "The server does not accept the credentials"},
			{"the credentials do not suffice", "", toolserver.Status(403), fault.Forbidden, "The server does not accept the credentials"},
			{"the credentials do not suffice for tools", "tools/list", toolserver.Status(403), fault.Forbidden, "The server does not accept the credentials"},
			{"there is nothing", "", toolserver.Status(404), fault.Unavailable, "The server answered with status 404"},
			{"it fails", "", toolserver.Status(500), fault.Unavailable, "The server answered with status 500"},
			{"it is away", "", toolserver.Status(503), fault.Unavailable, "The server answered with status 503"},
			{"it fails at tools", "tools/list", toolserver.Status(502), fault.Unavailable, "The server answered with status 502"},
			{"a page for people", "", toolserver.Page, fault.Unavailable, noProtocol},
			{"a page for people instead of tools", "tools/list", toolserver.Page, fault.Unavailable, noProtocol},
			{"a message that is none", "", toolserver.Answer(`{"` + secret + `"`), fault.Unavailable, noProtocol},
			{"a message that is none instead of tools", "tools/list", toolserver.Answer(`{"tools":"` + secret + `"}`), fault.Unavailable, noProtocol},
			{"an error with the credentials in it", "", toolserver.Fault(`{"code":-32000,"message":"` + secret + `"}`), fault.Unavailable, ownError},
			{"an error instead of tools", "tools/list", toolserver.Fault(`{"code":-32603,"message":"` + secret + `","data":"` + secret + `"}`), fault.Unavailable, ownError},
			{"a stream of events without end", "", toolserver.Endless, fault.Unavailable, tooMuch},
			{"a stream of events without end instead of tools", "tools/list", toolserver.Endless, fault.Unavailable, tooMuch},
			{"an enormous event", "", toolserver.EnormousEvent, fault.Unavailable, tooMuch},
			{"an enormous event instead of tools", "tools/list", toolserver.EnormousEvent, fault.Unavailable, tooMuch},
			{"an enormous message", "", toolserver.EnormousBody, fault.Unavailable, tooMuch},
			{"an enormous message instead of tools", "tools/list", toolserver.EnormousBody, fault.Unavailable, tooMuch},
			{"values within each other", "tools/list", toolserver.Answer(list("", schema(strings.Repeat("[", 101)+strings.Repeat("]", 101)))), fault.Unavailable, tooMuch},
			{"very many values", "tools/list", toolserver.Answer(list("", schema("["+strings.Repeat("[],", 20_000)+"[]]"))), fault.Unavailable, tooMuch},
			{"questions without end", "tools/list", toolserver.Pings, fault.Unavailable, tooMuch},
			{"the connection ends in the middle", "", toolserver.BreakOff, fault.Unavailable, brokenOff},
			{"the connection ends in the middle of tools", "tools/list", toolserver.BreakOff, fault.Unavailable, brokenOff},
			{"a stream that ends without the answer", "tools/list", toolserver.EndStream, fault.Unavailable, noProtocol},
			{"a redirect to another origin", "", toolserver.Redirect(other.HTTP() + "?" + secret), fault.Unavailable, elsewhere},
			{"a redirect to another origin for tools", "tools/list", toolserver.Redirect(other.HTTP()), fault.Unavailable, elsewhere},
			{"a redirect into the network", "", toolserver.Redirect("http://169.254.169.254/latest/meta-data/"), fault.Unavailable, elsewhere},
			{"a redirect out of HTTP", "", toolserver.Redirect("file:///etc/passwd"), fault.Unavailable, elsewhere},
		},
		connector.SSE: {
			{"no credentials are taken", "", toolserver.Status(401), fault.Forbidden, "The server does not accept the credentials"},
			{"messages are not taken", "initialize", toolserver.Status(401), fault.Forbidden, "The server does not accept the credentials"},
			{"it is away", "", toolserver.Status(503), fault.Unavailable, "The server answered with status 503"},
			{"it is away for tools", "tools/list", toolserver.Status(503), fault.Unavailable, "The server answered with status 503"},
			{"a page for people", "", toolserver.Page, fault.Unavailable, noProtocol},
			{"another origin for messages", "GET", toolserver.Endpoint(other.HTTP() + "?" + secret), fault.Unavailable, elsewhere},
			{"another host for messages", "GET", toolserver.Endpoint("//" + secret + ".example/"), fault.Unavailable, elsewhere},
			{"another user for messages", "GET", func(w http.ResponseWriter, r toolserver.Request) {
				toolserver.Endpoint("http://u:p@"+r.Host+"/sse")(w, r)
			}, fault.Unavailable, elsewhere},
			{"no address for messages", "GET", toolserver.Endpoint("http://[::" + secret), fault.Unavailable, noProtocol},
			{"a stream of events without end", "GET", toolserver.Endless, fault.Unavailable, noProtocol},
			{"an enormous event", "GET", toolserver.EnormousEvent, fault.Unavailable, tooMuch},
			{"the connection ends in the middle", "GET", toolserver.BreakOff, fault.Unavailable, brokenOff},
			{"a redirect to another origin", "", toolserver.Redirect(other.SSE()), fault.Unavailable, elsewhere},
			{"a redirect to another origin for messages", "initialize", toolserver.Redirect(other.SSE()), fault.Unavailable, elsewhere},
		},
	} {
		for _, c := range violations {
			t.Run(string(transport)+", "+c.about, func(t *testing.T) {
				s := toolserver.Start(t)
				s.On(c.what, c.does)
				_, err := servers(t).Tools(t.Context(), bearerOf(transport, s))
				wantFault(t, err, c.kind, c.message)
				if n := len(s.Requests()); n > 64 {
					t.Errorf("%d requests were made", n)
				}
			})
		}
	}
	if n := len(other.Requests()); n > 0 {
		t.Errorf("%d requests went to another server", n)
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log)
	}
}

func TestServersThatHang(t *testing.T) {
	for _, c := range []struct {
		about     string
		transport connector.Transport
		what      string
		does      toolserver.Behaviour
	}{
		{"before the head", connector.HTTP, "", toolserver.Hang},
		{"before the head of the tools", connector.HTTP, "tools/list", toolserver.Hang},
		{"in the stream", connector.HTTP, "", toolserver.HangInStream},
		{"in the stream of the tools", connector.HTTP, "tools/list", toolserver.HangInStream},
		{"before the events", connector.SSE, "", toolserver.Hang},
		{"in the events", connector.SSE, "GET", toolserver.HangInStream},
		{"at a message", connector.SSE, "initialize", toolserver.Hang},
		{"at the question for tools", connector.SSE, "tools/list", toolserver.Hang},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := toolserver.Start(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.On(c.what, func(w http.ResponseWriter, r toolserver.Request) {
				cancel()
				c.does(w, r)
			})
			_, err := servers(t).Tools(ctx, bearerOf(c.transport, s))
			wantFault(t, err, fault.Unavailable, "The server took too long")
			must.FailIs(t, err, context.Canceled)
		})
	}
}

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAServerHas20Seconds(t *testing.T) {
	for _, transport := range []connector.Transport{connector.HTTP, connector.SSE} {
		t.Run(string(transport), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := roundTrip(func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				s := mcp.NewServers(&http.Client{Transport: network}, isBlocked)
				begun := time.Now()
				_, err := s.Tools(t.Context(), bearer(transport, "https://tools.example/mcp"))
				wantFault(t, err, fault.Unavailable, "The server took too long")
				must.FailIs(t, err, context.DeadlineExceeded)
				if took := time.Since(begun); took != 20*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestTheNetworkFails(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	address := closed.URL
	closed.Close()
	t.Run("the connection is refused", func(t *testing.T) {
		_, err := servers(t).Tools(t.Context(), bearer(connector.HTTP, address+"/"+secret))
		wantFault(t, err, fault.Unavailable, "The server could not be reached")
	})
	for _, c := range []struct {
		about   string
		err     error
		kind    fault.Kind
		message string
	}{
		{"an address that is refused", fmt.Errorf("dial %s: %w", secret, errBlocked), fault.Invalid, "The address of the tool server is not one that may be called"},
		{"a connection that takes too long", fmt.Errorf("dial %s: %w", secret, context.DeadlineExceeded), fault.Unavailable, "The server took too long"},
		{"anything else", fmt.Errorf("malformed HTTP response %q", secret), fault.Unavailable, "The server could not be reached"},
	} {
		for _, transport := range []connector.Transport{connector.HTTP, connector.SSE} {
			t.Run(c.about+", "+string(transport), func(t *testing.T) {
				network := roundTrip(func(*http.Request) (*http.Response, error) { return nil, c.err })
				_, err := mcp.NewServers(&http.Client{Transport: network}, isBlocked).Tools(t.Context(), bearer(transport, "https://tools.example"))
				wantFault(t, err, c.kind, c.message)
			})
		}
	}
	t.Run("a redirect that is refused", func(t *testing.T) {
		s := toolserver.Start(t)
		s.On("", toolserver.Redirect(s.HTTP()))
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errBlocked }}
		_, err := mcp.NewServers(client, isBlocked).Tools(t.Context(), bearer(connector.HTTP, s.HTTP()))
		wantFault(t, err, fault.Invalid, "The address of the tool server is not one that may be called")
	})
	t.Run("a redirect within the origin", func(t *testing.T) {
		s := toolserver.Start(t)
		s.RequireBearer(func(token string) bool { return token == secret })
		s.On("server/discover", func(w http.ResponseWriter, r toolserver.Request) {
			s.On("server/discover", nil)
			toolserver.Redirect(s.HTTP()+"?again")(w, r)
		})
		got, err := servers(t).Tools(t.Context(), bearer(connector.HTTP, s.HTTP()))
		if err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// events is an event stream that breaks off once a message was posted.
type events struct {
	io.Reader
	posted, closed chan struct{}
}

func (e events) Read(p []byte) (int, error) {
	if n, _ := e.Reader.Read(p); n > 0 { // the only error is io.EOF
		return n, nil
	}
	<-e.posted
	return 0, io.ErrUnexpectedEOF
}

func (e events) Close() error {
	close(e.closed)
	return nil
}

func TestAnEventStreamEndsWhileAMessageIsSent(t *testing.T) {
	stream := events{strings.NewReader("event: endpoint\ndata: /messages\n\n"), make(chan struct{}), make(chan struct{})}
	network := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return &http.Response{StatusCode: http.StatusOK, Body: stream}, nil
		}
		close(stream.posted)
		<-stream.closed
		return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody}, nil
	})
	_, err := mcp.NewServers(&http.Client{Transport: network}, isBlocked).Tools(t.Context(), bearer(connector.SSE, "https://tools.example"))
	wantFault(t, err, fault.Unavailable, brokenOff)
}

func TestTheGuardedClient(t *testing.T) {
	s := toolserver.Start(t)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	call := func(o outbound.Options, a connector.Access) ([]connector.Tool, error) {
		o.MaxBody = mcp.MaxResponses
		client := outbound.New(o)
		defer client.CloseIdleConnections()
		return mcp.NewServers(client, outbound.Blocked).Tools(t.Context(), a)
	}
	for _, a := range []connector.Access{bearer(connector.HTTP, s.HTTP()), bearer(connector.SSE, s.SSE())} {
		t.Run(string(a.Transport), func(t *testing.T) {
			for about, o := range map[string]outbound.Options{
				"a private network": {Insecure: true},
				"no TLS":            {Networks: loopback},
			} {
				t.Run(about, func(t *testing.T) {
					before := len(s.Requests())
					_, err := call(o, a)
					wantFault(t, err, fault.Invalid, "The address of the tool server is not one that may be called")
					if n := len(s.Requests()) - before; n > 0 {
						t.Errorf("%d requests were made", n)
					}
				})
			}
			t.Run("a network that is allowed", func(t *testing.T) {
				got, err := call(outbound.Options{Insecure: true, Networks: loopback}, a)
				if diff := cmp.Diff(echo, got); err != nil || diff != "" {
					t.Errorf("%v, tools (-want +got):\n%s", err, diff)
				}
			})
			t.Run("an answer that is too long", func(t *testing.T) {
				s.On("", toolserver.EnormousEvent)
				defer s.On("", nil)
				_, err := call(outbound.Options{Insecure: true, Networks: loopback}, a)
				wantFault(t, err, fault.Unavailable, tooMuch)
			})
		})
	}
}

func TestAddressesThatAreNotCalled(t *testing.T) {
	network := roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("called") })
	for _, address := range []string{
		"", "/mcp", "tools.example", "ftp://tools.example", "file:///etc/passwd", "https://", "https://:443/",
		"https://user:" + secret + "@tools.example", "http://[::" + secret, "https:tools.example",
	} {
		t.Run(address, func(t *testing.T) {
			_, err := mcp.NewServers(&http.Client{Transport: network}, isBlocked).Tools(t.Context(), open(address))
			wantFault(t, err, fault.Invalid, "The address of the tool server is not one that may be called")
		})
	}
}

// list writes a result of tools/list, of named tools.
func list(next string, tools ...string) string {
	return `{"tools":[` + strings.Join(tools, ",") + `],"nextCursor":"` + next + `"}`
}

// schema returns a tool with a schema.
func schema(s string) string { return `{"name":"a","inputSchema":` + s + `}` }

func named(name string) string {
	return `{"name":"` + name + `","description":"` + name + `","inputSchema":{"type":"object"}}`
}

func TestListsOfTools(t *testing.T) {
	numbered := func(from, n int) []string {
		var all []string
		for i := range n {
			all = append(all, named(fmt.Sprintf("tool-%d", from+i)))
		}
		return all
	}
	wordy := func(n int) []string {
		return slices.Repeat([]string{`{"name":"` + strings.Repeat("n", 48) + `","description":"` + strings.Repeat("😀", 500) + `"}`}, n)
	}
	for _, c := range []struct {
		about string
		page  func(call int) string
		tools int
		calls int
	}{
		{"an empty list", func(int) string { return list("") }, 0, 1},
		{"several pages", func(call int) string { return list([]string{"a", "b", ""}[call], numbered(call*10, 10)...) }, 30, 3},
		{"a cursor without end", func(call int) string { return list("again", numbered(call, 1)...) }, 20, 20},
		{"a cursor without end and without tools", func(int) string { return list("again") }, 0, 20},
		{"enormous pages without end", func(call int) string { return list("again", numbered(call*100, 100)...) }, 256, 3},
		{"an enormous page", func(int) string { return list("", numbered(0, 1000)...) }, 256, 1},
		{"enormous texts", func(int) string { return list("again", wordy(20)...) }, 32, 2},
		{"tools that are none", func(int) string { return list("", "null", `{}`, `{"name":"\u0007\u200b "}`, named("one")) }, 1, 1},
		{"nothing", func(int) string { return "null" }, 0, 1},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := toolserver.Start(t)
			s.On("tools/list", toolserver.Pages(c.page))
			got, err := servers(t).Tools(t.Context(), open(s.HTTP()))
			if err != nil || len(got) != c.tools || s.Calls("tools/list") != c.calls {
				t.Errorf("got %d tools, %v after %d calls, want %d after %d", len(got), err, s.Calls("tools/list"), c.tools, c.calls)
			}
		})
	}
	t.Run("pages of the SDK's server", func(t *testing.T) {
		s := toolserver.Start(t)
		var all []connector.Tool
		for i := range 120 {
			all = append(all, connector.Tool{Name: fmt.Sprintf("tool-%03d", i)})
		}
		s.Offer(all...)
		got, err := servers(t).Tools(t.Context(), open(s.HTTP()))
		if diff := cmp.Diff(all, got); err != nil || diff != "" {
			t.Errorf("%v, tools (-want +got):\n%s", err, diff)
		}
	})
}

func TestTextsOfTools(t *testing.T) {
	long := strings.Repeat("é", 1000)
	for _, c := range []struct{ about, name, description, wantName, wantDescription string }{
		{"usual ones", "read", "Reads it.", "read", "Reads it."},
		{"control characters", `re\u0000a\u001b[31md`, `a\u0007b\u007f\u0085c`, "rea[31md", "ab c"},
		{"lines", "read", `One.\r\n\tTwo.\u2028Three.`, "read", "One.   Two. Three."},
		{"what is not seen", `re\u202ead`, `a\u200b\udb40\udc41b`, "read", "ab"},
		{"broken UTF-8", "re\xffad", "\xc3\x28", "re\ufffdad", "\ufffd("},
		{"half a pair", `re\ud800ad`, "", "re\ufffdad", ""},
		{"long ones", long, long, long[:2*connector.MaxToolName], long[:2*connector.MaxToolText]},
		{"space around", " read ", " Reads it. ", "read", "Reads it."},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := toolserver.Start(t)
			s.On("tools/list", toolserver.Answer(list("", `{"name":"`+c.name+`","description":"`+c.description+`"}`)))
			got, err := servers(t).Tools(t.Context(), open(s.HTTP()))
			if diff := cmp.Diff([]connector.Tool{{Name: c.wantName, Description: c.wantDescription}}, got); err != nil || diff != "" {
				t.Errorf("%v, tools (-want +got):\n%s", err, diff)
			}
		})
	}
}

// FuzzResponses gives a random response to all requests. The result is a list within its limits
// or an error of a kind of the port.
func FuzzResponses(f *testing.F) {
	for _, body := range []string{
		"", "null", "[]", "{}", `{"jsonrpc":"2.0","id":1,"result":null}`,
		`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"tools":[null,{"name":"a"}],"nextCursor":"b"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"]}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
		"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n", "event: endpoint\ndata: /x\n\n", "id: 1\nretry: 1\n\n", "data",
		"event: endpoint\ndata: /x\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{\"tools\":{}}}}\n\n",
	} {
		f.Add(uint16(200), body, true)
		f.Add(uint16(202), body, false)
	}
	f.Fuzz(func(t *testing.T, status uint16, body string, events bool) {
		kind := "application/json"
		if events {
			kind = "text/event-stream"
		}
		network := roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: int(status), Header: http.Header{"Content-Type": {kind}, "Mcp-Session-Id": {"1"}},
				Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})
		synctest.Test(t, func(t *testing.T) { // for responses that never end
			for _, transport := range []connector.Transport{connector.HTTP, connector.SSE} {
				got, err := mcp.NewServers(&http.Client{Transport: network}, isBlocked).Tools(t.Context(), bearer(transport, "https://tools.example"))
				if err != nil && !slices.Contains([]fault.Kind{fault.Invalid, fault.Forbidden, fault.Unavailable}, fault.KindOf(err)) {
					t.Errorf("the error %v is of the kind %d", err, fault.KindOf(err))
				}
				length := 0
				for _, tool := range got {
					length += len(tool.Name) + len(tool.Description)
					if !utf8.ValidString(tool.Name+tool.Description) || utf8.RuneCountInString(tool.Name) > connector.MaxToolName || utf8.RuneCountInString(tool.Description) > connector.MaxToolText {
						t.Errorf("got the tool %q", tool)
					}
				}
				if len(got) > connector.MaxTools || length > connector.MaxToolTexts {
					t.Errorf("got %d tools of %d bytes", len(got), length)
				}
			}
		})
	})
}
