package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
	"collab/adapters/eventstream"
)

// maxMessage bounds what is read from standard input for a message, in bytes: the server takes
// requests of at most 1 MiB.
const maxMessage = 1 << 20

func (a *app) chatCommand() *cobra.Command {
	var model, system string
	var connectors, allowedTools []string
	var search bool
	var tokens int64
	c := command("chat [MESSAGE...]", "Chat with a model", 0, -1, func(c *cobra.Command, args []string) error {
		client, err := a.newClient()
		if err != nil {
			return err
		}
		ctx := c.Context()
		chat := conversation{app: a, client: client}
		chat.request.Model, chat.request.SystemPrompt = optionalText(model), optionalText(system)
		if search {
			chat.request.EnableWebSearch = &search
		}
		if c.Flags().Changed("max-tokens") {
			chat.request.MaxTokens = &tokens
		}
		parts := []string{strings.Join(args, " ")}
		if !a.inTerminal {
			text, err := a.readAll(ctx, maxMessage)
			if err != nil {
				return err
			}
			parts = append(parts, text)
		}
		message := strings.TrimSpace(strings.Join(parts, "\n\n"))
		if message == "" && !a.canPrompt() {
			return usage("there is no message: pass one as argument or on standard input")
		}
		if chat.tools, err = a.openToolbox(ctx, client, connectors, allowedTools); err != nil {
			return err
		}
		defer chat.tools.close()
		chat.request.Tools = chat.tools.definitions()
		if message != "" {
			return chat.ask(ctx, message)
		}
		for {
			message, err := a.prompt(ctx, "%s", a.paint(a.errTerminal, bold, "> "))
			if err != nil || message == "" {
				return err
			}
			if err := chat.ask(ctx, message); err != nil {
				return err
			}
		}
	})
	c.Long = "chat prints a model's answer as it arrives, on a terminal with its Markdown rendered. What is on\n" +
		"standard input follows the message of the arguments. On a terminal without a message it is a\n" +
		"conversation, which an empty line ends.\n\n" +
		"With --tools the model may call the tools of connectors. collab asks before each call, and where\n" +
		"nobody can be asked it refuses those that --allow does not name."
	c.Example = "  collab chat What is a monad?\n  git diff | collab chat 'Write a commit message for this change' > message\n" +
		"  collab chat --tools wiki --allow search 'What does our wiki say about holidays?' < /dev/null"
	c.Flags().StringVar(&model, "model", "", "`id` of the model; see collab models")
	c.Flags().StringVar(&system, "system", "", "the system prompt")
	c.Flags().BoolVar(&search, "web-search", false, "let the provider search the web")
	c.Flags().Int64Var(&tokens, "max-tokens", 0, "most tokens of the answer")
	c.Flags().StringSliceVar(&connectors, "tools", nil, "`connectors` whose tools the model may call, separated by commas")
	c.Flags().StringSliceVar(&allowedTools, "allow", nil, "`tools` that are called without a question, separated by commas; all for all")
	return c
}

const (
	// maxRounds bounds the requests for one message.
	maxRounds = 50
	// maxResults bounds the results of the tools that a model calls at a time, in bytes.
	maxResults = 400_000
	// maxRequest is how many bytes a request has at most if it has results of tools to leave out.
	maxRequest = 900_000
	// omittedResult replaces the result of a tool that was left out.
	omittedResult = "(This result was left out, as the conversation has become too long.)"
	// truncationNote follows a result of a tool that was cut off.
	truncationNote = "\n(cut off)"
)

// conversation is a chat with a model, with what was said before as history.
type conversation struct {
	app     *app
	client  *apiclient.Client
	request apiclient.ChatRequest
	tools   *toolbox
}

// ask prints the response to a message, for which the model may call tools.
func (c *conversation) ask(ctx context.Context, message string) error {
	var total modelReply
	if err := c.app.checkFields(total); err != nil {
		return err
	}
	for range maxRounds {
		c.request.Message = message
		c.shorten()
		reply, err := c.send(ctx)
		if err != nil {
			return err
		}
		total.Text += reply.Text
		total.Usage.InputTokens += reply.Usage.InputTokens
		total.Usage.OutputTokens += reply.Usage.OutputTokens
		if message != "" {
			c.request.History = append(c.request.History, apiclient.HistoryMessage{Role: "user", Content: message})
			message = ""
		}
		var blocks, results []block
		if reply.Text != "" {
			blocks = append(blocks, block{"type": "text", "text": reply.Text})
		}
		for _, call := range reply.calls {
			result, failed, err := c.tools.call(ctx, call, min(maxResult, maxResults/len(reply.calls)))
			if err != nil {
				return err
			}
			blocks = append(blocks, block{"type": "tool_use", "id": call.ID, "name": call.Name, "input": call.Args})
			results = append(results, block{"type": "tool_result", "toolUseId": call.ID, "content": result, "isError": failed})
		}
		if blocks != nil {
			c.request.History = append(c.request.History, apiclient.HistoryMessage{Role: "assistant", Content: blocks})
		}
		if results == nil {
			if c.app.wantsJSON() {
				return c.app.printJSON(total)
			}
			return nil
		}
		c.request.History = append(c.request.History, apiclient.HistoryMessage{Role: "user", Content: results})
	}
	return fmt.Errorf("the model has called tools %d times without an answer", maxRounds)
}

