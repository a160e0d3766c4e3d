package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Script is a response: its steps, and after them, unless one of them ended it,
// why it stopped, its usage and the protocol's end marker.
type Script []Step

// Step is a part of a response.
type Step func(*response) error

// Usage is the usage that a response reports.
type Usage struct {
	Input        int64 // without the cache
	CacheRead    int64
	CacheCreated int64
	Output       int64
	Searches     int64
}

var someUsage = Usage{Input: 12, Output: 7}

// Result is a result of a search.
type Result struct{ Title, URL, PageAge string }

// response is a response that is being streamed.
type response struct {
	Request
	ctx context.Context
	w   http.ResponseWriter
	out *http.ResponseController

	text    bytes.Buffer // not written yet
	burst   bool         // nothing is written until its end
	begun   bool
	block   int    // how many content blocks were begun
	open    bool   // the last of them is text
	calls   int    // of tools of the client's
	stop    string // empty: what follows from the steps
	usage   Usage
	allowed bool // the output is all that was allowed
	silent  bool // about usage
	endless bool // no end marker follows
}

func (a *response) play(s Script) error {
	for _, step := range s {
		if err := step(a); err != nil {
			_ = a.flush() // the steps before
			return err
		}
		if err := a.flush(); err != nil {
			return err
		}
	}
	return a.end()
}

// flush writes what there is.
func (a *response) flush() error {
	if a.burst || a.text.Len() == 0 {
		return nil
	}
	if _, err := a.w.Write(a.text.Bytes()); err != nil {
		return err
	}
	a.text.Reset()
	if err := a.out.Flush(); err != nil {
		return err
	}
	return a.ctx.Err()
}

// begin sends what comes before everything else.
func (a *response) begin() {
	if a.begun {
		return
	}
	a.begun = true
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.Header().Set("Cache-Control", "no-cache")
	a.w.Header().Set("Request-Id", "req_1")
	if a.allowed {
		a.usage.Output = a.MaxTokens
	}
	if a.Protocol == Messages {
		a.event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":%s,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1,"service_tier":"standard"}}}`,
			quote(a.Model), a.usage.Input, a.usage.CacheCreated, a.usage.CacheRead)
		return
	}
	a.chunk(`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`)
}

// end sends what comes after everything else.
func (a *response) end() error {
	a.begin()
	a.closeText()
	stop := a.stop
	if a.Protocol == Messages {
		if stop == "" {
			stop = "end_turn"
			if a.calls > 0 {
				stop = "tool_use"
			}
		}
		a.event("message_delta", `{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d,"server_tool_use":{"web_search_requests":%d,"web_fetch_requests":0}}}`,
			quote(stop), a.usage.Input, a.usage.CacheCreated, a.usage.CacheRead, a.usage.Output, a.usage.Searches)
		if !a.endless {
			a.event("message_stop", `{"type":"message_stop"}`)
		}
		return a.flush()
	}
	switch stop {
	case "":
		stop = "stop"
		if a.calls > 0 {
			stop = "tool_calls"
		}
	case "max_tokens":
		stop = "length"
	}
	a.chunk(`{"index":0,"delta":{},"logprobs":null,"finish_reason":%s}`, quote(stop))
	if a.wantsUsage && !a.silent {
		u := a.usage
		input := u.Input + u.CacheRead + u.CacheCreated
		fmt.Fprintf(&a.text, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%s,"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}}`+"\n\n",
			quote(a.Model), input, u.Output, input+u.Output, u.CacheRead, u.CacheCreated)
	}
	if !a.endless {
		a.text.WriteString("data: [DONE]\n\n")
	}
	return a.flush()
}

func (a *response) event(name, format string, args ...any) {
	fmt.Fprintf(&a.text, "event: %s\ndata: ", name)
	fmt.Fprintf(&a.text, format, args...)
	a.text.WriteString("\n\n")
}

