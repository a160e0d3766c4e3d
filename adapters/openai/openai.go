// Package openai implements ports.Models with the chat completions API of OpenAI, which
// many other servers, also local ones, implement.
package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"collab/adapters/eventstream"
	"collab/adapters/outbound"
	"collab/domain/chat"
	"collab/ports"
)

// DefaultURL is OpenAI's server.
const DefaultURL = "https://api.openai.com/v1"

const connectTimeout = 10 * time.Second

var _ ports.Models = (*Models)(nil)

// Options configure New.
type Options struct {
	APIKey string       // empty: none is sent
	URL    string       // with /v1; empty: OpenAI's
	Client *http.Client // nil: outbound's
}

// Models implements ports.Models.
type Models struct {
	client *eventstream.Client
	openAI bool // OpenAI's server, with max_completion_tokens; others have max_tokens
}

// New returns the models of a provider. It reads nothing from the environment.
func New(o Options) (*Models, error) {
	header := http.Header{}
	if key := strings.TrimSpace(o.APIKey); key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	c, err := eventstream.NewClient(cmp.Or(o.URL, DefaultURL), header, cmp.Or(o.Client, outbound.NewConfigured(connectTimeout)))
	if err != nil {
		return nil, fmt.Errorf("COLLAB_OPENAI_URL: %w", err)
	}
	host := c.Host()
	return &Models{
		client: c,
		openAI: host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".openai.azure.com"),
	}, nil
}

// Stream implements ports.Models.
func (m *Models) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	q, err := request(c, m.openAI)
	if err != nil {
		return chat.Reply{}, &chat.Failure{Kind: chat.OtherFailure, Cause: err}
	}
	t := newResponse(c, to)
	err = failure(m.client.Stream(ctx, "chat/completions", q, eventstream.Receiver{
		Open: func() {}, Event: t.event, Wait: t.Wait, Sent: t.To.Sent, Alive: t.To.Alive,
	}))
	if t.reply.OutputKnown {
		t.reply.Unsent = 0
	}
	return t.reply, t.Cause(ctx, err)
}

func fail(kind chat.FailureKind, format string, args ...any) *chat.Failure {
	return &chat.Failure{Kind: kind, Cause: fmt.Errorf("openai: "+format, args...)}
}

// kinds maps failures of streams to those of chats.
var kinds = eventstream.Kinds[chat.FailureKind]{
	Overloaded: chat.Overloaded, RateLimited: chat.RateLimited, Network: chat.Network, Truncated: chat.Truncated, Broken: chat.OtherFailure,
}

// failure returns err as a *chat.Failure, without content of the request, which contains the
// key, and with only identifiers of the response.
func failure(err error) error {
	if _, known := errors.AsType[*chat.Failure](err); err == nil || known {
		return err
	}
	return fail(kinds.Classify(err, failureKind), "%s", eventstream.Reason(err))
}

// failureKind uses code and type before the status, because an error in a stream has the
// status 200. Servers have different names for errors, and some have a status as the code.
func failureKind(status int, p eventstream.Problem) chat.FailureKind {
	for _, name := range []string{p.Code, p.Type} {
		switch {
		case strings.Contains(name, "overloaded"), name == "slow_down":
			return chat.Overloaded
		case strings.Contains(name, "rate_limit"), name == "insufficient_quota":
			return chat.RateLimited
		}
		if n, err := strconv.Atoi(name); err == nil && status == http.StatusOK {
			status = n
		}
	}
	return kinds.Status(status)
}
