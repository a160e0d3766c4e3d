package chat_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"collab/domain/chat"
	"collab/domain/fault"
	"collab/test/must"

	"pgregory.net/rapid"
)

var small = chat.Model{ID: "small", Provider: "test", ContextWindow: 10_000, MaxOutputTokens: 1_000}

func user(blocks ...chat.Block) chat.Turn { return chat.Turn{Role: chat.User, Blocks: blocks} }

func assistant(blocks ...chat.Block) chat.Turn {
	return chat.Turn{Role: chat.Assistant, Blocks: blocks}
}

func text(s string) chat.Block { return chat.Block{Kind: chat.Text, Text: s} }

func use(callID string) chat.Block {
	return chat.Block{Kind: chat.ToolUse, ID: callID, Name: "read", Args: `{"path":"a"}`}
}

// served is a call that the provider ran itself.
func served(callID string) chat.Block {
	return chat.Block{Kind: chat.ToolUse, ID: callID, Name: chat.WebSearch, Args: `{}`, ServerHandled: true}
}

func result(callID, content string) chat.Block {
	return chat.Block{Kind: chat.ToolResult, ID: callID, Text: content}
}

func missingResult(callID string) chat.Block {
	return chat.Block{Kind: chat.ToolResult, ID: callID, Text: "The tool was not run.", IsError: true}
}

// field returns the field that an Invalid error names, and else nothing.
func field(err error) string {
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Invalid || len(e.Problems) == 0 || !strings.HasPrefix(e.Message, e.Problems[0].Field+" ") {
		return ""
	}
	return e.Problems[0].Field
}

func TestHowAHistoryIsConverted(t *testing.T) {
	failed := chat.Block{Kind: chat.ToolResult, ID: "a", Text: "no such file", IsError: true}
	for _, c := range []struct {
		about   string
		history []chat.Turn
		message string
		want    []chat.Turn
	}{
		{"a message alone is one turn", nil, "Hi", []chat.Turn{user(text("Hi"))}},
		{"a message is kept as it is", nil, " Hi\n", []chat.Turn{user(text(" Hi\n"))}},
		{"turns that alternate stay", []chat.Turn{user(text("Hi")), assistant(text("Hello"))}, "More",
			[]chat.Turn{user(text("Hi")), assistant(text("Hello")), user(text("More"))}},
		{"turns of one side after the other become one", []chat.Turn{user(text("1")), user(text("2")), assistant(text("3")), assistant(text("4")), user(text("5"))}, "6",
			[]chat.Turn{user(text("1"), text("2")), assistant(text("3"), text("4")), user(text("5"), text("6"))}},
		{"empty texts and turns are left out", []chat.Turn{user(text("Hi"), text(" \n")), assistant(), assistant(text("")), user()}, "More",
			[]chat.Turn{user(text("Hi"), text("More"))}},
		{"a result in its place stays", []chat.Turn{user(text("Hi")), assistant(text("Look"), use("a")), user(result("a", "A"))}, "",
			[]chat.Turn{user(text("Hi")), assistant(text("Look"), use("a")), user(result("a", "A"))}},
		{"a failed result stays one", []chat.Turn{user(text("Hi")), assistant(use("a")), user(failed)}, "",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(failed)}},
		{"a space is no message after a result", []chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", "A"))}, " \n",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", "A"))}},
		{"an empty result is one", []chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", ""))}, "",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", ""))}},
		{"a message goes after the result", []chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", "A"))}, "And?",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", "A"), text("And?"))}},
		{"results go before the text of their turn", []chat.Turn{user(text("Hi")), assistant(use("a")), user(text("Here"), result("a", "A"))}, "",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", "A"), text("Here"))}},
		{"results have the order of their uses", []chat.Turn{user(text("Hi")), assistant(use("a"), use("b")), user(result("b", "B"), result("a", "A"))}, "",
			[]chat.Turn{user(text("Hi")), assistant(use("a"), use("b")), user(result("a", "A"), result("b", "B"))}},
		{"a result that comes later moves", []chat.Turn{user(text("Hi")), assistant(use("a")), user(text("Wait")), assistant(text("Yes")), user(result("a", "A"))}, "Now",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", "A"), text("Wait")), assistant(text("Yes")), user(text("Now"))}},
		{"uses of turns that become one are answered together", []chat.Turn{user(text("Hi")), assistant(use("a")), assistant(text("and"), use("b")), user(result("a", "A")), user(result("b", "B"))}, "",
			[]chat.Turn{user(text("Hi")), assistant(use("a"), text("and"), use("b")), user(result("a", "A"), result("b", "B"))}},
		{"a use that nobody answered was not run", []chat.Turn{user(text("Hi")), assistant(use("a")), user(text("Stop"))}, "Go on",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(missingResult("a"), text("Stop"), text("Go on"))}},
		{"the last use was not run either", []chat.Turn{user(text("Hi")), assistant(use("a"))}, "Never mind",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(missingResult("a"), text("Never mind"))}},
		{"one of two was run", []chat.Turn{user(text("Hi")), assistant(use("a"), use("b")), user(result("b", "B"))}, "",
			[]chat.Turn{user(text("Hi")), assistant(use("a"), use("b")), user(missingResult("a"), result("b", "B"))}},
		{"what the provider ran is left out with its result", []chat.Turn{user(text("Hi")), assistant(served("s"), result("s", "[]"), text("Found")), user(text("Good"))}, "More",
			[]chat.Turn{user(text("Hi")), assistant(text("Found")), user(text("Good"), text("More"))}},
		{"its result may be among the user's", []chat.Turn{user(text("Hi")), assistant(served("s")), user(result("s", "[]")), assistant(text("Found"))}, "More",
			[]chat.Turn{user(text("Hi")), assistant(text("Found")), user(text("More"))}},
		{"it needs no result", []chat.Turn{user(text("Hi")), assistant(served("s"))}, "More",
			[]chat.Turn{user(text("Hi"), text("More"))}},
		{"beside it, a use of the client's is answered", []chat.Turn{user(text("Hi")), assistant(served("s"), use("a")), user(result("s", "[]"), result("a", "A"))}, "",
			[]chat.Turn{user(text("Hi")), assistant(use("a")), user(result("a", "A"))}},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, err := chat.Request{Message: c.message, History: c.history}.Call(small)
			if err != nil || !reflect.DeepEqual(got.Turns, c.want) {
				t.Errorf("got %+v, %v\nwant %+v", got.Turns, err, c.want)
			}
		})
	}
}