// chunk sends a chunk of chat completions with one choice.
func (a *response) chunk(format string, args ...any) {
	fmt.Fprintf(&a.text, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%s,"service_tier":"default","choices":[`, quote(a.Model))
	fmt.Fprintf(&a.text, format, args...)
	fmt.Fprintf(&a.text, `],"usage":null,"obfuscation":"%x"}`+"\n\n", a.text.Len())
}

// opening begins a content block and returns its index.
func (a *response) opening(format string, args ...any) int {
	i := a.block
	a.block++
	a.event("content_block_start", `{"type":"content_block_start","index":%d,"content_block":%s}`, i, fmt.Sprintf(format, args...))
	return i
}

func (a *response) delta(i int, kind, field, value string) {
	a.event("content_block_delta", `{"type":"content_block_delta","index":%d,"delta":{"type":%s,%s:%s}}`, i, quote(kind), quote(field), value)
}

func (a *response) closing(i int) {
	a.event("content_block_stop", `{"type":"content_block_stop","index":%d}`, i)
}

func (a *response) closeText() {
	if a.open {
		a.open = false
		a.closing(a.block - 1)
	}
}

// say begins a step other than text.
func (a *response) say() {
	a.begin()
	a.closeText()
}

func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // as the providers have it
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Text sends the pieces, each in an event of its own.
func Text(pieces ...string) Step {
	return func(a *response) error {
		a.begin()
		for _, s := range pieces {
			if a.Protocol == ChatCompletions {
				a.chunk(`{"index":0,"delta":{"content":%s},"logprobs":null,"finish_reason":null}`, quote(s))
				continue
			}
			if !a.open {
				a.opening(`{"type":"text","text":""}`)
				a.open = true
			}
			a.delta(a.block-1, "text_delta", "text", quote(s))
		}
		return nil
	}
}

// Call calls a tool of the client's, its arguments in fragments.
func Call(id, name string, fragments ...string) Step {
	return func(a *response) error {
		a.say()
		n := a.calls
		a.calls++
		if a.Protocol == Messages {
			a.fragments(a.opening(`{"type":"tool_use","id":%s,"name":%s,"input":{}}`, quote(id), quote(name)), fragments)
			return nil
		}
		a.chunk(`{"index":0,"delta":{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]},"logprobs":null,"finish_reason":null}`, n, quote(id), quote(name))
		for _, f := range fragments {
			a.chunk(`{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]},"logprobs":null,"finish_reason":null}`, n, quote(f))
		}
		return nil
	}
}

func (a *response) fragments(block int, fragments []string) {
	for _, f := range fragments {
		a.delta(block, "input_json_delta", "partial_json", quote(f))
	}
	a.closing(block)
}

// Search runs a search of the provider's own and finds the results.
func Search(id, query string, results ...Result) Step {
	found := make([]string, len(results))
	for i, r := range results {
		age := "null"
		if r.PageAge != "" {
			age = quote(r.PageAge)
		}
		found[i] = fmt.Sprintf(`{"type":"web_search_result","title":%s,"url":%s,"page_age":%s,"encrypted_content":"c2VjcmV0"}`, quote(r.Title), quote(r.URL), age)
	}
	return steps(Searching(id, query), Found(id, "["+strings.Join(found, ",")+"]"))
}

// SearchFailed runs a search that ends in an error.
func SearchFailed(id, query, code string) Step {
	return steps(Searching(id, query), Found(id, `{"type":"web_search_tool_result_error","error_code":`+quote(code)+`}`))
}

// Searching begins a search without an end.
func Searching(id, query string) Step {
	return func(a *response) error {
		a.onlyMessages("a search")
		a.say()
		input := `{"query":` + quote(query) + `}`
		half := len(input) / 2
		a.usage.Searches++
		a.fragments(a.opening(`{"type":"server_tool_use","id":%s,"name":"web_search","input":{},"caller":{"type":"direct"}}`, quote(id)), []string{"", input[:half], input[half:]})
		return nil
	}
}

// Found ends a search with the content, which is JSON.
func Found(id, content string) Step {
	return func(a *response) error {
		a.onlyMessages("a search")
		a.say()
		a.closing(a.opening(`{"type":"web_search_tool_result","tool_use_id":%s,"caller":{"type":"direct"},"content":%s}`, quote(id), content))
		return nil
	}
}

// Think thinks aloud.
func Think(thought string) Step {
	return func(a *response) error {
		a.say()
		if a.Protocol == ChatCompletions {
			a.chunk(`{"index":0,"delta":{"reasoning_content":%s},"logprobs":null,"finish_reason":null}`, quote(thought))
			return nil
		}
		i := a.opening(`{"type":"thinking","thinking":"","signature":""}`)
		a.delta(i, "thinking_delta", "thinking", quote(thought))
		a.delta(i, "signature_delta", "signature", `"c2lnbmVk"`)
		a.closing(i)
		a.closing(a.opening(`{"type":"redacted_thinking","data":"aGlkZGVu"}`))
		return nil
	}
}

// Cite cites a source of the present text.
func Cite(title, url string) Step {
	return func(a *response) error {
		a.onlyMessages("a citation")
		a.begin()
		if !a.open {
			a.opening(`{"type":"text","text":"","citations":[]}`)
			a.open = true
		}
		a.delta(a.block-1, "citations_delta", "citation", fmt.Sprintf(`{"type":"web_search_result_location","title":%s,"url":%s,"cited_text":"so it says","encrypted_index":"aW5kZXg="}`, quote(title), quote(url)))
		return nil
	}
}

// Ping sends a ping event, or a comment.
func Ping() Step {
	return func(a *response) error {
		a.begin()
		if a.Protocol == Messages {
			a.event("ping", `{"type":"ping"}`)
		} else {
			a.text.WriteString(": ping\n\n")
		}
		return nil
	}
}

// Unknown sends an event of an unknown type.
func Unknown() Step {
	return func(a *response) error {
		a.begin()
		if a.Protocol == Messages {
			a.event("surprise", `{"type":"surprise","index":0,"delta":{"type":"text_delta","text":"not a text"}}`)
		} else {
			a.text.WriteString(`data: {"object":"chat.completion.surprise","surprise":{"content":"not a text"}}` + "\n\n")
		}
		return nil
	}
}

// Raw sends the text as it is.
func Raw(text string) Step {
	return func(a *response) error {
		a.begin()
		a.text.WriteString(text)
		return nil
	}
}

// Refuse refuses with a status, before there is a stream. The headers are names
// and values in turn.
func Refuse(status int, kind, message string, headers ...string) Step {
	return func(a *response) error {
		refuse(a.w, a.Protocol, status, kind, message, headers)
		return errCut
	}
}

func refuse(w http.ResponseWriter, p Protocol, status int, kind, message string, headers []string) {
	for i := 0; i+1 < len(headers); i += 2 {
		w.Header().Set(headers[i], headers[i+1])
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_1")
	w.WriteHeader(status)
	if p == Messages {
		fmt.Fprintf(w, `{"type":"error","error":{"type":%s,"message":%s},"request_id":"req_1"}`, quote(kind), quote(message))
		return
	}
	fmt.Fprintf(w, `{"error":{"message":%s,"type":%s,"param":null,"code":%s}}`, quote(message), quote(kind), quote(kind))
}

// Answer replies with a status and a body, without a stream.
func Answer(status int, contentType, body string) Step {
	return func(a *response) error {
		a.w.Header().Set("Content-Type", contentType)
		a.w.WriteHeader(status)
		a.text.WriteString(body)
		_ = a.flush()
		return errCut
	}
}

// SpendLimit refuses as at the end of a month's budget: without a word on when
// to try again.
func SpendLimit() Step {
	return func(a *response) error {
		a.w.Header().Set("Content-Type", "application/json")
		a.w.WriteHeader(http.StatusTooManyRequests)
		a.text.WriteString(`{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your specified API usage limits.","details":{"error_code":"enforced_spend_limit_reached"}}}`)
		_ = a.flush()
		return errCut
	}
}

