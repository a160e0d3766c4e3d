package localmodel_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"collab/adapters/localmodel"
	"collab/domain/chat"
	"collab/test/contract"
	"collab/test/contract/provider"
	"collab/test/must"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var someModel = chat.Model{
	ID: "local-1", DisplayName: "Local", Provider: "local", Tier: "fast", ContextWindow: 1_000_000, MaxOutputTokens: 4096,
	Capabilities: []string{chat.WebSearch}, SearchTool: "local",
}

func TestModels(t *testing.T) {
	contract.Models(t, func(*testing.T, ...provider.Script) contract.ModelProvider {
		return contract.ModelProvider{Models: localmodel.New(nil), Model: someModel}
	})
}

// recorder is a sink that records its calls.
type recorder struct {
	chunks []chat.Chunk
	order  []string
	alive  int
}

func (rec *recorder) Chunk(c chat.Chunk) error {
	rec.chunks = append(rec.chunks, c)
	rec.order = append(rec.order, "chunk")
	return nil
}
func (rec *recorder) Sent()       {}
func (rec *recorder) Alive()      { rec.alive++ }
func (rec *recorder) Wait() error { rec.order = append(rec.order, "wait"); return nil }

func (rec *recorder) text() string {
	var b strings.Builder
	for _, c := range rec.chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// ofType returns the chunks of a type.
func (rec *recorder) ofType(want chat.ChunkType) (some []chat.Chunk) {
	for _, c := range rec.chunks {
		if c.Type == want {
			some = append(some, c)
		}
	}
	return some
}

// stream makes a request and returns the chunks and the reply.
func stream(t testing.TB, r chat.Request) (*recorder, chat.Reply) {
	t.Helper()
	call := must.Do(r.Call(someModel)).Or(t)
	rec := &recorder{}
	reply := must.Do(localmodel.New(nil).Stream(context.Background(), call, rec)).Or(t)
	return rec, reply
}

var (
	readFile = chat.Tool{Name: "read_file", Schema: `{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer","minimum":1}},"required":["path"]}`}
	list     = chat.Tool{Name: "list"}
)

func TestAResponse(t *testing.T) {
	rec, reply := stream(t, chat.Request{Message: "What is\n\n the  matter, then?", System: "Be brief."})
	for _, want := range []string{"“What is the matter, then?”", "a question of 5 words", "the 1st of", "prompt of 9 characters", "I am the local model"} {
		if !strings.Contains(rec.text(), want) {
			t.Errorf("%q is not in %q", want, rec.text())
		}
	}
	if reply.Stop != "end_turn" || rec.alive != len(rec.chunks) {
		t.Errorf("%+v with %d calls of Alive for %d chunks", reply, rec.alive, len(rec.chunks))
	}
	for _, c := range rec.chunks {
		if c.Type != chat.TextChunk || len(strings.Fields(c.Text)) != 1 {
			t.Errorf("%+v is not one word", c)
		}
	}
	again, _ := stream(t, chat.Request{Message: "What is\n\n the  matter, then?", System: "Be brief."})
	must.Equal(t, rec.chunks, again.chunks)
	t.Run("to a long message repeats its beginning", func(t *testing.T) {
		rec, _ := stream(t, chat.Request{Message: strings.Repeat("ö", chat.MaxMessage)})
		if n := len(rec.text()); n > 2000 || !strings.Contains(rec.text(), "öö…”") {
			t.Errorf("%d bytes: %.200s", n, rec.text())
		}
	})
}

func TestATool(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		tools   []chat.Tool
		calls   string
	}{
		"is called by its name":                    {"please run READ_FILE now", []chat.Tool{list, readFile}, "read_file"},
		"is called by its name with spaces":        {"please read file a.txt", []chat.Tool{list, readFile}, "read_file"},
		"is called by the longest name":            {"use list-all", []chat.Tool{list, {Name: "list-all"}, {Name: "all"}}, "list-all"},
		"is called when it is the only one":        {"hello", []chat.Tool{list}, "list"},
		"is not called when none of many is meant": {"hello, show me a playlist or listen", []chat.Tool{list, readFile}, ""},
		"is not called when there is none":         {"call the tool list", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec, reply := stream(t, chat.Request{Message: c.message, Tools: c.tools})
			called, stop := "", "end_turn"
			for _, call := range rec.ofType(chat.CallChunk) {
				called, stop = called+call.Name, "tool_use"
				if call.ServerHandled || call.CallID == "" {
					t.Errorf("%+v", call)
				}
			}
			if called != c.calls || reply.Stop != stop {
				t.Errorf("%q was called, not %q; it stopped for %q", called, c.calls, reply.Stop)
			}
		})
	}
	t.Run("takes its arguments from the message", func(t *testing.T) {
		rec, _ := stream(t, chat.Request{Message: `read_file "a/b.txt", 12 lines`, Tools: []chat.Tool{readFile, list}})
		if got := rec.ofType(chat.CallChunk)[0].Args; got != `{"lines":12,"path":"a/b.txt"}` {
			t.Errorf("the arguments are %s", got)
		}
	})
}

