package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.uber.org/fx"

	"collab/adapters/analytics"
	"collab/adapters/anthropic"
	"collab/adapters/localmodel"
	"collab/adapters/openai"
	"collab/adapters/registry"
	"collab/adapters/system"
	"collab/domain/chat"
	"collab/ports"
)

// providers are those of models, by the names that the registry uses.
type providers map[string]ports.Models

// The names of the providers that there are adapters for.
const (
	byAnthropic = "anthropic"
	byOpenAI    = "openai"
	byLocal     = "local"
)

// wordEvery is how fast the local model talks.
const wordEvery = 15 * time.Millisecond

func chooseModels(c Config) choice {
	var all []string
	if c.anthropic() {
		all = append(all, "`anthropic`")
	}
	if c.openai() {
		all = append(all, "`openai`")
	}
	if c.localModel() {
		all = append(all, "`localmodel`")
	}
	return choice{
		group: "Models", adapter: strings.Join(all, ", "), decided: "COLLAB_ANTHROPIC_API_KEY`, `COLLAB_OPENAI_API_KEY",
		option: fx.Provide(openProviders, models),
	}
}

func openProviders(c Config) (providers, error) {
	all := providers{}
	if c.anthropic() {
		m, err := anthropic.New(anthropic.Options{APIKey: c.AnthropicKey, URL: c.AnthropicURL})
		if err != nil {
			return nil, err // it names the variable
		}
		all[byAnthropic] = m
	}
	if c.openai() {
		m, err := openai.New(openai.Options{APIKey: c.OpenAIKey, URL: c.OpenAIURL})
		if err != nil {
			return nil, err // likewise
		}
		all[byOpenAI] = m
	}
	if c.localModel() {
		all[byLocal] = localmodel.New(func(ctx context.Context) error { return wait(ctx, wordEvery) })
	}
	return all, nil
}

// models reads the registry.
func models(c Config, all providers) (chat.Registry, error) {
	known, err := registry.BuiltIn()
	if c.ModelsFile != "" {
		var text []byte
		if text, err = os.ReadFile(c.ModelsFile); err == nil {
			known, err = registry.Parse(text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("COLLAB_MODELS_FILE: %w", err)
	}
	configured := func(provider string) bool { return all[provider] != nil }
	there, err := chat.NewRegistry(known, "", configured)
	if err != nil {
		return nil, fmt.Errorf("COLLAB_MODELS_FILE: %w", err)
	}
	r, err := chat.NewRegistry(known, c.DefaultModel, configured)
	if err != nil {
		var names []string
		for _, m := range there {
			names = append(names, m.ID)
		}
		return nil, fmt.Errorf("COLLAB_DEFAULT_MODEL: %w; there are %s", err, strings.Join(names, ", "))
	}
	return r, nil
}

// How long to wait before a call of a model is made again: so long, twice as long
// the next time, and up to as much on top.
const firstBackOff = 400 * time.Millisecond

func backOff(ctx context.Context, attempt int) error {
	step := firstBackOff << (attempt - 1)
	return wait(ctx, step+system.Share(step))
}

// wait returns after a time, or with the cause when the context ends before.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func chooseAnalytics(c Config) choice {
	ch := choice{group: "Generations", adapter: "`analytics`, to the log and OpenTelemetry", decided: "COLLAB_POSTHOG_KEY", option: fx.Provide(newAnalytics)}
	if c.PostHogKey != "" {
		ch.adapter = "`analytics`, to the log, OpenTelemetry and PostHog"
	}
	return ch
}

func newAnalytics(lc fx.Lifecycle, c Config, log *slog.Logger, t telemetry) (ports.Generations, error) {
	figures, err := analytics.NewTelemetry(t.meters.Meter("collab"), t.tracer)
	if err != nil {
		return nil, err
	}
	all := analytics.Fan{analytics.NewLog(log), figures}
	if c.PostHogKey == "" {
		return all, nil
	}
	hog, err := analytics.NewPostHog(analytics.Options{Key: c.PostHogKey, URL: c.PostHogURL, Log: log})
	if err != nil {
		return nil, err // it names the variable
	}
	lc.Append(fx.StopHook(func(stop context.Context) error {
		drain, over := within(stop, settleTime)
		defer over()
		if err := hog.Close(drain); err != nil {
			log.Warn("analytics were left behind", "error", err)
		}
		return nil
	}))
	return append(all, hog), t.count(
		counter{"collab.analytics.told", "Generations that PostHog was told of.", hog.Told},
		counter{"collab.analytics.dropped", "Generations that PostHog was not told of.", hog.Dropped},
	)
}
