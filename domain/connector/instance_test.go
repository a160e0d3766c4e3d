package connector_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/domain/check"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/test/must"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// in returns an instance in a state, with what instances of that state have.
func in(s connector.Status) connector.Instance {
	i := connector.Instance{ID: "i", Org: "o", Hosting: connector.Cloud}
	switch s {
	case connector.Connecting, connector.Connected:
		i.Version = 3
	case connector.Failing:
		i.Version, i.LastError, i.Failures = 3, "no answer", 2
	}
	return i.Restore(s)
}

// lasting are credentials that can be renewed, from noon on for so long.
func lasting(d time.Duration) connector.Credentials {
	return connector.Credentials{Renewal: "r", Renewable: true, ExpiresAt: new(noon.Add(d))}
}

// triggers are what the triggers are called as, for an instance that there is.
var triggers = map[connector.Trigger]func(connector.Instance) (connector.Instance, error){
	connector.StoredCloud: func(i connector.Instance) (connector.Instance, error) {
		return i.Stored(connector.Credentials{}, noon)
	},
	connector.StoredLocal: func(i connector.Instance) (connector.Instance, error) {
		i.Hosting = connector.Local
		return i.Stored(connector.Credentials{}, noon)
	},
	connector.Renewed: func(i connector.Instance) (connector.Instance, error) {
		return i.Renewed(connector.Credentials{}, noon)
	},
	connector.Answered: func(i connector.Instance) (connector.Instance, error) { return i.Answered(nil, noon) },
	connector.Failed:   func(i connector.Instance) (connector.Instance, error) { return i.Failed("why", noon) },
	connector.Revoked:  func(i connector.Instance) (connector.Instance, error) { return i.Revoked("why") },
}

// table is where each trigger leads from each state.
func table() map[connector.Trigger]map[connector.Status]connector.Status {
	all := map[connector.Trigger]map[connector.Status]connector.Status{}
	for _, t := range connector.Table() {
		if all[t.Trigger] == nil {
			all[t.Trigger] = map[connector.Status]connector.Status{}
		}
		for _, from := range t.From {
			all[t.Trigger][from] = t.To
		}
	}
	return all
}

func TestTheTableHasEachTriggerOnceForAState(t *testing.T) {
	n := 0
	for _, row := range connector.Table() {
		n += len(row.From)
		if !slices.Contains(connector.Statuses(), row.To) {
			t.Errorf("%q leads to %q", row.Trigger, row.To)
		}
	}
	for _, of := range table() {
		n -= len(of)
	}
	if n != 0 {
		t.Errorf("%d rows are there twice", n)
	}
}

func TestTriggersLeadToTheirStatesOrAreRefused(t *testing.T) {
	const refused = connector.None
	if len(triggers) != len(table())-2 { // those that make an instance
		t.Errorf("%d triggers are tried", len(triggers))
	}
	after := map[connector.Trigger][5]connector.Status{ // DISCONNECTED, CONNECTING, CONNECTED, ERROR and none
		connector.StoredCloud: {"CONNECTING", "CONNECTING", "CONNECTING", "CONNECTING", refused},
		connector.StoredLocal: {"CONNECTED", "CONNECTED", "CONNECTED", "CONNECTED", refused},
		connector.Renewed:     {refused, "CONNECTING", "CONNECTED", "CONNECTING", refused},
		connector.Answered:    {refused, "CONNECTED", "CONNECTED", "CONNECTED", refused},
		connector.Failed:      {refused, "ERROR", "ERROR", "ERROR", refused},
		connector.Revoked:     {refused, "ERROR", "ERROR", "ERROR", refused},
	}
	for by, move := range triggers {
		for n, from := range append(connector.Statuses(), connector.None) {
			to := after[by][n]
			got, err := move(in(from))
			if to == refused {
				want := fmt.Sprintf("A connector that is %s cannot change by this: %s", from, by)
				if !fault.Is(err, fault.Conflict) || err.Error() != want {
					t.Errorf("%s by %q: %v, want %q", from, by, err, want)
				}
				continue
			}
			if err != nil || got.Status() != to {
				t.Errorf("%s by %q leads to %s, %v; want %s", from, by, got.Status(), err, to)
			}
			if failing := to == connector.Failing; (got.LastError != "") != failing {
				t.Errorf("%s by %q: the last error is %q", from, by, got.LastError)
			}
		}
	}
}

