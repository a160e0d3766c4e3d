package provider_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"collab/test/contract/provider"
	"collab/test/must"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	question = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"Hello"}]}]}`
	chat     = `{"model":"m","max_tokens":9,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hello"}]}`
)

// ask asks by Messages, or by chat completions where the address says so.
func ask(t *testing.T, ctx context.Context, url, body string) *http.Response {
	t.Helper()
	r := must.Do(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))).Or(t)
	r.Header.Set("X-Api-Key", "k")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	res := must.Do(http.DefaultClient.Do(r)).Or(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func whole(t *testing.T, res *http.Response) string {
	t.Helper()
	b := must.Do(io.ReadAll(res.Body)).Or(t)
	return string(b)
}

func TestAFloodHasItsLength(t *testing.T) {
	for _, n := range []int{2, 3, 64, 66, 67, 1000} {
		s := provider.Start(t, provider.Script{provider.Flood(n, "drop ")})
		if got := strings.Count(whole(t, ask(t, t.Context(), s.Anthropic()+"/v1/messages", question)), `"text":"drop "`); got != n {
			t.Errorf("%d drops came of %d", got, n)
		}
	}
}

func TestAStoppedServerReportsNoDisconnectedCaller(t *testing.T) {
	s := provider.Listen(provider.Script{provider.Text("Hello"), provider.Silence()})
	res := ask(t, t.Context(), s.Anthropic()+"/v1/messages", question)
	s.Stop()
	if text, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("of a server that stopped %q is whole", text)
	}
	select {
	case <-s.Disconnects():
		t.Error("the caller is said to have left")
	default:
	}
}

func TestRequestsThatProvidersRefuseAreRefused(t *testing.T) {
	s := provider.Start(t)
	use, result := `{"type":"tool_use","id":"c1","name":"f","input":{}}`, `{"type":"tool_result","tool_use_id":"c1"}`
	turns := func(tools string, contents ...string) string {
		role := map[int]string{0: "user", 1: "assistant"}
		var messages []string
		for i, c := range contents {
			messages = append(messages, `{"role":"`+role[i%2]+`","content":[`+c+`]}`)
		}
		return `{"model":"m","max_tokens":9,"stream":true,"tools":` + tools + `,"messages":[` + strings.Join(messages, ",") + `]}`
	}
	tool := `[{"name":"f","input_schema":{"type":"object"}}]`
	for name, c := range map[string]struct {
		body string
		ok   bool
	}{
		"a call and its result":        {turns(tool, `{"type":"text","text":"a"}`, use, result), true},
		"a call without a result":      {turns(tool, `{"type":"text","text":"a"}`, use, `{"type":"text","text":"a"}`), false},
		"a call at the end":            {turns(tool, `{"type":"text","text":"a"}`, use), false},
		"a result without a call":      {turns(tool, result), false},
		"a call without tools":         {turns(`[]`, `{"type":"text","text":"a"}`, use, result), false},
		"an id that is none":           {turns(tool, `{"type":"text","text":"a"}`, strings.Replace(use, "c1", "c:1", 1), strings.Replace(result, "c1", "c:1", 1)), false},
		"an empty text":                {turns(tool, `{"type":"text","text":" "}`), false},
		"an empty text in a result":    {turns(tool, `{"type":"text","text":"a"}`, use, strings.Replace(result, `"c1"`, `"c1","content":[{"type":"text","text":""}]`, 1)), false},
		"a tool whose schema has none": {turns(`[{"name":"f","input_schema":{}}]`, `{"type":"text","text":"a"}`), false},
		"two tools of one name":        {turns(strings.Replace(tool, "}}", `}},{"type":"web_search_20250305","name":"f"}`, 1), `{"type":"text","text":"a"}`), false},
		"no limit":                     {strings.Replace(question, `"max_tokens":9,`, "", 1), false},
		"no messages":                  {turns(tool), false},
		"no JSON":                      {"{", false},
	} {
		res := ask(t, t.Context(), s.Anthropic()+"/v1/messages", c.body)
		if text := whole(t, res); (res.StatusCode == http.StatusOK) != c.ok {
			t.Errorf("%s: %d %s", name, res.StatusCode, text)
		}
	}
	call := `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	response := `{"role":"tool","tool_call_id":"c1","content":""}`
	hello := `{"role":"user","content":"Hello"}`
	for name, c := range map[string]struct {
		messages []string
		ok       bool
	}{
		"a call and its answer":    {[]string{hello, call, response}, true},
		"a call without an answer": {[]string{hello, call, hello}, false},
		"a call at the end":        {[]string{hello, call}, false},
		"an answer without a call": {[]string{hello, response}, false},
		"a long id":                {[]string{hello, strings.Replace(call, "c1", strings.Repeat("c", 41), 1), strings.Replace(response, "c1", strings.Repeat("c", 41), 1)}, false},
		"arguments that are none":  {[]string{hello, strings.Replace(call, "{}", "{", 1), response}, false},
		"nothing said":             {[]string{`{"role":"user","content":""}`}, false},
	} {
		res := ask(t, t.Context(), s.OpenAI()+"/chat/completions", strings.Replace(chat, hello, strings.Join(c.messages, ","), 1))
		if text := whole(t, res); (res.StatusCode == http.StatusOK) != c.ok {
			t.Errorf("%s: %d %s", name, res.StatusCode, text)
		}
	}
}
