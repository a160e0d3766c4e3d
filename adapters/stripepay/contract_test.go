package stripepay_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"collab/adapters/devpay"
	"collab/adapters/stripepay"
	"collab/adapters/system"
	"collab/domain/plan"
	"collab/test/contract"
	"collab/test/must"
)

// newContract returns the payments at a development provider, over real connections of the default
// client.
func newContract(t *testing.T) contract.PaymentProvider {
	t.Helper()
	var provider http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { provider.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	dev := must.Do(devpay.New(devpay.Options{
		Development: true, Listen: server.Listener.Addr().String(), PublicURL: server.URL, StateFile: filepath.Join(t.TempDir(), "payments.json"),
		Prices: map[string]string{"price_standard": "STANDARD", "price_premium": "PREMIUM"},
		Clock:  system.Clock{}, IDs: system.IDs{}, Secrets: system.Secrets{}, Emit: func(context.Context, string, []byte) error { return nil },
	})).Or(t)
	provider = dev
	t.Cleanup(dev.Close)
	p := must.Do(stripepay.New(stripepay.Options{
		SecretKey: dev.Key(), URL: dev.APIURL() + "/", Prices: map[plan.Plan][]string{plan.Standard: {"price_standard"}, plan.Premium: {"price_premium"}},
		SuccessURL: server.URL + "/success", CancelURL: server.URL + "/cancel",
	})).Or(t)
	return contract.PaymentProvider{
		Payments: p, Billing: p,
		Pay: func(c plan.Checkout) error {
			// A second submission only redirects.
			s, err := p.Session(context.Background(), c.Session)
			if err == nil && s.Status != "open" {
				err = fmt.Errorf("the page is %s", s.Status)
			}
			if err != nil {
				return err
			}
			_, err = dev.Pay(context.Background(), c.Session)
			return err
		},
		Fail: func(subscription string) error { return dev.Act(context.Background(), subscription, devpay.Fail) },
	}
}

func TestPayments(t *testing.T) { contract.Payments(t, newContract) }

func TestBilling(t *testing.T) { contract.Billing(t, newContract) }
