package integration

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"collab/test/collabd"
	"collab/test/contract/provider"
	"collab/test/must"
)

// secret is in every text of the conversations, and must be in no log, event, metric or trace.
const secret = "quagga"

// posthogKey is sent to PostHog only.
const posthogKey = "phc_key_of_the_project"

// recorder is a server that accepts all requests and keeps their bodies.
type recorder struct {
	*httptest.Server
	mu     sync.Mutex
	heads  bytes.Buffer
	bodies [][]byte // unpacked
	wrong  []error
}

func recording(t *testing.T) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if q.Header.Get("Content-Encoding") == "gzip" && err == nil {
			var unpack *gzip.Reader
			if unpack, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, err = io.ReadAll(unpack)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		fmt.Fprintln(&r.heads, q.Method, q.URL, q.Header)
		r.bodies = append(r.bodies, body)
		if err != nil {
			r.wrong = append(r.wrong, err)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// all is the text of all responses.
func (r *recorder) all(t *testing.T) []byte {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.wrong {
		t.Error(err)
	}
	return append(bytes.Join(r.bodies, []byte("\n")), r.heads.Bytes()...)
}

// listed is a registry of one model of each provider.
const listed = `[
	{"id": "m-messages", "displayName": "Messages", "provider": "anthropic", "tier": "standard", "contextWindow": 200000, "maxOutputTokens": 4000, "capabilities": ["web_search"], "searchTool": "web_search_20250305"},
	{"id": "m-chat", "displayName": "Chat", "provider": "openai", "tier": "standard", "contextWindow": 200000, "maxOutputTokens": 4000, "capabilities": []}
]`

// answered are the answers that models give, by name; each has the secret
// wherever there is text, and what became of the call in the end.
var answered = map[string]struct {
	model   string
	script  provider.Script
	outcome string
}{
	"whole": {"m-messages", provider.Script{
		provider.SetUsage(provider.Usage{Input: 12, CacheRead: 30, CacheCreated: 5, Output: 70}),
		provider.Think(secret + " thought"), provider.Text(secret, " said"), provider.Cite(secret, "https://example.com/"+secret),
		provider.Search("s1", secret+" query", provider.Result{Title: secret + " title", URL: "https://example.com/" + secret, PageAge: secret}),
		provider.Call("c_"+secret, secret+"_tool", `{"path":"`+secret, ` path"}`),
	}, "completed"},
	"whole chat": {"m-chat", provider.Script{
		provider.SetUsage(provider.Usage{Input: 12, Output: 7}), provider.Think(secret), provider.Text(secret), provider.Call("c1", secret+"_tool", `{"path":"`+secret+`"}`),
	}, "completed"},
	"refused":           {"m-messages", provider.Script{provider.Refuse(400, "invalid_request_error", "prompt is too long: "+secret)}, "failed"},
	"refused chat":      {"m-chat", provider.Script{provider.Refuse(400, "not with "+secret, "no "+secret, "X-Request-Id", "a "+secret)}, "failed"},
	"no stream":         {"m-messages", provider.Script{provider.Answer(200, "text/html", secret)}, "failed"},
	"no stream chat":    {"m-chat", provider.Script{provider.Answer(500, "application/json", `["`+secret+`"]`)}, "failed"},
	"failed":            {"m-messages", provider.Script{provider.Text(secret), provider.Fail("api_error", secret)}, "failed"},
	"failed chat":       {"m-chat", provider.Script{provider.Text(secret), provider.Fail("no "+secret, secret)}, "failed"},
	"malformed":         {"m-messages", provider.Script{provider.Text(secret), provider.Raw("data: {" + secret + "\n\n")}, "failed"},
	"malformed chat":    {"m-chat", provider.Script{provider.Text(secret), provider.Raw("data: " + secret + "\n\n")}, "failed"},
	"broken call":       {"m-messages", provider.Script{provider.Call(secret, secret, `["`+secret+`"]`), provider.Text("so")}, "failed"},
	"broken call chat":  {"m-chat", provider.Script{provider.Call(secret, "not a tool "+secret, `{}`)}, "failed"},
	"cut off":           {"m-messages", provider.Script{provider.Text(secret), provider.Cut()}, "truncated"},
	"cut off chat":      {"m-chat", provider.Script{provider.Text(secret), provider.Raw("data: {\"" + secret), provider.Cut()}, "truncated"},
	"lost":              {"m-messages", provider.Script{provider.Text(secret), provider.Drop()}, "failed"},
	"odd stop":          {"m-chat", provider.Script{provider.Text(secret), provider.Stop("for " + secret)}, "completed"},
	"client goes":       {"m-messages", provider.Script{provider.Text(secret), provider.Silence()}, "client_gone"},
	"overloaded thrice": {"m-messages", provider.Script{provider.Refuse(529, "overloaded_error", secret)}, "failed"},
}

// question is the body of a request that is full of the secret.
func question(model, name string) map[string]any {
	return map[string]any{
		"message": secret + " " + name, "model": model, "systemPrompt": "You are a " + secret, "enableWebSearch": model == "m-messages", "maxTokens": 500,
		"history": []any{
			map[string]any{"role": "user", "content": secret + " before"},
			map[string]any{"role": "assistant", "content": []any{
				map[string]any{"type": "text", "text": secret + " answer"},
				map[string]any{"type": "tool_use", "id": "h1", "name": secret + "_tool", "input": map[string]string{"path": secret}},
			}},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "toolUseId": "h1", "content": secret + " result"}}},
		},
		"tools": []any{map[string]any{
			"name": secret + "_tool", "description": "reads a " + secret,
			"inputSchema": map[string]any{"type": "object", "description": secret, "properties": map[string]any{secret: map[string]string{"type": "string"}}},
		}},
	}
}

