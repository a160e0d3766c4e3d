package harness_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/billing"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/directory"
	"collab/test/harness"
	"collab/test/must"
)

// serversFixture is an organisation without a plan, with billing on two servers.
type serversFixture struct {
	*harness.Deployment
	t        *testing.T
	ada      org.Actor
	provider *memory.Payments
	servers  [2]*billing.Billing // on one store
}

func newServersFixture(t *testing.T) *serversFixture {
	t.Helper()
	c := core(t)
	s := &serversFixture{Deployment: c, t: t, ada: newOrganisation(t, c), provider: memory.NewPayments(c.Clock)}
	must.NoError(t, c.Store.Directory().Subscriptions().Put(t.Context(), s.ada.Org, plan.Unsubscribed(s.ada.Org)))
	for i := range s.servers {
		s.servers[i] = billing.New(billing.Options{
			Store: c.Store, Payments: s.provider, Provider: s.provider, Clock: c.Clock, IDs: c.IDs,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), PaidURL: paidURL,
			Locked: c.Access.Locked, Reauthorize: c.Access.Reauthorize, Origin: access.Origin,
		})
	}
	return s
}

// checkReaders fails unless every reader has this plan: billing, quota, metering's period, the
// operator and invitations.
func (s *serversFixture) checkReaders(want plan.Plan, status plan.Status, period usage.Period) {
	s.t.Helper()
	ctx := s.t.Context()
	for _, server := range s.servers {
		d, err := server.Subscription(ctx, s.ada)
		if err != nil || d.Plan != want || d.Status() != status {
			s.t.Errorf("billing has %s %s, %v; want %s %s", d.Plan, d.Status(), err, want, status)
		}
	}
	ada := must.Do(s.Access.Reauthorize(ctx, s.ada)).Or(s.t)
	quota, err := s.Chats.Quota(ctx, ada)
	if err != nil || quota.Limit != want.Limits().DailyTokens {
		s.t.Errorf("the quota is %d, %v; want %d", quota.Limit, err, want.Limits().DailyTokens)
	}
	summary, err := s.Metering.Own(ctx, s.ada)
	if err != nil || summary.Period != period {
		s.t.Errorf("the period is %+v, %v; want %+v", summary.Period, err, period)
	}
	seen, err := s.Operator.Organisation(ctx, org.Actor{Operator: true}, s.ada.Org)
	if err != nil || seen.Subscription.Plan != want || seen.Subscription.Status() != status {
		s.t.Errorf("the operator sees %s %s, %v", seen.Subscription.Plan, seen.Subscription.Status(), err)
	}
	invited, err := s.Members.Invite(ctx, s.ada, "grace@example.com", "MEMBER")
	if room := want.Limits().Members == plan.Unlimited; room && err != nil || !room && !fault.Is(err, fault.Forbidden) {
		s.t.Errorf("an invitation on %s: %v", want, err)
	}
	if err == nil {
		must.NoError(s.t, s.Members.DeleteInvitation(ctx, s.ada, invited.ID))
	}
}

// checkStored fails unless the store has this plan and status.
func (s *serversFixture) checkStored(want plan.Plan, status plan.Status) {
	s.t.Helper()
	if sub := s.stored(); sub.Plan != want || sub.Status() != status {
		s.t.Errorf("%s %s is stored, want %s %s", sub.Plan, sub.Status(), want, status)
	}
}

// stored returns the stored subscription.
func (s *serversFixture) stored() plan.Subscription {
	s.t.Helper()
	return must.Do(s.Store.Directory().Subscriptions().Get(s.t.Context(), s.ada.Org)).Or(s.t)
}

// reconcile reconciles the subscriptions on every server.
func (s *serversFixture) reconcile() {
	s.t.Helper()
	for _, server := range s.servers {
		must.NoError(s.t, server.Reconcile(s.t.Context()))
	}
}

