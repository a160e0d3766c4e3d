package stripepay

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"collab/adapters/inspect"
	"collab/domain/plan"

	"github.com/stripe/stripe-go/v76"
)

type price struct {
	ID        text `json:"id"`
	Active    flag `json:"active"`
	Live      flag `json:"livemode"`
	Currency  text `json:"currency"`
	Recurring struct {
		Interval text `json:"interval"`
		Usage    text `json:"usage_type"`
	} `json:"recurring"`
}

// Inspect checks the key and the prices of both plans; those that are not sold any more need only
// exist. At is the address to print.
func Inspect(ctx context.Context, o Options, at inspect.Address, production bool) (f inspect.Findings) {
	key := strings.TrimSpace(o.SecretKey)
	test := strings.HasPrefix(key, "sk_test_") || strings.HasPrefix(key, "rk_test_")
	switch live := strings.HasPrefix(key, "sk_live_") || strings.HasPrefix(key, "rk_live_"); {
	case strings.HasPrefix(key, "pk_"):
		f.Wrong("copy the secret key, sk_… or rk_…, to COLLAB_STRIPE_SECRET_KEY", "the key is the publishable one")
		return f
	case test && production:
		f.Wrong("set COLLAB_STRIPE_SECRET_KEY to a live key, and the prices and webhook secrets that belong "+
			"to it", "the key is one for tests: nobody pays in production")
	case live && !production:
		f.Note("use a test key in development", "the key is a live one: what is bought in development is paid for")
	}
	if at.Plaintext() {
		f.Risk("set COLLAB_STRIPE_API_URL to an https:// address", "%s is not https: the key can be read on its way", at)
	}
	o.SuccessURL, o.CancelURL = "http://localhost/", "http://localhost/"
	p, err := New(o)
	if err != nil {
		f.Wrong("look at the variable", "").Err = err
		return f
	}
	p.inspectPrices(ctx, &f, o.Prices, test)
	return f
}

// inspectPrices checks the prices with a key that is one for tests or a live one.
func (p *Payments) inspectPrices(ctx context.Context, f *inspect.Findings, prices map[plan.Plan][]string, test bool) {
	currency := ""
	for _, of := range []plan.Plan{plan.Standard, plan.Premium} {
		for _, id := range prices[of] {
			id = strings.TrimSpace(id)
			got, err := call[price](ctx, p, http.MethodGet, stripe.FormatURLPath("/v1/prices/%s", id), &stripe.PriceParams{})
			status := 0
			refused, ok := errors.AsType[*refusal](err)
			if ok {
				status = refused.status
			} else if err == nil && !isID(string(got.ID)) {
				err = unreadable("a price without an id")
			}
			remedy := "set COLLAB_STRIPE_PRICE_" + string(of) + " to a price that is active, recurring and by quantity, in the mode of the key"
			switch {
			case status == http.StatusUnauthorized:
				f.Wrong("set COLLAB_STRIPE_SECRET_KEY", "The payment provider does not know the key").Err = refused
				return
			case status == http.StatusForbidden:
				f.Wrong("give the restricted key the right to read prices, and to write customers, checkout "+
					"sessions, subscriptions and portal sessions", "The key may not read prices").Err = refused
				return
			case status == http.StatusNotFound:
				f.Wrong(remedy, "%s: there is no price %s", of, id)
				continue
			case err != nil:
				f.Wrong("let this machine reach it, or try again later", "").Err = err
				return
			}
			if id != p.prices[of] {
				f.OK("%s: %s, not sold any more", of, id)
				continue
			}
			inCurrency, usage := word(string(got.Currency)), string(got.Recurring.Usage)
			switch {
			case !bool(got.Active):
				f.Wrong(remedy, "%s: the price %s is not active", of, id)
			case got.Recurring.Interval == "":
				f.Wrong(remedy, "%s: the price %s is paid once, not again and again", of, id)
			case usage != "" && usage != "licensed":
				f.Wrong(remedy, "%s: the price %s goes by what was used", of, id)
			case currency != "" && inCurrency != currency:
				f.Wrong("set both prices to ones of the same currency: subscriptions go over from one to the "+
					"other", "%s: the price %s is in %s, the other in %s", of, id, inCurrency, currency)
			case test && bool(got.Live):
				f.Wrong(remedy, "%s: the price %s is a live one, the key one for tests", of, id)
			default:
				mode := "for tests"
				if got.Live {
					mode = "live"
				}
				f.OK("%s: %s, in %s, each %s (%s)", of, id, inCurrency, word(string(got.Recurring.Interval)), mode)
			}
			currency = inCurrency
		}
	}
}

// InspectSecrets checks the form of the webhook secrets. They must differ from others, the
// secrets of another sender.
func InspectSecrets(secrets, others []string) inspect.Findings {
	f := inspect.WebhookSecrets(secrets, "the payment provider", "COLLAB_STRIPE_WEBHOOK_SECRETS", func(secret string) error {
		switch {
		case !strings.HasPrefix(secret, "whsec_"):
			return errors.New("must begin with whsec_")
		case len(secret) < len("whsec_")+8 || strings.ContainsFunc(secret, unicode.IsSpace):
			return errors.New("is not a whole one")
		}
		return nil
	})
	for _, s := range secrets {
		if slices.Contains(others, s) {
			f.Wrong("copy each from the endpoint that it belongs to", "one of them is a secret of the identity provider's messages as well")
		}
	}
	return f
}
