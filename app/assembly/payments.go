package assembly

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/fx"

	"collab/adapters/devpay"
	"collab/adapters/httpapi"
	"collab/adapters/outbound"
	"collab/adapters/stripepay"
	"collab/app/access"
	"collab/app/assembly/config"
	"collab/app/billing"
	"collab/domain/plan"
	"collab/ports"
)

// paymentResult are the ports of a payment provider.
type paymentResult struct {
	fx.Out
	Payments ports.Payments
	Billing  ports.Billing
	Mounts   payMounts
}

type payMounts mounts // of the development provider

// paymentSigning are the secrets of the payment provider's messages.
type paymentSigning []string

func choosePayments(c config.Config) choice {
	ch := choice{group: "Payments, Billing, PaymentEvents", variable: "COLLAB_STRIPE_SECRET_KEY"}
	ch.adapter, ch.option = "`stripepay`", fx.Options(fx.Provide(stripePayments), paymentEvents)
	if !c.StripeKey.IsSet() {
		ch.adapter, ch.option = "`stripepay` at the built-in provider `devpay`", fx.Options(fx.Provide(developmentPayments), paymentEvents)
	}
	return ch
}

var paymentEvents = fx.Provide(
	func(c config.Config, s ports.Secrets) (paymentSigning, error) {
		return webhookSecrets(c.StripeWebhooks, c, "payment-webhook-secret", s.Secret)
	},
	func(c config.Config, s paymentSigning, clock ports.Clock) ports.PaymentEvents {
		return stripepay.NewEvents(s, prices(c), clock)
	},
)

// prices returns the ids of the plans' prices. The development provider has its own.
func prices(c config.Config) map[plan.Plan][]string {
	if !c.StripeKey.IsSet() {
		return map[plan.Plan][]string{plan.Standard: {"price_standard"}, plan.Premium: {"price_premium"}}
	}
	return c.Prices()
}

// newStripeClient returns the client of a payment API at an address.
func newStripeClient(c config.Config, base publicURL, key, address string, log *slog.Logger) (*stripepay.Payments, error) {
	return stripepay.New(stripepay.Options{
		SecretKey: key, URL: address, Prices: prices(c), SuccessURL: string(base) + httpapi.CheckoutSuccessPath,
		CancelURL: string(base) + httpapi.CheckoutCancelPath,
		Log:       log,
	})
}

func stripePayments(c config.Config, base publicURL, log *slog.Logger) (paymentResult, error) {
	p, err := newStripeClient(c, base, c.StripeKey.Value(), c.StripeURL.Text(), log)
	return paymentResult{Payments: p, Billing: p}, err
}

type devpayParams struct {
	fx.In
	CommonParams
	Signing paymentSigning
}

// developmentPayments runs the built-in provider inside the server. As with any other provider,
// it is called through its API, and its messages arrive as signed webhooks.
func developmentPayments(lc fx.Lifecycle, p devpayParams) (paymentResult, error) {
	client := newWebhookClient(lc)
	planOf := map[string]string{}
	for p, all := range prices(p.Config) {
		planOf[all[0]] = string(p)
	}
	dev, err := devpay.New(devpay.Options{
		Development: !p.Config.Production(), Listen: string(p.Config.Listen), PublicURL: string(p.Base), AppURL: appURL(p.Config, p.Base),
		StateFile: filepath.Join(p.Config.DataDir, "dev-payments.json"), Prices: planOf,
		Clock: p.Clock, IDs: p.IDs, Secrets: p.Secrets, Log: p.Log,
		Emit: func(ctx context.Context, _ string, body []byte) error {
			if len(p.Signing) == 0 {
				return errors.New("COLLAB_STRIPE_WEBHOOK_SECRETS is empty: no message is accepted")
			}
			return postWebhook(ctx, client, string(p.Base)+httpapi.PaymentWebhookPath, map[string]string{
				"Stripe-Signature": stripepay.Sign(p.Signing[0], p.Clock.Now(), body),
			}, body)
		},
	})
	if err != nil {
		return paymentResult{}, err
	}
	lc.Append(fx.StopHook(dev.Close))
	payments, err := newStripeClient(p.Config, p.Base, dev.Key(), dev.APIURL(), p.Log)
	return paymentResult{Payments: payments, Billing: payments, Mounts: payMounts{devpay.Prefix: dev}}, err
}

// appURL returns the address of the application.
func appURL(c config.Config, base publicURL) string {
	if c.AppURL.IsSet() {
		return c.AppURL.Text()
	}
	return string(base) + httpapi.ReferencePath
}

// billingEvery is how often subscriptions are reconciled.
const billingEvery = time.Minute

type billingParams struct {
	fx.In
	CommonParams
	Payments ports.Payments
	Provider ports.Billing
	Access   *access.Access
}

func newBilling(lc fx.Lifecycle, p billingParams) *billing.Billing {
	b := billing.New(billing.Options{
		Store: p.Store, Payments: p.Payments, Provider: p.Provider, Clock: p.Clock, IDs: p.IDs, Log: p.Log,
		Storage: p.Config.PlanStorage, Requests: p.Config.PlanRequests, Versions: p.Config.PlanVersions,
		Locked: p.Access.Locked, Reauthorize: p.Access.Reauthorize, Origin: access.Origin,
		PaidURL: string(p.Base) + httpapi.CheckoutSuccessPath, AppURL: appURL(p.Config, p.Base),
	})
	schedule(lc, billingEvery, b.Reconcile, p.Log, "subscription sweep failed")
	return b
}

// webhookTimeout bounds a development provider's call of a webhook.
const webhookTimeout = 10 * time.Second

// newWebhookClient returns the client by which a development provider calls a webhook until stop.
func newWebhookClient(lc fx.Lifecycle) *http.Client {
	client := outbound.NewConfigured(webhookTimeout)
	client.Timeout = webhookTimeout
	lc.Append(fx.StopHook(client.CloseIdleConnections))
	return client
}

// postWebhook posts a message to a webhook of this server.
func postWebhook(ctx context.Context, client *http.Client, to string, header map[string]string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook answered %s", response.Status)
	}
	return nil
}