// audited counts the changes of the subscription in the audit log with this detail.
func (s *serversFixture) audited(detail string) (n int) {
	s.t.Helper()
	for _, e := range directory.AuditLog(s.t, s.Store, s.ada.Org) {
		if e.Action == audit.SubscriptionChanged && e.Detail == detail {
			n++
		}
	}
	return n
}

// buy pays for a plan; the payment is found when the buyer returns.
func (s *serversFixture) buy(p plan.Plan) (subscription string) {
	s.t.Helper()
	ctx := s.t.Context()
	must.Do(s.servers[0].Checkout(ctx, s.ada, p)).Or(s.t)
	session := s.stored().Checkout.Session
	subscription = must.Do(s.provider.Pay(session)).Or(s.t)
	must.Do(s.servers[1].Return(ctx, session)).Or(s.t)
	return subscription
}

// close closes the organisation with the identity provider's id.
func (s *serversFixture) close(providerID string) {
	s.t.Helper()
	must.Do(s.Store.Directory().Organisations().Upsert(s.t.Context(), org.Organisation{ProviderID: providerID}, func(o org.Organisation) (org.Organisation, error) {
		return o.Close(s.Clock.Now()), nil
	})).Or(s.t)
}

// watch counts the servers' calls to the provider from now on, by their names. Those that refuses says are refused.
func (s *serversFixture) watch(refuses func(call string) bool) map[string]int {
	var mu sync.Mutex
	calls := map[string]int{}
	p := harness.FaultyPayments{Payments: s.provider, Billing: s.provider, Call: func(name string, do func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if calls[name]++; refuses(name) {
			return fault.New(fault.Unavailable, "The payment provider does not reply")
		}
		return do()
	}}
	for _, server := range s.servers {
		server.Payments, server.Provider = p, p
	}
	return calls
}

func month(at time.Time) usage.Period {
	first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return usage.Period{Start: first, End: first.AddDate(0, 1, 0)}
}

func TestATrialEndsForEveryReaderAtItsInstantAndIsRecordedOnce(t *testing.T) {
	s := newServersFixture(t)
	began := s.Clock.Now()
	s.checkReaders(plan.None, plan.Canceled, month(began))
	d, err := s.servers[0].Trial(t.Context(), s.ada)
	if err != nil || d.TrialEnd == nil || !d.TrialEnd.Equal(began.Add(plan.TrialLength)) {
		t.Fatalf("the trial is %+v, %v", d, err)
	}
	end := *d.TrialEnd
	trial := usage.Period{Start: began, End: end}
	s.checkReaders(plan.Standard, plan.Trialing, trial)

	s.Clock.Set(end.Add(-time.Millisecond))
	s.checkReaders(plan.Standard, plan.Trialing, trial)
	s.reconcile()
	s.checkStored(plan.Standard, plan.Trialing)

	s.Clock.Set(end)
	s.checkReaders(plan.Free, plan.Active, month(end))
	s.checkStored(plan.Standard, plan.Trialing) // it is not checkStored yet
	s.reconcile()
	s.checkStored(plan.Free, plan.Active)
	s.checkReaders(plan.Free, plan.Active, month(end))
	must.Is(t, 1, s.audited("STANDARD TRIALING -> FREE ACTIVE because the trial is over"))
	must.Fail(t, must.ErrorOf(s.servers[1].Trial(t.Context(), s.ada)), fault.Conflict) // a second trial
}

func TestAnEndedTrialThatIsNotRecordedCanBeNeitherDowngradedNorRepeated(t *testing.T) {
	s := newServersFixture(t)
	must.Do(s.servers[0].Trial(t.Context(), s.ada)).Or(t)
	s.Clock.Advance(plan.TrialLength)
	must.Fail(t, must.ErrorOf(s.servers[0].Downgrade(t.Context(), s.ada)), fault.Conflict) // a downgrade
	must.Fail(t, must.ErrorOf(s.servers[0].Trial(t.Context(), s.ada)), fault.Conflict)     // a second trial
	s.buy(plan.Premium)
	sub, err := s.servers[0].Subscription(t.Context(), s.ada)
	if err != nil || sub.Plan != plan.Premium || sub.Status() != plan.Active || !sub.EverPaid {
		t.Errorf("the plan bought after it is %+v, %v", sub, err)
	}
}

