// Package forms opens pages of the development providers and sends their forms, as a browser
// without scripts does.
package forms

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"collab/test/must"
)

// Browser keeps cookies and does not follow redirects.
type Browser struct {
	*http.Client
	t testing.TB
}

// New returns a browser whose connections are closed when the test ends.
func New(t testing.TB) *Browser {
	t.Helper()
	jar := must.Do(cookiejar.New(nil)).Or(t)
	b := &Browser{&http.Client{
		Transport: &http.Transport{}, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, t}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

// Page is a response.
type Page struct {
	*http.Response
	Text string
}

// Expect checks the status.
func (p Page) Expect(t testing.TB, status int) {
	t.Helper()
	if p.StatusCode != status {
		t.Errorf("answered %s", p.Status)
	}
}

// Contains checks that each text is in the page.
func (p Page) Contains(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.Text, text) {
			t.Errorf("the page lacks %s:\n%s", text, p.Text)
		}
	}
}

// Do sends a request.
func (b *Browser) Do(r *http.Request) Page {
	b.t.Helper()
	res := must.Do(b.Client.Do(r)).Or(b.t)
	defer res.Body.Close()
	text := must.Do(io.ReadAll(res.Body)).Or(b.t)
	return Page{res, string(text)}
}

// Open gets a page.
func (b *Browser) Open(address string) Page {
	b.t.Helper()
	r := must.Do(http.NewRequest("GET", address, nil)).Or(b.t)
	r.Header.Set("Accept", "text/html,*/*")
	return b.Do(r)
}

// Request returns a request that posts fields, from a page of the origin unless that is empty.
func Request(address, fields, origin string) *http.Request {
	r := httptest.NewRequest("POST", address, strings.NewReader(fields))
	r.RequestURI = ""
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html,*/*")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	return r
}

var (
	actionOf = regexp.MustCompile(`<form method="post" action="([^"]*)"`)
	csrfOf   = regexp.MustCompile(`name="csrf" value="([^"]*)"`)
)

// Token returns the page's token against requests from other sites.
func (b *Browser) Token(p Page) string {
	b.t.Helper()
	token := csrfOf.FindStringSubmatch(p.Text)
	if token == nil {
		b.t.Fatalf("no form on this page (%s):\n%s", p.Status, p.Text)
	}
	return token[1]
}

// Submit sends the page's form with fields.
func (b *Browser) Submit(p Page, fields url.Values) Page {
	b.t.Helper()
	fields.Set("csrf", b.Token(p))
	action := actionOf.FindStringSubmatch(p.Text)
	target := must.Do(p.Request.URL.Parse(html.UnescapeString(action[1]))).Or(b.t)
	return b.Do(Request(target.String(), fields.Encode(), target.Scheme+"://"+target.Host))
}
