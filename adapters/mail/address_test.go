package mail_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"collab/adapters/mail"
	"collab/domain/check"
	message "collab/domain/mail"
	"collab/test/mailserver"
	"collab/test/must"
)

// isAddress reports whether the domain accepts s as an address, unchanged.
func isAddress(s string) bool {
	var c check.List
	return c.Email("email", s) == s && c.Err() == nil
}

func TestValidAddressesOfTheDomainAreValidForTheMailer(t *testing.T) {
	l := &must.Log{}
	f := mail.NewFile(filepath.Join(t.TempDir(), "mail.log"), logger(l), newClock())
	takes := func(t *rapid.T, address string) {
		if err := f.Send(context.Background(), message.Message{To: address, Subject: "s", Text: "t"}); err != nil {
			t.Fatalf("%q: %v", address, err)
		}
	}
	parts := func(part string) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.StringMatching(part), 1, 4).Draw(t, "parts"), ".")
		})
	}
	t.Run("whatever is built by the rules", rapid.MakeCheck(func(t *rapid.T) {
		local := parts("[a-zA-Z0-9!#$%&'*+/=?^_`{|}~éßआ🦉-]{1,8}").Draw(t, "local part")
		domain := parts("[a-z0-9éßभ]([a-z0-9éßभ-]{0,8}[a-z0-9éßभ])?").Draw(t, "domain")
		address := local + "@" + domain
		if !isAddress(address) {
			t.Fatalf("%q is no address", address)
		}
		takes(t, address)
	}))
	t.Run("whatever else passes", rapid.MakeCheck(func(t *rapid.T) {
		odd := rapid.OneOf(rapid.SampledFrom([]rune("a.@-_é\"()<>[]\\,;:=? \t\x00\u00a0\u200b\u2028\ufffd")), rapid.Rune())
		local, domain := rapid.StringOfN(odd, 0, 6, -1).Draw(t, "local part"), rapid.StringOfN(odd, 0, 6, -1).Draw(t, "domain")
		for _, address := range []string{local + "@" + domain, local + "@example.com", "grace@" + domain, local} {
			if isAddress(address) {
				takes(t, address)
			}
		}
	}))
}

func FuzzValidAddressesOfTheDomainAreValidForTheMailer(f *testing.F) {
	for _, seed := range []string{"grace@example.org", "a..b@c", "a@b.", "é@é.é", "a@[::1]", "=?utf-8?q?a?=@b", "(a)b@c", "a\u200b@b"} {
		f.Add(seed)
	}
	file := mail.NewFile(filepath.Join(f.TempDir(), "mail.log"), logger(&must.Log{}), newClock())
	f.Fuzz(func(t *testing.T, address string) {
		if !isAddress(address) {
			return
		}
		if err := file.Send(context.Background(), message.Message{To: address, Subject: "s", Text: "t"}); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	})
}

func TestAddressesWithUnusualCharactersArriveUnchanged(t *testing.T) {
	s := mailserver.Start(t)
	m := start(t, options(s, newClock(), &must.Log{}))
	for _, address := range []string{"!#$%&'*+-/=?^_`{|}~@example.org", "ünï@exämple.org", "=?utf-8?q?a?=@example.org", "आ@उदाहरण.भारत", "a@b"} {
		if !isAddress(address) {
			t.Fatalf("%q is no address", address)
		}
		send(t, m, address)
		if got := <-s.Received; got.To != "TO:<"+address+">" {
			t.Errorf("%q arrives for %s", address, got.To)
		}
	}
	stop(t, m)
}
