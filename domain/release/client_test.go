package release

import (
	"strings"
	"testing"

	"collab/domain/fault"
)

func TestDevicesHaveIDsOfAnyTextWithinBounds(t *testing.T) {
	for text, ok := range map[string]bool{
		"": false, "a": true, " ": true, "0198a1b2-0000-7000-8000-000000000001": true, "\x00": true, "\xff": false, "a\xc3": false,
		strings.Repeat("a", 200): true, strings.Repeat("a", 201): false,
		strings.Repeat("é", 200): true, strings.Repeat("é", 201): false,
		strings.Repeat("\U0001f600", 200): true, strings.Repeat("\U0001f600", 201): false,
	} {
		got, err := ParseClient("clientId", text)
		switch {
		case ok && (err != nil || got != text):
			t.Errorf("%q is read as %q, %v", text, got, err)
		case !ok && (!fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "clientId ")):
			t.Errorf("%q gets %v", text, err)
		}
	}
}
