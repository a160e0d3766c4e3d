package toolserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// echoed is the header that misbehaving servers repeat in responses, so that tests can check that it is not logged
// or returned.
const echoed = "Authorization"

// Behaviour is a handler that replaces the server's own.
type Behaviour func(http.ResponseWriter, Request)

// Hang gives no response.
func Hang(_ http.ResponseWriter, r Request) { <-r.ctx.Done() }

// HangInStream begins an event stream and sends no event.
func HangInStream(w http.ResponseWriter, r Request) {
	stream(w, ": wait\n\n")
	<-r.ctx.Done()
}

// Endless sends events without meaning until the client disconnects.
func Endless(w http.ResponseWriter, r Request) {
	for err := error(nil); err == nil; {
		err = stream(w, "event: nothing\ndata: "+strings.Repeat("x", 4<<10)+"\n\n")
	}
}

// EnormousEvent sends one event that does not end.
func EnormousEvent(w http.ResponseWriter, r Request) {
	err := stream(w, "data: ")
	for err == nil {
		err = stream(w, strings.Repeat("x", 64<<10))
	}
}

// EnormousBody sends a message that does not end.
func EnormousBody(w http.ResponseWriter, r Request) {
	w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(w, `{"jsonrpc":"2.0","result":"`)
	for err == nil {
		_, err = io.WriteString(w, strings.Repeat("x", 64<<10))
	}
}

// Pings sends ping requests until the client disconnects.
func Pings(w http.ResponseWriter, r Request) {
	for n, err := 0, error(nil); err == nil; n++ {
		err = stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":\"%d-%s\",\"method\":\"ping\"}\n\n", n, strings.Repeat("x", 4<<10)))
	}
}

// Ping sends one ping request and then nothing.
func Ping(w http.ResponseWriter, r Request) {
	_ = stream(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"ping\",\"method\":\"ping\"}\n\n")
	<-r.ctx.Done()
}

// Page replies with an HTML page.
func Page(w http.ResponseWriter, r Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title><p>"+r.Header.Get(echoed))
}

// BreakOff ends the connection in the middle of an event.
func BreakOff(w http.ResponseWriter, r Request) {
	_ = stream(w, "data: {\"jsonrpc\":") // the client may have disconnected
	panic(http.ErrAbortHandler)
}

// EndStream ends a stream without the response.
func EndStream(w http.ResponseWriter, r Request) {
	_ = stream(w, "id: 1\nretry: 1\ndata:\n\n") // the client may have disconnected
}

// Status replies with a status and a body that repeats the echoed header.
func Status(code int) Behaviour {
	return func(w http.ResponseWriter, r Request) { http.Error(w, "no: "+r.Header.Get(echoed), code) }
}

// Redirect sends its client to another address.
func Redirect(to string) Behaviour {
	return func(w http.ResponseWriter, _ Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// Endpoint begins a session over server-sent events whose endpoint event has the address.
func Endpoint(address string) Behaviour {
	return func(w http.ResponseWriter, r Request) {
		_ = stream(w, "event: endpoint\ndata: "+address+"\n\n") // the client may have disconnected
		<-r.ctx.Done()
	}
}

// Answer replies to a call with a result, which may be invalid JSON.
func Answer(result string) Behaviour { return reply("result", result) }

// Fault replies to a call with an error of JSON-RPC, which may be invalid JSON.
func Fault(fault string) Behaviour { return reply("error", fault) }

// Pages replies to each call with the result for its number, from 0 on.
func Pages(result func(call int) string) Behaviour {
	calls := make(chan int, 1)
	calls <- 0
	return func(w http.ResponseWriter, r Request) {
		n := <-calls
		calls <- n + 1
		Answer(result(n))(w, r)
	}
}

func reply(member, value string) Behaviour {
	return func(w http.ResponseWriter, r Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"%s":%s}`, r.id, member, value) // the client may have disconnected
	}
}

// stream sends text in an event stream.
func stream(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/event-stream")
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
