package session_test

import (
	"testing"
	"time"

	"collab/domain/session"

	"pgregory.net/rapid"
)

func TestRefreshAcceptsExactlyTheAgesItShould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		issued := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "issued")).UTC()
		c := session.Issue("j", "u", "o", "", issued)
		age := time.Duration(rapid.OneOf(
			rapid.Int64Range(-int64(40*24*time.Hour), int64(60*24*time.Hour)),
			rapid.Int64Range(int64(session.Lifetime)-2e9, int64(session.Lifetime)+2e9),
			rapid.Int64Range(int64(session.Lifetime+session.GracePeriod)-2e9, int64(session.Lifetime+session.GracePeriod)+2e9),
			rapid.Int64Range(-3e9, 3e9),
		).Draw(t, "age"))
		now := c.IssuedAt.Add(age)
		if got, want := c.Refreshable(now), age >= -2*time.Second && age <= 37*24*time.Hour; got != want {
			t.Fatalf("refreshable at age %v: %v", age, got)
		}
		if got, want := c.Valid(now), age >= -2*time.Second && age < 30*24*time.Hour; got != want {
			t.Fatalf("valid at age %v: %v", age, got)
		}
	})
}
