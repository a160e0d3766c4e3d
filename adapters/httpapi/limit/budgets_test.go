package limit

import "testing"

func TestParseBudgets(t *testing.T) {
	const upload = 100 << 20
	defaults := Budgets{64 << 20, 256 << 20, 1600 << 20, 1 << 30}
	parse := func(text string) (Budgets, error) {
		return ParseBudgets("anonymous=64MiB,callers=256MiB,connections=1GiB,spool=16uploads", text, upload)
	}
	checkParser(t, parse, map[string]Budgets{
		"callers=256MiB":   defaults,
		"anonymous=128MiB": {128 << 20, defaults.Callers, defaults.Spool, defaults.Connections},
		"callers=1GiB, spool=2GiB,anonymous=4MiB,connections=16MiB": {4 << 20, 1 << 30, 2 << 30, 16 << 20},
	}, "off", "anonymous", "anonymous=64", "anonymous=64KiB", "anonymous=-1MiB", "anonymous=xMiB", "other=64MiB", "callers=64MiB,callers=65MiB",
		"callers=64MiB,", "anonymous=3MiB", "callers=31MiB", "connections=15MiB", "spool=199MiB", "spool=1uploads", "")
}

// checkParser checks the values of the valid texts, and that the invalid ones are refused.
func checkParser[T comparable](t *testing.T, parse func(string) (T, error), valid map[string]T, invalid ...string) {
	t.Helper()
	for text, want := range valid {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range invalid {
		if got, err := parse(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
