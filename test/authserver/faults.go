package authserver

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Fault is a handler that replaces that of an endpoint.
type Fault func(*Server, http.ResponseWriter, *http.Request)

// Status replies with a status and an HTML page, as proxies do.
func Status(code int) Fault {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<!doctype html><title>Hello</title>") // an error means that the connection is closed
	}
}

// Refuse replies with an error of OAuth.
func Refuse(status int, code string) Fault {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		reply(w, status, map[string]any{"error": code})
	}
}

// Echo replies with an OAuth error that quotes the request, also as its code if code is empty.
func Echo(status int, code string) Fault {
	return func(_ *Server, w http.ResponseWriter, r *http.Request) {
		quoted := sent(r)
		reply(w, status, map[string]any{"error": cmp.Or(code, quoted), "error_description": quoted, "error_uri": "https://example.com/" + quoted})
	}
}

// Garble replies with invalid HTTP that quotes the request.
func Garble(_ *Server, w http.ResponseWriter, r *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\n%s\r\n\r\n", sent(r), sent(r)) // an error means that the connection is closed
}

// sent returns the parts of a request that may contain secrets.
func sent(r *http.Request) string {
	id, secret, _ := r.BasicAuth()
	return strings.Join([]string{r.Form.Encode(), id, secret, r.Header.Get("Authorization")}, " ")
}

// Enormous replies with JSON that does not end for megabytes.
func Enormous(_ *Server, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, `{"padding":"`); err != nil {
		return
	}
	for range 256 {
		if _, err := io.WriteString(w, strings.Repeat("x", 16<<10)); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `"}`) // an error means that the connection is closed
}

// Hang does not answer until the client disconnects.
func Hang(s *Server, _ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.closed:
	}
}

// Stall begins a response, and does not continue it until the client disconnects.
func Stall(s *Server, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"issuer":`) // an error means that the connection is closed
	_ = http.NewResponseController(w).Flush()
	Hang(s, w, r)
}

// Cut closes the connection without a response.
func Cut(_ *Server, w http.ResponseWriter, _ *http.Request) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

// Redirect sends somewhere else, with a status that keeps method and body.
func Redirect(to string) Fault {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}
