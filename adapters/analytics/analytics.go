// Package analytics records generations of models, without their content: in the log, at
// PostHog, and as metrics and spans of OpenTelemetry.
package analytics

import (
	"context"
	"log/slog"
	"strings"

	"collab/domain/chat"
	"collab/ports"
)

var (
	_ ports.Generations = (*Log)(nil)
	_ ports.Generations = Fan(nil)
)

// Log writes a line for each generation.
type Log struct{ log *slog.Logger }

// NewLog returns a Log that writes to l.
func NewLog(l *slog.Logger) *Log { return &Log{log: l} }

// Record writes a line.
func (l *Log) Record(g chat.Generation) {
	l.log.LogAttrs(context.Background(), slog.LevelInfo, "generation",
		slog.String("id", string(g.ID)), slog.String("org", string(g.Org)), slog.String("user", string(g.User)),
		slog.String("model", g.Model), slog.String("provider", g.Provider),
		slog.Time("began", g.StartedAt), slog.Float64("first_chunk_seconds", g.FirstChunk.Seconds()), slog.Float64("duration_seconds", g.Duration.Seconds()),
		slog.Int64("input_tokens", g.Usage.Input), slog.Int64("output_tokens", g.Usage.Output),
		slog.Int64("cache_read_tokens", g.Usage.CacheRead), slog.Int64("cache_made_tokens", g.Usage.CacheCreated),
		slog.Int64("searches", g.Usage.Searches), slog.String("usage_source", string(g.Provenance)),
		slog.String("outcome", string(g.Outcome)), slog.String("failure", g.Failure), slog.String("stop", reason(g.Stop)),
		slog.Int("tools", g.Tools), slog.Bool("web_search", g.WebSearch), slog.Int("attempts", g.Attempts),
	)
}

// Fan passes each generation to all of its elements.
type Fan []ports.Generations

// Record passes the generation on, in order.
func (f Fan) Record(g chat.Generation) {
	for _, one := range f {
		one.Record(g)
	}
}

const maxReason = 64 // bytes

// reason returns the provider's stop reason, or "other" for a text that is not a single
// word and may be content.
func reason(stop string) string {
	word := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
	}
	if len(stop) > maxReason || strings.ContainsFunc(stop, func(r rune) bool { return !word(r) }) {
		return "other"
	}
	return stop
}

// failed returns the kind of error of a generation, empty if it has none. A client that
// disconnects is not an error.
func failed(g chat.Generation) string {
	switch g.Outcome {
	case chat.Completed, chat.ClientGone:
		return ""
	}
	if g.Failure != "" {
		return g.Failure
	}
	return string(g.Outcome)
}
