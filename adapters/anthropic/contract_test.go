package anthropic_test

import (
	"net/http"
	"testing"

	"collab/adapters/anthropic"
	"collab/domain/chat"
	"collab/ports"
	"collab/test/contract"
	"collab/test/contract/provider"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var someModel = chat.Model{
	ID: "claude-test", DisplayName: "Test", Provider: "anthropic", Tier: "small", ContextWindow: 200_000, MaxOutputTokens: 8_000,
	Capabilities: []string{chat.WebSearch}, SearchTool: "web_search_20260318",
}

// models returns models of a server, which close their connections with the test.
func models(t testing.TB, url string) ports.Models {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m, err := anthropic.New(anthropic.Options{APIKey: "sk-test", URL: url, Client: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModels(t *testing.T) {
	contract.Models(t, func(t *testing.T, scripts ...provider.Script) contract.Provided {
		s := provider.Start(t, scripts...)
		return contract.Provided{
			Models: models(t, s.Anthropic()), Model: someModel, Server: s, Searches: true,
			Unreachable: models(t, "http://127.0.0.1:1"),
		}
	})
}
