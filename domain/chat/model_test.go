package chat_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"collab/domain/chat"
	"collab/domain/fault"
	"collab/test/must"

	"pgregory.net/rapid"
)

func model(modelID, provider string) chat.Model {
	return chat.Model{ID: modelID, DisplayName: "A model", Provider: provider, Tier: "standard", ContextWindow: 10, MaxOutputTokens: 10}
}

func everyProvider(string) bool { return true }

func TestARegistryHasTheModelsOfConfiguredProvidersTheDefaultFirst(t *testing.T) {
	all := []chat.Model{model("a", "one"), model("b", "two"), model("c", "one"), model("d", "one")}
	for _, c := range []struct {
		about, byDefault string
		configured       func(string) bool
		want             []string
	}{
		{"the first is the default", "", everyProvider, []string{"a", "b", "c", "d"}},
		{"the named one comes first, the others keep their order", "c", everyProvider, []string{"c", "a", "b", "d"}},
		{"the first may be named", "a", everyProvider, []string{"a", "b", "c", "d"}},
		{"the last may be named", "d", everyProvider, []string{"d", "a", "b", "c"}},
		{"only the configured are there", "", func(p string) bool { return p == "two" }, []string{"b"}},
	} {
		t.Run(c.about, func(t *testing.T) {
			r, err := chat.NewRegistry(all, c.byDefault, c.configured)
			var got []string
			for _, m := range r {
				got = append(got, m.ID)
			}
			if err != nil || !reflect.DeepEqual(got, c.want) || all[0].ID != "a" || all[3].ID != "d" {
				t.Fatalf("got %v, %v, want %v; given %v", got, err, c.want, all)
			}
			if m, err := r.Find(""); err != nil || m.ID != c.want[0] {
				t.Errorf("the default is %s, %v", m.ID, err)
			}
			for _, wanted := range c.want {
				must.Is(t, wanted, must.Do(r.Find(wanted)).Or(t).ID)
			}
			for _, unknown := range []string{"A", "e", " ", "a "} {
				if _, err := r.Find(unknown); field(err) != "model" {
					t.Errorf("%q: %v", unknown, err)
				}
			}
		})
	}
}

func TestErrorsOfInvalidRegistriesNameTheModel(t *testing.T) {
	changed := func(change func(*chat.Model)) []chat.Model {
		m := model("b", "two")
		change(&m)
		return []chat.Model{model("a", "one"), m}
	}
	onlyOne := func(p string) bool { return p == "one" }
	for _, c := range []struct {
		about     string
		all       []chat.Model
		byDefault string
		want      string
	}{
		{"no id", changed(func(m *chat.Model) { m.ID = "" }), "", `model ""`},
		{"no name", changed(func(m *chat.Model) { m.DisplayName = "" }), "", `model "b"`},
		{"no provider", changed(func(m *chat.Model) { m.Provider = "" }), "", `model "b"`},
		{"no tier", changed(func(m *chat.Model) { m.Tier = "" }), "", `model "b"`},
		{"an id that another has", changed(func(m *chat.Model) { m.ID = "a" }), "", `model "a" is in the registry twice`},
		{"no output", changed(func(m *chat.Model) { m.MaxOutputTokens = 0 }), "", "maxOutputTokens"},
		{"a window that does not hold the output", changed(func(m *chat.Model) { m.ContextWindow = 9 }), "", "contextWindow"},
		{"a search without its tool", changed(func(m *chat.Model) { m.Capabilities = []string{chat.WebSearch} }), "", "web_search"},
		{"an unknown way to think", changed(func(m *chat.Model) { m.Thinking = "hard" }), "", "thinking"},
		{"no models", nil, "", "No model"},
		{"none of a configured provider", []chat.Model{model("b", "two")}, "", "No model"},
		{"an unknown default", changed(func(*chat.Model) {}), "z", `default model "z"`},
		{"a default whose provider is not configured", changed(func(*chat.Model) {}), "b", `default model "b"`},
	} {
		t.Run(c.about, func(t *testing.T) {
			r, err := chat.NewRegistry(c.all, c.byDefault, onlyOne)
			if r != nil || !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want an error about %s", r, err, c.want)
			}
		})
	}
}

