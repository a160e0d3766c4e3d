package session_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/session"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestUserCodesAreReadInAnyForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := session.NewUserCode(rapid.String().Draw(t, "secret"))
		if len(code) != 8 || strings.Trim(code, "BCDFGHJKLMNPQRSTVWXZ") != "" {
			t.Fatalf("the code is %q", code)
		}
		shown := session.FormatUserCode(code)
		for _, typed := range []string{code, shown, strings.ToLower(shown), " " + code[:2] + "-" + code[2:] + " "} {
			if got, ok := session.ParseUserCode(typed); !ok || got != code {
				t.Fatalf("%q is read as %q, %v", typed, got, ok)
			}
		}
	})
	for _, typed := range []string{"", "BCDF", "BCDFGHJKL", "BCDFGHJA", "BCDFGHJ1", "BCDFGHJ\x00", "--------"} {
		if got, ok := session.ParseUserCode(typed); ok {
			t.Errorf("%q is read as %q", typed, got)
		}
	}
	if a, b := session.NewUserCode("a"), session.NewUserCode("b"); a == b {
		t.Errorf("two secrets have the code %s", a)
	}
}

func TestADeviceIsDescribedInOneLine(t *testing.T) {
	from := session.Client{Address: "192.0.2.1", UserAgent: "Agent\r\n" + strings.Repeat("a", 1000)}
	g := session.BeginDevice("device", "user", " a\x00 device ", from, noon)
	if g.Name != "a  device" || g.From.Address != from.Address || len(g.From.UserAgent) != 200 || g.Status() != session.DevicePending {
		t.Errorf("%+v", g)
	}
	if g.Code != id.Digest("device") || g.UserCode != id.Digest("user") || g.Code == g.UserCode {
		t.Errorf("%+v", g)
	}
}

// deviceModel is what a device grant may do, told by its history instead of its state.
type deviceModel struct {
	grant    session.DeviceGrant
	now      time.Time
	decision string  // "", "approve" or "deny"
	by       id.User // who decided
	claimed  bool
	polled   time.Time // the last poll before the decision; zero: none
	early    int       // polls that were too early
}

func (m *deviceModel) expired() bool { return m.now.Sub(noon) >= 10*time.Minute }

func (m *deviceModel) Wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.OneOf(
		rapid.Int64Range(0, 12_000), rapid.Int64Range(3_990, 4_010), rapid.Int64Range(8_990, 9_010), rapid.Int64Range(0, 700_000),
	).Draw(t, "milliseconds")) * time.Millisecond)
}

func (m *deviceModel) decide(t *rapid.T, decision string) {
	user := rapid.SampledFrom([]id.User{"ada", "ben"}).Draw(t, "user")
	was := m.grant
	next, err := m.grant.Decided(decision == "approve", user, id.Org("of "+user), m.now)
	switch {
	case m.decision == "" && !m.expired():
		if err != nil || next.User != user || next.Org != id.Org("of "+user) {
			t.Fatalf("%s %s: %+v, %v", user, decision, next, err)
		}
		m.decision, m.by = decision, user
	case m.decision == decision && m.by == user:
		if err != nil || next != was {
			t.Fatalf("%s repeats %s: %+v, %v", user, decision, next, err)
		}
	default:
		if !fault.Is(err, fault.NotFound) || next != was {
			t.Fatalf("%s %s: %+v, %v", user, decision, next, err)
		}
	}
	m.grant = next
}

func (m *deviceModel) Approve(t *rapid.T) { m.decide(t, "approve") }
func (m *deviceModel) Deny(t *rapid.T)    { m.decide(t, "deny") }

func (m *deviceModel) Poll(t *rapid.T) {
	next, err := m.grant.Polled(m.now)
	want := session.DeviceUndecided
	switch {
	case m.claimed:
		want = session.DeviceUnknown
	case m.expired():
		want = session.DeviceExpired
	case m.decision == "deny":
		want = session.DeviceRefused
	case m.decision == "approve":
		if err != nil || next.User != m.by {
			t.Fatalf("an approved device is refused: %v", err)
		}
		m.claimed, m.grant = true, next
		return
	default:
		if !m.polled.IsZero() && m.now.Sub(m.polled) < time.Duration(5+5*m.early)*time.Second-time.Second {
			want = session.DeviceTooEarly
			m.early++
		}
		m.polled = m.now
	}
	var refused session.DeviceRefusal
	if !errors.As(err, &refused) || refused != want || refused.Error() == "" {
		t.Fatalf("a poll at %v is %v, want %s", m.now.Sub(noon), err, want)
	}
	m.grant = next
}

func (m *deviceModel) Check(t *rapid.T) {
	open := m.grant.CheckOpen(m.now) == nil
	if open != (m.decision == "" && !m.expired()) {
		t.Fatalf("at %v after %q it is open: %v", m.now.Sub(noon), m.decision, open)
	}
	if !m.grant.ExpiresAt.Equal(noon.Add(10 * time.Minute)) {
		t.Fatalf("it expires at %v", m.grant.ExpiresAt)
	}
}

func TestADeviceGetsItsTokenOnceAfterOneApproval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &deviceModel{grant: session.BeginDevice("device", "user", "", session.Client{}, noon), now: noon}
		t.Repeat(rapid.StateMachineActions(m))
	})
}
