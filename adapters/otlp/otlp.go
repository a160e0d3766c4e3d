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
	shortestKey    = 8                // bytes of a header's value that errors do not repeat

	firstPause   = 5 * time.Second  // before the first retry; each later one is half as long again
	longestPause = 30 * time.Second // bounds the pauses
	maxElapsed   = time.Minute      // after which no retry begins
)

const contentTypeJSON, contentTypeProtobuf = "application/json", "application/x-protobuf"

// Client sends spans as the variables OTEL_EXPORTER_OTLP_* say, for each of which that
// with OTEL_EXPORTER_OTLP_TRACES_ counts more.
type Client struct {
	url       url.URL
	header    http.Header
	keys      []string // values of configured headers
	gzip      bool
	transport *http.Transport
	http      *http.Client
	retries   bool
	stopped   context.Context
	stop      context.CancelFunc
}

var _ otlptrace.Client = (*Client)(nil)

// NewClient reads the variables, and ignores values that it cannot read. With retries,
// requests are repeated when the collector cannot take them for a while.
func NewClient(retries bool) *Client {
	header, keys := parseHeaders(setting("HEADERS"))
	c := &Client{
		header:  header,
		keys:    keys,
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
	switch insecure := setting("INSECURE"); {
	case strings.EqualFold(insecure, "true"):
		c.url.Scheme = "http"
	case insecure != "":
		c.url.Scheme = "https"
	}
	if c.header.Get("User-Agent") == "" {
		c.header.Set("User-Agent", "OTel OTLP Exporter Go/"+otlptrace.Version())
	}
	c.header.Set("Content-Type", contentTypeProtobuf)
	if setting("PROTOCOL") == "http/json" {
		c.header.Set("Content-Type", contentTypeJSON)
	}
	if c.gzip = setting("COMPRESSION") == "gzip"; c.gzip {
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

// variables yields the value of the variable of the name, then that of traces alone,
// each if it is set.
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

// setting returns the value that counts most, empty if none is set.
func setting(name string) (value string) {
	for _, value = range variables(name) {
	}
	return value
}

// Secrets returns the secrets in the variables of headers.
func Secrets(getenv func(variable string) string) (all []string) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		_, keys := parseHeaders(getenv(variable))
		all = append(all, keys...)
	}
	return all
}

// parseHeaders reads a list of name=value, the values with percent signs as in
// addresses. Keys are the values, and the values without an authorization scheme.
// It skips what it cannot read.
func parseHeaders(list string) (header http.Header, keys []string) {
	header = http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(value)
		if found && err == nil && httpguts.ValidHeaderFieldName(name) {
			value = strings.TrimSpace(value)
			_, token, _ := strings.Cut(value, " ") // after the scheme of an Authorization
			header.Set(name, value)
			keys = append(keys, value, token)
		}
	}
	return header, keys
}

// tlsConfig returns the configuration with the files of certificates, nil where there
// are none.
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

// Start fails if there are certificates for an address without TLS.
func (c *Client) Start(ctx context.Context) error {
	if c.url.Scheme == "http" && c.transport.TLSClientConfig != nil {
		return errors.New("an http:// collector cannot have certificates")
	}
	return ctx.Err()
}

// Stop ends requests that are under way.
func (c *Client) Stop(ctx context.Context) error {
	c.stop()
	c.transport.CloseIdleConnections()
	return ctx.Err()
}

// UploadTraces sends the spans. The error says what the collector answers.
func (c *Client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	body, err := c.encode(spans)
	if err != nil {
		return err
	}
	began := time.Now()
	for pause := firstPause; ; pause = min(pause*3/2, longestPause) {
		atLeast, err := c.send(ctx, body)
		if err == nil || atLeast < 0 || !c.retries || time.Since(began)+atLeast > maxElapsed {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(max(atLeast, pause/2+rand.N(pause))):
		}
	}
}

// encode returns the body of a request for the spans, whose identifiers it may change.
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

// hexIDs has protojson write identifiers in hexadecimal digits, as OTLP does: their
// Base64 are the digits.
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

// send makes a request. If it fails, another may succeed after the time, none if that
// is negative.
func (c *Client) send(ctx context.Context, body []byte) (time.Duration, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header = c.header.Clone()
	res, err := c.http.Do(r)
	if err != nil {
		if failure := new(url.Error); errors.As(err, &failure) && failure.Temporary() {
			return 0, err
		}
		return -1, err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err == nil && len(content) > maxResponse {
		err = errors.New("the collector's answer is too long")
	}
	if err != nil {
		return -1, err
	}
	if res.StatusCode/100 == 2 {
		return -1, c.rejected(res.Header.Get("Content-Type"), content)
	}
	err = fmt.Errorf("%s answers %s: %s", c.url.Redacted(), res.Status, c.excerpt(content))
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return retryAfter(res.Header.Get("Retry-After")), err
	}
	return -1, err
}

// excerpt returns the beginning of what the collector says, without the values of headers
// that have keys.
func (c *Client) excerpt(content []byte) string {
	for _, key := range c.keys {
		if len(key) >= shortestKey {
			content = bytes.ReplaceAll(content, []byte(key), []byte("…"))
		}
	}
	return string(bytes.TrimSpace(content[:min(len(content), maxExcerpt)]))
}

// retryAfter returns the time that the header's value says, zero if it says none.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(0, seconds), 1<<30)) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, time.Until(at))
}

// rejected returns an error if a response, an ExportTraceServiceResponse, says that spans
// were not taken or has a message.
func (c *Client) rejected(contentType string, content []byte) error {
	var response struct {
		PartialSuccess struct {
			RejectedSpans json.Number
			ErrorMessage  string
		}
	}
	partial := &response.PartialSuccess
	switch contentType {
	case contentTypeJSON:
		_ = json.Unmarshal(content, &response) // the spans were taken
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

// field returns the last value of a field of a message in protobuf, which is a number or
// bytes.
func field(message []byte, wanted protowire.Number) (number uint64, content []byte) {
	for len(message) > 0 {
		found, kind, tag := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(found, kind, message[max(0, tag):])
		if tag < 0 || size < 0 {
			break
		}
		if value := message[tag : tag+size]; found == wanted {
			number, _ = protowire.ConsumeVarint(value)
			content, _ = protowire.ConsumeBytes(value)
		}
		message = message[tag+size:]
	}
	return number, content
}
