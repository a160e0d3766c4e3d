package devidp_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"collab/adapters/devidp"
	"collab/test/forms"
	"collab/test/must"
)

func TestNew(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*devidp.Options)
		fails  bool
	}{
		"development on loopback is allowed":           {func(*devidp.Options) {}, false},
		"outside development it is refused":            {func(o *devidp.Options) { o.Development = false }, true},
		"listening on a network address is refused":    {func(o *devidp.Options) { o.Listen = "192.168.1.4:8080" }, true},
		"a public URL elsewhere is refused":            {func(o *devidp.Options) { o.PublicURL = "https://collab.example" }, true},
		"a file of accounts that is broken is refused": {func(o *devidp.Options) { os.WriteFile(o.AccountsFile, []byte("{"), 0o600) }, true},
		"a file of something else is refused":          {func(o *devidp.Options) { os.WriteFile(o.AccountsFile, []byte("{}"), 0o600) }, true},
		"a key file that is broken is refused":         {func(o *devidp.Options) { os.WriteFile(o.KeyFile, []byte("key"), 0o600) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFixture(t, t.TempDir()).options
			directory := t.TempDir()
			o.KeyFile, o.AccountsFile = filepath.Join(directory, "key"), filepath.Join(directory, "accounts")
			tt.change(&o)
			if _, err := devidp.New(o); (err != nil) != tt.fails {
				t.Errorf("New() = %v", err)
			}
		})
	}
}

func TestResponses(t *testing.T) {
	st := newFixture(t, t.TempDir())
	t.Run("a foreign name that resolves to loopback is refused", func(t *testing.T) {
		r := forms.Request(st.URL+devidp.Prefix+"/token", "email=ada@example.com", "")
		r.Host = "rebound.example:8080"
		forms.New(t).Do(r).Expect(t, http.StatusForbidden)
	})
	t.Run("an unknown path is not found", func(t *testing.T) {
		forms.New(t).Open(st.provider.Issuer()+"/admin").Expect(t, http.StatusNotFound)
	})
	t.Run("the root redirects to the sign-in page", func(t *testing.T) {
		if p := forms.New(t).Open(st.provider.Issuer()); p.Header.Get("Location") != "/dev/identity/sign-in" {
			t.Errorf("answered %s to %q", p.Status, p.Header.Get("Location"))
		}
	})
	t.Run("a picture shows the initials and no markup of the name", func(t *testing.T) {
		c := st.signedIn(t, "email", "eve@example.com", "name", "<script> &evil")
		p := forms.New(t).Open(c.Picture)
		if p.StatusCode != http.StatusOK || p.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(p.Text, "&lt;&amp;</text>") {
			t.Errorf("answered %s %s: %s", p.Status, p.Header.Get("Content-Type"), p.Text)
		}
	})
	t.Run("an unknown picture is not found", func(t *testing.T) {
		forms.New(t).Open(st.provider.Issuer()+"/avatar/user_0.svg").Expect(t, http.StatusNotFound)
	})
}

