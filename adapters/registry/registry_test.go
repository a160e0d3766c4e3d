package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"collab/adapters/strictjson"
	"collab/domain/chat"
	"collab/test/must"
)

func TestTheBuiltInModels(t *testing.T) {
	all := must.Do(BuiltIn()).Or(t)
	for _, provider := range providers {
		t.Run(provider+" has some, and any of them can be the default", func(t *testing.T) {
			r := must.Do(chat.NewRegistry(all, "", func(p string) bool { return p == provider })).Or(t)
			for _, m := range r {
				byDefault := must.Do(chat.NewRegistry(all, m.ID, func(string) bool { return true })).Or(t)
				must.Is(t, m.ID, must.Do(byDefault.Find("")).Or(t).ID)
			}
		})
	}
	t.Run("the local model is the last resort", func(t *testing.T) {
		if last := all[len(all)-1]; last.Provider != "local" || all[0].Provider == "local" {
			t.Errorf("the first is of %s and the last of %s", all[0].Provider, last.Provider)
		}
	})
	t.Run("models of openai have thinking off", func(t *testing.T) {
		for _, m := range all {
			if m.Provider == "openai" && (m.Thinking != "off" || slices.Contains(m.Capabilities, "extended_thinking")) {
				t.Errorf("%s thinks %q", m.ID, m.Thinking)
			}
		}
	})
}

const valid = `{"id":"a/b:1","displayName":"Model Ä","provider":"anthropic","tier":"fast","contextWindow":100,"maxOutputTokens":100,` +
	`"capabilities":["web_search","vision"],"searchTool":"web_search_20250305","thinking":"off"}`

func TestParseReadsEveryField(t *testing.T) {
	got, err := Parse([]byte(" [" + valid + `, {"id":"x","displayName":"X","provider":"openai","tier":"fast","contextWindow":9,"maxOutputTokens":1}] ` + "\n"))
	must.NoError(t, err)
	want := []chat.Model{
		{ID: "a/b:1", DisplayName: "Model Ä", Provider: "anthropic", Tier: "fast", ContextWindow: 100, MaxOutputTokens: 100,
			Capabilities: []string{"web_search", "vision"}, SearchTool: "web_search_20250305", Thinking: "off"},
		{ID: "x", DisplayName: "X", Provider: "openai", Tier: "fast", ContextWindow: 9, MaxOutputTokens: 1},
	}
	must.Equal(t, want, got)
}

// with returns the valid record with a field set to a JSON value, none for an
// empty one.
func with(t *testing.T, field, value string) string {
	t.Helper()
	var record map[string]json.RawMessage
	must.NoError(t, json.Unmarshal([]byte(valid), &record))
	delete(record, field)
	if value != "" {
		record[field] = json.RawMessage(value)
	}
	b := must.Do(json.Marshal(record)).Or(t)
	return string(b)
}

