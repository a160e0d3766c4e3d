package assembly

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.uber.org/fx"

	"collab/adapters/analytics"
	"collab/adapters/anthropic"
	"collab/adapters/localmodel"
	"collab/adapters/openai"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/ports"
)

// providers are model providers by their names in the registry.
type providers map[string]ports.Models

// wordEvery is the pause between two words of the local model.
const wordEvery = 15 * time.Millisecond

func chooseModels(c config.Config) choice {
	var all []string
	if c.Anthropic() {
		all = append(all, "`anthropic`")
	}
	if c.OpenAI() {
		all = append(all, "`openai`")
	}
	if c.LocalModel() {
		all = append(all, "`localmodel`")
	}
	return choice{
		group: "Models", adapter: strings.Join(all, ", "), variable: "COLLAB_ANTHROPIC_API_KEY`, `COLLAB_OPENAI_API_KEY",
		option: fx.Provide(openProviders, config.Config.Models),
	}
}

func openProviders(c config.Config) (providers, error) {
	all := providers{}
	if c.Anthropic() {
		m, err := anthropic.New(anthropic.Options{APIKey: c.AnthropicKey.Value(), URL: c.AnthropicURL.Text()})
		if err != nil {
			return nil, err // it names the variable
		}
		all[config.ProviderAnthropic] = m
	}
	if c.OpenAI() {
		m, err := openai.New(openai.Options{APIKey: c.OpenAIKey.Value(), URL: c.OpenAIURL.Text()})
		if err != nil {
			return nil, err // likewise
		}
		all[config.ProviderOpenAI] = m
	}
	if c.LocalModel() {
		all[config.ProviderLocal] = localmodel.New(func(ctx context.Context) error { return wait(ctx, wordEvery) })
	}
	return all, nil
}

// minBackOff is the first wait of backOff.
const minBackOff = 400 * time.Millisecond

// backOff waits before the next call of a model: minBackOff, doubled with each attempt, plus
// a random share of up to as much.
func backOff(ctx context.Context, attempt int) error {
	step := minBackOff << (attempt - 1)
	return wait(ctx, step+system.Jitter(step))
}

// wait waits for d, or returns the cause of ctx if that ends before.
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

func chooseAnalytics(c config.Config) choice {
	ch := choice{group: "Generations", adapter: "`analytics`, to the log and OpenTelemetry", variable: "COLLAB_POSTHOG_KEY", option: fx.Provide(newAnalytics)}
	if c.PostHogKey.IsSet() {
		ch.adapter = "`analytics`, to the log, OpenTelemetry and PostHog"
	}
	return ch
}

func newAnalytics(lc fx.Lifecycle, c config.Config, log *slog.Logger, t telemetry) (ports.Generations, error) {
	figures, err := analytics.NewTelemetry(t.meters.Meter("collab"), t.tracer)
	if err != nil {
		return nil, err
	}
	all := analytics.Fan{analytics.NewLog(log), figures}
	if !c.PostHogKey.IsSet() {
		return all, nil
	}
	hog, err := analytics.NewPostHog(analytics.Options{Key: c.PostHogKey.Value(), URL: c.PostHogURL.Text(), Log: log, Clock: system.Clock{}})
	if err != nil {
		return nil, err // it names the variable
	}
	lc.Append(fx.StopHook(drainHook(settleTimeout, hog.Close, log.Warn, "analytics queue not drained")))
	return append(all, hog), t.count(
		counter{"collab.analytics.sent", "Generations sent to PostHog.", hog.Sent},
		counter{"collab.analytics.dropped", "Generations not sent to PostHog.", hog.Dropped},
	)
}
