// Package registry reads the model registry from JSON: the built-in one, or a file of
// the deployment.
package registry

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"collab/adapters/strictjson"
	"collab/domain/chat"
)

// Bounds of a registry.
const (
	maxBytes        = 1 << 20
	maxModels       = 500
	maxTokens       = 100_000_000
	maxDisplayName  = 200 // characters
	maxCapabilities = 32
)

// providers are those with an adapter. Models of any other would never be offered, so
// they are refused.
var providers = []string{"anthropic", "openai", "local"}

var (
	modelID    = regexp.MustCompile(`\A[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,199}\z`)
	word       = regexp.MustCompile(`\A[a-z0-9][a-z0-9_-]{0,63}\z`)
	searchTool = regexp.MustCompile(`\Aweb_search_[0-9]{8}\z`)
)

//go:embed models.json
var builtIn []byte

// BuiltIn returns the built-in models.
func BuiltIn() ([]chat.Model, error) { return Parse(builtIn) }

// Parse returns the models of a registry: a JSON array of records with the
// fields of GET /models and, of the model's own, searchTool and thinking. It
// refuses unknown fields, which may be misspelt. The error names the model and the
// field.
func Parse(data []byte) ([]chat.Model, error) {
	d, err := strictjson.NewDecoder(data, maxBytes)
	if err != nil {
		return nil, err
	}
	var all []chat.Model
	err = strictjson.Array(d, "", "models", maxModels, func(d *json.Decoder, i int) error {
		m, err := decode(d)
		if err == nil {
			err = check(m)
		}
		if err == nil && slices.ContainsFunc(all, func(other chat.Model) bool { return other.ID == m.ID }) {
			err = errors.New("id: must not be another model's")
		}
		if err != nil {
			return fmt.Errorf("model %d %q: %w", i+1, strictjson.Shorten(m.ID), err)
		}
		all = append(all, m)
		return nil
	})
	if err == nil {
		err = strictjson.End(d, "array")
	}
	if err == nil && len(all) == 0 {
		err = errors.New("must have a model at least")
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// decode reads one record, with as much of the model as was read before an error.
func decode(d *json.Decoder) (m chat.Model, err error) {
	_, err = strictjson.Object(d, "a model", map[string]any{
		"id": &m.ID, "displayName": &m.DisplayName, "provider": &m.Provider, "tier": &m.Tier,
		"contextWindow": &m.ContextWindow, "maxOutputTokens": &m.MaxOutputTokens, "capabilities": &m.Capabilities,
		"searchTool": &m.SearchTool, "thinking": &m.Thinking,
	})
	return m, err
}

func check(m chat.Model) error {
	switch {
	case !modelID.MatchString(m.ID):
		return errors.New("id: must be 1 to 200 letters, digits and ._:/@-")
	case m.DisplayName == "", m.DisplayName != strings.TrimSpace(m.DisplayName),
		utf8.RuneCountInString(m.DisplayName) > maxDisplayName, strings.ContainsFunc(m.DisplayName, unicode.IsControl):
		return fmt.Errorf("displayName: must be 1 to %d characters without control characters or spaces around them", maxDisplayName)
	case !slices.Contains(providers, m.Provider):
		return fmt.Errorf("provider: must be one of %s", strings.Join(providers, ", "))
	case !word.MatchString(m.Tier):
		return errors.New("tier: must be 1 to 64 lower-case letters, digits, _ or -")
	case m.ContextWindow < 1 || m.ContextWindow > maxTokens:
		return fmt.Errorf("contextWindow: must be between 1 and %d", maxTokens)
	case m.MaxOutputTokens < 1 || m.MaxOutputTokens > m.ContextWindow:
		return errors.New("maxOutputTokens: must be between 1 and the contextWindow")
	case len(m.Capabilities) > maxCapabilities:
		return fmt.Errorf("capabilities: must be at most %d", maxCapabilities)
	}
	for i, c := range m.Capabilities {
		if !word.MatchString(c) || slices.Contains(m.Capabilities[:i], c) {
			return fmt.Errorf("capabilities[%d]: must be 1 to 64 lower-case letters, digits, _ or -, and not be given twice", i)
		}
	}
	switch {
	case m.SearchesWeb() && m.Provider == "openai":
		return errors.New("capabilities: must not have web_search, which chat completions lack")
	case !m.SearchesWeb() && m.SearchTool != "":
		return errors.New("searchTool: must not be given without the capability web_search")
	case m.SearchesWeb() && m.Provider == "anthropic" && !searchTool.MatchString(m.SearchTool):
		return errors.New("searchTool: must be a version of web_search, such as web_search_20250305")
	case m.SearchesWeb() && !word.MatchString(m.SearchTool):
		return errors.New("searchTool: must be 1 to 64 lower-case letters, digits, _ or -")
	case m.Thinking != "" && m.Thinking != "off" && m.Thinking != "adaptive":
		return errors.New("thinking: must be off or adaptive, or left out")
	}
	return nil
}
