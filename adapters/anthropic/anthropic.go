// Package anthropic has models by the Messages protocol of Anthropic's API. The
// SDK makes requests; the stream is read here, in the caller's goroutine, because
// text comes in thousands of small events.
package anthropic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"collab/domain/chat"
	"collab/ports"

	anthropic "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

const (
	maxPauses    = 8        // of one answer that are continued
	maxRefusal   = 64 << 10 // bytes of the body of a refusal that are read
	maxList      = 4 << 20  // bytes of a list of models that are read
	maxWord      = 64       // bytes of a name that the provider gives a failure
	endPatience  = 100 * time.Millisecond
	connectLimit = 10 * time.Second
)

var _ ports.Models = (*Models)(nil)

// Options say whom to ask.
type Options struct {
	APIKey string       // empty: none is sent, which only a server of one's own takes
	URL    string       // without /v1; empty: Anthropic's own
	Client *http.Client // nil: one that waits 10 s for a connection, and for an answer as long as ctx
}

// Models are those of the API.
type Models struct{ client anthropic.Client }

// New returns the models. Nothing is read from the environment.
func New(o Options) (*Models, error) {
	key := strings.TrimSpace(o.APIKey)
	if key == "" && o.URL == "" {
		return nil, errors.New("COLLAB_ANTHROPIC_API_KEY: must not be empty")
	}
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithoutOpenTelemetry(), option.WithMaxRetries(0),
		option.WithHTTPClient(client(o.Client)), option.WithMiddleware(shorten),
	}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	if o.URL != "" {
		u, err := url.Parse(o.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("COLLAB_ANTHROPIC_URL: must be an http or https address")
		}
		options = append(options, option.WithBaseURL(o.URL))
	}
	return &Models{client: anthropic.NewClient(options...)}, nil
}

// client returns a client that follows no redirects: they would take the key
// along to whoever the provider names.
func client(c *http.Client) *http.Client {
	if c == nil {
		c = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectLimit, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: connectLimit,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			ReadBufferSize:      bufferSize,
			WriteBufferSize:     bufferSize,
			DisableCompression:  true, // a compressor would hold events back
		}}
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// shorten bounds the bodies that the SDK reads to their end: of a refusal, and of
// a list.
func shorten(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if err != nil {
		return res, err
	}
	limit := int64(maxRefusal)
	switch {
	case res.StatusCode >= http.StatusBadRequest:
	case r.Method == http.MethodGet:
		limit = maxList
	default:
		return res, nil
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, limit), res.Body}
	return res, nil
}

// Stream answers a call, and goes on with an answer that the provider pauses.
func (m *Models) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	q, err := request(c)
	if err != nil {
		return chat.Reply{}, &chat.Failure{Kind: chat.Broken, Cause: err}
	}
	asked := q.Messages
	t := &answer{to: to, keeps: c.WebSearch, ids: map[string]bool{}}
	for pauses := 0; ; pauses++ {
		if err := m.message(ctx, q, t); err != nil {
			switch {
			case t.refused != nil:
				err = t.refused
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			}
			return t.reply(), err
		}
		if t.stop != anthropic.StopReasonPauseTurn || t.called {
			return t.reply(), nil
		}
		if pauses == maxPauses {
			return t.reply(), fail(chat.Broken, "paused more than %d times", maxPauses)
		}
		left := int64(c.MaxTokens) - t.reply().Usage.Output
		if left < 1 {
			t.stop = anthropic.StopReasonMaxTokens
			return t.reply(), nil
		}
		q.MaxTokens = int(left)
		so, err := t.content()
		if err != nil {
			return t.reply(), fail(chat.Broken, "what came before a pause cannot be given back")
		}
		q.Messages = append(asked[:len(asked):len(asked)], message{so, "assistant"})
	}
}

// message asks for one message and hands it on.
func (m *Models) message(ctx context.Context, q question, t *answer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // which also ends what the provider does
	res, err := m.post(ctx, q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		return fail(chat.Broken, "status %d with %s is no stream", res.StatusCode, word(kind))
	}
	t.begin()
	events := newEvents(res.Body, t)
	for {
		data, err := events.next()
		if err != nil {
			return err
		}
		over, err := t.event(data)
		switch {
		case err != nil && events.cut && !json.Valid(data):
			return fail(chat.Truncated, "the stream ended within an event")
		case err != nil:
			return err
		case over:
			if err := t.wait(); err != nil {
				return err
			}
			// Only a body that was read to its end leaves a connection to use again.
			timer := time.AfterFunc(endPatience, cancel)
			_, _ = io.CopyN(io.Discard, res.Body, bufferSize)
			timer.Stop()
			return nil
		}
	}
}

// post asks, in a goroutine of its own: the way through the SDK is deep, and the
// stack that it takes would be the caller's for as long as the answer comes. A
// panic is the caller's all the same.
func (m *Models) post(ctx context.Context, q question) (res *http.Response, err error) {
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		body, failed := json.Marshal(q)
		if failed != nil {
			err = fail(chat.Broken, "the request cannot be written: %T", failed)
			return
		}
		if failed := m.client.Post(ctx, "v1/messages", body, &res); failed != nil {
			err = refusal(failed)
		}
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
	return res, err
}

func fail(kind chat.FailureKind, format string, args ...any) *chat.Failure {
	return &chat.Failure{Kind: kind, Cause: fmt.Errorf("anthropic: "+format, args...)}
}

// refusal returns the failure of a request that has no stream for an answer. It
// keeps nothing of the request, which has the key, and of the answer only names:
// what else a provider says may repeat what it was asked.
func refusal(err error) error {
	var refused *anthropic.Error
	if !errors.As(err, &refused) {
		return fail(chat.Network, "%s", lost(err))
	}
	kind := string(refused.Type())
	return fail(failureKind(refused.StatusCode, kind), "status %d %s (request %s)", refused.StatusCode, word(kind), word(refused.RequestID))
}

// failureKind goes by the type that the provider gives before the status: an
// error in the middle of a stream has the status 200.
func failureKind(status int, kind string) chat.FailureKind {
	switch kind {
	case "overloaded_error":
		return chat.Overloaded
	case "rate_limit_error":
		return chat.RateLimited
	}
	switch status {
	case 529, http.StatusServiceUnavailable:
		return chat.Overloaded
	case http.StatusTooManyRequests:
		return chat.RateLimited
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		if kind == "" { // a gateway's, which did not reach the provider
			return chat.Network
		}
	}
	return chat.Broken
}

// lost says why there was no connection, as far as that can be said without what
// came over it.
func lost(err error) string {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &op):
		return op.Error()
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	}
	for in := errors.Unwrap(err); in != nil; in = errors.Unwrap(err) {
		err = in
	}
	return fmt.Sprintf("the connection failed with a %T", err)
}

// word returns a name that the provider gives something. What is not one could
// be a part of what was said.
func word(s string) string {
	in := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./+", r)
	}
	switch {
	case s == "":
		return "-"
	case len(s) > maxWord || strings.ContainsFunc(s, func(r rune) bool { return !in(r) }):
		return "other"
	}
	return s
}
