// Package analytics says what calls of models came to: in the log, to PostHog
// and in OpenTelemetry. None of it has anything of what was said.
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

// Log writes a line for each call.
type Log struct{ log *slog.Logger }

// NewLog returns the log's lines.
func NewLog(l *slog.Logger) *Log { return &Log{log: l} }

// Record writes the line of a call.
func (l *Log) Record(g chat.Generation) {
	l.log.LogAttrs(context.Background(), slog.LevelInfo, "generation",
		slog.String("id", string(g.ID)), slog.String("org", string(g.Org)), slog.String("user", string(g.User)),
		slog.String("model", g.Model), slog.String("provider", g.Provider),
		slog.Time("began", g.Began), slog.Float64("first_chunk_seconds", g.FirstChunk.Seconds()), slog.Float64("duration_seconds", g.Took.Seconds()),
		slog.Int64("inputTokens", g.Usage.Input), slog.Int64("outputTokens", g.Usage.Output),
		slog.Int64("cacheReadTokens", g.Usage.CacheRead), slog.Int64("cacheMadeTokens", g.Usage.CacheMade),
		slog.Int64("searches", g.Usage.Searches), slog.String("usageSource", string(g.Provenance)),
		slog.String("outcome", string(g.Outcome)), slog.String("failure", g.Failure), slog.String("stop", reason(g.Stop)),
		slog.Int("tools", g.Tools), slog.Bool("webSearch", g.WebSearch), slog.Int("attempts", g.Attempts),
	)
}

// Fan tells several of each call.
type Fan []ports.Generations

// Record tells each, in order.
func (f Fan) Record(g chat.Generation) {
	for _, one := range f {
		one.Record(g)
	}
}

const maxReason = 64 // bytes

// reason returns why a model stopped, in the provider's words, as far as they
// are a word: whatever else stood there could be part of an answer.
func reason(stop string) string {
	word := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
	}
	if len(stop) > maxReason || strings.ContainsFunc(stop, func(r rune) bool { return !word(r) }) {
		return "other"
	}
	return stop
}

// failed returns what became of a call that is an error, empty for one that is
// none: a client that went away is not the provider's fault.
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
