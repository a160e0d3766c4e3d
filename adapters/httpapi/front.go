package httpapi

import (
	_ "embed"
	"net/http"
	"strings"

	"collab/domain/fault"
)

//go:embed icon.svg
var icon []byte

// readFrontPage answers browsers with a page that says what runs. Programs, which do not
// ask for a page, have no endpoint here.
func (a *api) readFrontPage(c *call) error {
	c.Header().Add("Vary", "Accept")
	if !strings.Contains(c.r.Header.Get("Accept"), "text/html") {
		return fault.New(fault.NotFound, "There is no such endpoint")
	}
	c.Header()["Referrer-Policy"] = noReferrer
	return c.page(http.StatusOK, "front", map[string]string{"Release": a.Release, "SignIn": a.SignIn, "App": a.AppURL}, "'none'")
}

// readIcon answers with the picture that browsers show beside a page's title.
func (a *api) readIcon(c *call) error {
	c.public([]string{"public, max-age=3600"})
	c.Set("Content-Type", "image/svg+xml")
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(icon) // it fails when the client is gone, and there is nobody to tell
	return nil
}
