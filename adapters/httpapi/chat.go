package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/app/chats"
	"collab/domain/chat"
	"collab/domain/org"
)

// startChat admits a request to a model and replies with the stream of its chunks. A
// refusal before that is an ordinary error.
func (a *api) startChat(c *call) error {
	if err := a.chats.Take(c, string(c.caller.User)); err != nil {
		return err
	}
	r, err := c.chatRequest()
	if err != nil {
		return err
	}
	if err := c.Hold(int64(len(c.body))); err != nil { // for the provider's request, beside the texts
		return err
	}
	admitted, err := tryUnconfirmed(a, c,
		func(cached org.Actor) (*chats.Call, error) { return a.Chats.AdmitUnconfirmed(c.r.Context(), cached, r) },
		func(actor org.Actor) (*chats.Call, error) { return a.Chats.Admit(c.r.Context(), actor, r) })
	if err != nil {
		return err
	}
	c.body = nil // the stream may be long, and does not need the body
	a.streamChat(c, admitted)
	return nil
}

// chatRequest reads the body of a chat.
func (c *call) chatRequest() (chat.Request, error) {
	f, err := c.fields()
	if err != nil {
		return chat.Request{}, err
	}
	r := chat.Request{
		Message:   body.Required(f, "message", body.Text),
		Model:     body.OrZero(f, "model", body.Text),
		MaxTokens: body.Optional(f, "maxTokens", body.Count),
		System:    body.OrZero(f, "systemPrompt", body.Text),
		WebSearch: body.OrZero(f, "enableWebSearch", body.Bool),
	}
	body.EachOf(f, "history", chat.MaxTurns, func(part *body.Fields) { r.History = append(r.History, readTurn(part)) })
	body.EachOf(f, "tools", chat.MaxTools, func(part *body.Fields) { r.Tools = append(r.Tools, readTool(part)) })
	return r, f.Err()
}

func readTurn(o *body.Fields) chat.Turn {
	t := chat.Turn{Role: body.Required(o, "role", body.OneOf(chat.User, chat.Assistant))}
	switch raw, ok := o.Find("content"); {
	case ok && raw[0] == '"':
		text, _ := body.Text(raw) // checked with the body
		t.Blocks = []chat.Block{{Kind: chat.Text, Text: text}}
	case ok && raw[0] == '[':
		body.EachOf(o, "content", chat.MaxBlocks, func(part *body.Fields) { t.Blocks = append(t.Blocks, readBlock(part)) })
	default:
		o.Refuse("content", "must be a string or an array of blocks")
	}
	return t
}

func readBlock(o *body.Fields) chat.Block {
	b := chat.Block{Kind: body.Required(o, "type", body.OneOf(chat.Text, chat.ToolUse, chat.ToolResult))}
	switch b.Kind {
	case chat.Text:
		b.Text = body.Required(o, "text", body.Text)
	case chat.ToolUse:
		b.ID = body.Required(o, "id", body.Text)
		b.Name = body.Required(o, "name", body.Text)
		b.Args = body.Required(o, "input", body.Document)
		b.ServerHandled = body.OrZero(o, o.Name("serverHandled", "server_handled"), body.Bool)
	case chat.ToolResult:
		b.ID = body.Required(o, o.Name("toolUseId", "tool_use_id"), body.Text)
		b.Text = body.OrZero(o, "content", asOutcome)
		b.IsError = body.OrZero(o, o.Name("isError", "is_error"), body.Bool)
	}
	return b
}

func readTool(o *body.Fields) chat.Tool {
	return chat.Tool{
		Name:        body.Required(o, "name", body.Text),
		Description: body.OrZero(o, "description", body.Text),
		Schema:      body.OrZero(o, o.Name("inputSchema", "input_schema", "parameters"), asSchema),
	}
}

// asOutcome reads the result of a tool: a text, text blocks in the form of providers, or any other JSON, which is
// given to the model unchanged.
func asOutcome(raw []byte) (string, string) {
	if raw[0] == '"' {
		return body.Text(raw)
	}
	if raw[0] == '[' {
		if text, ok := joinTexts(raw); ok {
			return text, ""
		}
	}
	return string(raw), ""
}

// joinTexts returns the texts of an array of text blocks.
func joinTexts(raw []byte) (string, bool) {
	var texts []string
	for _, part := range body.Elements(raw) {
		block := body.CheckedFields(part) // without fields if it is no object
		kind, _ := block.Find("type")
		text, ok := block.Find("text")
		if string(kind) != `"text"` || !ok || text[0] != '"' {
			return "", false
		}
		plain, _ := body.Text(text)
		texts = append(texts, plain)
	}
	return strings.Join(texts, "\n"), len(texts) > 0
}

// asSchema reads the schema of a tool's arguments, which must be an object.
func asSchema(raw []byte) (string, string) {
	schema, problem := body.Document(raw)
	if problem != "" {
		return "", "must be a JSON schema"
	}
	if kind, ok := body.CheckedFields(raw).Find("type"); ok && string(kind) != `"object"` {
		return "", `must be a JSON schema whose type is "object"`
	}
	return schema, ""
}

type modelView struct {
	ID              string   `json:"id"`
	DisplayName     string   `json:"displayName"`
	Provider        string   `json:"provider"`
	Tier            string   `json:"tier"`
	ContextWindow   int      `json:"contextWindow"`
	MaxOutputTokens int      `json:"maxOutputTokens"`
	Capabilities    []string `json:"capabilities"`
}

func viewModel(m chat.Model) modelView {
	v := modelView{m.ID, m.DisplayName, m.Provider, m.Tier, m.ContextWindow, m.MaxOutputTokens, m.Capabilities}
	if v.Capabilities == nil {
		v.Capabilities = []string{}
	}
	return v
}

func (a *api) listModels(c *call, actor org.Actor) error {
	return replyWith(c, http.StatusOK, viewEach(viewModel))(a.Chats.Models(actor))
}

// appendChunk appends a chunk as an event of a stream.
func appendChunk(dst []byte, k chat.Chunk) []byte {
	dst = append(dst, `data: {"type":"`...)
	dst = append(dst, k.Type...)
	switch k.Type {
	case chat.TextChunk:
		dst = encode.AppendString(append(dst, `","text":`...), k.Text)
	case chat.CallChunk:
		dst = encode.AppendString(append(dst, `","toolCall":{"id":`...), k.CallID)
		dst = encode.AppendString(append(dst, `,"name":`...), k.Name)
		dst = encode.AppendLine(append(dst, `,"args":`...), k.Args)
		if k.ServerHandled {
			dst = append(dst, `,"serverHandled":true`...)
		}
		dst = append(dst, '}')
	case chat.ResultChunk:
		dst = encode.AppendString(append(dst, `","toolResult":{"callId":`...), k.CallID)
		dst = append(dst, `,"result":`...)
		dst = append(encode.AppendLine(dst, k.Result), '}')
	case chat.ErrorChunk:
		dst = encode.AppendString(append(dst, `","error":`...), k.Text)
	case chat.DoneChunk:
		dst = strconv.AppendInt(append(dst, `","usage":{"inputTokens":`...), k.Usage.Input, 10)
		dst = append(dst, `,"outputTokens":`...)
		dst = append(strconv.AppendInt(dst, k.Usage.Output, 10), '}')
	}
	return append(dst, "}\n\n"...)
}
