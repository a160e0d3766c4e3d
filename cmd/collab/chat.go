package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

// maxMessage bounds what is read from standard input for a message, in bytes: the server takes
// requests of at most 1 MiB.
const maxMessage = 1 << 20

func (a *app) chat() *cobra.Command {
	var model, system string
	var search bool
	var tokens int64
	c := command("chat [MESSAGE...]", "Chat with a model", 0, -1, func(c *cobra.Command, args []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		request := apiclient.ChatRequest{}
		if model != "" {
			request.Model = &model
		}
		if system != "" {
			request.SystemPrompt = &system
		}
		if search {
			request.EnableWebSearch = &search
		}
		if tokens > 0 {
			request.MaxTokens = &tokens
		}
		parts := []string{strings.Join(args, " ")}
		if !a.inTerminal {
			text, err := a.readAll(maxMessage)
			if err != nil {
				return err
			}
			parts = append(parts, text)
		}
		if request.Message = strings.TrimSpace(strings.Join(parts, "\n\n")); request.Message != "" {
			_, err := a.ask(c.Context(), client, request)
			return err
		}
		if !a.inTerminal {
			return usage("there is no message: pass one as argument or on standard input")
		}
		return a.converse(c.Context(), client, request)
	})
	c.Long = "chat prints a model's answer as it arrives. What is on standard input follows the message of the\narguments. " +
		"On a terminal without a message it is a conversation, which an empty line ends."
	c.Example = "  collab chat What is a monad?\n  git diff | collab chat 'Write a commit message for this change' > message"
	c.Flags().StringVar(&model, "model", "", "`id` of the model; see collab models")
	c.Flags().StringVar(&system, "system", "", "the system prompt")
	c.Flags().BoolVar(&search, "web-search", false, "let the provider search the web")
	c.Flags().Int64Var(&tokens, "max-tokens", 0, "most tokens of the answer")
	return c
}

// converse asks what is typed, with what was said before as history.
func (a *app) converse(ctx context.Context, client *apiclient.Client, request apiclient.ChatRequest) error {
	lines := bufio.NewScanner(a.in)
	lines.Buffer(nil, maxMessage)
	for {
		fmt.Fprint(a.err, a.paint(a.errTerminal, bold, "> "))
		if !lines.Scan() || strings.TrimSpace(lines.Text()) == "" {
			return lines.Err()
		}
		request.Message = lines.Text()
		answer, err := a.ask(ctx, client, request)
		if err != nil {
			return err
		}
		request.History = append(request.History, apiclient.HistoryMessage{Role: "user", Content: request.Message})
		if answer != "" {
			request.History = append(request.History, apiclient.HistoryMessage{Role: "assistant", Content: answer})
		}
	}
}

// ask prints the answer to a request as it arrives, and returns its text.
func (a *app) ask(ctx context.Context, client *apiclient.Client, request apiclient.ChatRequest) (string, error) {
	answer, err := client.Chat(ctx, request)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	var used *apiclient.ChatUsage
	for e, err := range apiclient.Events(answer.Body) {
		if err != nil {
			return text.String(), err
		}
		var chunk apiclient.ChatChunk
		if err := json.Unmarshal(e.Data, &chunk); err != nil {
			return text.String(), err
		}
		switch chunk.Type {
		case "text":
			text.WriteString(*chunk.Text)
			if a.flags.json == "" && a.flags.jq == "" {
				if _, err := io.WriteString(a.out, a.printable(*chunk.Text)); err != nil {
					return text.String(), err
				}
			}
		case "tool_call":
			a.note("%s", a.paint(a.errTerminal, dim, plain("the model uses "+chunk.ToolCall.Name)))
		case "error":
			return text.String(), errors.New(*chunk.Error)
		case "done":
			used = chunk.Usage
		}
	}
	if used == nil {
		return text.String(), errors.New("the answer was cut off")
	}
	if a.flags.json != "" || a.flags.jq != "" {
		type result struct {
			Text  string              `json:"text"`
			Usage apiclient.ChatUsage `json:"usage"`
		}
		return text.String(), a.printJSON(result{text.String(), *used}, []string{"text", "usage"})
	}
	if !strings.HasSuffix(text.String(), "\n") {
		fmt.Fprintln(a.out)
	}
	return text.String(), nil
}

// printable returns text without what controls a terminal, if it goes to one.
func (a *app) printable(text string) string {
	if !a.outTerminal {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}

func (a *app) models() *cobra.Command {
	return command("models", "List the models that one may chat with", 0, 0, func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		list, err := client.ListModels(c.Context())
		if err != nil {
			return err
		}
		return rows(a, list.All(),
			column[apiclient.Model]{"id", func(m apiclient.Model) string { return m.ID }},
			column[apiclient.Model]{"name", func(m apiclient.Model) string { return m.DisplayName }},
			column[apiclient.Model]{"provider", func(m apiclient.Model) string { return m.Provider }},
			column[apiclient.Model]{"tier", func(m apiclient.Model) string { return m.Tier }})
	})
}
