package localmodel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"collab/domain/chat"
)

// selfDescription ends every response that calls no tool.
const selfDescription = "I am the local model: I need no network, I know nothing of the world and " +
	"understand nothing of what you write, and to the same words I always say the same. Configure a provider to talk to a model that thinks."

// compose returns the response to the last turn: about its tool results, then about its
// message.
func compose(c chat.Call) (chunks []chat.Chunk, stop string) {
	say := func(format string, args ...any) {
		chunks = append(chunks, chat.Chunk{Type: chat.TextChunk, Text: fmt.Sprintf(format, args...)})
	}
	results, message := lastTurn(c.Turns)
	for _, r := range results {
		name := toolName(c.Turns, r.ID)
		switch text := excerpt(r.Text, maxQuote); {
		case r.IsError:
			say("The tool %s failed: “%s”. ", name, text)
		case text == "":
			say("The tool %s answered nothing. ", name)
		default:
			say("The tool %s answered: “%s”. ", name, text)
		}
	}
	tool, named := selectTool(c.Tools, message)
	query, asks := searchQuery(message)
	switch {
	case message == "":
		say("%s", selfDescription)
	case named, tool != nil && len(results) == 0 && (!asks || !c.WebSearch):
		say("I call your tool %s with what I took from your message. ", tool.Name)
		chunks = append(chunks, chat.Chunk{Type: chat.CallChunk, CallID: callID(c), Name: tool.Name, Args: arguments(tool.Schema, message)})
		return chunks, toolUse
	case asks && c.WebSearch:
		say("I search for “%s”. ", query)
		id := callID(c)
		chunks = append(chunks,
			chat.Chunk{
				Type: chat.CallChunk, CallID: id, Name: chat.WebSearch, Args: object(map[string]any{"query": query}), ServerHandled: true,
			},
			chat.Chunk{Type: chat.ResultChunk, CallID: id, Result: searchResult})
		say("I found two pages, the same two as always: “Example Domain” at https://example.com/ "+
			"and “Reserved Top Level Domains” at https://www.rfc-editor.org/rfc/rfc2606. %s", selfDescription)
	default:
		describe(say, c, message)
	}
	return chunks, endTurn
}

// searchResult is the result of every search.
const searchResult = `[{"title":"Example Domain","url":"https://example.com/"},` +
	`{"title":"Reserved Top Level Domains","url":"https://www.rfc-editor.org/rfc/rfc2606"}]`

// describe quotes the message and describes the request.
func describe(say func(string, ...any), c chat.Call, message string) {
	say("You wrote: “%s”. ", excerpt(message, maxQuote))
	form := "a statement"
	if strings.HasSuffix(strings.TrimSpace(message), "?") {
		form = "a question"
	}
	userTurns := 0
	for _, t := range c.Turns {
		if t.Role == chat.User {
			userTurns++
		}
	}
	say("That is %s of %s, the %s of this conversation. ", form, quantity(len(strings.Fields(message)), "word"), ordinal(userTurns))
	if c.System != "" {
		say("I was given a system prompt of %s. ", quantity(utf8.RuneCountInString(c.System), "character"))
	}
	if len(c.Tools) > 0 {
		say("Name one of the tools that you gave me, such as %s, and I call it. ", c.Tools[0].Name)
	}
	if c.WebSearch {
		say("Ask me to search for something and I do. ")
	}
	say("%s", selfDescription)
}

// quantity returns a number and a noun, in the plural unless the number is 1.
func quantity(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}

func ordinal(n int) string {
	ending := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return fmt.Sprint(n, ending)
}

// lastTurn returns the tool results and the text of the last turn.
func lastTurn(turns []chat.Turn) (results []chat.Block, message string) {
	if len(turns) == 0 {
		return nil, ""
	}
	var texts []string
	for _, b := range turns[len(turns)-1].Blocks {
		switch b.Kind {
		case chat.ToolResult:
			results = append(results, b)
		case chat.Text:
			texts = append(texts, b.Text)
		}
	}
	return results, strings.TrimSpace(strings.Join(texts, "\n\n"))
}

// toolName returns the name of the tool whose use has the id.
func toolName(turns []chat.Turn, id string) string {
	for _, t := range turns {
		for _, b := range t.Blocks {
			if b.Kind == chat.ToolUse && b.ID == id {
				return b.Name
			}
		}
	}
	return "that you ran"
}

// selectTool returns the tool with the longest name in the message, where spaces may stand for _
// and -, else the only tool.
func selectTool(tools []chat.Tool, message string) (tool *chat.Tool, named bool) {
	spaced := strings.NewReplacer("_", " ", "-", " ")
	text := spaced.Replace(strings.ToLower(truncate(message)))
	for i := range tools {
		name := spaced.Replace(strings.ToLower(tools[i].Name))
		if (tool == nil || len(tools[i].Name) > len(tool.Name)) && mentions(text, name) {
			tool = &tools[i]
		}
	}
	if tool != nil {
		return tool, true
	}
	if len(tools) == 1 {
		return &tools[0], false
	}
	return nil, false
}

// mentions reports whether the text contains the name as a whole word.
func mentions(text, name string) bool {
	for from := 0; name != ""; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		at, end := from+i, from+i+len(name)
		if (at == 0 || !alphanumeric(text[at-1])) && (end == len(text) || !alphanumeric(text[end])) {
			return true
		}
		from = at + 1
	}
	return false
}

func alphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= utf8.RuneSelf
}

var search = regexp.MustCompile(`(?i)\b(?:search|look up|google)\b(?: (?:the )?(?:web|internet)\b)?(?: (?:for|about)\b)?`)

const maxQuery = 100 // characters

// searchQuery returns the query of a message that asks for a search.
func searchQuery(message string) (query string, asks bool) {
	message = excerpt(message, maxInput)
	at := search.FindStringIndex(message)
	if at == nil {
		return "", false
	}
	query = strings.Trim(message[at[1]:], " \t.,:;!?\"“”'")
	if query == "" {
		query = message
	}
	return excerpt(query, maxQuery), true
}

// callID returns an id that is unique in the conversation: a digest of all turns so far.
func callID(c chat.Call) string {
	h := sha256.New()
	for _, t := range c.Turns {
		for _, b := range t.Blocks {
			for _, s := range []string{string(t.Role), string(b.Kind), b.ID, b.Name, b.Args, b.Text} {
				fmt.Fprintf(h, "%d:", len(s))
				_, _ = io.WriteString(h, s) // never fails
			}
		}
	}
	return "local_" + hex.EncodeToString(h.Sum(nil)[:12])
}

// object encodes a value as a JSON object, {} if it is not an object.
func object(v any) string {
	b, err := json.Marshal(v)
	if err != nil || len(b) == 0 || b[0] != '{' {
		return "{}"
	}
	return string(b)
}
