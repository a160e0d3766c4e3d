package config

import (
	"fmt"
	"os"
	"strings"

	"collab/adapters/catalog"
	"collab/adapters/registry"
	"collab/domain/chat"
	"collab/domain/connector"
)

// The providers of models that have adapters, by their names in the registry.
const (
	ProviderAnthropic = "anthropic"
	ProviderOpenAI    = "openai"
	ProviderLocal     = "local"
)

// InvalidError is the error of a variable whose value is only checked when it is used, beside a file that another
// variable names.
type InvalidError struct{ error }

// Models reads the registry and returns the models whose provider is configured, the default
// one first.
func (c Config) Models() (chat.Registry, error) {
	known, err := fileOr(c.ModelsFile, registry.Parse, registry.BuiltIn)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_MODELS_FILE: %w", err)
	}
	configured := func(provider string) bool {
		return map[string]bool{ProviderAnthropic: c.Anthropic(), ProviderOpenAI: c.OpenAI(), ProviderLocal: c.LocalModel()}[provider]
	}
	offered, err := chat.NewRegistry(known, "", configured)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_MODELS_FILE: %w", err)
	}
	r, err := chat.NewRegistry(known, c.DefaultModel, configured)
	if err != nil {
		var names []string
		for _, m := range offered {
			names = append(names, m.ID)
		}
		return nil, InvalidError{fmt.Errorf("COLLAB_DEFAULT_MODEL: %w; there are %s", err, strings.Join(names, ", "))}
	}
	return r, nil
}

// Catalog reads the catalog of tool servers.
func (c Config) Catalog() (connector.Catalog, error) {
	known, err := fileOr(c.ConnectorsFile, catalog.Parse, catalog.BuiltIn)
	if err != nil {
		return connector.Catalog{}, fmt.Errorf("COLLAB_CONNECTORS_FILE: %w", err)
	}
	return known, nil
}

// fileOr parses a file, or returns the built-in value if no file is named.
func fileOr[T any](path string, parse func([]byte) (T, error), builtIn func() (T, error)) (T, error) {
	if path == "" {
		return builtIn()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		var none T
		return none, err
	}
	return parse(text)
}