func TestASearch(t *testing.T) {
	t.Run("is a call that the provider runs, its result and text about it", func(t *testing.T) {
		rec, reply := stream(t, chat.Request{Message: `Search the web for "owls", please!`, WebSearch: true, Tools: []chat.Tool{list}})
		calls, results := rec.ofType(chat.CallChunk), rec.ofType(chat.ResultChunk)
		if len(calls) != 1 || len(results) != 1 || calls[0].CallID != results[0].CallID || !calls[0].ServerHandled || calls[0].Name != chat.WebSearch {
			t.Fatalf("%+v\n%+v", calls, results)
		}
		if calls[0].Args != `{"query":"owls\", please"}` {
			t.Errorf("the arguments are %s", calls[0].Args)
		}
		var pages []struct{ Title, URL string }
		if err := json.Unmarshal([]byte(results[0].Result), &pages); err != nil || len(pages) != 2 {
			t.Fatalf("%v in %s", err, results[0].Result)
		}
		for _, p := range pages {
			if !strings.Contains(rec.text(), p.URL) || !strings.Contains(rec.text(), p.Title) {
				t.Errorf("%+v is not in %q", p, rec.text())
			}
		}
		if reply.Stop != "end_turn" || reply.Usage.Searches != 1 {
			t.Errorf("%+v", reply)
		}
	})
	t.Run("without a topic has the message as its query", func(t *testing.T) {
		rec, _ := stream(t, chat.Request{Message: "Please search.", WebSearch: true})
		if got := rec.ofType(chat.CallChunk)[0].Args; got != `{"query":"Please search."}` {
			t.Errorf("the arguments are %s", got)
		}
	})
	for name, r := range map[string]chat.Request{
		"is not made when it is not enabled":   {Message: "search for owls"},
		"is not made without a request for it": {Message: "research is what I do", WebSearch: true},
	} {
		t.Run(name, func(t *testing.T) {
			if rec, reply := stream(t, r); len(rec.ofType(chat.CallChunk)) > 0 || reply.Usage.Searches > 0 {
				t.Errorf("%+v", rec.chunks)
			}
		})
	}
}

// TestAConversation continues a conversation as a client does: each chunk of a response becomes
// a block of the history, the client runs its tool, and ids are unique.
func TestAConversation(t *testing.T) {
	r := chat.Request{Message: "Search for owls", WebSearch: true, Tools: []chat.Tool{readFile, list}}
	next := func(message string, results ...chat.Block) *recorder {
		t.Helper()
		rec, _ := stream(t, r)
		response := chat.Turn{Role: chat.Assistant}
		for _, c := range rec.chunks {
			switch c.Type {
			case chat.TextChunk:
				response.Blocks = append(response.Blocks, chat.Block{Kind: chat.Text, Text: c.Text})
			case chat.CallChunk:
				response.Blocks = append(response.Blocks, chat.Block{Kind: chat.ToolUse, ID: c.CallID, Name: c.Name, Args: c.Args, ServerHandled: c.ServerHandled})
			case chat.ResultChunk:
				response.Blocks = append(response.Blocks, chat.Block{Kind: chat.ToolResult, ID: c.CallID, Text: c.Result})
			}
		}
		if r.Message != "" {
			r.History = append(r.History, chat.Turn{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: r.Message}}})
		}
		r.History = append(r.History, response)
		if calls := rec.ofType(chat.CallChunk); len(results) > 0 {
			results[0].Kind, results[0].ID = chat.ToolResult, calls[len(calls)-1].CallID
			r.History = append(r.History, chat.Turn{Role: chat.User, Blocks: results})
		}
		r.Message = message
		return rec
	}
	next("Search for owls")
	next("read_file a.txt")
	next("", chat.Block{Text: "It  says <hello>."})
	if rec := next("list them"); !strings.Contains(rec.text(), "The tool read_file answered: “It says <hello>.”.") || len(rec.ofType(chat.CallChunk)) > 0 {
		t.Errorf("to a result came %q", rec.text())
	}
	next("read_file again", chat.Block{Text: "No such folder", IsError: true})
	rec := next("")
	if !strings.Contains(rec.text(), "The tool list failed: “No such folder”.") || rec.ofType(chat.CallChunk)[0].Name != "read_file" {
		t.Errorf("to an error and a message came %q", rec.text())
	}
	ids := map[string]bool{}
	for _, turn := range r.History {
		for _, b := range turn.Blocks {
			if b.Kind == chat.ToolUse {
				ids[b.ID] = true
			}
		}
	}
	if len(ids) != 5 {
		t.Errorf("%d ids for 5 calls", len(ids))
	}
}

