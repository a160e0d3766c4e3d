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
	"unicode"
	"unicode/utf8"

	"collab/adapters/apiclient"
	"collab/adapters/mcp"
	"collab/adapters/outbound"
	"collab/domain/chat"
	"collab/domain/connector"
)

const (
	connectTimeout = 30 * time.Second // of a connector's server
	maxResult      = 100_000          // bytes of a tool's result that the model is given
	maxToolName    = 64               // bytes of a name that a chat takes
	maxDefinitions = 400_000          // bytes of the definitions of all tools, less than half of a request
	maxArgumentEnd = 200              // characters of each end of an argument that a person is shown
	allTools       = "all"            // what --allow has for all tools
)

// toolbox has the tools that a model may call. They are those of connectors, and this program calls
// them.
type toolbox struct {
	app           *app
	servers       []*toolServer
	tools         map[string]offeredTool // by the names that the model knows
	size          int                    // of their definitions in bytes
	allowed       []string               // names of tools that nobody is asked about, each of one tool
	alwaysAllowed []ownTool              // tools that a person has allowed for the rest of the chat
	allowAll      bool                   // nobody is asked about any tool
}

// offeredTool is a tool as the model knows it.
type offeredTool struct {
	ownTool
	definition apiclient.ToolDefinition
}

// ownTool is a tool with the server that has it.
type ownTool struct {
	server *toolServer
	name   string // that the server has for it
}

// toolServer is a connector with a session.
type toolServer struct {
	label string
	open  func(context.Context) (*mcp.Session, error) // with the present credentials
	*mcp.Session
}

// call calls a tool. A call that had no effect, because the session or its credentials had ended, is repeated in a new
// session.
func (s *toolServer) call(ctx context.Context, name string, arguments map[string]any) (result string, failed bool, err error) {
	result, failed, err = s.Call(ctx, name, arguments)
	if err == nil || !s.Repeatable() {
		return result, failed, err
	}
	session, err := s.open(ctx)
	if err != nil {
		return "", false, err
	}
	_ = s.Close() // nothing is called in it any more
	s.Session = session
	return s.Call(ctx, name, arguments)
}

// openToolbox connects to the servers of connectors.
func (a *app) openToolbox(ctx context.Context, client *apiclient.Client, connectors, allowed []string) (*toolbox, error) {
	t := &toolbox{app: a, tools: map[string]offeredTool{}, allowed: allowed, allowAll: slices.Contains(allowed, allTools)}
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
			err = t.addConnector(ctx, client, c, providers[c.ServerID])
		}
		if err != nil {
			t.close()
			return nil, fmt.Errorf("tools of %s: %w", name, err)
		}
	}
	return t, nil
}

func (t *toolbox) close() {
	for _, server := range t.servers {
		_ = server.Close() // nothing is called any more
	}
}

// addConnector adds the tools of a connector of the provider, which is zero if it is no longer in the catalog.
func (t *toolbox) addConnector(ctx context.Context, client *apiclient.Client, c apiclient.Connector, p apiclient.ConnectorProvider) error {
	switch {
	case c.Transport == string(connector.Stdio):
		return errors.New("the connector's server is a program on this machine, which collab does not start")
	case p.ServerID == "":
		return errors.New("the connector's provider is no longer in the catalog")
	}
	access := connector.Access{URL: valueOr(p.McpURL, ""), Transport: connector.Transport(c.Transport), Auth: connector.AuthMode(p.AuthMode), CredentialTemplates: p.Headers}
	if access.URL == "" {
		access.URL, _ = c.Config["url"].(string)
	}
	servers := mcp.NewServers(outbound.NewConfigured(connectTimeout), func(error) bool { return false })
	server := &toolServer{label: c.Label, open: func(ctx context.Context) (*mcp.Session, error) {
		if c.HasCredentials {
			stored, err := client.GetConnectorCredentials(ctx, c.ID)
			if err != nil {
				return nil, err
			}
			entries, err := json.Marshal(stored.Credentials)
			if err != nil {
				return nil, err
			}
			access.Entries = string(entries)
		}
		return servers.Open(ctx, access)
	}}
	var err error
	if server.Session, err = server.open(ctx); err != nil {
		return err
	}
	t.servers = append(t.servers, server)
	tools, err := server.Tools(ctx)
	if err != nil {
		return err
	}
	excess := 0
	for _, tool := range tools {
		fits, err := t.addTool(server, tool)
		if err != nil {
			return err
		}
		if !fits {
			excess++
		}
	}
	if excess > 0 {
		t.app.printWarning("%s: %d tools are left out, as a chat takes no more", c.Label, excess)
	}
	return nil
}