func TestADowngradeEndsTheSubscriptionAsItIsAtTheProvider(t *testing.T) {
	for about, test := range map[string]struct {
		change func(s *serversFixture, subscription string) // without a message
		plan   plan.Plan
		atEnd  bool
	}{
		"paid since": {
			func(s *serversFixture, subscription string) { must.Do(s.provider.Renew(subscription)).Or(s.t) }, plan.Premium, true,
		},
		"still owing": {func(*serversFixture, string) {}, plan.Free, false},
		"forgotten":   {func(s *serversFixture, subscription string) { s.provider.Forget(subscription) }, plan.Free, false},
	} {
		t.Run(about, func(t *testing.T) {
			s := newServersFixture(t)
			subscription := s.buy(plan.Premium)
			must.Do(s.provider.Fail(subscription)).Or(t)
			must.NoError(t, s.servers[0].HandleEvent(t.Context(), plan.Event{Kind: plan.InvoiceFailed, Org: s.ada.Org, Subscription: subscription}, nil))
			s.checkStored(plan.Premium, plan.PastDue)
			test.change(s, subscription)
			d, err := s.servers[0].Downgrade(t.Context(), s.ada)
			if err != nil || d.Plan != test.plan || d.Status() != plan.Active || d.CancelAtPeriodEnd != test.atEnd {
				t.Errorf("it is %s %s, to end with its period: %t, %v", d.Plan, d.Status(), d.CancelAtPeriodEnd, err)
			}
		})
	}
}

func TestTheSubscriptionOfAClosedOrganisationIsCancelledOnce(t *testing.T) {
	for about, test := range map[string]struct{ granted, forgotten bool }{
		"billed":                           {},
		"billed, unknown to the provider":  {forgotten: true},
		"granted a plan":                   {granted: true},
		"granted, unknown to the provider": {granted: true, forgotten: true},
	} {
		t.Run(about, func(t *testing.T) {
			s := newServersFixture(t)
			calls := s.watch(func(string) bool { return false })
			subscription := s.buy(plan.Premium)
			if test.granted {
				must.Do(s.Operator.Grant(t.Context(), org.Actor{Operator: true}, s.ada.Org, plan.Grant{Plan: plan.Enterprise})).Or(t)
			}
			if test.forgotten {
				s.provider.Forget(subscription)
			}
			s.reconcile()
			must.Is(t, 0, calls["Payments.Cancel"])
			s.close("org_office")
			s.reconcile()
			must.Is(t, 1, calls["Payments.Cancel"])
			if r, err := s.provider.Subscription(t.Context(), subscription); err == nil && !r.Ended() || test.forgotten != fault.Is(err, fault.NotFound) {
				t.Errorf("at the provider it is %+v, %v", r, err)
			}
			s.checkStored(map[bool]plan.Plan{true: plan.Enterprise, false: plan.Free}[test.granted], plan.Active)
		})
	}
}

