package httpapi

import "testing"

func TestPrefersPage(t *testing.T) {
	for accept, want := range map[string]bool{
		"":          false,
		"*/*":       false,
		"text/*":    false,
		"text/html": true,
		"Text/HTML;charset=utf-8, application/json":                       true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"text/html;q=0":                         false,
		"text/html;q=2":                         false,
		"text/html;q=x":                         false,
		"text/html;q=0.5, application/json":     false,
		"application/json;q=0.4,text/html;q=.5": true,
		"application/json":                      false,
		"text/htmlx, x text/html":               false,
	} {
		if got := (&call{r: get("/test", "Accept: "+accept)}).prefersPage(); got != want {
			t.Errorf("%q: %t", accept, got)
		}
	}
}
