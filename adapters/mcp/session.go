package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"collab/domain/connector"
	"collab/domain/fault"
)

// callTimeout is how long a call of a tool may take.
const callTimeout = 5 * time.Minute

// Session is a connection to a tool server for calls of its tools, one at a time. It has the limits of
// a Tools call for each call, but for the time and the number of JSON values.
type Session struct {
	servers   *Servers
	sdk       *sdk.ClientSession
	transport *limitedTransport
	end       context.CancelFunc
}

// Tool is a tool with the JSON schema of its arguments.
type Tool struct {
	Name, Description string
	Schema            map[string]any
}

// Open connects to a server. The session is to be closed; ctx ends it as well.
func (s *Servers) Open(ctx context.Context, a connector.Access) (*Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	x, err := newLimitedTransport(ctx, s.client, a)
	if err != nil {
		cancel()
		return nil, err
	}
	x.values = maxSessionValues
	deadline := time.AfterFunc(toolsTimeout, cancel)
	session, err := s.connect(ctx, a.Transport, x) // ctx ends the session too
	if err == nil && !deadline.Stop() {
		cancel()
		err = errors.Join(ctx.Err(), session.Close()) // the SDK reads on until it is closed
	}
	if err != nil {
		err = s.failure(ctx, x, err)
		cancel()
		return nil, err
	}
	return &Session{s, session, x, cancel}, nil
}

// Close ends the session.
func (s *Session) Close() error {
	defer s.end()
	return s.sdk.Close()
}

// Tools returns the server's tools, at most connector.MaxTools. Their texts are as the server has them.
func (s *Session) Tools(ctx context.Context) (all []Tool, err error) {
	ctx, done := context.WithTimeout(ctx, toolsTimeout)
	defer done()
	s.transport.resetLimits()
	for tool, err := range serverTools(ctx, s.sdk) {
		if err != nil {
			return nil, s.servers.failure(ctx, s.transport, err)
		}
		schema, _ := tool.InputSchema.(map[string]any) // others are refused by models
		if all = append(all, Tool{tool.Name, tool.Description, schema}); len(all) == connector.MaxTools {
			break
		}
	}
	return all, nil
}

// Repeatable reports whether the last call, which failed, had no effect: the session had ended before it, or the
// server did not accept the credentials of any of its requests. It is false if only a request after the one that calls
// the tool was refused, and after a 404 without a session, which may be the tool's.
func (s *Session) Repeatable() bool { return s.transport.ineffective() }

// Call calls a tool and returns its texts, and whether it failed. Content of other kinds is returned as
// JSON, and so is the structured content of a result that has no other.
func (s *Session) Call(ctx context.Context, name string, arguments map[string]any) (text string, failed bool, err error) {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	s.transport.resetLimits()
	result, err := s.sdk.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		return "", false, s.servers.failure(ctx, s.transport, err)
	}
	if result.NeedsInput() {
		return "", false, fault.New(fault.Unavailable, "The server asks for more input, which this client does not give")
	}
	var contents []any
	for _, content := range result.Content {
		contents = append(contents, content)
	}
	if contents == nil && result.StructuredContent != nil {
		contents = append(contents, result.StructuredContent)
	}
	var all []string
	for _, content := range contents {
		if t, ok := content.(*sdk.TextContent); ok {
			all = append(all, t.Text)
			continue
		}
		encoded, err := json.Marshal(content)
		if err != nil {
			return "", false, err
		}
		all = append(all, string(encoded))
	}
	return strings.Join(all, "\n"), result.IsError, nil
}