// Fail fails in the middle of the stream.
func Fail(kind, message string) Step {
	return func(a *response) error {
		a.begin()
		if a.Protocol == Messages {
			a.event("error", `{"type":"error","error":{"type":%s,"message":%s}}`, quote(kind), quote(message))
		} else {
			fmt.Fprintf(&a.text, `data: {"error":{"message":%s,"type":%s,"param":null,"code":null}}`+"\n\n", quote(message), quote(kind))
		}
		return errCut
	}
}

// Cut ends the stream as if it were complete, without its end marker.
func Cut() Step {
	return func(a *response) error {
		a.begin()
		return errCut
	}
}

// Unmarked has the response end with its stop reason and usage, without its end marker.
func Unmarked() Step {
	return func(a *response) error {
		a.endless = true
		return nil
	}
}

// Drop loses the connection.
func Drop() Step { return func(*response) error { return errDrop } }

// Silence sends nothing more until the caller disconnects.
func Silence() Step { return Hold(nil) }

// Hold waits for until, or for the caller to leave.
func Hold(until <-chan struct{}) Step {
	return func(a *response) error {
		a.begin()
		if err := a.flush(); err != nil {
			return err
		}
		select {
		case <-until:
			return nil
		case <-a.ctx.Done():
			return a.ctx.Err()
		}
	}
}

