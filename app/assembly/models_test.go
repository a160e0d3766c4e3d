package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"collab/domain/chat"
	"collab/test/must"
)

// offered returns the models of a configuration.
func offered(t *testing.T, environ ...string) (chat.Registry, error) {
	t.Helper()
	c := read(t, environ...)
	all, err := openProviders(c)
	if err != nil {
		return nil, err
	}
	r, err := c.Models()
	for _, m := range r {
		if all[m.Provider] == nil {
			t.Errorf("there is no provider of %s", m.ID)
		}
	}
	return r, err
}

func TestTheModelsAreThoseWhoseProviderIsConfigured(t *testing.T) {
	with := func(environ []string, more ...string) []string {
		return append(environ[:len(environ):len(environ)], more...)
	}
	bare := withoutVariables(complete, "COLLAB_ANTHROPIC_API_KEY")
	for _, c := range []struct {
		about     string
		environ   []string
		providers string // of the models in their order, each as often as it takes turns
		first     string // the provider of the default model
	}{
		{"nothing in development", nil, "local", "local"},
		{"Anthropic in development", []string{"COLLAB_ANTHROPIC_API_KEY=k"}, "anthropic local", "anthropic"},
		{"OpenAI in development", []string{"COLLAB_OPENAI_API_KEY=k"}, "openai local", "openai"},
		{"both in development", []string{"COLLAB_ANTHROPIC_API_KEY=k", "COLLAB_OPENAI_API_KEY=k"}, "anthropic openai local", "anthropic"},
		{"the local model by default, beside another", []string{"COLLAB_ANTHROPIC_API_KEY=k", "COLLAB_DEFAULT_MODEL=local-1"}, "local anthropic", "local"},
		{"servers of one's own that ask for no key", []string{"COLLAB_ANTHROPIC_URL=http://a", "COLLAB_OPENAI_URL=http://b/v1"}, "anthropic openai local", "anthropic"},
		{"Anthropic in production", complete, "anthropic", "anthropic"},
		{"OpenAI in production", with(bare, "COLLAB_OPENAI_API_KEY=k"), "openai", "openai"},
		{"both in production", with(complete, "COLLAB_OPENAI_API_KEY=k"), "anthropic openai", "anthropic"},
	} {
		t.Run(c.about, func(t *testing.T) {
			all := must.Do(offered(t, c.environ...)).Or(t)
			var turns []string
			for _, m := range all {
				if len(turns) == 0 || turns[len(turns)-1] != m.Provider {
					turns = append(turns, m.Provider)
				}
			}
			byDefault, err := all.Find("")
			if got := strings.Join(turns, " "); got != c.providers || err != nil || byDefault.Provider != c.first {
				t.Errorf("got models of %s, by default one of %s, %v", got, byDefault.Provider, err)
			}
		})
	}
}

func TestModelsThatCannotBeNameTheVariable(t *testing.T) {
	directory := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(directory, name)
		must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return "COLLAB_MODELS_FILE=" + path
	}
	const fields = `"id": "m", "displayName": "M", "tier": "standard", "contextWindow": 10, "maxOutputTokens": 5, "capabilities": []`
	production := func(more ...string) []string { return append(complete[:len(complete):len(complete)], more...) }
	for _, c := range []struct {
		about   string
		environ []string
		says    string
	}{
		{"a file that is not there", []string{"COLLAB_MODELS_FILE=" + filepath.Join(directory, "gone")}, `COLLAB_MODELS_FILE: .*gone: no such file`},
		{"a directory", []string{"COLLAB_MODELS_FILE=" + directory}, `COLLAB_MODELS_FILE: .*is a directory`},
		{"no JSON", []string{file("text", "models:")}, `COLLAB_MODELS_FILE: must be a JSON array of models`},
		{"half of it", []string{file("half", `[{"id": "m"`)}, `COLLAB_MODELS_FILE: model 1 "m": must be a whole JSON object`},
		{"an unknown field", []string{file("field", `[{`+fields+`, "provider": "local", "price": 1}]`)}, `COLLAB_MODELS_FILE: model 1 "m": "price": is no field of a model`},
		{"a wrong form", []string{file("form", `[{"id": 1}]`)}, `COLLAB_MODELS_FILE: model 1 "": id: must be a text`},
		{"an unknown provider", []string{file("provider", `[{`+fields+`, "provider": "owls"}]`)}, `COLLAB_MODELS_FILE: model 1 "m": provider: must be one of anthropic, openai, local`},
		{"none", []string{file("none", `[]`)}, `COLLAB_MODELS_FILE: must have a model at least`},
		{"none whose provider is configured", []string{file("others", `[{`+fields+`, "provider": "openai"}]`)}, `COLLAB_MODELS_FILE: No model of the registry has a provider that is configured`},
		{"the local one in production", production(file("local", `[{`+fields+`, "provider": "local"}]`)), `COLLAB_MODELS_FILE: No model of the registry has a provider that is configured`},
		{"an unknown default", []string{"COLLAB_DEFAULT_MODEL=owl"}, `COLLAB_DEFAULT_MODEL: The default model "owl" is not in the registry, .*; there are local-1$`},
		{"the local one by default in production", production("COLLAB_DEFAULT_MODEL=local-1"), `COLLAB_DEFAULT_MODEL: The default model "local-1" is not .*configured; there are claude-`},
		{"a key of spaces", []string{"COLLAB_ANTHROPIC_API_KEY= "}, `^COLLAB_ANTHROPIC_API_KEY: must not be empty$`},
	} {
		t.Run(c.about, func(t *testing.T) {
			if _, err := offered(t, c.environ...); err == nil || !regexp.MustCompile(c.says).MatchString(err.Error()) {
				t.Errorf("got %v, want %s", err, c.says)
			}
		})
	}
}

