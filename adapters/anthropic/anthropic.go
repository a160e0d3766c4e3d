// Package anthropic implements ports.Models with the Messages API of Anthropic.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"collab/adapters/eventstream"
	"collab/adapters/outbound"
	"collab/domain/chat"
	"collab/ports"
)

// DefaultURL is Anthropic's server.
const DefaultURL = "https://api.anthropic.com"

const (
	apiVersion = "2023-06-01"
	maxPauses  = 8 // continued pauses of one response

	connectTimeout = 10 * time.Second
)

var _ ports.Models = (*Models)(nil)

// Options configure New.
type Options struct {
	APIKey string       // empty: none is sent
	URL    string       // without /v1; empty: Anthropic's
	Client *http.Client // nil: outbound's
}

// Models implements ports.Models.
type Models struct{ client *eventstream.Client }

// New returns the models of a provider. It reads nothing from the environment.
func New(o Options) (*Models, error) {
	key := strings.TrimSpace(o.APIKey)
	if key == "" && o.URL == "" {
		return nil, errors.New("COLLAB_ANTHROPIC_API_KEY: must not be empty")
	}
	header := http.Header{"Anthropic-Version": {apiVersion}}
	if key != "" {
		header.Set("X-Api-Key", key)
	}
	c, err := eventstream.NewClient(cmp.Or(o.URL, DefaultURL), header, cmp.Or(o.Client, outbound.NewConfigured(connectTimeout)))
	if err != nil {
		return nil, fmt.Errorf("COLLAB_ANTHROPIC_URL: %w", err)
	}
	return &Models{c}, nil
}

// Stream implements ports.Models. It continues a response that the provider pauses while
// the call's budget allows.
func (m *Models) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	t := &response{Relay: eventstream.Relay[chat.Chunk]{To: to}, resumable: c.WebSearch, ids: c.CallIDs(), searches: map[string]string{}}
	var partial []any // the content before a pause
	for pauses := 0; ; pauses++ {
		limits, ok := c.NextLimits(t.reply().Usage, t.usage)
		switch {
		case !ok && pauses == 0:
			return t.reply(), fail(chat.OtherFailure, "the budget of %d tokens has no room for an answer", c.Budget)
		case !ok:
			t.stop = maxTokensReached
			return t.reply(), nil
		}
		q, err := request(c, limits)
		if err != nil {
			return t.reply(), &chat.Failure{Kind: chat.OtherFailure, Cause: err}
		}
		if partial != nil {
			q.Messages = append(q.Messages, message{partial, "assistant"})
		}
		if err := m.message(ctx, q, t); err != nil {
			return t.reply(), t.Cause(ctx, err)
		}
		if t.stop != pauseTurn || t.toolCalled {
			return t.reply(), nil
		}
		if pauses == maxPauses {
			return t.reply(), fail(chat.OtherFailure, "paused more than %d times", maxPauses)
		}
		if partial, err = t.content(); err != nil {
			return t.reply(), fail(chat.OtherFailure, "the content before a pause cannot be sent back")
		}
	}
}

// message streams one message.
func (m *Models) message(ctx context.Context, q requestBody, t *response) error {
	return failure(m.client.Stream(ctx, "v1/messages", q, eventstream.Receiver{
		Open: t.startMessage, Event: t.event, Wait: t.Wait, Sent: t.To.Sent, Alive: t.To.Alive,
	}))
}

func fail(kind chat.FailureKind, format string, args ...any) *chat.Failure {
	return &chat.Failure{Kind: kind, Cause: fmt.Errorf("anthropic: "+format, args...)}
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

// failureKind uses the provider's error type before the status, because an error in a stream
// has the status 200.
func failureKind(status int, p eventstream.Problem) chat.FailureKind {
	switch p.Type {
	case "overloaded_error":
		return chat.Overloaded
	case "rate_limit_error":
		return chat.RateLimited
	}
	if kind := kinds.Status(status); kind != chat.Network || p.Type == "" {
		return kind
	}
	return chat.OtherFailure // the provider's own 502 or 504
}
