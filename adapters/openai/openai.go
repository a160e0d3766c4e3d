// Package openai has models by chat completions, the protocol of OpenAI's API
// that many other servers speak as well, local ones among them.
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

const (
	ownURL         = "https://api.openai.com/v1"
	connectTimeout = 10 * time.Second
)

var _ ports.Models = (*Models)(nil)

// Options say whom to ask.
type Options struct {
	APIKey string       // empty: none is sent
	URL    string       // with /v1; empty: OpenAI's own
	Client *http.Client // nil: outbound's
}

// Models are those of the API.
type Models struct {
	client *eventstream.Client
	own    bool // OpenAI's, which knows max_completion_tokens; others know max_tokens
}

// New returns the models. Nothing is read from the environment.
func New(o Options) (*Models, error) {
	header := http.Header{}
	if key := strings.TrimSpace(o.APIKey); key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	c, err := eventstream.NewClient(cmp.Or(o.URL, ownURL), header, cmp.Or(o.Client, outbound.NewConfigured(connectTimeout)))
	if err != nil {
		return nil, fmt.Errorf("COLLAB_OPENAI_URL: %w", err)
	}
	host := c.Host()
	return &Models{
		client: c,
		own:    host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".openai.azure.com"),
	}, nil
}

// Unknown asks which models there are and returns those of the ids that the
// provider does not know. A refusal is an *eventstream.StatusError.
func (m *Models) Unknown(ctx context.Context, ids []string) ([]string, error) {
	return m.client.Missing(ctx, "models", "models/", ids)
}

// Stream answers a call.
func (m *Models) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	q, err := request(c, m.own)
	if err != nil {
		return chat.Reply{}, &chat.Failure{Kind: chat.Broken, Cause: err}
	}
	t := newAnswer(c, to)
	if err := m.completion(ctx, q, t); err != nil {
		switch {
		case t.refused != nil:
			err = t.refused
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		return t.reply, err
	}
	return t.reply, nil
}

// completion asks for an answer and hands it on.
func (m *Models) completion(ctx context.Context, q question, t *answer) error {
	return failure(m.client.Stream(ctx, "chat/completions", q, eventstream.Receiver{Open: func() {}, Event: t.event, Wait: t.wait, Alive: t.to.Alive}))
}

func fail(kind chat.FailureKind, format string, args ...any) *chat.Failure {
	return &chat.Failure{Kind: kind, Cause: fmt.Errorf("openai: "+format, args...)}
}

// failure returns err as a chat.Failure. It keeps nothing of the request, which has
// the key, and of the answer only names.
func failure(err error) error {
	var known *chat.Failure
	var refused *eventstream.StatusError
	kind := chat.Network
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.As(err, &refused):
		kind = failureKind(refused.Status, refused.Problem.Code, refused.Problem.Type)
	case errors.Is(err, eventstream.ErrTruncated):
		kind = chat.Truncated
	case errors.Is(err, eventstream.ErrProtocol):
		kind = chat.Broken
	}
	return fail(kind, "%s", eventstream.Reason(err))
}

// failureKind goes by the words before the status: an error in the middle of a
// stream has the status 200. Servers that speak this protocol have words of their
// own, and some give a status as the code.
func failureKind(status int, words ...string) chat.FailureKind {
	for _, w := range words {
		switch {
		case strings.Contains(w, "overloaded"), w == "slow_down":
			return chat.Overloaded
		case strings.Contains(w, "rate_limit"), w == "insufficient_quota":
			return chat.RateLimited
		}
		if n, err := strconv.Atoi(w); err == nil && status == http.StatusOK {
			status = n
		}
	}
	switch status {
	case http.StatusServiceUnavailable, 529:
		return chat.Overloaded
	case http.StatusTooManyRequests:
		return chat.RateLimited
	case http.StatusBadGateway, http.StatusGatewayTimeout: // a gateway's, which did not reach the provider
		return chat.Network
	}
	return chat.Broken
}