func TestParseRefuses(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, c := range []struct{ field, value string }{
		{"id", ""}, {"id", `""`}, {"id", `"a b"`}, {"id", `"-a"`}, {"id", long(201)}, {"id", "7"}, {"id", "null"},
		{"displayName", ""}, {"displayName", `" a"`}, {"displayName", `"a\u0007"`}, {"displayName", long(201)},
		{"provider", ""}, {"provider", `"antropic"`}, {"provider", `"Anthropic"`},
		{"tier", ""}, {"tier", `"Very Fast"`}, {"tier", long(65)},
		{"contextWindow", ""}, {"contextWindow", "0"}, {"contextWindow", "-1"}, {"contextWindow", "100000001"}, {"contextWindow", "1.5"},
		{"contextWindow", `"100"`}, {"contextWindow", "99999999999999999999"}, {"contextWindow", "null"},
		{"maxOutputTokens", ""}, {"maxOutputTokens", "0"}, {"maxOutputTokens", "101"}, {"maxOutputTokens", "1e2"},
		{"capabilities", `"web_search"`}, {"capabilities", `["web_search",7]`}, {"capabilities", `["vision","vision"]`},
		{"capabilities", `["Vision"]`}, {"capabilities", `["` + strings.Join(strings.Fields(strings.Repeat("x ", 33)), `","`) + `"]`},
		{"searchTool", ""}, {"searchTool", `"web_search"`}, {"searchTool", `"web_search_2025030"`}, {"searchTool", `"xweb_search_20250305"`},
		{"thinking", `"on"`}, {"thinking", "false"},
		{"Id", `"a"`}, {"price", "1"}, {"", "1"},
	} {
		t.Run(c.field+" "+strictjson.Shorten(c.value), func(t *testing.T) {
			_, err := Parse([]byte("[" + with(t, c.field, c.value) + "]"))
			if err == nil || !strings.Contains(err.Error(), "model 1") || !strings.Contains(err.Error(), c.field) {
				t.Errorf("%v does not name the model and the field", err)
			}
		})
	}
	for name, text := range map[string]string{
		"nothing":                             "",
		"an object":                           valid,
		"no model":                            "[]",
		"null":                                "[null]",
		"an array in the array":               "[[]]",
		"an array without an end":             "[" + valid,
		"an array that ends with a comma":     "[" + valid + ",]",
		"a record without an end":             "[" + strings.TrimSuffix(valid, "}"),
		"something after the array":           "[" + valid + "] []",
		"a field twice":                       "[" + strings.Replace(valid, "{", `{"tier":"slow",`, 1) + "]",
		"an id twice":                         "[" + valid + "," + valid + "]",
		"a search tool without the search":    "[" + with(t, "capabilities", `["vision"]`) + "]",
		"a search that the protocol lacks":    "[" + with(t, "provider", `"openai"`) + "]",
		"a local search without a tool":       "[" + strings.NewReplacer(`"anthropic"`, `"local"`, `"web_search_20250305"`, `""`).Replace(valid) + "]",
		"what is no UTF-8":                    "[" + strings.Replace(valid, "Model", "M\xff", 1) + "]",
		"more bytes than a registry may have": "[" + valid + strings.Repeat(" ", maxBytes) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			if all, err := Parse([]byte(text)); err == nil {
				t.Errorf("%v was taken", all)
			}
		})
	}
	t.Run("more models than a registry may have", func(t *testing.T) {
		var records []string
		for i := range maxModels + 1 {
			records = append(records, with(t, "id", fmt.Sprintf(`"m%d"`, i)))
		}
		must.Do(Parse([]byte("[" + strings.Join(records[1:], ",") + "]"))).Or(t)
		if _, err := Parse([]byte("[" + strings.Join(records, ",") + "]")); err == nil {
			t.Error("it was taken")
		}
	})
	t.Run("and names the model that is wrong", func(t *testing.T) {
		_, err := Parse([]byte("[" + valid + "," + strings.Replace(valid, "a/b:1", "other", 1)[:20] + `,"tier":7}]`))
		if err == nil || !strings.Contains(err.Error(), `model 2 "other`) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzParse holds whatever is taken to what the rest relies on.
func FuzzParse(f *testing.F) {
	f.Add(builtIn)
	f.Add([]byte("[" + valid + "]"))
	f.Add([]byte(`[{"id":"a","capabilities":[null],"contextWindow":1e3}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := Parse(data)
		if err != nil {
			if all != nil || len(err.Error()) > 600 {
				t.Errorf("%d models with the error %v", len(all), err)
			}
			return
		}
		if _, err := chat.NewRegistry(all, "", func(string) bool { return true }); err != nil {
			t.Errorf("a registry that is taken cannot be used: %v", err)
		}
		for _, m := range all {
			if !utf8.ValidString(m.DisplayName) || !slices.Contains(providers, m.Provider) || m.MaxOutputTokens > m.ContextWindow {
				t.Errorf("%+v was taken", m)
			}
		}
	})
}