func TestTheLimit(t *testing.T) {
	message := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"search for a very long word", "read_file \"x\"", "Hello?", "ääää öööö"}))
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(1, 400)).Draw(t, "maxTokens")
		r := chat.Request{Message: "a" + strings.ReplaceAll(message.Draw(t, "message"), "\x00", ""), MaxTokens: &limit, WebSearch: rapid.Bool().Draw(t, "search")}
		if rapid.Bool().Draw(t, "tools") {
			r.Tools = []chat.Tool{readFile, list}
		}
		call, err := r.Call(someModel)
		if err != nil {
			t.Skip(err)
		}
		rec := &recorder{}
		reply := must.Do(localmodel.New(nil).Stream(context.Background(), call, rec)).Or(t)
		var cost, searches int64
		for _, c := range rec.chunks {
			cost += chat.EstimateText(c.Text) + chat.EstimateText(c.Name+c.Args)
			if c.ServerHandled {
				searches++
			}
		}
		want := chat.Reply{Usage: chat.Usage{Input: call.Estimate(), Output: cost, Searches: searches}, InputKnown: true, OutputKnown: true, Stop: reply.Stop}
		if reply != want || cost > int64(limit) || cost == 0 {
			t.Fatalf("got %+v\nwant %+v of at most %d", reply, want, limit)
		}
		whole, _ := r.Call(someModel)
		whole.MaxTokens = someModel.MaxOutputTokens
		all := &recorder{}
		full := must.Do(localmodel.New(nil).Stream(context.Background(), whole, all)).Or(t)
		switch cut := rec.text() != all.text() || len(rec.ofType(chat.CallChunk)) < len(all.ofType(chat.CallChunk)); {
		case cut && reply.Stop != "max_tokens", !cut && reply.Stop != full.Stop:
			t.Fatalf("it stopped for %q", reply.Stop)
		case !strings.HasPrefix(all.text(), rec.text()):
			t.Fatalf("%q is not how %q begins", rec.text(), all.text())
		}
	})
}

func TestThePace(t *testing.T) {
	call := must.Do(chat.Request{Message: "search for owls", WebSearch: true}.Call(someModel)).Or(t)
	t.Run("is waited for before each chunk, after earlier ones were sent", func(t *testing.T) {
		rec := &recorder{}
		m := localmodel.New(func(context.Context) error { rec.order = append(rec.order, "pace"); return nil })
		must.Do(m.Stream(t.Context(), call, rec)).Or(t)
		var want []string
		for range rec.chunks {
			want = append(want, "wait", "pace", "chunk")
		}
		must.Equal(t, want, rec.order)
	})
	t.Run("ends with the context, with the usage of the sent chunks", func(t *testing.T) {
		cause := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		rec := &recorder{}
		m := localmodel.New(func(ctx context.Context) error {
			if len(rec.chunks) == 3 {
				cancel(cause)
			}
			return ctx.Err()
		})
		reply, err := m.Stream(ctx, call, rec)
		if !errors.Is(err, cause) || len(rec.chunks) != 3 {
			t.Fatalf("%v after %d chunks", err, len(rec.chunks))
		}
		var received int64
		for _, c := range rec.chunks {
			received += chat.EstimateText(c.Text)
		}
		if u, from := call.FinalUsage(reply, received); u != (chat.Usage{Input: call.Estimate(), Output: received}) || from != chat.Provider || reply.Stop != "" {
			t.Errorf("%+v used %+v by %s", reply, u, from)
		}
	})
	t.Run("that fails is a failure of the model", func(t *testing.T) {
		broken := errors.New("no more ticks")
		_, err := localmodel.New(func(context.Context) error { return broken }).Stream(t.Context(), call, &recorder{})
		var failure *chat.Failure
		if !errors.As(err, &failure) || !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	})
}