func TestARefusedTriggerChangesNothing(t *testing.T) {
	for by, move := range triggers {
		was := in(connector.None)
		if by == connector.StoredLocal {
			was.Hosting = connector.Local
		}
		if got, err := move(was); err == nil || !reflect.DeepEqual(got, was) {
			t.Errorf("%q: %+v, %v", by, got, err)
		}
	}
}

func TestNewInstances(t *testing.T) {
	cloud := connector.Provider{ID: "p", Name: "Provider", Auth: connector.APIKey, Transport: connector.HTTP, URL: "https://p.example.com"}
	local := connector.Provider{ID: "p", Name: "Provider", Auth: connector.APIKey, Transport: connector.Stdio}
	with := func(p connector.Provider, set func(*connector.Provider)) connector.Provider {
		set(&p)
		return p
	}
	open := func(p *connector.Provider) { p.Auth = connector.NoAuth }
	generic := with(cloud, func(p *connector.Provider) { p.URL = "" })
	for name, c := range map[string]struct {
		provider connector.Provider
		draft    connector.Draft
		want     connector.Instance
		status   connector.Status
	}{
		"in the cloud": {cloud, connector.Draft{}, connector.Instance{Label: "Provider", Config: "{}", URL: "https://p.example.com"}, connector.Disconnected},
		"with a name": {cloud, connector.Draft{Name: new(" My  own "), Config: `{"url":"x"}`, URL: "x"},
			connector.Instance{Label: "My  own", Name: new("My  own"), Config: `{"url":"x"}`, URL: "https://p.example.com"}, connector.Disconnected},
		"at an address of its own": {generic, connector.Draft{URL: "https://own.example.com"}, connector.Instance{Label: "Provider", Config: "{}", URL: "https://own.example.com"}, connector.Disconnected},
		"beside the client":        {local, connector.Draft{URL: "x"}, connector.Instance{Label: "Provider", Config: "{}"}, connector.Disconnected},
		"open, in the cloud": {with(cloud, open), connector.Draft{},
			connector.Instance{Label: "Provider", Config: "{}", URL: "https://p.example.com", DueAt: new(noon)}, connector.Connected},
		"open, beside the client": {with(local, open), connector.Draft{}, connector.Instance{Label: "Provider", Config: "{}"}, connector.Connected},
	} {
		want := c.want
		want.ID, want.Org, want.Provider, want.CreatedBy, want.CreatedAt = "i", "o", "p", "u", noon
		want.Hosting, want.Transport = c.provider.Transport.Hosting(), c.provider.Transport
		want = want.Restore(c.status)
		got, err := connector.New("i", "o", "u", c.provider, c.draft, noon)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, want)
		}
	}
	for name, c := range map[string]struct {
		draft connector.Draft
		field string
	}{
		"no address":       {connector.Draft{}, "config.url"},
		"a long address":   {connector.Draft{URL: strings.Repeat("x", check.MaxURL+1)}, "config.url"},
		"a large config":   {connector.Draft{URL: "x", Config: strings.Repeat("x", connector.MaxConfig+1)}, "config"},
		"an empty name":    {connector.Draft{URL: "x", Name: new(" ")}, "name"},
		"an endless name":  {connector.Draft{URL: "x", Name: new(strings.Repeat("x", 10_000))}, "name"},
		"a name of no use": {connector.Draft{URL: "x", Name: new("a\x00b")}, "name"},
	} {
		_, err := connector.New("i", "o", "u", generic, c.draft, noon)
		var fe *fault.Error
		if !errors.As(err, &fe) || fe.Kind != fault.Invalid || len(fe.Problems) != 1 || fe.Problems[0].Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnInstanceKeepsItsAddressUnlessItsProviderHasOne(t *testing.T) {
	own := connector.Instance{URL: "https://own.example.com", Transport: connector.SSE, Hosting: connector.Cloud}
	for name, c := range map[string]struct {
		provider  connector.Provider
		url       string
		transport connector.Transport
	}{
		"a server elsewhere":      {connector.Provider{URL: "https://p.example.com", Transport: connector.HTTP}, "https://p.example.com", connector.HTTP},
		"no server":               {connector.Provider{Transport: connector.HTTP}, own.URL, own.Transport},
		"a server of the clients": {connector.Provider{URL: "https://p.example.com", Transport: connector.Stdio}, own.URL, own.Transport},
	} {
		if got := own.WithServerOf(c.provider); got.URL != c.url || got.Transport != c.transport {
			t.Errorf("%s: %s over %s", name, got.URL, got.Transport)
		}
	}
}

func TestStoredCredentialsAreCheckedAtOnceInTheCloudOnly(t *testing.T) {
	for name, c := range map[string]struct {
		hosting connector.Hosting
		given   connector.Credentials
		renew   bool
		due     *time.Time
	}{
		"cloud":               {connector.Cloud, connector.Credentials{}, false, &noon},
		"cloud, that end":     {connector.Cloud, lasting(time.Hour), true, &noon},
		"local":               {connector.Local, connector.Credentials{}, false, nil},
		"renewable, no end":   {connector.Cloud, connector.Credentials{Renewal: "r", Renewable: true}, false, &noon},
		"revocable, that end": {connector.Cloud, connector.Credentials{Renewal: "r", ExpiresAt: new(noon.Add(time.Hour))}, false, &noon},
	} {
		for _, from := range connector.Statuses() {
			was := in(from)
			was.Hosting = c.hosting
			got, err := was.Stored(c.given, noon)
			if err != nil || got.Version != was.Version+1 || got.Failures != 0 || got.LastError != "" || got.ExpiresAt != c.given.ExpiresAt || (got.RenewAt != nil) != c.renew {
				t.Errorf("%s, from %s: %+v, %v", name, from, got, err)
			}
			if !reflect.DeepEqual(got.DueAt, c.due) {
				t.Errorf("%s, from %s: due at %v, want %v", name, from, got.DueAt, c.due)
			}
		}
	}
}

func TestTokensAreRenewedAfterFourFifthsOfTheirLifetimeSpreadByInstance(t *testing.T) {
	const instances, life = 2200, 100 * time.Hour
	hours := map[time.Duration]int{}
	for n := range instances {
		was := in(connector.Disconnected)
		was.ID = id.Connector(fmt.Sprintf("0199f3a0-0000-7000-8000-%012x", n))
		i := must.Do(was.Stored(lasting(life), noon)).Or(t)
		again, err := was.Stored(lasting(life), noon)
		if err != nil || !again.RenewAt.Equal(*i.RenewAt) {
			t.Fatalf("%s is renewed at %v and at %v, %v", i.ID, i.RenewAt, again.RenewAt, err)
		}
		after := i.RenewAt.Sub(noon)
		if after%time.Hour != 0 || after < 75*time.Hour || after > 85*time.Hour {
			t.Fatalf("%s is renewed after %v of %v", i.ID, after, life)
		}
		hours[after]++
	}
	// 200 on average; none is far from it.
	if len(hours) != 11 || slices.Min(slices.Collect(maps.Values(hours))) < 140 || slices.Max(slices.Collect(maps.Values(hours))) > 260 {
		t.Errorf("they are renewed after %v", hours)
	}
}

func TestRenewalsOfShortLivedTokensAreLimited(t *testing.T) {
	for _, life := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Second, 35 * time.Second} {
		i, err := in(connector.Connected).Renewed(lasting(life), noon)
		if after := i.RenewAt.Sub(noon); err != nil || after != 30*time.Second {
			t.Errorf("a token of %v is renewed after %v, %v", life, after, err)
		}
	}
	i, err := in(connector.Connected).Renewed(lasting(time.Minute), noon)
	if after := i.RenewAt.Sub(noon); err != nil || after < 45*time.Second || after > 51*time.Second {
		t.Errorf("a token of a minute is renewed after %v, %v", after, err)
	}
}

