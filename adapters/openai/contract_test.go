package openai_test

import (
	"net/http"
	"testing"

	"collab/adapters/openai"
	"collab/domain/chat"
	"collab/ports"
	"collab/test/contract"
	"collab/test/contract/provider"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var someModel = chat.Model{
	ID: "gpt-test", DisplayName: "Test", Provider: "openai", Tier: "small", ContextWindow: 200_000, MaxOutputTokens: 8_000,
}

// models returns models of a server, which close their connections with the test.
func models(t testing.TB, url string) ports.Models {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(openai.Options{APIKey: "sk-test", URL: url, Client: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModels(t *testing.T) {
	contract.Models(t, func(t *testing.T, scripts ...provider.Script) contract.Provided {
		s := provider.Start(t, scripts...)
		return contract.Provided{
			Models: models(t, s.OpenAI()), Model: someModel, Server: s, KeepsUsage: true,
			Unreachable: models(t, "http://127.0.0.1:1/v1"),
		}
	})
}