// HoldBack waits before the first byte of the response, headers included.
func HoldBack(until <-chan struct{}) Step {
	return func(a *response) error {
		select {
		case <-until:
			return nil
		case <-a.ctx.Done():
			return a.ctx.Err()
		}
	}
}

// Ended has f called as soon as the caller has left, and else when the response is
// over.
func Ended(f func()) Step {
	return func(a *response) error {
		context.AfterFunc(a.ctx, f)
		return nil
	}
}

// Burst sends the steps in one write.
func Burst(all ...Step) Step {
	return func(a *response) error {
		a.burst = true
		err := steps(all...)(a)
		a.burst = false
		return err
	}
}

// Flood sends a text n times as fast as the caller reads.
func Flood(n int, text string) Step {
	const atOnce = 64
	return func(a *response) error {
		if err := Text(text)(a); err != nil {
			return err
		}
		from := a.text.Len()
		if err := Text(text)(a); err != nil {
			return err
		}
		event := bytes.Clone(a.text.Bytes()[from:])
		if err := a.flush(); err != nil {
			return err
		}
		for left := n - 2; left > 0; left -= atOnce {
			a.text.Write(bytes.Repeat(event, min(left, atOnce)))
			if err := a.flush(); err != nil {
				return err
			}
		}
		return nil
	}
}

// SetUsage sets the usage that the response reports. It must be the first step, because the input is reported
// at the beginning.
func SetUsage(u Usage) Step {
	return func(a *response) error {
		a.usage = u
		return nil
	}
}

// SetMaxUsage sets the output to what was allowed, and the input. It comes first.
func SetMaxUsage(input int64) Step {
	return func(a *response) error {
		a.usage, a.allowed = Usage{Input: input}, true
		return nil
	}
}

// NoUsage omits the usage from chat completions. Messages always have it.
func NoUsage() Step {
	return func(a *response) error {
		if a.Protocol == Messages {
			panic("provider: Messages always say their usage")
		}
		a.silent = true
		return nil
	}
}

// Stop sets the stop reason, as Anthropic or OpenAI names it.
func Stop(reason string) Step {
	return func(a *response) error {
		a.stop = reason
		return nil
	}
}

func steps(all ...Step) Step {
	return func(a *response) error {
		for _, step := range all {
			if err := step(a); err != nil {
				return err
			}
		}
		return nil
	}
}

func (a *response) onlyMessages(what string) {
	if a.Protocol != Messages {
		panic("provider: chat completions have no " + what + " in request for " + strconv.Quote(a.Model))
	}
}
