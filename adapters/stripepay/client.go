package stripepay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"collab/adapters/outbound"
	"collab/domain/fault"

	"github.com/stripe/stripe-go/v76"
)

const (
	attempts = 3 // of one call
	// attemptTimeout is such that all attempts, with pauses of at most half a second and a
	// second, fit into the service's request timeout of 35 seconds.
	attemptTimeout = 10 * time.Second
	connectTimeout = 5 * time.Second
	maxResponse    = 1 << 20 // bytes
	maxIdentifier  = 64      // bytes of an identifier in an error
)

// backend returns a backend of the SDK that shares no state with others.
func backend(url string, c *http.Client, log *slog.Logger) stripe.Backend {
	config := &stripe.BackendConfig{
		EnableTelemetry:   stripe.Bool(false),
		HTTPClient:        client(c),
		LeveledLogger:     sdkLogger{log},
		MaxNetworkRetries: stripe.Int64(attempts - 1),
	}
	if url != "" {
		config.URL = &url
	}
	return stripe.GetBackendWithConfig(stripe.APIBackend, config)
}

// client returns a copy of c with transport, and with a timeout if c has none. If c is nil it is a new client.
func client(c *http.Client) *http.Client {
	if c == nil {
		c = outbound.NewConfigured(connectTimeout)
	}
	limited := *c
	limited.Transport = transport{limited.Transport}
	if limited.Timeout == 0 {
		limited.Timeout = attemptTimeout
	}
	return &limited
}

var errRedirect = errors.New("the answer is a redirect")

// transport limits responses, which the SDK reads to their end, refuses redirects, which
// would leak the key, and removes the header with the name of this machine.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("X-Stripe-Client-User-Agent")
	res, err := t.next.RoundTrip(r)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode >= 300 && res.StatusCode < 400:
		_ = res.Body.Close()
		return nil, errRedirect
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxResponse), res.Body}
	return res, nil
}

// sdkLogger logs the SDK's warnings, which are about retries. Its other messages contain
// requests and responses.
type sdkLogger struct{ log *slog.Logger }

func (sdkLogger) Debugf(string, ...any) {}
func (sdkLogger) Infof(string, ...any)  {}
func (sdkLogger) Errorf(string, ...any) {}

func (r sdkLogger) Warnf(format string, args ...any) {
	r.log.Warn("payments: " + fmt.Sprintf(format, args...))
}

// response is a response body that decodes to T.
type response[T any] struct {
	stripe.APIResource
	body T
}

func (a *response[T]) UnmarshalJSON(data []byte) error { return decode(data, &a.body) }

// call makes a call. Its errors are those of the port.
func call[T any](ctx context.Context, p *Payments, method, path string, params stripe.ParamsContainer) (T, error) {
	params.GetParams().Context = ctx
	var a response[T]
	err := p.backend.Call(method, path, p.key, params, &a)
	if err != nil {
		return a.body, failure(ctx, err)
	}
	return a.body, nil
}

// refusal is an error response. It keeps only identifiers of the response, because messages
// may quote the request.
type refusal struct {
	status            int
	kind, code, param string
	request           string // the request's id in the provider's log
	replayed          bool   // the provider replayed a stored response
}

func (r *refusal) Error() string {
	text := "status " + strconv.Itoa(r.status)
	for _, name := range []string{r.kind, r.code, r.param, r.request} {
		if name != "" {
			text += " " + word(name)
		}
	}
	return text
}

// unusable reports whether the idempotency key gives the same refusal again, because it was
// replayed, or because the key was used with another request.
func (r *refusal) unusable() bool {
	return r.replayed || r.kind == string(stripe.ErrorTypeIdempotency) && r.status == http.StatusBadRequest
}

// failure returns the error of a failed call, without content of the request, which contains
// the key.
func failure(ctx context.Context, err error) error {
	var apiError *stripe.Error
	if !errors.As(err, &apiError) {
		cause := networkCause(err)
		if ctx.Err() != nil {
			cause = context.Cause(ctx)
		}
		return fault.Wrap(fault.Unavailable, cause, "The payment provider does not answer")
	}
	r := &refusal{
		status: apiError.HTTPStatusCode, kind: string(apiError.Type), code: string(apiError.Code), param: apiError.Param,
		request: apiError.RequestID,
	}
	if apiError.LastResponse != nil {
		r.replayed = apiError.LastResponse.Header.Get("Idempotent-Replayed") == "true"
	}
	switch {
	// Unknown paths are 404 too, without this code. An unknown price is a wrong
	// configuration.
	case apiError.Code == stripe.ErrorCodeResourceMissing && !strings.Contains(apiError.Param, "price"):
		return fault.Wrap(fault.NotFound, r, "The payment provider knows nothing of it")
	case r.status == http.StatusPaymentRequired, apiError.Type == stripe.ErrorTypeCard:
		return fault.Wrap(fault.Conflict, r, declined)
	case r.status >= 500, r.status == http.StatusTooManyRequests, r.status == http.StatusConflict, apiError.Code == stripe.ErrorCodeLockTimeout:
		return fault.Wrap(fault.Unavailable, r, "The payment provider cannot answer now")
	}
	return fault.Wrap(fault.Internal, r, "The payment provider refused the request")
}

// unreadable is the error for a response without required fields.
func unreadable(what string) error {
	return fault.Wrap(fault.Unavailable, errors.New("the answer is "+what), "The payment provider gave no answer that can be read")
}

// networkCause returns the cause of a missing response, without received content.
func networkCause(err error) error {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &op):
		return op
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("the answer did not come in time")
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection was closed")
	}
	return errors.New("the answer is not one of the API")
}

// word returns s if it has the form of an identifier of the provider. Other text could quote
// the request.
func word(s string) string {
	allowed := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./[]", r)
	}
	if len(s) > maxIdentifier || strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) }) {
		return "other"
	}
	return s
}
