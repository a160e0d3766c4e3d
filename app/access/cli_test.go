package access

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"collab/adapters/system"
	"collab/domain/identity"
	"collab/ports"
	"collab/test/must"
)

func TestCheckCLI(t *testing.T) {
	longest := strings.Repeat("ü", maxState)
	for _, c := range []struct{ port, state, want string }{
		{"1024", "a", "<nil>"},
		{"65535", longest, "<nil>"},
		{"1023", "a", "port must be"},
		{"65536", "a", "port must be"},
		{"80", "a", "port must be"},
		{"-4711", "a", "port must be"},
		{"4711.0", "a", "port must be"},
		{"04711", "a", "port must be"},
		{"4711@example.com", "a", "port must be"},
		{"", "a", "port must be"},
		{"4711", longest + "ü", "state must be"},
		{"4711", "", "state must be"},
		{"4711", "a\nb", "state must be"},
		{"4711", "a\x00", "state must be"},
		{"4711", "\xff", "state must be"},
	} {
		if got := fmt.Sprint(must.ErrorOf(CheckCLI(c.port, c.state))); !strings.HasPrefix(got, c.want) {
			t.Errorf("port %q and state %q: %s, want %s", c.port, c.state, got, c.want)
		}
	}
}

// plainSealer seals with the length of an authenticated ciphertext.
type plainSealer struct{ ports.Sealer }

func (plainSealer) Seal(plain, _ []byte) ([]byte, error) {
	return append(make([]byte, 33), plain...), nil
}
func (plainSealer) Open(sealed, _ []byte) ([]byte, error) { return sealed[33:], nil }

func TestBrowsersAcceptTheCookieOfTheLongestState(t *testing.T) {
	a := New(Options{Sealer: plainSealer{}})
	secret := system.Secrets{}.Secret()
	for _, c := range []string{"<", ">", "&", `"`, `\`, "😀"} {
		flow := identity.Flow{Port: 65535, State: strings.Repeat(c, maxState), Own: secret, Nonce: secret, Verifier: secret, Expires: time.Now().UTC()}
		cookie := must.Do(a.sealCookie(CLICookie, flow)).Or(t)
		if n := len(CLICookie) + len(cookie); n > 4096 {
			t.Errorf("with a state of %s the cookie has %d bytes", c, n)
		}
		var opened identity.Flow
		must.Is(t, true, a.openCookie(CLICookie, cookie, &opened))
		must.Is(t, flow, opened)
	}
}