func TestThePaymentPageOfAClosedOrganisationIsClosed(t *testing.T) {
	for about, test := range map[string]struct {
		paid                bool
		price               plan.Plan // of the plan that the price of the subscription has
		granted, reconciled bool
		want                plan.Plan
	}{
		"an open page":                                   {want: plan.None},
		"a page that was paid":                           {paid: true, price: plan.Premium, want: plan.Free},
		"a page that was paid at an unknown price":       {paid: true, price: plan.None, want: plan.Free},
		"a page that was paid after a grant":             {paid: true, price: plan.Premium, granted: true, want: plan.Enterprise},
		"a page whose payment after a grant was noticed": {paid: true, price: plan.Premium, granted: true, reconciled: true, want: plan.Enterprise},
	} {
		t.Run(about, func(t *testing.T) {
			s := newServersFixture(t)
			ctx := t.Context()
			must.Do(s.servers[0].Checkout(ctx, s.ada, plan.Premium)).Or(t)
			session := s.stored().Checkout.Session
			if test.granted {
				must.Do(s.Operator.Grant(ctx, org.Actor{Operator: true}, s.ada.Org, plan.Grant{Plan: plan.Enterprise})).Or(t)
			}
			if test.paid {
				r := must.Do(s.provider.Subscription(ctx, must.Do(s.provider.Pay(session)).Or(t))).Or(t)
				r.Plan = test.price
				s.provider.Set(r)
			}
			if test.reconciled {
				s.reconcile()
			}
			s.close("org_office")
			s.reconcile()
			if page, err := s.provider.Session(ctx, session); err != nil || page.Open() {
				t.Errorf("the page is %+v, %v", page, err)
			} else if r, err := s.provider.Subscription(ctx, page.Subscription); test.paid && (err != nil || !r.Ended()) {
				t.Errorf("its subscription is %+v, %v", r, err)
			}
			if is := s.stored(); is.Checkout != nil || is.Cancelable() || is.Plan != test.want {
				t.Errorf("afterwards it is %+v, want %s", is, test.want)
			}
		})
	}
}

func TestAnUnavailableProviderIsAskedOnceForClosedOrganisations(t *testing.T) {
	for about, bought := range map[string]bool{"subscriptions": true, "payment pages": false} {
		t.Run(about, func(t *testing.T) {
			s := newServersFixture(t)
			ada := s.ada
			bob := must.Do(s.Join(t.Context(), "org_other", "user_bob", org.Owner)).Or(t)
			must.NoError(t, s.Store.Directory().Subscriptions().Put(t.Context(), bob.Org, plan.Unsubscribed(bob.Org)))
			for _, s.ada = range []org.Actor{ada, bob} {
				if bought {
					s.buy(plan.Premium)
				} else {
					must.Do(s.servers[0].Checkout(t.Context(), s.ada, plan.Premium)).Or(t)
				}
			}
			s.close("org_office")
			s.close("org_other")
			calls := s.watch(func(call string) bool { return call == "Payments.Cancel" || call == "Payments.Expire" })
			must.Fail(t, s.servers[0].Reconcile(t.Context()), fault.Unavailable)
			must.Is(t, 1, calls["Payments.Cancel"]+calls["Payments.Expire"])
		})
	}
}

func TestAChangeOfPlanThatIsNotPaidIsTriedOnce(t *testing.T) {
	s := newServersFixture(t)
	must.Do(s.provider.Fail(s.buy(plan.Standard))).Or(t)
	calls := s.watch(func(string) bool { return false })
	must.Fail(t, must.ErrorOf(s.servers[0].Checkout(t.Context(), s.ada, plan.Premium)), fault.Conflict)
	must.Is(t, 1, calls["Payments.Change"])
	s.checkStored(plan.Standard, plan.Active)
}

