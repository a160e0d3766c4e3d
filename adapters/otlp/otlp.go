// Package otlp sends traces to a collector by OTLP over HTTP.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"collab/adapters/outbound"
)

const (
	defaultTimeout = 10 * time.Second // of a request
	maxResponse    = 4 << 20          // bytes
	maxExcerpt     = 200              // bytes of a response in an error
	minSecret      = 8                // bytes of a header's value that errors do not repeat

	initialBackoff = 5 * time.Second // before the first retry; each later one is 1.5 times as long
	maxBackoff     = 30 * time.Second
	maxElapsed     = time.Minute // after which no retry begins
)

const contentTypeJSON, contentTypeProtobuf = "application/json", "application/x-protobuf"

// Client sends spans as configured by the variables OTEL_EXPORTER_OTLP_*. Those that begin
// with OTEL_EXPORTER_OTLP_TRACES_ take precedence.
type Client struct {
	url       url.URL
	header    http.Header
	secrets   []string // values of configured headers
	gzip      bool
	transport *http.Transport
	http      *http.Client
	retries   bool
	stopped   context.Context
	stop      context.CancelFunc
}

var _ otlptrace.Client = (*Client)(nil)

// NewClient returns a client configured by the variables. It ignores invalid values. With
// retries, UploadTraces retries requests that fail temporarily, for a minute.
func NewClient(retries bool) *Client {
	header, secrets := parseHeaders(lookup("HEADERS"))
	c := &Client{
		header:  header,
		secrets: secrets,
		url:     url.URL{Scheme: "https", Host: "localhost:4318", Path: "/v1/traces"},
		http:    outbound.NewConfigured(defaultTimeout),
		retries: retries,
	}
	c.http.Timeout = defaultTimeout
	c.transport = c.http.Transport.(*http.Transport)
	c.transport.DisableCompression = false // as OpenTelemetry's client
	c.stopped, c.stop = context.WithCancel(context.Background())

	for traces, value := range variables("ENDPOINT") {
		u, err := url.Parse(value)
		if err != nil {
			continue
		}
		c.url = url.URL{Scheme: "https", Host: u.Host, Path: u.Path}
		if !traces {
			c.url.Path = path.Join("/", u.Path, "v1/traces")
		}
		if strings.EqualFold(u.Scheme, "http") {
			c.url.Scheme = "http"
		}
	}
	switch insecure := lookup("INSECURE"); {
	case strings.EqualFold(insecure, "true"):
		c.url.Scheme = "http"
	case insecure != "":
		c.url.Scheme = "https"
	}
	if c.header.Get("User-Agent") == "" {
		c.header.Set("User-Agent", "OTel OTLP Exporter Go/"+otlptrace.Version())
	}
	c.header.Set("Content-Type", contentTypeProtobuf)
	if lookup("PROTOCOL") == "http/json" {
		c.header.Set("Content-Type", contentTypeJSON)
	}
	if c.gzip = lookup("COMPRESSION") == "gzip"; c.gzip {
		c.header.Set("Content-Encoding", "gzip")
	}
	for _, value := range variables("TIMEOUT") {
		if milliseconds, err := strconv.Atoi(value); err == nil {
			c.http.Timeout = time.Duration(milliseconds) * time.Millisecond
		}
	}
	c.transport.TLSClientConfig = tlsConfig()
	return c
}

// variables yields the values of OTEL_EXPORTER_OTLP_name and OTEL_EXPORTER_OTLP_TRACES_name, if set.
func variables(name string) iter.Seq2[bool, string] {
	return func(yield func(traces bool, value string) bool) {
		for i, prefix := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"} {
			value := strings.TrimSpace(os.Getenv(prefix + name))
			if value != "" && !yield(i == 1, value) {
				return
			}
		}
	}
}

// lookup returns the value that takes precedence, empty if none is set.
func lookup(name string) (value string) {
	for _, value = range variables(name) {
	}
	return value
}

// Secrets returns the secrets in the variables of headers.
func Secrets(getenv func(variable string) string) (all []string) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		_, secrets := parseHeaders(getenv(variable))
		all = append(all, secrets...)
	}
	return all
}

// parseHeaders parses a list of name=value with percent-encoded values, and skips invalid
// pairs. Secrets are the values, and the values without an authorization scheme.
func parseHeaders(list string) (header http.Header, secrets []string) {
	header = http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(value)
		if ok && err == nil && httpguts.ValidHeaderFieldName(name) {
			value = strings.TrimSpace(value)
			_, credentials, _ := strings.Cut(value, " ") // after the scheme of an Authorization
			header.Set(name, value)
			secrets = append(secrets, value, credentials)
		}
	}
	return header, secrets
}

// tlsConfig returns the configuration with the configured certificates, nil if there are none.
func tlsConfig() *tls.Config {
	var c tls.Config
	for _, file := range variables("CERTIFICATE") {
		roots := x509.NewCertPool()
		if pem, err := os.ReadFile(file); err == nil && roots.AppendCertsFromPEM(pem) {
			c.RootCAs = roots
		}
	}
	keys := maps.Collect(variables("CLIENT_KEY"))
	for traces, file := range variables("CLIENT_CERTIFICATE") {
		if pair, err := tls.LoadX509KeyPair(file, keys[traces]); err == nil {
			c.Certificates = []tls.Certificate{pair}
		}
	}
	if c.RootCAs == nil && c.Certificates == nil {
		return nil
	}
	return &c
}

