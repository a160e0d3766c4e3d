// Package registry reads the models that there are from JSON: the list that is
// built in, or one of the deployment's own.
package registry

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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

// providers are those that we have an adapter for: another one would be a
// misspelling, and its models would be missing without a word.
var providers = []string{"anthropic", "openai", "local"}

var (
	modelID    = regexp.MustCompile(`\A[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,199}\z`)
	word       = regexp.MustCompile(`\A[a-z0-9][a-z0-9_-]{0,63}\z`)
	searchTool = regexp.MustCompile(`\Aweb_search_[0-9]{8}\z`)
)

//go:embed models.json
var builtIn []byte

// BuiltIn returns the models that we know.
func BuiltIn() ([]chat.Model, error) { return Parse(builtIn) }

// Parse returns the models of a registry: a JSON array of records with the
// fields of GET /models and, of the model's own, searchTool and thinking. It
// takes no field that it does not know, as a misspelt one would count for
// nothing. The error names the model and the field.
func Parse(data []byte) ([]chat.Model, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("must be at most %d bytes", maxBytes)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("must be valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, errors.New("must be a JSON array of models")
	}
	var all []chat.Model
	for d.More() {
		if len(all) == maxModels {
			return nil, fmt.Errorf("must be at most %d models", maxModels)
		}
		m, err := decode(d)
		if err == nil {
			err = check(m)
		}
		if err == nil && slices.ContainsFunc(all, func(other chat.Model) bool { return other.ID == m.ID }) {
			err = errors.New("id: must not be another model's")
		}
		if err != nil {
			return nil, fmt.Errorf("model %d %q: %w", len(all)+1, shortened(m.ID), err)
		}
		all = append(all, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("must be a whole JSON array")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("must be nothing after the array")
	}
	if len(all) == 0 {
		return nil, errors.New("must have a model at least")
	}
	return all, nil
}

// decode reads one record, with as much of the model as was read before an
// error. It goes field by field, because json itself takes names in any case,
// and the same one twice.
func decode(d *json.Decoder) (m chat.Model, err error) {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return m, errors.New("must be a JSON object")
	}
	fields := map[string]any{
		"id": &m.ID, "displayName": &m.DisplayName, "provider": &m.Provider, "tier": &m.Tier,
		"contextWindow": &m.ContextWindow, "maxOutputTokens": &m.MaxOutputTokens, "capabilities": &m.Capabilities,
		"searchTool": &m.SearchTool, "thinking": &m.Thinking,
	}
	forms := map[string]string{"contextWindow": "a whole number", "maxOutputTokens": "a whole number", "capabilities": "an array of texts"}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return m, errors.New("must be a whole JSON object")
		}
		name, _ := t.(string)
		into, known := fields[name]
		switch {
		case !known:
			return m, fmt.Errorf("%q: is no field of a model", shortened(name))
		case seen[name]:
			return m, fmt.Errorf("%s: must not be given twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return m, fmt.Errorf("%s: must be valid JSON", name)
		}
		if string(value) == "null" || json.Unmarshal(value, into) != nil {
			form := forms[name]
			if form == "" {
				form = "a text"
			}
			return m, fmt.Errorf("%s: must be %s", name, form)
		}
	}
	if _, err := d.Token(); err != nil {
		return m, errors.New("must be a whole JSON object")
	}
	return m, nil
}

func check(m chat.Model) error {
	switch {
	case !modelID.MatchString(m.ID):
		return errors.New("id: must be 1 to 200 letters, digits and ._:/@-")
	case m.DisplayName == "" || m.DisplayName != strings.TrimSpace(m.DisplayName) || utf8.RuneCountInString(m.DisplayName) > maxDisplayName || strings.ContainsFunc(m.DisplayName, unicode.IsControl):
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
	case m.Can(chat.WebSearch) && m.Provider == "openai":
		return errors.New("capabilities: must not have web_search, which chat completions lack")
	case !m.Can(chat.WebSearch) && m.SearchTool != "":
		return errors.New("searchTool: must not be given without the capability web_search")
	case m.Can(chat.WebSearch) && m.Provider == "anthropic" && !searchTool.MatchString(m.SearchTool):
		return errors.New("searchTool: must be a version of web_search, such as web_search_20250305")
	case m.Can(chat.WebSearch) && !word.MatchString(m.SearchTool):
		return errors.New("searchTool: must be 1 to 64 lower-case letters, digits, _ or -")
	case m.Thinking != "" && m.Thinking != "off" && m.Thinking != "adaptive":
		return errors.New("thinking: must be off or adaptive, or left out")
	}
	return nil
}

// shortened bounds what an error repeats.
func shortened(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