// hear sends a chat and returns the stream. If leave is set it disconnects after the first chunk.
func hear(t *testing.T, c collabd.Client, body any, leave bool) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := must.Do(c.Request(ctx, "POST", "/chat", body)).Or(t)
	response := must.Do(http.DefaultClient.Do(r)).Or(t)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("a chat is %s", response.Status)
	}
	var received strings.Builder
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		received.WriteString(lines.Text() + "\n")
		if leave && strings.HasPrefix(lines.Text(), "data:") {
			return received.String()
		}
	}
	must.NoError(t, lines.Err())
	return received.String()
}

// TestConversationsAreNotInLogsOrAnalytics searches the log, the events of PostHog, the traces and the
// metrics for a word that is in every text of the conversations. Each call is recorded in all of them.
func TestConversationsAreNotInLogsOrAnalytics(t *testing.T) {
	t.Parallel()
	models := provider.Start(t)
	models.Choose(func(r provider.Request) provider.Script {
		return answered[strings.TrimPrefix(r.Message, secret+" ")].script
	})
	hog, collector := recording(t), recording(t)
	registry := filepath.Join(t.TempDir(), "models.json")
	must.NoError(t, os.WriteFile(registry, []byte(listed), 0o600))
	s := collabd.Start(t, "COLLAB_LOG_LEVEL=debug", "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, "COLLAB_MODELS_FILE="+registry,
		"COLLAB_ANTHROPIC_URL="+models.Anthropic(), "COLLAB_ANTHROPIC_API_KEY=sk-"+secret,
		"COLLAB_OPENAI_URL="+models.OpenAI(), "COLLAB_OPENAI_API_KEY=sk-"+secret,
		"COLLAB_POSTHOG_URL="+hog.URL, "COLLAB_POSTHOG_KEY="+posthogKey,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip")
	ada := s.SignIn(t, "ada@example.com", "Office", "admin")
	ada.Grant(t, "PREMIUM")
	for _, name := range slices.Sorted(maps.Keys(answered)) {
		a := answered[name]
		received := hear(t, ada, question(a.model, name), a.outcome == "client_gone")
		if repeated := strings.Contains(received, secret); repeated != (name != "overloaded thrice" && !strings.Contains(name, "refused") && !strings.Contains(name, "no stream") && !strings.Contains(name, "broken call")) && name != "broken call" {
			t.Errorf("%s: the client heard %s", name, received)
		}
		if a.outcome == "client_gone" {
			<-models.Disconnects()
		}
	}
	for _, r := range models.Requests() {
		if !bytes.Contains(r.Body, []byte("You are a "+secret)) || !strings.Contains(fmt.Sprint(r.Header), "sk-"+secret) {
			t.Errorf("a provider was asked %s", r.Body)
		}
	}
	// Requests that are refused before a call.
	for _, body := range []any{
		question(secret, "no such model"),
		map[string]any{"message": secret, "history": []any{map[string]any{"role": secret, "content": secret}}},
		map[string]any{"message": secret, "tools": []any{map[string]any{"name": "not " + secret, "description": secret}}},
		secret,
	} {
		if status, _, err := ada.Do("POST", "/chat", body); err != nil || status != http.StatusBadRequest {
			t.Errorf("%v is answered with %d, %v", body, status, err)
		}
	}
	metrics := s.Metrics(t)
	s.Stop(t) // which sends what waits
	outputs := map[string][]byte{"the log": []byte(s.Log()), "PostHog": hog.all(t), "OpenTelemetry": collector.all(t), "/metrics": []byte(metrics)}
	for where, text := range outputs {
		for _, word := range []string{secret, ada.Token, posthogKey} {
			if where == "PostHog" && word == posthogKey {
				continue
			}
			if at := bytes.Index(bytes.ToLower(text), bytes.ToLower([]byte(word))); at >= 0 {
				t.Errorf("%s has %.400q", where, text[max(0, at-200):])
			}
		}
	}
	inLog(t, outputs["the log"], ada)
	inPostHog(t, hog, ada)
	inSpans(t, outputs["OpenTelemetry"], ada)
	inMetrics(t, metrics)
}

// outcomes are how often each outcome was, in all.
func outcomes() map[string]int {
	n := map[string]int{}
	for _, a := range answered {
		n[a.outcome]++
	}
	return n
}

func inLog(t *testing.T, log []byte, ada collabd.Client) {
	found := map[string]int{}
	for line := range bytes.Lines(log) {
		var e map[string]any
		if json.Unmarshal(line, &e) != nil || e["msg"] != "generation" {
			continue
		}
		found[fmt.Sprint(e["outcome"])]++
		if e["user"] != ada.User || e["org"] != ada.Org {
			t.Errorf("the log has %v", e)
		}
	}
	if !maps.Equal(found, outcomes()) {
		t.Errorf("the log has %v, want %v", found, outcomes())
	}
}

func inPostHog(t *testing.T, hog *recorder, ada collabd.Client) {
	found := map[string]int{}
	for _, body := range hog.bodies {
		var batch struct {
			APIKey string `json:"api_key"`
			Batch  []struct {
				Event      string
				DistinctID string `json:"distinct_id"`
				Properties map[string]any
			}
		}
		if err := json.Unmarshal(body, &batch); err != nil || batch.APIKey != posthogKey {
			t.Fatalf("PostHog was told %s: %v", body, err)
		}
		for _, e := range batch.Batch {
			p := e.Properties
			if e.Event != "$ai_generation" || e.DistinctID != ada.User || fmt.Sprint(p["$groups"]) != fmt.Sprint(map[string]string{"company": ada.Org}) {
				t.Errorf("PostHog was told %+v", e)
			}
			found[fmt.Sprint(p["outcome"])]++
		}
	}
	if !maps.Equal(found, outcomes()) {
		t.Errorf("PostHog was told %v, want %v", found, outcomes())
	}
}

// inSpans looks for attributes in their encoding: an attribute of a span is its
// name, then a value with a tag and a length.
func inSpans(t *testing.T, spans []byte, ada collabd.Client) {
	text := func(name, value string) []byte {
		return append([]byte(name), append([]byte{0x12, byte(len(value) + 2), 0x0a, byte(len(value))}, value...)...)
	}
	if n := bytes.Count(spans, text("user.id", ada.User)); n != len(answered) {
		t.Errorf("%d spans of %d calls name the user", n, len(answered))
	}
	for outcome, want := range outcomes() {
		if n := bytes.Count(spans, text("collab.outcome", outcome)); n != want {
			t.Errorf("%d spans are %s, want %d", n, outcome, want)
		}
	}
}

func inMetrics(t *testing.T, metrics string) {
	for _, want := range []string{"gen_ai_client_operation_duration_seconds_count", "gen_ai_client_operation_time_to_first_chunk_seconds_count", "gen_ai_client_token_usage"} {
		if !strings.Contains(metrics, want) || !strings.Contains(metrics, `gen_ai_request_model="m-messages"`) {
			t.Errorf("/metrics has no %s of the model", want)
		}
	}
}