// Start returns an error if certificates are configured for an http:// address.
func (c *Client) Start(ctx context.Context) error {
	if c.url.Scheme == "http" && c.transport.TLSClientConfig != nil {
		return errors.New("an http:// collector cannot have certificates")
	}
	return ctx.Err()
}

// Stop cancels pending requests.
func (c *Client) Stop(ctx context.Context) error {
	c.stop()
	c.transport.CloseIdleConnections()
	return ctx.Err()
}

// UploadTraces sends the spans. Its error has the beginning of the response.
func (c *Client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	body, err := c.encode(spans)
	if err != nil {
		return err
	}
	start := time.Now()
	for backoff := initialBackoff; ; backoff = min(backoff*3/2, maxBackoff) {
		minDelay, err := c.send(ctx, body)
		if err == nil || minDelay < 0 || !c.retries || time.Since(start)+minDelay > maxElapsed {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(max(minDelay, backoff/2+rand.N(backoff))):
		}
	}
}

// encode returns the body of a request. It may change the identifiers of the spans.
func (c *Client) encode(spans []*tracepb.ResourceSpans) (body []byte, err error) {
	request := &tracepb.TracesData{ResourceSpans: spans} // has the request's fields
	if c.header.Get("Content-Type") == contentTypeJSON {
		hexIDs(spans)
		body, err = protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(request)
	} else {
		body, err = proto.Marshal(request)
	}
	if err != nil || !c.gzip {
		return body, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(body)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// hexIDs replaces identifiers by bytes that protojson, which writes Base64, writes as the
// hexadecimal digits of the identifier, the form of OTLP.
func hexIDs(spans []*tracepb.ResourceSpans) {
	change := func(ids ...*[]byte) {
		for _, id := range ids {
			*id, _ = base64.StdEncoding.DecodeString(fmt.Sprintf("%X", *id)) // 16 or 32 digits
		}
	}
	for _, resource := range spans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				change(&span.TraceId, &span.SpanId, &span.ParentSpanId)
				for _, link := range span.Links {
					change(&link.TraceId, &link.SpanId)
				}
			}
		}
	}
}

// send makes a request. If it fails temporarily, minDelay is the time to wait before a
// retry; it is negative if retries are useless.
func (c *Client) send(ctx context.Context, body []byte) (minDelay time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header = c.header.Clone()
	response, err := c.http.Do(r)
	if err != nil {
		if failure := new(url.Error); errors.As(err, &failure) && failure.Temporary() {
			return 0, err
		}
		return -1, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err == nil && len(content) > maxResponse {
		err = errors.New("the collector's answer is too long")
	}
	if err != nil {
		return -1, err
	}
	if response.StatusCode/100 == 2 {
		return -1, c.checkPartialSuccess(response.Header.Get("Content-Type"), content)
	}
	err = fmt.Errorf("%s answers %s: %s", c.url.Redacted(), response.Status, c.excerpt(content))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(response.Header.Get("Retry-After")), err
	}
	return -1, err
}

// excerpt returns the beginning of a response, without the secrets.
func (c *Client) excerpt(content []byte) string {
	for _, secret := range c.secrets {
		if len(secret) >= minSecret {
			content = bytes.ReplaceAll(content, []byte(secret), []byte("…"))
		}
	}
	return string(bytes.TrimSpace(content[:min(len(content), maxExcerpt)]))
}

// retryAfter returns the duration that a Retry-After header asks for, 0 if it has none.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(0, seconds), 1<<30)) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, time.Until(date))
}

// checkPartialSuccess returns an error if an ExportTraceServiceResponse reports rejected spans
// or has a message.
func (c *Client) checkPartialSuccess(contentType string, content []byte) error {
	var response struct {
		PartialSuccess struct {
			RejectedSpans json.Number
			ErrorMessage  string
		}
	}
	partial := &response.PartialSuccess
	switch contentType {
	case contentTypeJSON:
		_ = json.Unmarshal(content, &response) // the spans were accepted
	case contentTypeProtobuf:
		_, success := field(content, 1)
		spans, _ := field(success, 1)
		_, message := field(success, 2)
		partial.RejectedSpans, partial.ErrorMessage = json.Number(strconv.FormatUint(spans, 10)), string(message)
	}
	if spans, _ := partial.RejectedSpans.Int64(); spans != 0 || partial.ErrorMessage != "" {
		return fmt.Errorf("the collector refuses %d spans: %s", spans, c.excerpt([]byte(partial.ErrorMessage)))
	}
	return nil
}

// field returns the last value of a field of a protobuf message, which is a varint or bytes.
func field(message []byte, number protowire.Number) (varint uint64, content []byte) {
	for len(message) > 0 {
		found, kind, tag := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(found, kind, message[max(0, tag):])
		if tag < 0 || size < 0 {
			break
		}
		if value := message[tag : tag+size]; found == number {
			varint, _ = protowire.ConsumeVarint(value)
			content, _ = protowire.ConsumeBytes(value)
		}
		message = message[tag+size:]
	}
	return varint, content
}
