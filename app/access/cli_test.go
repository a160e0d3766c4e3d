package access

import (
	"fmt"
	"strings"
	"testing"

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
