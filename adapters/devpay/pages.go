package devpay

import (
	"embed"
	"fmt"
	"net/http"
	"strings"
	"time"

	"collab/adapters/devkit"
)

//go:embed pages.html
var files embed.FS

func day(t time.Time) string { return t.Format("2 January 2006") }

// price returns the formatted amount of every price.
func price() string {
	return fmt.Sprintf("%d.%02d %s", amount/100, amount%100, strings.ToUpper(currency))
}

func (p *Provider) payURL(session string) string { return p.public + Prefix + "/pay/" + session }

func (p *Provider) portalURL(secret string) string { return p.public + Prefix + "/portal/" + secret }

// checkoutView is the page of a checkout session.
type checkoutView struct {
	Status   string
	Plan     string
	Quantity int
	Name     string // the customer's
	Next     string // the success URL
	Back     string // the cancel URL; empty: none
}

// checkoutOf returns the view of a session.
func (t *tx) checkoutOf(id string) (checkoutView, error) {
	s, ok := t.Sessions[id]
	if !ok {
		return checkoutView{}, &apiError{status: http.StatusNotFound, message: "There is no such checkout"}
	}
	return checkoutView{
		Status: s.status(t.now), Plan: t.planName(s.Price), Quantity: s.Quantity,
		Name: t.Customers[s.Customer].Name,
		Next: strings.ReplaceAll(s.SuccessURL, sessionPlaceholder, id), Back: s.CancelURL,
	}, nil
}

// planName returns the name of the price's plan.
func (t *tx) planName(price string) string {
	if name := t.p.options.Prices[price]; name != "" {
		return name
	}
	return price // no longer configured
}

func (p *Provider) checkoutView(r *http.Request) (v checkoutView, err error) {
	p.read(func(t *tx) { v, err = t.checkoutOf(r.PathValue("id")) })
	return v, err
}

func (p *Provider) showCheckout(w http.ResponseWriter, r *http.Request) error {
	v, err := p.checkoutView(r)
	if err != nil {
		return err
	}
	devkit.AllowForms(w, devkit.Origin(v.Next), devkit.Origin(v.Back), devkit.Origin(p.options.AppURL))
	p.site.Show(w, http.StatusOK, "checkout", v)
	return nil
}

// checkout pays, or redirects to the cancel URL, after which the session stays open, as at
// Stripe. The secret URL authorizes, so that the form needs no CSRF token and scripts can
// send it.
func (p *Provider) checkout(w http.ResponseWriter, r *http.Request) error {
	fields, err := p.site.PostedForm(r)
	if err != nil {
		return err
	}
	v, err := p.checkoutView(r)
	if err != nil {
		return err
	}
	switch fields.Get("action") {
	case "pay":
		next, err := p.Pay(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	case "cancel":
		if v.Back == "" {
			return &apiError{status: http.StatusBadRequest, message: "This checkout has no cancel URL"}
		}
		http.Redirect(w, r, v.Back, http.StatusSeeOther)
	default:
		return &apiError{status: http.StatusBadRequest, message: "A checkout can be paid or cancelled"}
	}
	return nil
}

// portalView is the page about a customer's subscriptions.
type portalView struct {
	Name          string
	Back          string // the return URL; empty: none
	Subscriptions []subscriptionView
}

type subscriptionView struct {
	subscription
	Plan    string
	Start   time.Time
	End     time.Time
	State   string
	Buttons []button
}

type button struct {
	Action Action
	Text   string
}

// buttons are the actions' names on the page.
var buttons = map[Action]string{
	Fail: "Payment fails", Succeed: "Payment succeeds", NextPeriod: "Next period", Schedule: "Cancel at period end", Keep: "Keep", Cancel: "Cancel now",
}

// states are the statuses' names on the page.
var states = map[string]string{active: "Active", pastDue: "Past due", canceled: "Canceled", incomplete: "Incomplete"}

// portalSession returns the valid portal session with the secret.
func (t *tx) portalSession(secret string) (portalSession, error) {
	v, ok := t.PortalSessions[secret]
	if !ok || !t.now.Before(v.CreatedAt.Add(portalLifetime)) {
		return portalSession{}, &apiError{status: http.StatusNotFound, message: "This link to the portal has expired"}
	}
	return v, nil
}

// portalOf returns the page of the portal session with the secret.
func (t *tx) portalOf(secret string) (portalView, error) {
	v, err := t.portalSession(secret)
	if err != nil {
		return portalView{}, err
	}
	view := portalView{Name: t.Customers[v.Customer].Name, Back: v.Back}
	for _, s := range t.subscriptionsOf(v.Customer) {
		sv := subscriptionView{subscription: s, Plan: t.planName(s.Price), Start: s.periodStart(), End: s.periodEnd(), State: states[s.Status]}
		for _, a := range s.actions() {
			sv.Buttons = append(sv.Buttons, button{a, buttons[a]})
		}
		view.Subscriptions = append(view.Subscriptions, sv)
	}
	return view, nil
}

func (p *Provider) showPortal(w http.ResponseWriter, r *http.Request) error {
	var view portalView
	var err error
	p.read(func(t *tx) { view, err = t.portalOf(r.PathValue("id")) })
	if err != nil {
		return err
	}
	p.site.Show(w, http.StatusOK, "portal", view)
	return nil
}

func (p *Provider) portal(w http.ResponseWriter, r *http.Request) error {
	fields, err := p.site.PostedForm(r)
	if err != nil {
		return err
	}
	subscription := fields.Get("subscription")
	p.read(func(t *tx) {
		var v portalSession
		if v, err = t.portalSession(r.PathValue("id")); err == nil && t.Subscriptions[subscription].Customer != v.Customer {
			err = &apiError{status: http.StatusNotFound, message: "There is no such subscription"}
		}
	})
	if err != nil {
		return err
	}
	if err := p.Act(r.Context(), subscription, Action(fields.Get("action"))); err != nil {
		return err
	}
	http.Redirect(w, r, r.URL.Path, http.StatusSeeOther)
	return nil
}
