package webhooks

import (
	"context"
	"errors"

	"collab/ports"
)

// Payment verifies a message of the payment provider and follows its subscription. A message
// that was applied before, or has a type that is not handled, changes nothing and is no
// error.
func (w *Webhooks) Payment(ctx context.Context, header func(string) string, body []byte, admit Admit) error {
	e, err := w.Options.Payments.Read(header, body)
	if err != nil {
		return err
	}
	if err := admit(ctx, e.Customer); err != nil {
		return err
	}
	err = w.Billing.HandleEvent(ctx, e, func(r ports.Records) error { return w.accept(ctx, r, paymentSource, e.Message) })
	if errors.Is(err, errApplied) {
		return nil
	}
	return err
}