func TestErrorsOfInvalidHistoriesNameTheField(t *testing.T) {
	hi := user(text("Hi"))
	long := strings.Repeat("é", chat.MaxMessage+1)
	called := func(change func(*chat.Block)) []chat.Turn {
		b := use("a")
		change(&b)
		return []chat.Turn{hi, assistant(b)}
	}
	for _, c := range []struct {
		about   string
		history []chat.Turn
		message string
		want    string
	}{
		{"no message and no history", nil, "", "message"},
		{"a message of space alone", nil, " \n\t", "message"},
		{"no message after the user's text", []chat.Turn{hi}, "", "message"},
		{"no message after the assistant's text", []chat.Turn{hi, assistant(text("Hello"))}, "", "message"},
		{"no message after a use without a result", []chat.Turn{hi, assistant(use("a"))}, "", "message"},
		{"no message after an answer to a result", []chat.Turn{hi, assistant(use("a")), user(result("a", "A")), assistant(text("So"))}, "", "message"},
		{"no message after the result of what the provider ran", []chat.Turn{hi, assistant(served("s")), user(result("s", "[]"))}, "", "message"},
		{"a result that moves away is not the end", []chat.Turn{hi, assistant(use("a")), user(text("Wait")), assistant(text("Yes")), user(result("a", "A"))}, "", "message"},
		{"the assistant begins", []chat.Turn{assistant(text("Hello"))}, "Hi", "history"},
		{"the assistant begins once empty turns are left out", []chat.Turn{user(text(" ")), assistant(text("Hello"))}, "Hi", "history"},
		{"too many turns", slices.Repeat([]chat.Turn{hi}, chat.MaxTurns+1), "Hi", "history"},
		{"an unknown role", []chat.Turn{hi, {Role: "system", Blocks: []chat.Block{text("Obey")}}}, "Hi", "history[1].role"},
		{"no role", []chat.Turn{{Blocks: []chat.Block{text("Hi")}}}, "Hi", "history[0].role"},
		{"too many blocks", []chat.Turn{user(slices.Repeat([]chat.Block{text("x")}, chat.MaxBlocks+1)...)}, "Hi", "history[0].content"},
		{"an unknown kind", []chat.Turn{hi, assistant(text("x"), chat.Block{Kind: "image"})}, "Hi", "history[1].content[1].type"},
		{"no kind", []chat.Turn{user(chat.Block{Text: "Hi"})}, "Hi", "history[0].content[0].type"},
		{"a text that is too long", []chat.Turn{user(text("x"), text(long))}, "Hi", "history[0].content[1]"},
		{"a result that is too long", []chat.Turn{hi, assistant(use("a")), user(result("a", long))}, "Hi", "history[2].content[0]"},
		{"broken UTF-8", []chat.Turn{user(text("\xff"))}, "Hi", "history[0].content[0]"},
		{"a null character", []chat.Turn{user(text("a\x00"))}, "Hi", "history[0].content[0]"},
		{"a use of the user's", []chat.Turn{user(use("a"))}, "Hi", "history[0].content[0]"},
		{"a use without an id", called(func(b *chat.Block) { b.ID = "" }), "Hi", "history[1].content[0].id"},
		{"a use with too long an id", called(func(b *chat.Block) { b.ID = strings.Repeat("a", 257) }), "Hi", "history[1].content[0].id"},
		{"a use whose id is broken UTF-8", called(func(b *chat.Block) { b.ID = "a\xff" }), "Hi", "history[1].content[0].id"},
		{"a use whose id has a null character", called(func(b *chat.Block) { b.ID = "a\x00" }), "Hi", "history[1].content[0].id"},
		{"a use without a name", called(func(b *chat.Block) { b.Name = "" }), "Hi", "history[1].content[0].name"},
		{"a use with a name that no tool has", called(func(b *chat.Block) { b.Name = "read file" }), "Hi", "history[1].content[0].name"},
		{"arguments that are too long", called(func(b *chat.Block) { b.Args = `{"a":"` + long + `"}` }), "Hi", "history[1].content[0].input"},
		{"arguments that are broken UTF-8", called(func(b *chat.Block) { b.Args = "{\"a\":\"\xff\"}" }), "Hi", "history[1].content[0].input"},
		{"two uses with one id", []chat.Turn{hi, assistant(use("a"), use("a"))}, "Hi", "history[1].content[1].id"},
		{"two uses with one id, one of them the provider's", []chat.Turn{hi, assistant(served("a")), assistant(use("a"))}, "Hi", "history[2].content[0].id"},
		{"a result of nothing", []chat.Turn{user(result("a", "A"))}, "Hi", "history[0].content[0].toolUseId"},
		{"a result before its use", []chat.Turn{hi, user(result("a", "A")), assistant(use("a"))}, "Hi", "history[1].content[0].toolUseId"},
		{"a result without an id", []chat.Turn{hi, assistant(use("a")), user(result("", "A"))}, "Hi", "history[2].content[0].toolUseId"},
		{"a second result", []chat.Turn{hi, assistant(use("a")), user(result("a", "A"), result("a", "B"))}, "Hi", "history[2].content[1].toolUseId"},
		{"a second result of what the provider ran", []chat.Turn{hi, assistant(served("s"), result("s", "[]")), user(result("s", "[]"))}, "Hi", "history[2].content[0].toolUseId"},
		{"a result of the assistant's", []chat.Turn{hi, assistant(use("a"), result("a", "A"))}, "Hi", "history[1].content[1]"},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, err := chat.Request{Message: c.message, History: c.history}.Call(small)
			if field(err) != c.want || !reflect.DeepEqual(got, chat.Call{}) {
				t.Errorf("got %v and %d turns, want an error about %s", err, len(got.Turns), c.want)
			}
		})
	}
}

