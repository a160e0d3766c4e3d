// Package openai has models by chat completions, the protocol of OpenAI's API
// that many other servers speak as well, local ones among them. The SDK makes
// requests; the stream is read here, in the caller's goroutine, because text comes
// in thousands of small events.
package openai

import (
	"cmp"
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
	"strconv"
	"strings"
	"time"

	"collab/domain/chat"
	"collab/ports"

	openai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	ownURL       = "https://api.openai.com/v1"
	maxRefusal   = 64 << 10 // bytes of the body of a refusal that are read
	maxList      = 4 << 20  // bytes of a list of models that are read
	maxWord      = 64       // bytes of a name that the provider gives a failure
	endPatience  = 100 * time.Millisecond
	connectLimit = 10 * time.Second
)

var _ ports.Models = (*Models)(nil)

// Options say whom to ask.
type Options struct {
	APIKey string       // empty: none is sent
	URL    string       // with /v1; empty: OpenAI's own
	Client *http.Client // nil: one that waits 10 s for a connection, and for an answer as long as ctx
}

// Models are those of the API.
type Models struct {
	client openai.Client
	own    bool // OpenAI's, which knows max_completion_tokens; others know max_tokens
}

// New returns the models. Nothing is read from the environment.
func New(o Options) (*Models, error) {
	address := cmp.Or(o.URL, ownURL)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("COLLAB_OPENAI_URL: must be an http or https address")
	}
	options := []option.RequestOption{
		option.WithBaseURL(address), option.WithMaxRetries(0), option.WithHTTPClient(client(o.Client)), option.WithMiddleware(shorten),
	}
	if key := strings.TrimSpace(o.APIKey); key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	host := u.Hostname()
	return &Models{
		client: openai.Client{Options: options}, // NewClient would read the environment
		own:    host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".openai.azure.com"),
	}, nil
}

// client returns a client that follows no redirects: they would take the
// conversation along to whoever the provider names.
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

// Stream answers a call.
func (m *Models) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	q, err := request(c, m.own)
	if err != nil {
		return chat.Reply{}, &chat.Failure{Kind: chat.Broken, Cause: err}
	}
	t := newAnswer(c, to)
	if err := m.message(ctx, q, t); err != nil {
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

// message asks for a message and hands it on.
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
		if failed := m.client.Post(ctx, "chat/completions", body, &res); failed != nil {
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
	return &chat.Failure{Kind: kind, Cause: fmt.Errorf("openai: "+format, args...)}
}

// refusal returns the failure of a request that has no stream for an answer. It
// keeps nothing of the request, which has the key, and of the answer only names:
// what else a provider says may repeat what it was asked.
func refusal(err error) error {
	var refused *openai.Error
	if !errors.As(err, &refused) {
		return fail(chat.Network, "%s", lost(err))
	}
	kind := failureKind(refused.StatusCode, refused.Code, refused.Type)
	return fail(kind, "status %d %s %s (request %s)", refused.StatusCode, word(refused.Type), word(refused.Code), word(refused.Response.Header.Get("X-Request-Id")))
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