func TestAnOverdueSubscriptionIsReadByOneServer(t *testing.T) {
	s := newServersFixture(t)
	subscription := s.buy(plan.Premium)
	away := true
	calls := s.watch(func(string) bool { return away })
	d := must.Do(s.servers[0].Subscription(t.Context(), s.ada)).Or(t)
	kept := func(asked int) {
		t.Helper()
		var group sync.WaitGroup
		for range 4 {
			for _, server := range s.servers {
				group.Go(func() {
					if err := server.Reconcile(t.Context()); err != nil && !fault.Is(err, fault.Unavailable) {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		must.Is(t, asked, calls["Payments.Subscription"])
	}
	s.Clock.Set(d.CurrentPeriodEnd.Add(3*24*time.Hour - time.Millisecond))
	kept(0)
	s.Clock.Advance(time.Millisecond)
	kept(1)
	s.Clock.Advance(5*time.Minute - time.Millisecond)
	kept(1)
	s.Clock.Advance(time.Millisecond)
	kept(2)
	s.checkStored(plan.Premium, plan.Active)

	away = false
	s.Clock.Advance(10 * time.Minute)
	kept(3) // unchanged at the provider
	s.checkStored(plan.Premium, plan.Active)
	must.NoError(t, s.provider.Cancel(t.Context(), subscription, true))
	s.Clock.Advance(24*time.Hour - time.Millisecond)
	kept(3)
	s.Clock.Advance(time.Millisecond)
	kept(4)
	s.checkStored(plan.Free, plan.Active)
	must.Is(t, 1, s.audited("PREMIUM ACTIVE -> FREE ACTIVE by the payment provider"))
}

func TestAGrantExpiresTheOpenCheckoutSession(t *testing.T) {
	for about, test := range map[string]struct {
		paid bool // before the session expires
		lost bool // the provider's response to its creation
	}{
		"an open session":                  {},
		"a paid session":                   {paid: true},
		"a session whose address was lost": {lost: true},
	} {
		t.Run(about, func(t *testing.T) {
			s := newServersFixture(t)
			ctx := t.Context()
			must.Do(s.servers[0].Checkout(ctx, s.ada, plan.Standard)).Or(t)
			s.reconcile() // leaves the session open
			is := s.stored()
			session := is.Checkout.Session
			if page, err := s.provider.Session(ctx, session); err != nil || !page.Open() {
				t.Fatalf("the page is %+v, %v", page, err)
			}
			if test.lost {
				is.Checkout = &plan.Checkout{Key: is.Checkout.Key, Plan: is.Checkout.Plan}
				must.NoError(t, s.Store.Directory().Subscriptions().Put(ctx, s.ada.Org, is))
			}
			must.Do(s.Operator.Grant(ctx, org.Actor{Operator: true}, s.ada.Org, plan.Grant{Plan: plan.Enterprise})).Or(t)
			if test.paid {
				must.Do(s.provider.Pay(session)).Or(t)
			}
			s.reconcile()
			if _, err := s.provider.Pay(session); err == nil {
				t.Error("the session can still be paid")
			}
			s.checkStored(plan.Enterprise, plan.Active)
			if is := s.stored(); is.Checkout != nil || is.Due() != nil {
				t.Errorf("afterwards it is %+v", is)
			}
			if entries := directory.AuditLog(t, s.Store, s.ada.Org); len(entries) != 1 {
				t.Errorf("the audit log has more than the grant: %+v", entries)
			}
		})
	}
}

// changeMembership changes the membership of Ada, who was an owner.
func (s *serversFixture) changeMembership(change func(org.Membership) org.Membership) {
	s.t.Helper()
	ctx := s.t.Context()
	must.NoError(s.t, s.Store.Atomic(ctx, func(r ports.Records) error {
		_, err := r.Directory().Organisations().Lock(ctx, s.ada.Org)
		return errors.Join(err, r.Directory().Members().Put(ctx, s.ada.Org, change(org.Membership{Org: s.ada.Org, User: s.ada.User, Role: org.Owner, JoinedAt: s.Clock.Now()})))
	}))
}

// interceptedPayments calls opened with each new checkout session, before its address is returned.
type interceptedPayments struct {
	ports.Payments
	opened func(plan.Checkout)
}

func (o interceptedPayments) Open(ctx context.Context, of id.Org, customer string, c plan.Checkout) (plan.Checkout, error) {
	page, err := o.Payments.Open(ctx, of, customer, c)
	o.opened(page)
	return page, err
}

func TestAnUnreturnedCheckoutSessionIsReusedOrExpired(t *testing.T) {
	for about, next := range map[string]plan.Plan{"the same plan": plan.Standard, "another plan": plan.Premium} {
		s := newServersFixture(t)
		var unreturned plan.Checkout
		server := s.servers[0]
		server.Payments = interceptedPayments{s.provider, func(page plan.Checkout) {
			unreturned = page
			s.changeMembership(func(m org.Membership) org.Membership { m.Role = org.Member; return m })
		}}
		if url, err := server.Checkout(t.Context(), s.ada, plan.Standard); !fault.Is(err, fault.Forbidden) {
			t.Fatalf("a member demoted during the call gets %q, %v", url, err)
		}
		s.changeMembership(func(m org.Membership) org.Membership { return m })
		url := must.Do(s.servers[1].Checkout(t.Context(), s.ada, next)).Or(t)
		page, err := s.provider.Session(t.Context(), unreturned.Session)
		if err != nil || page.Open() != (url == unreturned.URL) || page.Open() != (next == plan.Standard) {
			t.Errorf("after a checkout of %s the page is %+v, %v, and the next %q", about, page, err, url)
		}
	}
}

func TestADeletedCustomerIsReplaced(t *testing.T) {
	for about, lost := range map[string]bool{"without a page": false, "with a page whose address was lost": true} {
		t.Run(about, func(t *testing.T) {
			s := newServersFixture(t)
			ctx := t.Context()
			must.NoError(t, s.provider.Cancel(ctx, s.buy(plan.Standard), true))
			former := s.stored()
			must.Do(s.servers[0].Checkout(ctx, s.ada, plan.Premium)).Or(t)
			is := s.stored()
			if is.Checkout = nil; lost {
				is.Checkout = &plan.Checkout{Key: "lost", Plan: plan.Standard}
			}
			must.NoError(t, s.Store.Directory().Subscriptions().Put(ctx, s.ada.Org, is))

			s.provider.DeleteCustomer(former.Customer)
			must.Fail(t, must.ErrorOf(s.servers[0].Portal(ctx, s.ada)), fault.Conflict)
			for _, server := range s.servers {
				must.Do(server.Checkout(ctx, s.ada, plan.Premium)).Or(t)
			}
			must.Do(s.provider.Pay(s.stored().Checkout.Session)).Or(t)
			if now := s.stored(); now.Customer == "" || now.Customer == former.Customer {
				t.Errorf("the customer is %q, before it was %q", now.Customer, former.Customer)
			}
			must.Do(s.servers[0].Portal(ctx, s.ada)).Or(t)
		})
	}
}

func TestFormerManagersCannotChangeASubscription(t *testing.T) {
	s := newServersFixture(t)
	must.Do(s.servers[0].Checkout(t.Context(), s.ada, plan.Premium)).Or(t)
	before := s.stored()
	for about, change := range map[string]func(org.Membership) org.Membership{
		"demoted": func(m org.Membership) org.Membership { m.Role = org.Viewer; return m },
		"removed": func(m org.Membership) org.Membership { return m.Removed(s.Clock.Now()) },
	} {
		s.changeMembership(change)
		for _, err := range []error{
			must.ErrorOf(s.servers[0].Trial(t.Context(), s.ada)), must.ErrorOf(s.servers[0].Downgrade(t.Context(), s.ada)),
			must.ErrorOf(s.servers[0].Checkout(t.Context(), s.ada, plan.Premium)),
		} {
			if !fault.Is(err, fault.Forbidden) {
				t.Errorf("a member who was %s: %v", about, err)
			}
		}

		// The change happens during the call of the provider.
		manager := func(m org.Membership) org.Membership { return m }
		s.servers[1].Payments = harness.FaultyPayments{Payments: s.provider, Billing: s.provider, Call: func(_ string, do func() error) error {
			err := do()
			s.changeMembership(change)
			return err
		}}
		s.changeMembership(manager)
		open, err := s.servers[1].Checkout(t.Context(), s.ada, plan.Premium)
		if !fault.Is(err, fault.Forbidden) || open != "" {
			t.Errorf("a member who was %s meanwhile gets the open page %q, %v", about, open, err)
		}
		s.changeMembership(manager)
		portal, err := s.servers[1].Portal(t.Context(), s.ada)
		if !fault.Is(err, fault.Forbidden) || portal != "" {
			t.Errorf("a member who was %s meanwhile gets the portal %q, %v", about, portal, err)
		}
	}
	must.Is(t, before.Revision, s.stored().Revision)
}
