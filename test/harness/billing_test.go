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
	"collab/test/harness"
)

// shop is an organisation without a plan, and everybody who reads what it has.
type shop struct {
	*harness.World
	t        *testing.T
	ada      org.Actor
	provider *memory.Payments
	servers  [2]*billing.Billing // on one store
}

func openShop(t *testing.T) *shop {
	t.Helper()
	c := core(t)
	s := &shop{World: c, t: t, ada: office(t, c), provider: memory.NewPayments(c.Clock)}
	if err := c.Store.Directory().Subscriptions().Put(t.Context(), s.ada.Org, plan.Unsubscribed(s.ada.Org)); err != nil {
		t.Fatal(err)
	}
	for i := range s.servers {
		s.servers[i] = billing.New(billing.Options{
			Store: c.Store, Payments: s.provider, Provider: s.provider, Clock: c.Clock, IDs: c.IDs,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), PaidURL: paidURL,
			Locked: c.Access.Locked, Origin: access.Origin,
		})
	}
	return s
}

// reads checks that every reader sees this plan: billing, the quota, the period
// of the metering, the operator and invitations.
func (s *shop) reads(want plan.Plan, status plan.Status, period usage.Period) {
	s.t.Helper()
	ctx := s.t.Context()
	for _, server := range s.servers {
		d, err := server.Subscription(ctx, s.ada)
		if err != nil || d.Plan != want || d.Status() != status {
			s.t.Errorf("billing has %s %s, %v; want %s %s", d.Plan, d.Status(), err, want, status)
		}
	}
	ada, err := s.Access.Reauthorize(ctx, s.ada)
	if err != nil {
		s.t.Fatal(err)
	}
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
		if err := s.Members.Withdraw(ctx, s.ada, invited.ID); err != nil {
			s.t.Error(err)
		}
	}
}

// recorded checks what the store itself has.
func (s *shop) recorded(want plan.Plan, status plan.Status) {
	s.t.Helper()
	sub, err := s.Store.Directory().Subscriptions().Get(s.t.Context(), s.ada.Org)
	if err != nil || sub.Plan != want || sub.Status() != status {
		s.t.Errorf("%s %s is recorded, %v; want %s %s", sub.Plan, sub.Status(), err, want, status)
	}
}