// shorten replaces the oldest results of tools of a request that is too long. The newest one is cut off instead.
func (c *conversation) shorten() {
	size := func(v any) int {
		text, _ := json.Marshal(v) // the request is encoded again when it is made
		return len(text)
	}
	excess := size(c.request) - maxRequest
	for i, message := range c.request.History {
		blocks, _ := message.Content.([]block)
		for j, b := range blocks {
			if excess <= 0 {
				return
			}
			if text, isResult := b["content"].(string); isResult && i == len(c.request.History)-1 && j == len(blocks)-1 {
				limit := size(text) - excess
				for size(text+truncationNote) > limit && text != "" {
					text = strings.ToValidUTF8(text[:len(text)/2], "")
				}
				b["content"] = text + truncationNote
				return
			}
			if saved := size(b["content"]) - size(omittedResult); b["type"] == "tool_result" && saved > 0 {
				b["content"] = omittedResult
				excess -= saved
			}
		}
	}
}

// block is a block of a message.
type block map[string]any

// modelReply is the response of a model.
type modelReply struct {
	Text  string              `json:"text"`
	Usage apiclient.ChatUsage `json:"usage"`
	calls []apiclient.ToolCall
}

// send sends the request and prints the response as it arrives. The end of ctx closes the connection,
// which ends the call on the server.
func (c *conversation) send(ctx context.Context) (reply modelReply, err error) {
	a := c.app
	response, err := c.client.Chat(ctx, c.request)
	if err != nil {
		return reply, err
	}
	out := a.markdownWriter()
	if a.wantsJSON() {
		out = nopCloser{io.Discard}
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var text strings.Builder
	done := false
	for e, err := range eventstream.Events(response.Body) {
		if err != nil {
			return reply, err
		}
		var chunk apiclient.ChatChunk
		if err := apiclient.NewDecoder(bytes.NewReader(e.Data)).Decode(&chunk); err != nil {
			return reply, fmt.Errorf("the server sent a chunk that cannot be read: %w", err)
		}
		switch chunk.Type {
		case "text":
			piece := valueOr(chunk.Text, "")
			text.WriteString(piece)
			if _, err := io.WriteString(out, piece); err != nil {
				return reply, err
			}
		case "tool_call":
			if chunk.ToolCall == nil {
				return reply, errors.New("the server sent a call without a tool")
			}
			if valueOr(chunk.ToolCall.ServerHandled, false) {
				a.printErrf("%s", a.paint(a.errTerminal, dim, "the model uses "+chunk.ToolCall.Name))
			} else {
				reply.calls = append(reply.calls, *chunk.ToolCall)
			}
		case "error":
			return reply, errors.New(valueOr(chunk.Error, "the answer failed"))
		case "done":
			done, reply.Usage = true, valueOr(chunk.Usage, apiclient.ChatUsage{})
		}
	}
	reply.Text = text.String()
	if !a.outTerminal && reply.Text != "" && !strings.HasSuffix(reply.Text, "\n") {
		_, err = io.WriteString(out, "\n")
	}
	if err == nil && !done {
		err = errors.New("the answer was cut off")
	}
	return reply, err
}

// markdownWriter returns a writer of Markdown, which it renders on a terminal.
func (a *app) markdownWriter() io.WriteCloser {
	if a.outTerminal {
		return a.markdown()
	}
	return nopCloser{a.out}
}

// printMarkdown prints Markdown.
func (a *app) printMarkdown(text string) error {
	out := a.markdownWriter()
	_, err := io.WriteString(out, text)
	return errors.Join(err, out.Close())
}

// nopCloser is a writer whose Close does nothing.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (a *app) modelsCommand() *cobra.Command {
	return listCommand(a, "models", "List the models that one may chat with", func(m apiclient.Model) []column {
		return []column{{"id", m.ID}, {"name", m.DisplayName}, {"provider", m.Provider}, {"tier", m.Tier}}
	}, (*apiclient.Client).ListModels)
}
