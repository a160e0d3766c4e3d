package limit

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"collab/adapters/encode"
)

// malformed returns the response to a request that net/http cannot parse, with an error
// body, in place of b, that of net/http. It returns nil if b is no response of HTTP/1.
// A request whose headers are late, also because the server is loaded, is cut for net/http.
func (l *Connections) malformed(b []byte, late bool, from net.Addr) []byte {
	version, line, found := bytes.Cut(b, []byte(" "))
	if !found || len(line) < 3 || string(version) != "HTTP/1.1" && string(version) != "HTTP/1.0" {
		return nil
	}
	status, err := strconv.Atoi(string(line[:3]))
	if err != nil {
		return nil
	}
	message, more := "The request line or a header of the request is malformed", ""
	switch {
	case late:
		status, message, more = http.StatusServiceUnavailable, "The headers of the request did not come in time", "Retry-After: 1\r\n"
	case status == http.StatusExpectationFailed:
		message = "Expect can only be 100-continue"
	case status == http.StatusRequestHeaderFieldsTooLarge:
		message = "The headers of the request are longer than 64 KiB"
	case status == http.StatusNotImplemented:
		message = "Transfer-Encoding can only be chunked"
	default:
		line, _, _ = bytes.Cut(line, []byte("\r\n"))
		if _, reason, found := strings.Cut(string(line), ": "); found {
			message += ": " + reason
		}
	}
	id := l.NewID()
	l.Log.Info("malformed request", slog.Int("status", status), slog.String("request", id), slog.String("address", from.String()))
	return response(id, status, string(encode.AppendError(nil, status, message)), more)
}

// response returns a response of HTTP/1.1 that closes its connection, with more header
// lines, each with its line end.
func response(id string, status int, body, more string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nConnection: close\r\n%sContent-Type: application/json\r\nCache-Control: private, no-cache\r\n"+
		"X-Content-Type-Options: nosniff\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), more, id, len(body), body)
}