func TestARequestOutOfBoundsNamesTheField(t *testing.T) {
	number := func(n int) *int { return &n }
	searching := small
	searching.Capabilities, searching.SearchTool = []string{chat.WebSearch}, "search_1"
	tools := func(n int) (all []chat.Tool) {
		for i := range n {
			all = append(all, chat.Tool{Name: fmt.Sprint("tool", i), Schema: "{}"})
		}
		return all
	}
	for _, c := range []struct {
		about string
		ask   chat.Request
		want  string // empty: it is taken
	}{
		{"the longest message", chat.Request{Message: strings.Repeat("é", chat.MaxMessage)}, ""},
		{"a longer message", chat.Request{Message: strings.Repeat("é", chat.MaxMessage+1)}, "message"},
		{"a message of broken UTF-8", chat.Request{Message: "\xff"}, "message"},
		{"a message with a null character", chat.Request{Message: "a\x00"}, "message"},
		{"the longest system prompt", chat.Request{System: strings.Repeat("é", chat.MaxSystem)}, ""},
		{"a longer system prompt", chat.Request{System: strings.Repeat("é", chat.MaxSystem+1)}, "systemPrompt"},
		{"a system prompt of broken UTF-8", chat.Request{System: "\xff"}, "systemPrompt"},
		{"one token", chat.Request{MaxTokens: number(1)}, ""},
		{"all that the model puts out", chat.Request{MaxTokens: number(1_000)}, ""},
		{"no token", chat.Request{MaxTokens: number(0)}, "maxTokens"},
		{"less than no token", chat.Request{MaxTokens: number(-1)}, "maxTokens"},
		{"more than the model puts out", chat.Request{MaxTokens: number(1_001)}, "maxTokens"},
		{"the most tools", chat.Request{Tools: tools(chat.MaxTools)}, ""},
		{"one tool more", chat.Request{Tools: tools(chat.MaxTools + 1)}, "tools"},
		{"the longest name of a tool", chat.Request{Tools: []chat.Tool{{Name: "aZ0_-" + strings.Repeat("n", 59)}}}, ""},
		{"a longer name of a tool", chat.Request{Tools: []chat.Tool{{Name: strings.Repeat("n", 65)}}}, "tools[0].name"},
		{"a tool without a name", chat.Request{Tools: []chat.Tool{{Name: "a"}, {}}}, "tools[1].name"},
		{"a name with a space", chat.Request{Tools: []chat.Tool{{Name: "a b"}}}, "tools[0].name"},
		{"a name with a line break at its end", chat.Request{Tools: []chat.Tool{{Name: "a\n"}}}, "tools[0].name"},
		{"a name with other letters", chat.Request{Tools: []chat.Tool{{Name: "é"}}}, "tools[0].name"},
		{"two tools with one name", chat.Request{Tools: []chat.Tool{{Name: "a"}, {Name: "b"}, {Name: "a"}}}, "tools[2].name"},
		{"names that differ in case", chat.Request{Tools: []chat.Tool{{Name: "a"}, {Name: "A"}}}, ""},
		{"the longest description", chat.Request{Tools: []chat.Tool{{Name: "a", Description: strings.Repeat("é", chat.MaxToolText)}}}, ""},
		{"a longer description", chat.Request{Tools: []chat.Tool{{Name: "a", Description: strings.Repeat("é", chat.MaxToolText+1)}}}, "tools[0].description"},
		{"the longest schema", chat.Request{Tools: []chat.Tool{{Name: "a", Schema: strings.Repeat("é", chat.MaxSchema)}}}, ""},
		{"a longer schema", chat.Request{Tools: []chat.Tool{{Name: "a", Schema: strings.Repeat("é", chat.MaxSchema+1)}}}, "tools[0].inputSchema"},
		{"a schema of broken UTF-8", chat.Request{Tools: []chat.Tool{{Name: "a", Schema: "{\"\xff\":1}"}}}, "tools[0].inputSchema"},
		{"a web_search of the client's", chat.Request{Tools: []chat.Tool{{Name: chat.WebSearch}}}, ""},
		{"a web_search of the client's beside the provider's", chat.Request{WebSearch: true, Tools: []chat.Tool{{Name: chat.WebSearch}}}, "tools[0].name"},
	} {
		t.Run(c.about, func(t *testing.T) {
			if c.ask.Message == "" {
				c.ask.Message = "Hi"
			}
			got, err := c.ask.Call(searching)
			if field(err) != c.want || (err == nil) != (c.want == "") || err != nil && !reflect.DeepEqual(got, chat.Call{}) {
				t.Errorf("got %v, want an error about %q", err, c.want)
			}
		})
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	none := 0
	_, err := chat.Request{Message: "\xff", System: "\xff", MaxTokens: &none, Tools: []chat.Tool{{}}}.Call(small)
	var e *fault.Error
	var got []string
	if errors.As(err, &e) {
		for _, p := range e.Problems {
			got = append(got, p.Field)
		}
	}
	if want := []string{"message", "systemPrompt", "maxTokens", "tools[0].name"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCallOfARequestAndAModel(t *testing.T) {
	searching := small
	searching.Capabilities, searching.SearchTool = []string{chat.WebSearch}, "search_1"
	some := 7
	ask := chat.Request{Message: "Hi", System: "Be kind.", Tools: []chat.Tool{{Name: "read", Description: "Reads.", Schema: "{}"}}}
	got, err := ask.Call(searching)
	want := chat.Call{Model: searching, Turns: []chat.Turn{user(text("Hi"))}, Tools: ask.Tools, System: "Be kind.", MaxTokens: 1_000}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	ask.MaxTokens, ask.WebSearch = &some, true
	if got, err := ask.Call(searching); err != nil || got.MaxTokens != 7 || !got.WebSearch {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := ask.Call(small); err != nil || got.WebSearch {
		t.Errorf("a model that cannot search is asked to: %+v, %v", got, err)
	}
}

func TestAnEstimateGrowsWithTheCall(t *testing.T) {
	anyText := rapid.OneOf(rapid.String(), rapid.StringN(0, 400, -1))
	block := rapid.Custom(func(t *rapid.T) chat.Block {
		return chat.Block{Text: anyText.Draw(t, "text"), ID: anyText.Draw(t, "id"), Name: anyText.Draw(t, "name"), Args: anyText.Draw(t, "args")}
	})
	turn := rapid.Custom(func(t *rapid.T) chat.Turn { return user(rapid.SliceOfN(block, 0, 3).Draw(t, "blocks")...) })
	tool := rapid.Custom(func(t *rapid.T) chat.Tool {
		return chat.Tool{Name: anyText.Draw(t, "name"), Description: anyText.Draw(t, "description"), Schema: anyText.Draw(t, "schema")}
	})
	rapid.Check(t, func(t *rapid.T) {
		c := chat.Call{System: anyText.Draw(t, "system"), Turns: rapid.SliceOfN(turn, 1, 3).Draw(t, "turns"), Tools: rapid.SliceOfN(tool, 0, 3).Draw(t, "tools")}
		before := c.Estimate()
		if alone := chat.EstimateText(c.System); before <= alone {
			t.Fatalf("a call comes to %d and its system prompt alone to %d", before, alone)
		}
		more := anyText.Draw(t, "more")
		grow := []func(){
			func() { c.System += more },
			func() { c.Turns = append(c.Turns, turn.Draw(t, "turn")) },
			func() { c.Turns[0].Blocks = append(c.Turns[0].Blocks, block.Draw(t, "block")) },
			func() { c.Tools = append(c.Tools, tool.Draw(t, "tool")) },
			func() { c.WebSearch = true },
		}
		grow[rapid.IntRange(0, len(grow)-1).Draw(t, "growth")]()
		if after := c.Estimate(); after < before {
			t.Fatalf("a call came to %d and comes to %d with more in it", before, after)
		}
	})
}
