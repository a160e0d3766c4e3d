package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"collab/adapters/apiclient"
	"collab/adapters/mcp"
	"collab/adapters/outbound"
	"collab/domain/connector"
)

const (
	connectTimeout = 30 * time.Second // of a connector's server
	maxResult      = 100_000          // bytes of a tool's result that the model is given
	maxAsked       = 200              // characters of each end of an argument that a person is shown
)

// toolbox has the tools that a model may call. They are those of connectors, and this program calls
// them.
type toolbox struct {
	app     *app
	tools   map[string]servedTool // by name
	allowed []string              // names of tools that nobody is asked about; all for all
}

// servedTool is a tool with the server that has it.
type servedTool struct {
	mcp.Tool
	server *toolServer
}

// toolServer is a connector with a session.
type toolServer struct {
	label string
	*mcp.Session
}

// toolbox connects to the servers of connectors.
func (a *app) toolbox(ctx context.Context, client *apiclient.Client, connectors, allowed []string) (*toolbox, error) {
	t := &toolbox{app: a, tools: map[string]servedTool{}, allowed: allowed}
	if len(connectors) == 0 {
		return t, nil
	}
	providers := map[string]apiclient.ConnectorProvider{}
	list, err := client.ListConnectorProviders(ctx)
	if err != nil {
		return nil, err
	}
	for p, err := range list.All() {
		if err != nil {
			return nil, err
		}
		providers[p.ServerID] = p
	}
	for _, name := range connectors {
		c, err := connectorOf(ctx, client, name)
		if err == nil {
			err = t.add(ctx, client, c, providers[c.ServerID])
		}
		if err != nil {
			t.close()
			return nil, fmt.Errorf("tools of %s: %w", name, err)
		}
	}
	return t, nil
}

func (t *toolbox) close() {
	for _, tool := range t.tools {
		_ = tool.server.Close() // another tool may have closed it
	}
}

// add adds the tools of a connector.
func (t *toolbox) add(ctx context.Context, client *apiclient.Client, c apiclient.Connector, p apiclient.ConnectorProvider) error {
	if c.Transport == string(connector.Stdio) {
		return errors.New("the connector's server is a program on this machine, which collab does not start")
	}
	access := connector.Access{URL: or(p.McpURL, ""), Transport: connector.Transport(c.Transport), Auth: connector.AuthMode(p.AuthMode), Carriers: p.Headers}
	if access.URL == "" {
		access.URL, _ = c.Config["url"].(string)
	}
	if c.HasCredentials {
		stored, err := client.GetConnectorCredentials(ctx, c.ID)
		if err != nil {
			return err
		}
		entries, err := json.Marshal(stored.Credentials)
		if err != nil {
			return err
		}
		access.Entries = string(entries)
	}
	session, err := mcp.NewServers(outbound.NewConfigured(connectTimeout), func(error) bool { return false }).Open(ctx, access)
	if err != nil {
		return err
	}
	server := &toolServer{c.Label, session}
	tools, err := session.Tools(ctx)
	for _, tool := range tools {
		if other, twice := t.tools[tool.Name]; twice && err == nil {
			err = fmt.Errorf("%s has a tool %s too: name one of them", other.server.label, plain(tool.Name))
		}
		t.tools[tool.Name] = servedTool{tool, server}
	}
	if err != nil || len(tools) == 0 {
		_ = session.Close() // nothing was called
	}
	return err
}

// definitions returns the tools as a model is told of them.
func (t *toolbox) definitions() (all []apiclient.ToolDefinition) {
	for _, tool := range t.tools {
		all = append(all, apiclient.ToolDefinition{Name: tool.Name, Description: given(tool.Description), InputSchema: tool.Schema})
	}
	slices.SortFunc(all, func(a, b apiclient.ToolDefinition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// call calls a tool if that is allowed, and returns its result as the model is told of it.
func (t *toolbox) call(ctx context.Context, call apiclient.ToolCall) (result string, failed bool, err error) {
	tool, known := t.tools[call.Name]
	if !known {
		return "There is no tool of this name.", true, nil
	}
	allowed, err := t.allows(ctx, tool.server, call)
	if err != nil {
		return "", false, err
	}
	if !allowed {
		return "The user does not allow this call.", true, nil
	}
	result, failed, err = tool.server.Call(ctx, call.Name, call.Args)
	switch {
	case ctx.Err() != nil:
		return "", false, context.Cause(ctx)
	case err != nil:
		t.app.printErrf("%s: %v", call.Name, err)
		return err.Error(), true, nil
	case len(result) > maxResult:
		result = strings.ToValidUTF8(result[:maxResult], "") + "\n(cut off)"
	}
	return result, failed, nil
}

// allows reports whether a tool may be called: it was allowed before, or the person at the terminal
// allows it. Where nobody can be asked it may not.
func (t *toolbox) allows(ctx context.Context, server *toolServer, call apiclient.ToolCall) (bool, error) {
	a := t.app
	title := fmt.Sprintf("%s: %s", server.label, call.Name)
	var arguments []string
	if len(call.Args) == 0 {
		title += " {}"
	} else {
		eachArgument("", call.Args, func(name, value string) { arguments = append(arguments, plain("\t"+name+": "+value)) })
	}
	details := painted(strings.Join(append([]string{""}, arguments...), "\n"))
	switch {
	case slices.Contains(t.allowed, call.Name) || slices.Contains(t.allowed, "all"):
		a.printErrf("%s%s", a.paint(a.errTerminal, dim, title), details)
		return true, nil
	case !a.asks():
		a.warn("refused %s (allow it with --allow %s)%s", title, call.Name, details)
		return false, nil
	}
	for {
		answer, err := a.question(ctx, "%s%s\nCall it? [y]es, [N]o, [a]lways in this chat: ", title, details)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(answer) {
		case "y", "yes":
			return true, nil
		case "a", "always":
			t.allowed = append(t.allowed, call.Name)
			return true, nil
		case "", "n", "no":
			return false, nil
		}
	}
}

// eachArgument calls each with the path and the value in JSON of all arguments of a call, also of those in
// objects and arrays, in the order of their names. A long value is shortened to its ends with its length.
func eachArgument(name string, v any, each func(name, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			eachArgument(strings.TrimPrefix(name+"."+key, "."), v[key], each)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i := range v {
			eachArgument(fmt.Sprintf("%s[%d]", name, i), v[i], each)
		}
		if len(v) > 0 {
			return
		}
	}
	text, _ := json.Marshal(v) // it was read from JSON
	value := string(text)
	if long := []rune(value); len(long) > 2*maxAsked {
		value = fmt.Sprintf("%s … %s (%d characters)", string(long[:maxAsked]), string(long[len(long)-maxAsked:]), len(long))
	}
	each(name, value)
}
