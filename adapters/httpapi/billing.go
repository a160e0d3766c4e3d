package httpapi

import (
	"net/http"

	"collab/app/billing"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/plan"
)

type billingStatusView struct {
	Allowed              bool        `json:"allowed"`
	HasActivePlan        bool        `json:"hasActivePlan"`
	HadPriorSubscription bool        `json:"hadPriorSubscription"`
	Plan                 plan.Plan   `json:"plan"`
	Status               plan.Status `json:"status"`
	TrialEndsAt          *jsonTime   `json:"trialEndsAt"`
}

func viewBillingStatus(d billing.Details) billingStatusView {
	s := d.Subscription
	return billingStatusView{
		Allowed: s.Allowed(), HasActivePlan: s.HasActivePlan(), HadPriorSubscription: s.EverPaid,
		Plan: s.Plan, Status: s.Status(), TrialEndsAt: timeOrNull(s.TrialEnd),
	}
}

type subscriptionView struct {
	Plan               plan.Plan   `json:"plan"`
	Status             plan.Status `json:"status"`
	Seats              int         `json:"seats"`
	PurchasedSeats     *int        `json:"purchasedSeats"`
	CurrentPeriodStart *jsonTime   `json:"currentPeriodStart"`
	CurrentPeriodEnd   *jsonTime   `json:"currentPeriodEnd"`
	CancelAtPeriodEnd  bool        `json:"cancelAtPeriodEnd"`
	TrialEnd           *jsonTime   `json:"trialEnd"`
	ManagedExternally  bool        `json:"managedExternally"`
	HasPaymentMethod   bool        `json:"hasPaymentMethod"`
}

func viewSubscription(s plan.Subscription, seats int) subscriptionView {
	return subscriptionView{
		Plan: s.Plan, Status: s.Status(), Seats: seats, PurchasedSeats: s.PurchasedSeats,
		CurrentPeriodStart: timeOrNull(s.CurrentPeriodStart), CurrentPeriodEnd: timeOrNull(s.CurrentPeriodEnd),
		CancelAtPeriodEnd: s.CancelAtPeriodEnd, TrialEnd: timeOrNull(s.TrialEnd),
		ManagedExternally: s.ManagedExternally, HasPaymentMethod: s.HasPaymentMethod,
	}
}

type planView struct {
	Plan        plan.Plan      `json:"plan"`
	DailyTokens int64          `json:"dailyTokens"`
	Members     *int64         `json:"members"`
	Storage     *int64         `json:"storage"`
	Requests    *int64         `json:"requestsPerMinute"`
	Versions    *retentionView `json:"versions"`
	Sold        bool           `json:"sold"`
	TrialDays   int            `json:"trialDays"`
}

func viewPlan(o billing.Offer) planView {
	return planView{
		Plan: o.Plan, DailyTokens: o.DailyTokens, Members: limitOrNull(int64(o.Members)), Storage: limitOrNull(o.Storage), Requests: limitOrNull(o.Requests),
		Versions: viewRetention(o.Versions), Sold: o.Sold(), TrialDays: int(o.TrialLength().Hours()) / 24,
	}
}

func (a *api) listPlans(c *call, actor org.Actor) error {
	return replyWith(c, http.StatusOK, viewEach(viewPlan))(a.Billing.Plans(actor))
}

type urlView struct {
	URL string `json:"url"`
}

func viewDetails(d billing.Details) subscriptionView {
	return viewSubscription(d.Subscription, d.Seats)
}

func viewURL(url string) urlView { return urlView{url} }

var readPlan = oneField("plan", asPlan)

// paymentWebhook handles a message of the payment provider. It returns Invalid for a bad signature.
func (a *api) paymentWebhook(c *call) error {
	return a.receiveMessage(c, a.Webhooks.Payment, fault.Invalid)
}

// outcomeView is the outcome of a checkout.
type outcomeView struct {
	Status string     `json:"status"` // open, complete, expired, cancelled or unknown
	Plan   *plan.Plan `json:"plan"`
}

// checkoutSuccess replies to browsers that the provider redirects after a payment.
func (a *api) checkoutSuccess(c *call) error {
	c.hideAddress()
	outcome := outcomeView{Status: "unknown"}
	if session := c.r.URL.Query().Get("session_id"); session != "" {
		page, err := a.Billing.Return(c.r.Context(), session)
		if err != nil {
			return err
		}
		outcome.Status = page.Status
		if page.Plan != plan.None {
			outcome.Plan = &page.Plan
		}
	}
	text := "Your subscription will be updated shortly."
	switch {
	case outcome.Status == "complete" && outcome.Plan != nil:
		text = "You have subscribed to the plan " + string(*outcome.Plan) + "."
	case outcome.Status == "open":
		text = "The payment has not been made yet."
	case outcome.Status == "expired":
		text = "The checkout has expired. Nothing was charged."
	}
	return a.replyOutcome(c, outcome, "Thank you", text)
}

// checkoutCancel replies to browsers that the provider redirects without a payment.
func (a *api) checkoutCancel(c *call) error {
	c.hideAddress()
	return a.replyOutcome(c, outcomeView{Status: "cancelled"}, "Checkout cancelled", "Nothing was charged.")
}

// replyOutcome replies with the outcome: as JSON if the request accepts it by name, else as
// a page.
func (a *api) replyOutcome(c *call, outcome outcomeView, title, text string) error {
	if weightOf(c.r.Header["Accept"], "application/json") > 0 && !c.prefersPage() {
		return c.reply(http.StatusOK, outcome)
	}
	page := map[string]string{"Title": title, "Text": text, "App": a.AppURL}
	if a.Console != nil {
		page["Plan"] = billingPage
	}
	return c.page(http.StatusOK, "outcome", page, "'none'")
}

// billingPage is the path of the console's page of the plan.
const billingPage = "/console/billing"

// showOutcome replies with a page of a title, a text and a link to the application.
func (a *api) showOutcome(c *call, title, text string) error {
	return c.page(http.StatusOK, "outcome", map[string]string{"Title": title, "Text": text, "App": a.AppURL}, "'none'")
}
