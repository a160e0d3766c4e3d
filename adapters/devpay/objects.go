package devpay

import "time"

// object is a JSON object of the API, in version 2023-10-16, with the fields that the service
// reads. Times are seconds since 1970.
type object map[string]any

const (
	amount   = 1000 // of every price, in cents
	currency = "usd"
)

// textOrNull returns s, nil if it is empty.
func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func metadata(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func list(data ...object) object {
	return object{"object": "list", "data": data, "has_more": false}
}

func period(start, end time.Time) object {
	return object{"start": start.Unix(), "end": end.Unix()}
}

func customerObject(c customer) object {
	return object{"id": c.ID, "object": "customer", "created": c.CreatedAt.Unix(), "metadata": metadata(c.Metadata), "name": textOrNull(c.Name)}
}

func (t *tx) sessionObject(s session) object {
	status, paid, url := s.status(t.now), "unpaid", any(nil)
	switch status {
	case complete:
		paid = "paid"
	case open:
		url = t.p.payURL(s.ID)
	}
	return object{
		"id": s.ID, "object": "checkout.session", "client_reference_id": textOrNull(s.Reference), "created": s.CreatedAt.Unix(),
		"customer": s.Customer, "expires_at": s.ExpiresAt.Unix(), "metadata": metadata(s.Metadata), "mode": "subscription",
		"payment_status": paid, "status": status, "subscription": textOrNull(s.Subscription), "url": url,
	}
}

func (t *tx) subscriptionObject(s subscription) object {
	cancelAt := any(nil)
	if s.CancelAtPeriodEnd {
		cancelAt = s.periodEnd().Unix()
	}
	item := object{
		"id": s.Item, "object": "subscription_item", "price": object{"id": s.Price, "object": "price"}, "quantity": s.Quantity, "subscription": s.ID,
	}
	return object{
		"id": s.ID, "object": "subscription", "cancel_at": cancelAt, "cancel_at_period_end": s.CancelAtPeriodEnd, "created": s.Anchor.Unix(),
		"current_period_start": s.periodStart().Unix(), "current_period_end": s.periodEnd().Unix(), "customer": s.Customer,
		"default_payment_method": textOrNull(s.PaymentMethod), "items": list(item), "metadata": metadata(s.Metadata), "status": s.Status,
	}
}

// invoiceObject returns the subscription's last invoice. As at Stripe, the period that it pays
// for is that of its line.
func (t *tx) invoiceObject(s subscription) object {
	i, status := s.Invoice, "paid"
	if i.PaidAt.IsZero() {
		status = "open"
	}
	line := object{"id": "il_" + i.ID, "object": "line_item", "period": period(i.Start, i.End), "subscription": s.ID, "type": "subscription"}
	return object{
		"id": i.ID, "object": "invoice", "customer": s.Customer, "lines": list(line), "paid": !i.PaidAt.IsZero(), "status": status,
		"subscription": s.ID, "subscription_details": object{"metadata": metadata(s.Metadata)},
	}
}

func (t *tx) portalSessionObject(v portalSession, secret string) object {
	return object{
		"id": v.ID, "object": "billing_portal.session", "created": v.CreatedAt.Unix(), "customer": v.Customer,
		"return_url": textOrNull(v.Back), "url": t.p.portalURL(secret),
	}
}