// slow is how long something may take that does not wait for PostHog, whose
// attempts have 10 s each.
const slow = 6 * time.Second

// TestAnUnavailablePostHogDelaysNothing: one takes connections and never answers,
// the other one is not there.
func TestAnUnavailablePostHogDelaysNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the system takes connections for it
	must.NoError(t, err)
	defer mute.Close()
	for about, hog := range map[string]string{"one that never answers": mute.Addr().String(), "one that is not there": "127.0.0.1:1"} {
		t.Run(about, func(t *testing.T) {
			c := read(t, "COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATA_DIR="+t.TempDir(), "COLLAB_DATABASE_URL=memory://",
				"COLLAB_POSTHOG_KEY=phc_x", "COLLAB_POSTHOG_URL=http://"+hog)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			output, started, ended := &must.Log{}, make(chan publicURL, 1), make(chan error, 1)
			go func() {
				ended <- serveWith(ctx, c, output, func(base publicURL, _ signInPage, _ net.Listener) { started <- base })
			}()
			var base publicURL
			select {
			case base = <-started:
			case err := <-ended:
				t.Fatal(err)
			}
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			token := ""
			post := func(path, kind, body string) []byte {
				r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodPost, string(base)+path, strings.NewReader(body))).Or(t)
				r.Header.Set("Content-Type", kind)
				r.Header.Set("Authorization", "Bearer "+token)
				response := must.Do(client.Do(r)).Or(t)
				defer response.Body.Close()
				text := must.Do(io.ReadAll(response.Body)).Or(t)
				must.Is(t, http.StatusOK, response.StatusCode)
				return text
			}
			var session struct{ IdentityToken, Token string }
			form := url.Values{"email": {"ada@example.com"}, "name": {"Ada"}, "org": {"Office"}}
			must.NoError(t, json.Unmarshal(post("/dev/identity/token", "application/x-www-form-urlencoded", form.Encode()), &session))
			must.NoError(t, json.Unmarshal(post("/api/v1/auth/exchange-token", "application/json", fmt.Sprintf(`{"identityToken": %q}`, session.IdentityToken)), &session))
			token = session.Token
			post("/api/v1/billing/trial", "application/json", "")

			began := time.Now()
			for range 3 {
				if stream := post("/api/v1/chat", "application/json", `{"message": "Hello", "maxTokens": 20}`); !strings.Contains(string(stream), `"type":"done"`) {
					t.Errorf("a chat is %s", stream)
				}
			}
			if took := time.Since(began); took > slow {
				t.Errorf("three chats took %s", took)
			}
			client.CloseIdleConnections()
			began = time.Now()
			stop()
			must.Succeed(t, <-ended)
			if took := time.Since(began); took > slow {
				t.Errorf("the end took %s", took)
			}
			if n := strings.Count(output.String(), "msg=generation"); n != 3 || !strings.Contains(output.String(), "analytics queue not drained") {
				t.Errorf("%d generations are in the log:\n%s", n, output)
			}
		})
	}
}