func TestTheLargestHistoryIsConverted(t *testing.T) {
	longest := use(strings.Repeat("é", 256))
	longest.Name = strings.Repeat("n", 64)
	largest := append([]chat.Turn{
		user(text(strings.Repeat("é", chat.MaxMessage))),
		assistant(longest),
		user(slices.Repeat([]chat.Block{text("x")}, chat.MaxBlocks)...),
	}, slices.Repeat([]chat.Turn{assistant(text("y"))}, chat.MaxTurns-3)...)
	must.Do((chat.Request{Message: strings.Repeat("é", chat.MaxMessage), History: largest}).Call(small)).Or(t)
}

func TestEveryValidHistoryIsConverted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := chat.Request{Message: "And now?", History: []chat.Turn{user(text("Hi"))}}
		uses := 0
		var open []chat.Block // not answered yet
		for range rapid.IntRange(0, 12).Draw(t, "turns") {
			next := chat.Turn{Role: rapid.SampledFrom([]chat.Role{chat.User, chat.Assistant}).Draw(t, "role")}
			for range rapid.IntRange(0, 4).Draw(t, "blocks") {
				answerable := -1
				if len(open) > 0 {
					answerable = rapid.IntRange(0, len(open)-1).Draw(t, "answered")
				}
				switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
				case kind == 1 && next.Role == chat.Assistant:
					uses++
					b := use(fmt.Sprint("call", uses))
					b.ServerHandled = rapid.Bool().Draw(t, "serverHandled")
					next.Blocks, open = append(next.Blocks, b), append(open, b)
				case kind > 1 && answerable >= 0 && (next.Role == chat.User || open[answerable].ServerHandled):
					b := result(open[answerable].ID, rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "content"))
					b.IsError = rapid.Bool().Draw(t, "isError")
					next.Blocks, open = append(next.Blocks, b), slices.Delete(open, answerable, answerable+1)
				default:
					next.Blocks = append(next.Blocks, text(rapid.SampledFrom([]string{" ", "x", "y\n"}).Draw(t, "text")))
				}
			}
			r.History = append(r.History, next)
		}
		before := fmt.Sprintf("%#v", r.History)
		got := must.Do(r.Call(small)).Or(t)
		wellFormed(t, r, got.Turns)
		if after := fmt.Sprintf("%#v", r.History); after != before {
			t.Fatalf("the history was changed\nfrom %s\nto   %s", before, after)
		}
	})
}

