package devpay

import (
	"strconv"
	"time"
)

// object is a JSON object of the API, with the fields of version 2023-10-16. Times are
// seconds since 1970.
type object map[string]any

const (
	amount   = 1000 // of every price, in cents
	currency = "usd"
	product  = "prod_dev"
)

// timeOrNull returns a time in seconds since 1970, nil for the zero time.
func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Unix()
}

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

func list(url string, data ...object) object {
	return object{"object": "list", "data": data, "has_more": false, "total_count": len(data), "url": url}
}

func customerObject(c customer) object {
	return object{
		"id": c.ID, "object": "customer", "address": nil, "balance": 0, "created": c.CreatedAt.Unix(), "currency": nil,
		"default_source": nil, "delinquent": false, "description": textOrNull(c.Description), "discount": nil, "email": textOrNull(c.Email),
		"invoice_prefix": nil, "invoice_settings": object{"custom_fields": nil, "default_payment_method": nil, "footer": nil, "rendering_options": nil}, "livemode": false, "metadata": metadata(c.Metadata), "name": textOrNull(c.Name), "phone": nil,
		"preferred_locales": []string{}, "shipping": nil, "tax_exempt": "none", "test_clock": nil,
	}
}

func (t *tx) sessionObject(s session) object {
	status, paid, url := s.status(t.now), "unpaid", any(nil)
	switch status {
	case complete:
		paid = "paid"
	case open:
		url = t.p.payURL(s.ID)
	}
	total := amount * s.Quantity
	return object{
		"id": s.ID, "object": "checkout.session", "after_expiration": nil, "allow_promotion_codes": nil,
		"amount_subtotal": total, "amount_total": total, "automatic_tax": object{"enabled": false, "status": nil},
		"billing_address_collection": nil, "cancel_url": textOrNull(s.CancelURL), "client_reference_id": textOrNull(s.Reference),
		"client_secret": nil, "consent": nil, "consent_collection": nil, "created": s.CreatedAt.Unix(), "currency": currency,
		"custom_fields": []object{}, "custom_text": object{"after_submit": nil, "shipping_address": nil, "submit": nil, "terms_of_service_acceptance": nil},
		"customer": s.Customer, "customer_creation": nil, "customer_details": nil, "customer_email": nil,
		"expires_at": s.ExpiresAt.Unix(), "invoice": textOrNull(s.Invoice), "invoice_creation": nil, "livemode": false, "locale": nil,
		"metadata": metadata(s.Metadata), "mode": "subscription", "payment_intent": nil, "payment_link": nil,
		"payment_method_collection": "always", "payment_method_options": nil, "payment_method_types": []string{"card"},
		"payment_status": paid, "phone_number_collection": object{"enabled": false}, "recovered_from": nil, "setup_intent": nil,
		"shipping_address_collection": nil, "shipping_cost": nil, "shipping_details": nil, "shipping_options": []object{},
		"status": status, "submit_type": nil, "subscription": textOrNull(s.Subscription), "success_url": s.SuccessURL,
		"total_details": object{"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0}, "ui_mode": "hosted", "url": url,
	}
}

// priceObject returns a price. Its creation time is constant.
func (t *tx) priceObject(id string) object {
	return object{
		"id": id, "object": "price", "active": true, "billing_scheme": "per_unit", "created": 0, "currency": currency,
		"custom_unit_amount": nil, "livemode": false, "lookup_key": nil, "metadata": object{}, "nickname": textOrNull(t.p.options.Prices[id]),
		"product": product, "recurring": object{"aggregate_usage": nil, "interval": "month", "interval_count": 1, "trial_period_days": nil, "usage_type": "licensed"},
		"tax_behavior": "unspecified", "tiers_mode": nil, "transform_quantity": nil, "type": "recurring",
		"unit_amount": amount, "unit_amount_decimal": strconv.Itoa(amount),
	}
}

// planObject returns a price as a plan, the older object of the API.
func (t *tx) planObject(id string) object {
	return object{
		"id": id, "object": "plan", "active": true, "aggregate_usage": nil, "amount": amount, "amount_decimal": strconv.Itoa(amount),
		"billing_scheme": "per_unit", "created": 0, "currency": currency, "interval": "month", "interval_count": 1, "livemode": false,
		"metadata": object{}, "nickname": textOrNull(t.p.options.Prices[id]), "product": product, "tiers_mode": nil, "transform_usage": nil,
		"trial_period_days": nil, "usage_type": "licensed",
	}
}

func (t *tx) subscriptionObject(s subscription) object {
	cancelAt, reason := any(nil), any(nil)
	if s.CancelAtPeriodEnd {
		cancelAt = s.periodEnd().Unix()
	}
	if !s.CanceledAt.IsZero() {
		reason = "cancellation_requested"
	}
	item := object{
		"id": s.Item, "object": "subscription_item", "billing_thresholds": nil, "created": s.Anchor.Unix(), "metadata": object{},
		"plan": t.planObject(s.Price), "price": t.priceObject(s.Price), "quantity": s.Quantity, "subscription": s.ID, "tax_rates": []object{},
	}
	return object{
		"id": s.ID, "object": "subscription", "application": nil, "application_fee_percent": nil, "automatic_tax": object{"enabled": false},
		"billing_cycle_anchor": s.Anchor.Unix(), "billing_thresholds": nil, "cancel_at": cancelAt, "cancel_at_period_end": s.CancelAtPeriodEnd,
		"canceled_at": timeOrNull(s.CanceledAt), "cancellation_details": object{"comment": nil, "feedback": nil, "reason": reason},
		"collection_method": "charge_automatically", "created": s.Anchor.Unix(), "currency": currency,
		"current_period_end": s.periodEnd().Unix(), "current_period_start": s.periodStart().Unix(), "customer": s.Customer,
		"days_until_due": nil, "default_payment_method": textOrNull(s.PaymentMethod), "default_source": nil, "default_tax_rates": []object{},
		"description": nil, "discount": nil, "ended_at": timeOrNull(s.EndedAt), "items": list("/v1/subscription_items?subscription="+s.ID, item),
		"latest_invoice": textOrNull(s.Invoice.ID), "livemode": false, "metadata": metadata(s.Metadata), "next_pending_invoice_item_invoice": nil,
		"on_behalf_of": nil, "pause_collection": nil,
		"payment_settings":              object{"payment_method_options": nil, "payment_method_types": nil, "save_default_payment_method": "off"},
		"pending_invoice_item_interval": nil, "pending_setup_intent": nil, "pending_update": nil, "plan": t.planObject(s.Price),
		"quantity": s.Quantity, "schedule": nil, "start_date": s.Anchor.Unix(), "status": s.Status, "test_clock": nil,
		"transfer_data": nil, "trial_end": nil, "trial_settings": object{"end_behavior": object{"missing_payment_method": "create_invoice"}},
		"trial_start": nil,
	}
}

// invoiceObject returns the subscription's last invoice. As at Stripe, the invoice's period
// is the previous one, and the period that it pays for is that of its line.
func (t *tx) invoiceObject(s subscription) object {
	i := s.Invoice
	total := amount * i.Quantity
	paid, status, left, next := true, "paid", 0, any(nil)
	if i.PaidAt.IsZero() {
		paid, status, left, next = false, "open", total, t.now.AddDate(0, 0, 3).Unix()
	}
	back := i.Start
	if i.Reason == "subscription_cycle" {
		back = monthsAfter(s.Anchor, s.Month-1)
	}
	queue := object{
		"id": "il_" + i.ID, "object": "line_item", "amount": total, "amount_excluding_tax": total, "currency": currency,
		"description": textOrNull(t.p.options.Prices[i.Price]), "discount_amounts": []object{}, "discountable": true, "discounts": []object{},
		"livemode": false, "metadata": metadata(s.Metadata), "period": object{"start": i.Start.Unix(), "end": i.End.Unix()},
		"plan": t.planObject(i.Price), "price": t.priceObject(i.Price), "proration": i.Reason == "subscription_update",
		"proration_details": object{"credited_items": nil}, "quantity": i.Quantity, "subscription": s.ID, "subscription_item": s.Item,
		"tax_amounts": []object{}, "tax_rates": []object{}, "type": "subscription", "unit_amount_excluding_tax": strconv.Itoa(amount),
	}
	c := t.Customers[s.Customer]
	return object{
		"id": i.ID, "object": "invoice", "account_country": "US", "account_name": "Collab", "account_tax_ids": nil, "amount_due": total,
		"amount_paid": total - left, "amount_remaining": left, "amount_shipping": 0, "application": nil, "application_fee_amount": nil,
		"attempt_count": i.Attempts, "attempted": true, "auto_advance": !paid, "automatic_tax": object{"enabled": false, "status": nil},
		"billing_reason": i.Reason, "charge": nil, "collection_method": "charge_automatically", "created": i.CreatedAt.Unix(),
		"currency": currency, "custom_fields": nil, "customer": s.Customer, "customer_address": nil, "customer_email": textOrNull(c.Email),
		"customer_name": textOrNull(c.Name), "customer_phone": nil, "customer_shipping": nil, "customer_tax_exempt": "none",
		"customer_tax_ids": []object{}, "default_payment_method": nil, "default_source": nil, "default_tax_rates": []object{},
		"description": nil, "discount": nil, "discounts": []object{}, "due_date": nil, "effective_at": i.CreatedAt.Unix(),
		"ending_balance": 0, "footer": nil, "from_invoice": nil, "hosted_invoice_url": nil, "invoice_pdf": nil,
		"last_finalization_error": nil, "latest_revision": nil, "lines": list("/v1/invoices/"+i.ID+"/lines", queue), "livemode": false,
		"metadata": object{}, "next_payment_attempt": next, "number": nil, "on_behalf_of": nil, "paid": paid, "paid_out_of_band": false,
		"payment_intent":   nil,
		"payment_settings": object{"default_mandate": nil, "payment_method_options": nil, "payment_method_types": nil},
		"period_end":       i.Start.Unix(), "period_start": back.Unix(), "post_payment_credit_notes_amount": 0,
		"pre_payment_credit_notes_amount": 0, "quote": nil, "receipt_number": nil, "rendering": nil,
		"shipping_cost": nil, "shipping_details": nil, "starting_balance": 0, "statement_descriptor": nil, "status": status,
		"status_transitions":   object{"finalized_at": i.CreatedAt.Unix(), "marked_uncollectible_at": nil, "paid_at": timeOrNull(i.PaidAt), "voided_at": nil},
		"subscription":         s.ID,
		"subscription_details": object{"metadata": metadata(s.Metadata)}, "subtotal": total, "subtotal_excluding_tax": total, "tax": nil,
		"test_clock": nil, "total": total, "total_discount_amounts": []object{}, "total_excluding_tax": total,
		"total_tax_amounts": []object{}, "transfer_data": nil, "webhooks_delivered_at": nil,
	}
}

func (t *tx) portalSessionObject(v portalSession, secret string) object {
	return object{
		"id": v.ID, "object": "billing_portal.session", "configuration": "bpc_dev", "created": v.CreatedAt.Unix(),
		"customer": v.Customer, "flow": nil, "livemode": false, "locale": nil, "on_behalf_of": nil,
		"return_url": textOrNull(v.Back), "url": t.p.portalURL(secret),
	}
}
