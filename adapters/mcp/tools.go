package mcp

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"collab/adapters/outbound"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/ports"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxResponses limits the bytes of all responses of one Tools call together.
const MaxResponses = 2 << 20

// Further limits of one Tools call.
const (
	toolsTimeout = 20 * time.Second
	maxPages     = 20 // of a list of tools
	maxRequests  = 64 // including responses to requests of the server
)

// initializeVersion is the last version of the protocol with the method initialize. Later ones
// have no transport with server-sent events.
const initializeVersion = "2025-11-25"

// sdkCodes are the JSON-RPC error codes that the SDK itself returns: the client or the
// server is closing, or the transport refuses.
var sdkCodes = []int64{-32003, -32004, -32005}

var _ ports.ToolServers = (*Servers)(nil)

// Servers implements ports.ToolServers over HTTP.
type Servers struct {
	client  *http.Client
	blocked func(error) bool
	sdk     *sdk.Client
}

// NewServers returns Servers that use the client, which has a transport. Blocked reports whether an error of the
// client refuses the address. The client must allow responses of MaxResponses bytes; timeouts
// are set here.
func NewServers(client *http.Client, blocked func(error) bool) *Servers {
	return &Servers{
		client:  client,
		blocked: blocked,
		sdk: sdk.NewClient(&sdk.Implementation{Name: "collab", Version: "1"}, &sdk.ClientOptions{
			Capabilities:   &sdk.ClientCapabilities{},
			MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		}),
	}
}

// Tools lists the tools of a server, with names and descriptions without control
// characters. It takes at most 20 seconds.
func (s *Servers) Tools(ctx context.Context, a connector.Access) ([]connector.Tool, error) {
	limited, cancel := context.WithTimeout(ctx, toolsTimeout)
	defer cancel()
	x, err := newLimitedTransport(limited, s.client, a)
	if err != nil {
		return nil, err
	}
	tools, err := s.list(limited, a.Transport, x)
	if err != nil {
		return nil, s.failure(limited, x, err)
	}
	return tools, nil
}

// connect opens a session, which sends its requests through x.
func (s *Servers) connect(ctx context.Context, t connector.Transport, x *limitedTransport) (*sdk.ClientSession, error) {
	if t == connector.SSE {
		transport := &sdk.SSEClientTransport{Endpoint: x.address, HTTPClient: x.client(), MaxEventSize: MaxResponses}
		return s.sdk.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: initializeVersion})
	}
	return s.sdk.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: x.address, HTTPClient: x.client(), DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: MaxResponses,
	}, nil)
}

func (s *Servers) list(ctx context.Context, t connector.Transport, x *limitedTransport) ([]connector.Tool, error) {
	session, err := s.connect(ctx, t, x)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	tools := []connector.Tool{}
	length := 0
	for tool, err := range serverTools(ctx, session) {
		if err != nil {
			return nil, err
		}
		name := sanitized(tool.Name, connector.MaxToolName)
		if name == "" {
			continue
		}
		description := sanitized(tool.Description, connector.MaxToolText)
		if length += len(name) + len(description); length > connector.MaxToolTexts {
			break
		}
		if tools = append(tools, connector.Tool{Name: name, Description: description}); len(tools) == connector.MaxTools {
			break
		}
	}
	return tools, nil
}

// serverTools returns the tools of a server, of maxPages pages at most.
func serverTools(ctx context.Context, session *sdk.ClientSession) iter.Seq2[*sdk.Tool, error] {
	return func(yield func(*sdk.Tool, error) bool) {
		if c := session.InitializeResult().Capabilities; c == nil || c.Tools == nil {
			return
		}
		params := &sdk.ListToolsParams{}
		for range maxPages {
			page, err := session.ListTools(ctx, params)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, tool := range page.Tools {
				if !yield(tool, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			params = &sdk.ListToolsParams{Cursor: page.NextCursor}
		}
	}
}

// failure returns the error of a failed call. Err contains text of the server, so the
// message depends on the outcome of the last request of x.
func (s *Servers) failure(ctx context.Context, x *limitedTransport, err error) error {
	o := x.outcome()
	if s.blocked(o.err) || s.blocked(err) {
		return refusedAddress(toolServer)
	}
	if ctx.Err() != nil {
		return fault.Wrap(fault.Unavailable, ctx.Err(), "The server took too long")
	}
	var wire *jsonrpc.Error
	switch {
	case errors.Is(o.err, errOtherOrigin):
		return fault.New(fault.Unavailable, "The server redirects to another origin")
	case errors.Is(o.err, errLimit):
		return fault.New(fault.Unavailable, "The server's answer is too long")
	case o.err != nil && outbound.IsTimeout(o.err):
		return fault.Wrap(fault.Unavailable, reason(o.err), "The server took too long")
	case o.err != nil && o.responded:
		return fault.Wrap(fault.Unavailable, reason(o.err), "The server closed the connection during its response")
	case o.err != nil:
		return fault.Wrap(fault.Unavailable, reason(o.err), "The server could not be reached")
	case o.refused():
		return fault.New(fault.Forbidden, "The server does not accept the credentials")
	case o.status != 0:
		return fault.New(fault.Unavailable, "The server answered with status %d", o.status)
	case errors.As(err, &wire) && !slices.Contains(sdkCodes, wire.Code):
		return fault.New(fault.Unavailable, "The server answered with an error of its protocol")
	}
	return fault.New(fault.Unavailable, "The server does not speak the Model Context Protocol")
}

// sanitized returns a server's text as one line of valid UTF-8 without control and format
// characters, cut to limit characters.
func sanitized(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	s = strings.TrimSpace(s)
	n := 0
	for i := range s {
		if n == limit {
			return strings.TrimSpace(s[:i])
		}
		n++
	}
	return s
}