func TestForms(t *testing.T) {
	newcomer := func() url.Values {
		return url.Values{"account": {"new"}, "name": {"Ada Lovelace"}, "email": {"ada@example.com"}, "org": {"new"}, "orgName": {"Engines"}, "role": {""}}
	}
	post := func(b *forms.Browser, st *fixture, fields url.Values, origin string) forms.Page {
		return b.Do(forms.Request(st.provider.SignInURL(), fields.Encode(), origin))
	}
	t.Run("a form of the page signs in and shows token, command and organisations", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		p := b.Submit(b.Open(st.provider.SignInURL()), newcomer())
		token := textOf(t, p, "token")
		c := st.verify(t, token, "")
		if c.Email != "ada@example.com" || c.Org == nil || c.Org.Role != "owner" || c.Org.Slug != "engines" {
			t.Errorf("token says %+v", c)
		}
		if want := "curl -s " + st.URL + "/api/v1/auth/exchange-token -H 'Content-Type: application/json' -d '{\"identityToken\":\"" + token + "\"}'"; textOf(t, p, "command") != want {
			t.Errorf("command = %s", textOf(t, p, "command"))
		}
		if !strings.Contains(p.Text, "Owner of Engines") {
			t.Errorf("the page does not say the role:\n%s", p.Text)
		}
	})
	t.Run("the next page preselects the last choice", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		b.Submit(b.Open(st.provider.SignInURL()), newcomer())
		st.signedIn(t, "email", "bob@example.com", "org", "Other")
		id := st.signedIn(t, "email", "ada@example.com", "org", "Engines")
		p := b.Open(st.provider.SignInURL())
		p.Contains(t, `value="`+id.Subject+`" checked`, `value="`+id.Org.ID+`" checked`)
		p = b.Submit(p, url.Values{"account": {id.Subject}, "org": {id.Org.ID}, "role": {"viewer"}})
		if c := st.verify(t, textOf(t, p, "token"), ""); c.Subject != id.Subject || c.Org.Role != "viewer" {
			t.Errorf("token says %+v", c)
		}
	})
	t.Run("without an organisation the token has none", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		fields := newcomer()
		fields.Set("org", "none")
		p := b.Submit(b.Open(st.provider.SignInURL()), fields)
		if c := st.verify(t, textOf(t, p, "token"), ""); c.Org != nil {
			t.Errorf("token says %+v", c.Org)
		}
	})
	for name, tt := range map[string]struct{ field, value, says string }{
		"a missing address":         {"email", "", "The e-mail address must not be empty."},
		"a broken address":          {"email", "ada", "The e-mail address must be an e-mail address."},
		"a missing organisation":    {"orgName", " ", "The organisation’s name must not be empty."},
		"an unknown account":        {"account", "user_1", "The account must be one of the list."},
		"an unknown organisation":   {"org", "org_1", "The organisation must be one of the list."},
		"an unknown role":           {"role", "king", "The role must be one of owner, admin, member, viewer."},
		"a name of several lines":   {"name", "Ada\x00", "The name must not contain control characters."},
		"a name with markup inside": {"email", `"><script>`, "The e-mail address must be an e-mail address."},
	} {
		t.Run(name+" is an error on the page, which keeps the fields", func(t *testing.T) {
			st, b := newFixture(t, t.TempDir()), forms.New(t)
			fields := newcomer()
			fields.Set(tt.field, tt.value)
			p := b.Submit(b.Open(st.provider.SignInURL()), fields)
			if p.StatusCode != http.StatusBadRequest || !strings.Contains(p.Text, tt.says) || strings.Contains(p.Text, "<script>") {
				t.Errorf("answered %s:\n%s", p.Status, p.Text)
			}
			st.service.Expect(t, "")
		})
	}
	t.Run("without the cookie a form is refused", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		fields := newcomer()
		fields.Set("csrf", b.Token(b.Open(st.provider.SignInURL())))
		post(forms.New(t), st, fields, st.URL).Expect(t, http.StatusForbidden)
	})
	t.Run("with the token of another browser a form is refused", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		b.Open(st.provider.SignInURL())
		fields := newcomer()
		fields.Set("csrf", b.Token(forms.New(t).Open(st.provider.SignInURL())))
		post(b, st, fields, st.URL).Expect(t, http.StatusForbidden)
		st.service.Expect(t, "")
	})
	t.Run("from another site a form is refused", func(t *testing.T) {
		st, b := newFixture(t, t.TempDir()), forms.New(t)
		fields := newcomer()
		fields.Set("csrf", b.Token(b.Open(st.provider.SignInURL())))
		post(b, st, fields, "https://evil.example").Expect(t, http.StatusForbidden)
		if p := post(b, st, fields, st.URL); p.StatusCode != http.StatusOK {
			t.Errorf("from our own it answered %s", p.Status)
		}
	})
}

func TestFiles(t *testing.T) {
	t.Run("a restart keeps accounts, organisations, roles and the key", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		_, body := st.script(t, "email", "ada@example.com", "name", "Ada L", "org", "Engines", "role", "admin")
		before := st.verify(t, body["identityToken"].(string), "")
		st.service.Take()

		again := newFixture(t, directory, func(o *devidp.Options) { o.PublicURL = st.URL })
		st.provider = again.provider
		if c := st.verify(t, body["identityToken"].(string), ""); c.Subject != before.Subject {
			t.Errorf("the old token names %s", c.Subject)
		}
		after := st.signedIn(t, "email", "ADA@example.com", "org", "engines")
		if after.Subject != before.Subject || after.Name != "Ada L" || *after.Org != *before.Org {
			t.Errorf("before %+v %+v, after %+v %+v", before, before.Org, after, after.Org)
		}
	})
	t.Run("a lost file changes no id", func(t *testing.T) {
		one, two := newFixture(t, t.TempDir()), newFixture(t, t.TempDir())
		a, b := one.signedIn(t, "email", "ada@example.com", "org", "Engines"), two.signedIn(t, "email", " Ada@Example.com", "org", "engines")
		if a.Subject != b.Subject || a.Org.ID != b.Org.ID {
			t.Errorf("%s in %s became %s in %s", a.Subject, a.Org.ID, b.Subject, b.Org.ID)
		}
	})
	t.Run("a sign-in that cannot be stored fails without events", func(t *testing.T) {
		st := newFixture(t, t.TempDir(), func(o *devidp.Options) {
			o.AccountsFile = filepath.Join(filepath.Dir(o.AccountsFile), "accounts", "file")
		})
		must.NoError(t, os.RemoveAll(filepath.Dir(st.options.AccountsFile)))
		status, body := st.script(t, "email", "ada@example.com")
		if status != http.StatusInternalServerError || body["message"] != "Something went wrong" {
			t.Errorf("answered %d %v", status, body)
		}
		st.service.Expect(t, "")
	})
}
