package mail_test

import (
	"strings"
	"testing"
	"time"

	"collab/domain/mail"
)

func TestAnInvitationNamesInviterOrganisationAndExpiry(t *testing.T) {
	m := mail.Invitation("grace@example.com", "Acme", "Ada", "https://app.example.com/invite?token=t", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if m.To != "grace@example.com" || m.Subject != "Join Acme on Collab" {
		t.Errorf("got %+v", m)
	}
	for _, part := range []string{"Ada invited you to join Acme", "\nhttps://app.example.com/invite?token=t\n", "2 January 2026 03:04 UTC"} {
		if !strings.Contains(m.Text, part) {
			t.Errorf("%q is not in %q", part, m.Text)
		}
	}
}

func TestNamesAddNoLinesToAMessage(t *testing.T) {
	lines := func(organisation, inviter string) int {
		m := mail.Invitation("a@b", organisation, inviter, "https://x", time.Time{})
		if strings.ContainsAny(m.Subject, "\r\n") {
			t.Errorf("the subject is %q", m.Subject)
		}
		return strings.Count(m.Text, "\n") + strings.Count(m.Text, "\r")
	}
	if plain, forged := lines("Acme", "Ada"), lines("Acme\r\nBcc: x@y", "Ada\n\nPay here: https://evil"); plain != forged {
		t.Errorf("%d lines became %d", plain, forged)
	}
	if m := mail.Invitation("a@b", "Acme", " \n", "https://x", time.Time{}); !strings.HasPrefix(m.Text, "Someone invited you") {
		t.Errorf("without a name: %q", m.Text)
	}
}