// keep has every server look after the subscriptions.
func (s *shop) keep() {
	s.t.Helper()
	for _, server := range s.servers {
		if err := server.Reconcile(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// audited counts the changes of the subscription in the audit log with this detail.
func (s *shop) audited(detail string) (n int) {
	s.t.Helper()
	err := s.Store.Journal().Audit().List(s.t.Context(), s.ada.Org, "", 0, func(e audit.Entry) error {
		if e.Action == audit.SubscriptionChanged && e.Detail == detail {
			n++
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// buy pays for a plan and has the payment heard of when the buyer comes back.
func (s *shop) buy(p plan.Plan) (subscription string) {
	s.t.Helper()
	ctx := s.t.Context()
	if _, err := s.servers[0].Checkout(ctx, s.ada, p); err != nil {
		s.t.Fatal(err)
	}
	sub, err := s.Store.Directory().Subscriptions().Get(ctx, s.ada.Org)
	if err != nil {
		s.t.Fatal(err)
	}
	if subscription, err = s.provider.Pay(sub.Checkout.Session); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.servers[1].Return(ctx, sub.Checkout.Session); err != nil {
		s.t.Fatal(err)
	}
	return subscription
}

func month(at time.Time) usage.Period {
	first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return usage.Period{Start: first, End: first.AddDate(0, 1, 0)}
}

func TestATrialIsOverForEveryReaderAtItsInstantAndIsRecordedOnce(t *testing.T) {
	s := openShop(t)
	began := s.Clock.Now()
	s.reads(plan.None, plan.Canceled, month(began))
	d, err := s.servers[0].Trial(t.Context(), s.ada)
	if err != nil || d.TrialEnd == nil || !d.TrialEnd.Equal(began.Add(plan.TrialLength)) {
		t.Fatalf("the trial is %+v, %v", d, err)
	}
	end := *d.TrialEnd
	trial := usage.Period{Start: began, End: end}
	s.reads(plan.Standard, plan.Trialing, trial)

	s.Clock.Set(end.Add(-time.Millisecond))
	s.reads(plan.Standard, plan.Trialing, trial)
	s.keep()
	s.recorded(plan.Standard, plan.Trialing)

	s.Clock.Set(end)
	s.reads(plan.Free, plan.Active, month(end))
	s.recorded(plan.Standard, plan.Trialing) // it is not recorded yet
	s.keep()
	s.recorded(plan.Free, plan.Active)
	s.reads(plan.Free, plan.Active, month(end))
	if n := s.audited("STANDARD TRIALING -> FREE ACTIVE because the trial is over"); n != 1 {
		t.Errorf("the audit log tells of the end %d times", n)
	}
	if _, err := s.servers[1].Trial(t.Context(), s.ada); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second trial: %v", err)
	}
}

func TestATrialThatIsOverAndNotRecordedCanBeNeitherDowngradedNorHadAgain(t *testing.T) {
	s := openShop(t)
	if _, err := s.servers[0].Trial(t.Context(), s.ada); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(plan.TrialLength)
	if _, err := s.servers[0].Downgrade(t.Context(), s.ada); !fault.Is(err, fault.Conflict) {
		t.Errorf("a downgrade: %v", err)
	}
	if _, err := s.servers[0].Trial(t.Context(), s.ada); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second trial: %v", err)
	}
	s.buy(plan.Premium)
	sub, err := s.servers[0].Subscription(t.Context(), s.ada)
	if err != nil || sub.Plan != plan.Premium || sub.Status() != plan.Active || !sub.EverPaid {
		t.Errorf("what was bought after it is %+v, %v", sub, err)
	}
}

// asking is the provider, which counts how often it is asked after a subscription
// and may be away.
type asking struct {
	*memory.Payments
	mu    sync.Mutex
	asked int  // guarded by mu
	away  bool // guarded by mu
}

func (a *asking) Subscription(ctx context.Context, subscription string) (plan.Remote, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked++; a.away {
		return plan.Remote{}, fault.New(fault.Unavailable, "The payment provider does not answer")
	}
	return a.Payments.Subscription(ctx, subscription)
}

func TestASubscriptionWhosePeriodIsOverIsAskedAfterByOneServer(t *testing.T) {
	s := openShop(t)
	subscription := s.buy(plan.Premium)
	provider := &asking{Payments: s.provider, away: true}
	for _, server := range s.servers {
		server.Provider = provider
	}
	d, err := s.servers[0].Subscription(t.Context(), s.ada)
	if err != nil {
		t.Fatal(err)
	}
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
		if provider.asked != asked {
			t.Errorf("it was asked after %d times, want %d", provider.asked, asked)
		}
	}
	s.Clock.Set(d.CurrentPeriodEnd.Add(3*24*time.Hour - time.Millisecond))
	kept(0)
	s.Clock.Advance(time.Millisecond)
	kept(1)
	s.Clock.Advance(5*time.Minute - time.Millisecond)
	kept(1)
	s.Clock.Advance(time.Millisecond)
	kept(2)
	s.recorded(plan.Premium, plan.Active)

	provider.away = false
	s.Clock.Advance(10 * time.Minute)
	kept(3) // the provider says the same still
	s.recorded(plan.Premium, plan.Active)
	if _, err := s.provider.Cancel(t.Context(), subscription, true); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(24*time.Hour - time.Millisecond)
	kept(3)
	s.Clock.Advance(time.Millisecond)
	kept(4)
	s.recorded(plan.Free, plan.Active)
	if n := s.audited("PREMIUM ACTIVE -> FREE ACTIVE by the payment provider"); n != 1 {
		t.Errorf("the audit log tells of the end %d times", n)
	}
}

func TestAGrantClosesThePageThatCouldStillBePaidOn(t *testing.T) {
	for about, test := range map[string]struct {
		paid bool // before the page is closed
		lost bool // what the provider answered when the page was asked for
	}{
		"an open page":                  {},
		"a page that was paid on":       {paid: true},
		"a page whose address was lost": {lost: true},
	} {
		t.Run(about, func(t *testing.T) {
			s := openShop(t)
			ctx := t.Context()
			if _, err := s.servers[0].Checkout(ctx, s.ada, plan.Standard); err != nil {
				t.Fatal(err)
			}
			s.keep() // which leaves it to who buys
			is, err := s.Store.Directory().Subscriptions().Get(ctx, s.ada.Org)
			if err != nil {
				t.Fatal(err)
			}
			session := is.Checkout.Session
			if page, err := s.provider.Session(ctx, session); err != nil || !page.Open() {
				t.Fatalf("the page is %+v, %v", page, err)
			}
			if test.lost {
				is.Checkout = &plan.Checkout{Key: is.Checkout.Key, Plan: is.Checkout.Plan}
				if err := s.Store.Directory().Subscriptions().Put(ctx, s.ada.Org, is); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Operator.Grant(ctx, org.Actor{Operator: true}, s.ada.Org, plan.Grant{Plan: plan.Enterprise}); err != nil {
				t.Fatal(err)
			}
			if test.paid {
				if _, err := s.provider.Pay(session); err != nil {
					t.Fatal(err)
				}
			}
			s.keep()
			if _, err := s.provider.Pay(session); err == nil {
				t.Error("the page can be paid on")
			}
			s.recorded(plan.Enterprise, plan.Active)
			is, err = s.Store.Directory().Subscriptions().Get(ctx, s.ada.Org)
			if err != nil || is.Checkout != nil || is.Due() != nil {
				t.Errorf("afterwards it is %+v, %v", is, err)
			}
			var entries []audit.Entry
			err = s.Store.Journal().Audit().List(ctx, s.ada.Org, "", 0, func(e audit.Entry) error {
				entries = append(entries, e)
				return nil
			})
			if err != nil || len(entries) != 1 {
				t.Errorf("the audit log has more than the grant: %+v, %v", entries, err)
			}
		})
	}
}

// becomes has something become of Ada, who was an owner.
func (s *shop) becomes(change func(org.Membership) org.Membership) {
	s.t.Helper()
	ctx := s.t.Context()
	if err := s.Store.Atomic(ctx, func(r ports.Records) error {
		_, err := r.Directory().Organisations().Lock(ctx, s.ada.Org)
		return errors.Join(err, r.Directory().Members().Put(ctx, s.ada.Org, change(org.Membership{Org: s.ada.Org, User: s.ada.User, Role: org.Owner, JoinedAt: s.Clock.Now()})))
	}); err != nil {
		s.t.Fatal(err)
	}
}

// opening calls opened with each page that the provider opens, before its address is returned.
type opening struct {
	ports.Payments
	opened func(plan.Checkout)
}

func (o opening) Open(ctx context.Context, of id.Org, customer string, c plan.Checkout) (plan.Checkout, error) {
	page, err := o.Payments.Open(ctx, of, customer, c)
	o.opened(page)
	return page, err
}

func TestAPageThatItsBuyerIsNotToldOfIsTheNextBuyersOrClosed(t *testing.T) {
	for about, next := range map[string]plan.Plan{"the same plan": plan.Standard, "another plan": plan.Premium} {
		s := openShop(t)
		var untold plan.Checkout
		server := s.servers[0]
		server.Payments = opening{s.provider, func(page plan.Checkout) {
			untold = page
			s.becomes(func(m org.Membership) org.Membership { m.Role = org.Member; return m })
		}}
		if url, err := server.Checkout(t.Context(), s.ada, plan.Standard); !fault.Is(err, fault.Forbidden) {
			t.Fatalf("who was demoted meanwhile gets %q, %v", url, err)
		}
		s.becomes(func(m org.Membership) org.Membership { return m })
		url, err := s.servers[1].Checkout(t.Context(), s.ada, next)
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.provider.Session(t.Context(), untold.Session)
		if err != nil || page.Open() != (url == untold.URL) || page.Open() != (next == plan.Standard) {
			t.Errorf("after a checkout of %s the page is %+v, %v, and the next %q", about, page, err, url)
		}
	}
}

func TestWhoManagesNoMoreDecidesNothingOfASubscription(t *testing.T) {
	s := openShop(t)
	before, err := s.Store.Directory().Subscriptions().Get(t.Context(), s.ada.Org)
	if err != nil {
		t.Fatal(err)
	}
	for about, change := range map[string]func(org.Membership) org.Membership{
		"demoted": func(m org.Membership) org.Membership { m.Role = org.Viewer; return m },
		"removed": func(m org.Membership) org.Membership { return m.Removed(s.Clock.Now()) },
	} {
		s.becomes(change)
		_, trial := s.servers[0].Trial(t.Context(), s.ada)
		_, downgrade := s.servers[0].Downgrade(t.Context(), s.ada)
		_, checkout := s.servers[0].Checkout(t.Context(), s.ada, plan.Premium)
		for _, err := range []error{trial, downgrade, checkout} {
			if !fault.Is(err, fault.Forbidden) {
				t.Errorf("who was %s: %v", about, err)
			}
		}
	}
	if is, err := s.Store.Directory().Subscriptions().Get(t.Context(), s.ada.Org); err != nil || is != before {
		t.Errorf("the subscription is %+v, %v", is, err)
	}
}
