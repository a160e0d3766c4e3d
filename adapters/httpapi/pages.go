package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

//go:embed pages.css
var pageStyle string

//go:embed pages.html
var pageSource string

// pages are what people see in a browser: what they are asked, how something went,
// and what was wrong.
var pages = template.Must(template.New("pages").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(pageStyle) },
}).Parse(pageSource))

// pagePolicy is the content security policy of pages. They load nothing but their
// own style and icon.
var pagePolicy = "default-src 'none'; img-src 'self'; style-src '" + sourceHash(pageStyle) + "'; base-uri 'none'; frame-ancestors 'none'; form-action "

// sourceHash is how a policy names a style or a script that stands in its page.
func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// page answers with a page whose forms may lead to these sources.
func (c *call) page(status int, name string, data any, forms string) error {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	c.html(status, pagePolicy+forms, b.Bytes())
	return nil
}
