// Package provider is a provider of models for tests, with Anthropic's Messages and OpenAI's chat
// completions, streamed over HTTP on a loopback port. It answers both protocols by a Script, and records
// requests and disconnects.
//
// It refuses requests that the real providers refuse.
package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// kept is how many requests a server remembers.
const kept = 256

// maxBody is the largest body of a request, in bytes.
const maxBody = 64 << 20

// Protocol is a protocol of the server.
type Protocol uint8

// The protocols.
const (
	Messages        Protocol = iota // Anthropic's, at /v1/messages
	ChatCompletions                 // OpenAI's, at /v1/chat/completions
)

// Request is a request that the server received.
type Request struct {
	Protocol
	Header http.Header
	Body   []byte

	Model       string
	MaxTokens   int64
	MaxSearches int64  // of the provider's own
	Message     string // the last text of the user

	wantsUsage bool // a chat completion with stream_options.include_usage
}

// Server is a running provider.
type Server struct {
	front   *httptest.Server
	stopped chan struct{}
	left    chan struct{}

	mu       sync.Mutex
	scripts  []Script
	choose   func(Request) Script // nil: the scripts, one after the other
	requests []Request            // the last ones
	key      string               // with which models can be listed; empty: they cannot
	models   []string
}

// Start starts a provider that ends with the test. It plays one script after
// the other and repeats the last; the default is a greeting.
func Start(t testing.TB, scripts ...Script) *Server {
	s := Listen(scripts...)
	t.Cleanup(s.Stop)
	return s
}

// Listen starts a provider outside of a test.
func Listen(scripts ...Script) *Server {
	s := &Server{scripts: scripts, stopped: make(chan struct{}), left: make(chan struct{}, 1<<10)}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/messages", s.serve(Messages))
	routes.HandleFunc("POST /v1/chat/completions", s.serve(ChatCompletions))
	routes.HandleFunc("GET /v1/models", s.list)
	routes.HandleFunc("GET /v1/models/{id}", s.list)
	s.front = httptest.NewServer(routes)
	return s
}

// Stop ends the provider, also in the middle of responses.
func (s *Server) Stop() {
	close(s.stopped)
	s.front.CloseClientConnections()
	s.front.Close()
}

// Anthropic returns the address for clients of Messages.
func (s *Server) Anthropic() string { return s.front.URL }

// OpenAI returns the address for clients of chat completions.
func (s *Server) OpenAI() string { return s.front.URL + "/v1" }

// SetScripts sets the scripts of the next requests.
func (s *Server) SetScripts(scripts ...Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts, s.choose = scripts, nil
}

// Choose has f choose the script of each request.
func (s *Server) Choose(f func(Request) Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.choose = f
}

// Requests returns the last requests, the oldest of them first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Disconnects gets a value for each caller who left before the end of a response.
func (s *Server) Disconnects() <-chan struct{} { return s.left }

func (s *Server) take(r Request) Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == kept {
		s.requests = slices.Delete(s.requests, 0, kept/2)
	}
	s.requests = append(s.requests, r)
	switch {
	case s.choose != nil:
		return s.choose(r)
	case len(s.scripts) == 0:
		return Script{Text("Hello.")}
	}
	next := s.scripts[0]
	if len(s.scripts) > 1 {
		s.scripts = s.scripts[1:]
	}
	return next
}

func (s *Server) serve(p Protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req, refusal := read(p, r.Header, body)
		if refusal != "" {
			refuse(w, p, http.StatusBadRequest, "invalid_request_error", refusal, nil)
			return
		}
		// The end of the server ends what a step waits for, as a caller does who leaves.
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		go func() {
			select {
			case <-s.stopped:
				cancel(errStopped)
			case <-ctx.Done():
			}
		}()
		a := &response{Request: req, ctx: ctx, w: w, out: http.NewResponseController(w), usage: someUsage}
		switch err := a.play(s.take(req)); {
		case err == nil || errors.Is(err, errCut):
		case errors.Is(err, errDrop):
			panic(http.ErrAbortHandler)
		default:
			select {
			case <-s.stopped:
				panic(http.ErrAbortHandler) // a response that is cut off is not whole
			default:
			}
			select {
			case s.left <- struct{}{}:
			default:
			}
		}
	}
}

var (
	errStopped = errors.New("provider: stopped")
	errCut     = errors.New("provider: cut")
	errDrop    = errors.New("provider: dropped")
)
