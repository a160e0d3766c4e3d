package chat

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"collab/domain/fault"
)

// missingResult is the result of a tool use that the client did not answer: providers
// refuse a use without one.
const missingResult = "The tool was not run."

func indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// convert returns the turns that a provider is sent for a history and the new message. Tool
// calls that the provider ran itself are left out with their results; any other result is
// moved to the turn after its use.
func convert(history []Turn, message string) ([]Turn, error) {
	if len(history) > MaxTurns {
		return nil, fault.Field("history", "must be at most %d messages", MaxTurns)
	}
	results, answered, err := matchResults(history)
	if err != nil {
		return nil, err
	}
	var turns []Turn
	add := func(role Role, blocks ...Block) {
		if n := len(turns); n > 0 && turns[n-1].Role == role {
			turns[n-1].Blocks = append(turns[n-1].Blocks, blocks...)
			return
		}
		turns = append(turns, Turn{Role: role, Blocks: blocks})
	}
	var pendingResults []Block // the results that the next turn of the user begins with
	for _, t := range history {
		var kept []Block
		for _, b := range t.Blocks {
			switch {
			case b.Kind == Text && strings.TrimSpace(b.Text) != "":
				kept = append(kept, b)
			case b.Kind == ToolUse && !b.ServerHandled:
				kept = append(kept, b)
			}
		}
		if t.Role == User && len(pendingResults) > 0 {
			add(User, pendingResults...)
			pendingResults = nil
		}
		if len(kept) == 0 {
			continue
		}
		add(t.Role, kept...)
		for _, b := range kept {
			if b.Kind == ToolUse {
				pendingResults = append(pendingResults, results[b.ID])
			}
		}
	}
	if len(pendingResults) > 0 {
		add(User, pendingResults...)
	}
	if strings.TrimSpace(message) != "" {
		add(User, Block{Kind: Text, Text: message})
	} else if n := len(turns); n == 0 || !slices.ContainsFunc(turns[n-1].Blocks, func(b Block) bool { return b.Kind == ToolResult && answered[b.ID] }) {
		return nil, fault.Field("message", "must not be empty, unless the history ends with a tool result")
	}
	if turns[0].Role != User {
		return nil, fault.Field("history", "must begin with a message of the user")
	}
	return turns, nil
}

// matchResults returns the result of each tool use by its id, and the ids of those that the client
// gave. It returns Invalid if a block is invalid.
func matchResults(history []Turn) (results map[string]Block, answered map[string]bool, err error) {
	results, answered = map[string]Block{}, map[string]bool{}
	uses := map[string]Block{}
	for i, t := range history {
		at := indexed("history", i)
		if t.Role != User && t.Role != Assistant {
			return nil, nil, fault.Field(at+".role", "must be user or assistant")
		}
		if len(t.Blocks) > MaxBlocks {
			return nil, nil, fault.Field(at+".content", "must be at most %d blocks", MaxBlocks)
		}
		for j, b := range t.Blocks {
			field := indexed(at+".content", j)
			if !isText(b.Text, MaxMessage) {
				return nil, nil, fault.Field(field, "must be valid text of at most %d characters", MaxMessage)
			}
			switch b.Kind {
			case Text:
			case ToolUse:
				if err := checkUse(field, t.Role, b, uses); err != nil {
					return nil, nil, err
				}
				uses[b.ID] = b
				results[b.ID] = Block{Kind: ToolResult, ID: b.ID, Text: missingResult, IsError: true}
			case ToolResult:
				use, known := uses[b.ID]
				switch {
				case t.Role != User && !use.ServerHandled:
					return nil, nil, fault.Field(field, "must not be a tool_result: the assistant gives none")
				case !known:
					return nil, nil, fault.Field(field+".toolUseId", "must be the id of a tool_use before it")
				case answered[b.ID]:
					return nil, nil, fault.Field(field+".toolUseId", "must not be answered twice")
				}
				results[b.ID], answered[b.ID] = b, true
			default:
				return nil, nil, fault.Field(field+".type", "must be text, tool_use or tool_result")
			}
		}
	}
	return results, answered, nil
}

func checkUse(field string, role Role, b Block, uses map[string]Block) error {
	_, duplicate := uses[b.ID]
	switch {
	case role != Assistant:
		return fault.Field(field, "must not be a tool_use: only the assistant uses tools")
	case b.ID == "" || !isText(b.ID, MaxCallID):
		return fault.Field(field+".id", "must be valid text of 1 to %d characters", MaxCallID)
	case duplicate:
		return fault.Field(field+".id", "must not be another tool_use's")
	case !IsToolName(b.Name):
		return fault.Field(field+".name", "must be 1 to 64 letters, digits, _ or -")
	case !isText(b.Args, MaxMessage):
		return fault.Field(field+".input", "must be valid text of at most %d characters", MaxMessage)
	}
	return nil
}

// isText reports whether s is text that every provider takes, of at most limit
// characters.
func isText(s string, limit int) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, 0) && utf8.RuneCountInString(s) <= limit
}

// Clean returns s as a text that a history may have: invalid UTF-8 is replaced, and null characters are left out.
func Clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "")
}

// MapCallIDs returns, by the id of each call in the turns, an id that the provider accepts: the same if
// it is accepted, else a new one. Calls of another provider may have ids that are not.
func MapCallIDs(turns []Turn, accepted func(id string) bool) map[string]string {
	ids := map[string]string{}
	var others []string
	for _, t := range turns {
		for _, b := range t.Blocks {
			if b.Kind != ToolUse {
				continue
			}
			ids[b.ID] = b.ID
			if !accepted(b.ID) {
				others = append(others, b.ID)
			}
		}
	}
	n := 0
	for _, id := range others {
		for {
			n++
			name := "call_" + strconv.Itoa(n)
			if _, taken := ids[name]; !taken {
				ids[id] = name
				break
			}
		}
	}
	return ids
}

// CallIDSet has the ids of the calls in a conversation.
type CallIDSet map[string]bool

// CallIDs returns the ids of the calls in the turns.
func (c Call) CallIDs() CallIDSet {
	all := CallIDSet{}
	for _, t := range c.Turns {
		for _, b := range t.Blocks {
			if b.Kind == ToolUse {
				all[b.ID] = true
			}
		}
	}
	return all
}

// Add adds a call, and returns its id: the provider's, or a new one if that is another call's or cannot be in a
// history.
func (all CallIDSet) Add(id string) string {
	for n := len(all) + 1; id == "" || len(id) > MaxCallID || Clean(id) != id || all[id]; n++ {
		id = "call_" + strconv.Itoa(n)
	}
	all[id] = true
	return id
}
