package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"collab/adapters/style"
)

//go:embed pages.html
var pageSource string

// pages are the HTML pages: prompts, outcomes and errors.
var pages = template.Must(template.New("pages").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style.Card) },
}).Parse(pageSource))

// pagePolicy is the content security policy of pages. They load nothing but their
// own style and icon.
var pagePolicy = "default-src 'none'; img-src 'self'; style-src '" + sourceHash(style.Card) + "'; base-uri 'none'; frame-ancestors 'none'; form-action "

// sourceHash returns the source of an inline style or script in a policy.
func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// page replies with a page whose forms may be sent to these sources.
func (c *call) page(status int, name string, data any, forms string) error {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	c.html(status, pagePolicy+forms, b.Bytes())
	return nil
}

//go:embed icon.svg
var icon []byte

// cacheHour is the Cache-Control of responses that everybody may cache for an hour.
var cacheHour = []string{"public, max-age=3600"}

// readIcon replies with the favicon.
func (a *api) readIcon(c *call) error {
	c.public(cacheHour)
	c.sendAs([]string{"image/svg+xml"}, http.StatusOK, icon)
	return nil
}