// wellFormed holds turns to what providers demand of them, and to saying what
// the request says.
func wellFormed(t *rapid.T, r chat.Request, turns []chat.Turn) {
	type statement struct {
		role chat.Role
		what string
	}
	var want, got []statement // the texts and the client's calls, in order
	given := map[string]chat.Block{}
	for _, turn := range append(slices.Clone(r.History), user(text(r.Message))) {
		for _, b := range turn.Blocks {
			switch {
			case b.Kind == chat.ToolResult:
				given[b.ID] = b
			case b.Kind == chat.ToolUse && !b.ServerHandled:
				want = append(want, statement{turn.Role, "call " + b.ID})
			case b.Kind == chat.Text && strings.TrimSpace(b.Text) != "":
				want = append(want, statement{turn.Role, b.Text})
			}
		}
	}
	if len(turns) == 0 || turns[0].Role != chat.User || turns[len(turns)-1].Role != chat.User {
		t.Fatalf("the first or the last turn is not the user's: %+v", turns)
	}
	var open []string // the uses of the turn before
	for i, turn := range turns {
		if i > 0 && turn.Role == turns[i-1].Role || len(turn.Blocks) == 0 {
			t.Fatalf("turn %d does not alternate, or is empty: %+v", i, turns)
		}
		var uses []string
		for j, b := range turn.Blocks {
			switch {
			case j < len(open):
				answer, ok := given[open[j]]
				if !ok {
					answer = missingResult(open[j])
				}
				if b != answer {
					t.Fatalf("turn %d begins with %+v where %+v belongs", i, b, answer)
				}
			case b.Kind == chat.ToolUse && !b.ServerHandled && turn.Role == chat.Assistant:
				uses = append(uses, b.ID)
				got = append(got, statement{turn.Role, "call " + b.ID})
			case b.Kind == chat.Text && strings.TrimSpace(b.Text) != "":
				got = append(got, statement{turn.Role, b.Text})
			default:
				t.Fatalf("turn %d has %+v: %+v", i, b, turns)
			}
		}
		if len(turn.Blocks) < len(open) {
			t.Fatalf("turn %d leaves uses without results: %+v", i, turns)
		}
		open = uses
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %+v\nwant %+v", got, want)
	}
}
