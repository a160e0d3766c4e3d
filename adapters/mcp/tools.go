package mcp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/ports"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxAnswers limits the bytes of all responses of one Tools call together.
const MaxAnswers = 2 << 20

// Further limits of one Tools call.
const (
	toolsLimit  = 20 * time.Second
	maxPages    = 20 // of a list of tools
	maxRequests = 64 // including responses to requests of the server
)

// initialized is the last version of the protocol with the method initialize. Later ones
// have no transport with server-sent events.
const initialized = "2025-11-25"

// ownCodes are the JSON-RPC error codes of the SDK itself: the client or the server is
// closing, or the transport refuses.
var ownCodes = []int64{-32003, -32004, -32005}

var _ ports.ToolServers = (*Servers)(nil)

// Servers implements ports.ToolServers over HTTP.
type Servers struct {
	client  *http.Client
	blocked func(error) bool
	sdk     *sdk.Client
}

// NewServers returns Servers that use the client. Blocked reports whether an error of the
// client refuses the address. The client must allow responses of MaxAnswers bytes; timeouts
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
	address, err := addressOf(a.URL)
	if err != nil {
		return nil, err
	}
	headers, err := headersFor(a)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, toolsLimit)
	defer cancel()
	x := newExchange(limited, s.client, address, headers)
	tools, err := s.list(limited, a.Transport, address.String(), x)
	if err != nil {
		return nil, s.failure(limited, x.outcome(), err)
	}
	return tools, nil
}

func (s *Servers) list(ctx context.Context, t connector.Transport, address string, x *exchange) ([]connector.Tool, error) {
	client := x.client()
	var transport sdk.Transport = &sdk.StreamableClientTransport{
		Endpoint: address, HTTPClient: client, DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: MaxAnswers,
	}
	var options *sdk.ClientSessionOptions
	if t == connector.SSE {
		transport = &sdk.SSEClientTransport{Endpoint: address, HTTPClient: client, MaxEventSize: MaxAnswers}
		options = &sdk.ClientSessionOptions{ProtocolVersion: initialized}
	}
	session, err := s.sdk.Connect(ctx, transport, options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }()
	tools := []connector.Tool{}
	if c := session.InitializeResult().Capabilities; c == nil || c.Tools == nil {
		return tools, nil
	}
	params := &sdk.ListToolsParams{}
	length := 0
	for range maxPages {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, tool := range page.Tools {
			name := sanitized(tool.Name, connector.MaxToolName)
			if name == "" {
				continue
			}
			description := sanitized(tool.Description, connector.MaxToolText)
			if length += len(name) + len(description); length > connector.MaxToolTexts {
				return tools, nil
			}
			tools = append(tools, connector.Tool{Name: name, Description: description})
			if len(tools) == connector.MaxTools {
				return tools, nil
			}
		}
		if page.NextCursor == "" {
			break
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return tools, nil
}

// failure returns the error of a failed exchange. Err contains text of the server, so the
// message depends on the outcome of the last request.
func (s *Servers) failure(ctx context.Context, o outcome, err error) error {
	if s.blocked(o.err) || s.blocked(err) {
		return addressRefused()
	}
	if ctx.Err() != nil {
		return fault.Wrap(fault.Unavailable, ctx.Err(), "The server took too long")
	}
	var wire *jsonrpc.Error
	switch {
	case errors.Is(o.err, errOtherOrigin):
		return fault.New(fault.Unavailable, "The server sends its callers to another address")
	case errors.Is(o.err, errLimit):
		return fault.New(fault.Unavailable, "The server's answer is too long")
	case o.err != nil && isTimeout(o.err):
		return fault.Wrap(fault.Unavailable, reason(o.err), "The server took too long")
	case o.err != nil && o.responded:
		return fault.Wrap(fault.Unavailable, reason(o.err), "The server broke off its answer")
	case o.err != nil:
		return fault.Wrap(fault.Unavailable, reason(o.err), "The server could not be reached")
	case o.status == http.StatusUnauthorized || o.status == http.StatusForbidden:
		return fault.New(fault.Forbidden, "The server does not accept the credentials")
	case o.status != 0:
		return fault.New(fault.Unavailable, "The server answered with status %d", o.status)
	case errors.As(err, &wire) && !slices.Contains(ownCodes, wire.Code):
		return fault.New(fault.Unavailable, "The server answered with an error of its protocol")
	}
	return fault.New(fault.Unavailable, "The server does not speak the Model Context Protocol")
}

func addressRefused() error {
	return fault.New(fault.Invalid, "The server's address is not one that can be called")
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