// addTool adds a tool in the form that a chat takes: its name may become another one, and a description that is too
// long is cut off. A tool that has no such form is left out with a warning, and one that the server lists again without
// one. It reports whether the chat takes that many tools.
func (t *toolbox) addTool(server *toolServer, tool mcp.Tool) (fits bool, err error) {
	own := ownTool{server, tool.Name}
	for _, other := range t.tools {
		switch {
		case other.ownTool == own:
			return true, nil
		case other.name == tool.Name && slices.Contains(t.allowed, tool.Name):
			return false, fmt.Errorf("%s has a tool %s too, which --allow names: leave out one of them", other.server.label, printableLine(tool.Name))
		}
	}
	description := chat.Clean(tool.Description)
	if characters := []rune(description); len(characters) > chat.MaxToolText {
		description = string(characters[:chat.MaxToolText])
	}
	d := apiclient.ToolDefinition{Name: t.uniqueName(tool.Name), Description: optionalText(description), InputSchema: tool.Schema}
	schema, _ := json.Marshal(d.InputSchema) // it was read from JSON
	if kind, found := tool.Schema["type"]; found && kind != "object" || utf8.RuneCount(schema) > chat.MaxSchema {
		t.app.printWarning("%s: %s is left out, as models take no such schema of arguments", server.label, tool.Name)
		return true, nil
	}
	text, _ := json.Marshal(d)
	if len(t.tools) == chat.MaxTools || t.size+len(text) > maxDefinitions {
		return false, nil
	}
	t.tools[d.Name] = offeredTool{own, d}
	t.size += len(text)
	return true, nil
}

// uniqueName returns a name for a tool that a chat takes and that no other tool has.
func (t *toolbox) uniqueName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, name)
	name = name[:min(len(name), maxToolName)]
	candidate := name
	for i := 2; ; i++ {
		if _, taken := t.tools[candidate]; !taken && candidate != "" && candidate != chat.WebSearch {
			return candidate
		}
		suffix := fmt.Sprint("_", i)
		candidate = name[:min(len(name), maxToolName-len(suffix))] + suffix
	}
}

// definitions returns the definitions of the tools, by name.
func (t *toolbox) definitions() (all []apiclient.ToolDefinition) {
	for _, tool := range t.tools {
		all = append(all, tool.definition)
	}
	slices.SortFunc(all, func(a, b apiclient.ToolDefinition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// call calls a tool if that is allowed, and returns its result for the model, of at most limit bytes and a note.
func (t *toolbox) call(ctx context.Context, call apiclient.ToolCall, limit int) (result string, failed bool, err error) {
	tool, known := t.tools[call.Name]
	if !known {
		return "There is no tool of this name.", true, nil
	}
	call.Name = tool.name
	allowed, err := t.authorize(ctx, tool.server, call)
	if err != nil {
		return "", false, err
	}
	if !allowed {
		return "The user does not allow this call.", true, nil
	}
	result, failed, err = tool.server.call(ctx, call.Name, call.Args)
	result = chat.Clean(result)
	switch {
	case ctx.Err() != nil:
		return "", false, context.Cause(ctx)
	case err != nil:
		t.app.printErrf("%s: %v", call.Name, err)
		return err.Error(), true, nil
	case len(result) > limit:
		result = strings.ToValidUTF8(result[:limit], "") + truncationNote
	}
	return result, failed, nil
}

// authorize reports whether a tool may be called: it was allowed before, or the person at the terminal
// allows it. Where nobody can be asked it may not.
func (t *toolbox) authorize(ctx context.Context, server *toolServer, call apiclient.ToolCall) (bool, error) {
	a, own := t.app, ownTool{server, call.Name}
	title := fmt.Sprintf("%s: %s", server.label, call.Name)
	var arguments []string
	if len(call.Args) == 0 {
		title += " {}"
	} else {
		eachArgument("", call.Args, func(name, value string) { arguments = append(arguments, printableLine("\t"+name+": "+value)) })
	}
	details := safeText(strings.Join(append([]string{""}, arguments...), "\n"))
	switch {
	case t.allowAll || slices.Contains(t.allowed, call.Name) || slices.Contains(t.alwaysAllowed, own):
		a.printErrf("%s%s", a.paint(a.errTerminal, dim, title), details)
		return true, nil
	case !a.canPrompt():
		hint := ""
		if call.Name != allTools {
			hint = fmt.Sprintf(" (allow it with --allow %s)", allowValue(call.Name))
		}
		a.printWarning("refused %s%s%s", title, hint, details)
		return false, nil
	}
	for {
		answer, err := a.prompt(ctx, "%s%s\nCall it? [y]es, [N]o, [a]lways in this chat: ", title, details)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(answer) {
		case "y", "yes":
			return true, nil
		case "a", "always":
			t.alwaysAllowed = append(t.alwaysAllowed, own)
			return true, nil
		case "", "n", "no":
			return false, nil
		}
	}
}

// allowValue returns a tool's name as a value of --allow in a shell.
func allowValue(name string) string {
	if strings.ContainsAny(name, `,"`) {
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"` // of a list in CSV
	}
	if strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:", r)
	}) {
		name = "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
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
	if long := []rune(value); len(long) > 2*maxArgumentEnd {
		value = fmt.Sprintf("%s … %s (%d characters)", string(long[:maxArgumentEnd]), string(long[len(long)-maxArgumentEnd:]), len(long))
	}
	each(name, value)
}