func TestAServerIsCheckedEachHourAndWhenItsTokenExpires(t *testing.T) {
	tools := []connector.Tool{{Name: "search"}}
	for name, c := range map[string]struct {
		expires, renew *time.Time
		due            time.Time
	}{
		"nothing ends":       {nil, nil, noon.Add(time.Hour)},
		"the token, soon":    {new(noon.Add(10 * time.Minute)), nil, noon.Add(10 * time.Minute)},
		"the token, later":   {new(noon.Add(2 * time.Hour)), nil, noon.Add(time.Hour)},
		"to renew, soon":     {new(noon.Add(10 * time.Minute)), new(noon.Add(8 * time.Minute)), noon.Add(8 * time.Minute)},
		"to renew, later":    {new(noon.Add(10 * time.Hour)), new(noon.Add(8 * time.Hour)), noon.Add(time.Hour)},
		"to renew, just now": {new(noon.Add(10 * time.Hour)), new(noon.Add(time.Hour)), noon.Add(time.Hour)},
	} {
		was := in(connector.Failing)
		was.ExpiresAt, was.RenewAt = c.expires, c.renew
		got, err := was.Answered(tools, noon)
		if err != nil || got.Status() != connector.Connected || got.Failures != 0 || got.LastError != "" || !got.LastUsedAt.Equal(noon) ||
			!slices.Equal(got.Tools, tools) || got.Version != was.Version || !got.DueAt.Equal(c.due) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestFailuresAreTriedAgainLaterEachTime(t *testing.T) {
	i := in(connector.Connecting)
	now := noon
	for n, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360, 360, 360} {
		var err error
		if i, err = i.Failed("why", now); err != nil || i.Failures != n+1 || i.DueAt.Sub(now) != want*time.Minute || i.LastError != "why" {
			t.Fatalf("after %d failures: %+v, %v", n+1, i, err)
		}
		now = *i.DueAt
	}
	i.Failures = 1 << 30
	if got, err := i.Failed("why", now); err != nil || got.DueAt.Sub(now) != 6*time.Hour {
		t.Errorf("after very many: %+v, %v", got, err)
	}
	if got, err := i.Answered(nil, now); err != nil || got.Failures != 0 {
		t.Errorf("after an answer: %+v, %v", got, err)
	}
	i.Failures, i.RenewAt = 9, new(now.Add(time.Minute))
	if got, err := i.Failed("why", now); err != nil || !got.DueAt.Equal(*i.RenewAt) {
		t.Errorf("with a token to renew before: %+v, %v", got, err)
	}
}

func TestATokenThatCannotBeRenewedIsTriedUntilItEndsAndFailsThen(t *testing.T) {
	for name, c := range map[string]struct {
		left   *time.Duration // of the token's life
		status connector.Status
		again  time.Duration
	}{
		"an hour is left":      {new(time.Hour), connector.Connected, time.Minute},
		"a minute is left":     {new(time.Minute), connector.Connected, 30 * time.Second},
		"a second is left":     {new(time.Second), connector.Connected, 2 * time.Second},
		"a nanosecond is left": {new(time.Duration(1)), connector.Connected, 2 * time.Second},
		"it ends":              {new(time.Duration(0)), connector.Failing, time.Minute},
		"it has ended":         {new(-time.Hour), connector.Failing, time.Minute},
		"nobody knows its end": {nil, connector.Failing, time.Minute},
	} {
		was := in(connector.Connected)
		if c.left != nil {
			was.ExpiresAt, was.RenewAt = new(noon.Add(*c.left)), new(noon.Add(-time.Minute))
		}
		got, err := was.NotRenewed("why", noon)
		if err != nil || got.Status() != c.status || got.Failures != 1 || !got.DueAt.Equal(noon.Add(c.again)) || (got.LastError == "why") != (c.status == connector.Failing) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	must.Fail(t, must.ErrorOf(in(connector.Disconnected).NotRenewed("why", noon)), fault.Conflict) // without credentials
}

func TestARenewedTokenEndsAFailure(t *testing.T) {
	was := in(connector.Failing)
	was.DueAt = new(noon.Add(connector.ClaimDuration))
	got, err := was.Renewed(lasting(time.Hour), noon)
	if err != nil || got.Status() != connector.Connecting || got.LastError != "" || got.Failures != 0 || got.Version != was.Version+1 || got.RenewAt == nil || got.DueAt != was.DueAt {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = got.Renewed(connector.Credentials{}, noon); err != nil || got.ExpiresAt != nil || got.RenewAt != nil {
		t.Errorf("by one without an end: %+v, %v", got, err)
	}
}

func TestRenewalIsDueWhenTheTokenIsOldOrHasEnded(t *testing.T) {
	at := func(d time.Duration) *time.Time { return new(noon.Add(d)) }
	for name, c := range map[string]struct {
		expires, renew *time.Time
		due, expired   bool
	}{
		"no end":                      {nil, nil, false, false},
		"young":                       {at(2), at(1), false, false},
		"old":                         {at(1), at(0), true, false},
		"ended":                       {at(0), at(-1), true, true},
		"young, cannot be renewed":    {at(1), nil, false, false},
		"ended, could not be renewed": {at(0), nil, true, true},
		"ended before its time":       {at(-1), at(1), false, true},
	} {
		i := in(connector.Connected)
		i.ExpiresAt, i.RenewAt = c.expires, c.renew
		if i.RenewalDue(noon) != c.due || i.Expired(noon) != c.expired {
			t.Errorf("%s: due %t, expired %t", name, i.RenewalDue(noon), i.Expired(noon))
		}
	}
}

func TestClaims(t *testing.T) {
	for name, c := range map[string]struct {
		due *time.Time
		ok  bool
	}{
		"never": {nil, false}, "later": {new(noon.Add(1)), false}, "now": {new(noon), true}, "before": {new(noon.Add(-time.Hour)), true},
	} {
		was := in(connector.Connected)
		was.DueAt = c.due
		got, err := was.Claimed(noon)
		if !c.ok {
			if !fault.Is(err, fault.Conflict) || !reflect.DeepEqual(got, was) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if err != nil || !got.DueAt.Equal(noon.Add(connector.ClaimDuration)) || was.DueAt != c.due {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if _, err := got.Claimed(noon.Add(connector.ClaimDuration - 1)); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s, a second time: %v", name, err)
		}
		if _, err := got.Claimed(noon.Add(connector.ClaimDuration)); err != nil {
			t.Errorf("%s, after the hold: %v", name, err)
		}
		if handed, err := got.Released(noon).Claimed(noon); err != nil || !handed.DueAt.Equal(noon.Add(connector.ClaimDuration)) {
			t.Errorf("%s, handed on: %+v, %v", name, handed, err)
		}
	}
}

func TestATokenThatExpiresEarlyIsRenewedOnRead(t *testing.T) {
	i := must.Do(in(connector.Connected).Renewed(lasting(time.Second), noon)).Or(t)
	i.DueAt = i.RenewAt
	second := noon.Add(time.Second)
	must.Fail(t, must.ErrorOf(i.ClaimedToUse(second.Add(-1))), fault.Conflict) // before it ends
	must.Fail(t, must.ErrorOf(i.Claimed(second)), fault.Conflict)              // by who does not need it
	claimed, err := i.ClaimedToUse(second)
	if err != nil || !claimed.DueAt.Equal(second.Add(connector.ClaimDuration)) {
		t.Fatalf("%+v, %v", claimed, err)
	}
	must.Fail(t, must.ErrorOf(claimed.ClaimedToUse(second.Add(connector.ClaimDuration-1))), fault.Conflict) // while somebody is at it
	for name, due := range map[string]*time.Time{"never due": nil, "after a failure": new(second.Add(time.Minute))} {
		i.DueAt = due
		if _, err := i.ClaimedToUse(second); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	i.DueAt = &second
	must.Do(i.ClaimedToUse(second)).Or(t) // when it is due
}

func TestUnreadableCredentialsAreRetriedWithBackoff(t *testing.T) {
	i := in(connector.Connecting)
	i.ExpiresAt, i.RenewAt = new(noon.Add(-time.Hour)), new(noon.Add(-2*time.Hour))
	for n, want := range []time.Duration{1, 2, 4} {
		got, err := i.Unreadable("why", noon)
		if err != nil || got.Status() != connector.Failing || got.LastError != "why" || got.Failures != n+1 || got.DueAt.Sub(noon) != want*time.Minute {
			t.Fatalf("after %d times: %+v, %v", n+1, got, err)
		}
		i = got
	}
	must.Fail(t, must.ErrorOf(in(connector.Disconnected).Unreadable("why", noon)), fault.Conflict) // without credentials
}

func TestUseIsRecordedOnceAMinute(t *testing.T) {
	i := in(connector.Connected).Used(noon)
	must.Is(t, noon, *i.LastUsedAt)
	i = i.Used(noon.Add(time.Minute - 1))
	must.Is(t, noon, *i.LastUsedAt)
	i = i.Used(noon.Add(time.Minute))
	must.Is(t, noon.Add(time.Minute), *i.LastUsedAt)
}

func TestRevocationsAreTriedTwelveTimesIn20Hours(t *testing.T) {
	r, now := connector.Revocation{DueAt: noon}, noon
	for n := 1; n <= 12; n++ {
		next, again := r.Retried(now)
		if next.Attempts != n || again != (n < 12) || !next.DueAt.After(now) || next.DueAt.Sub(now) > 6*time.Hour {
			t.Fatalf("attempt %d: %+v, %t", n, next, again)
		}
		if again {
			now = next.DueAt
		}
		r = next
	}
	if d := now.Sub(noon); d < 20*time.Hour || d >= 21*time.Hour {
		t.Errorf("they are given up after %v", d)
	}
}
