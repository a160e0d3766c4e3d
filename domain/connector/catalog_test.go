package connector_test

import (
	"slices"
	"strings"
	"testing"

	"collab/domain/connector"
	"collab/domain/fault"
)

func TestAuthModesAndTransports(t *testing.T) {
	for mode, want := range map[connector.AuthMode]bool{connector.ServerMediated: true, connector.RemoteOAuth: true, connector.APIKey: false, connector.NoAuth: false} {
		if mode.UsesOAuth() != want {
			t.Errorf("%s is by OAuth: %t", mode, !want)
		}
	}
	for transport, want := range map[connector.Transport]connector.Hosting{connector.Stdio: connector.Local, connector.SSE: connector.Cloud, connector.HTTP: connector.Cloud} {
		if got := transport.Hosting(); got != want {
			t.Errorf("%s is %s", transport, got)
		}
	}
}

func TestCredentialsHaveWhatTheirProviderNeeds(t *testing.T) {
	fields := []connector.Field{{Name: "key"}, {Name: "site", Optional: true}, {Name: "secret"}}
	for name, c := range map[string]struct {
		auth  connector.AuthMode
		texts map[string]string
		field string // that is wrong; empty: none
	}{
		"all":                          {connector.APIKey, map[string]string{"key": "k", "site": "s", "secret": "x"}, ""},
		"all that must be":             {connector.APIKey, map[string]string{"key": "k", "secret": "x"}, ""},
		"more":                         {connector.APIKey, map[string]string{"key": "k", "secret": "x", "more": ""}, ""},
		"without one":                  {connector.APIKey, map[string]string{"key": "k", "site": "s"}, "credentials.secret"},
		"an empty one":                 {connector.APIKey, map[string]string{"key": "", "secret": "x"}, "credentials.key"},
		"a blank one":                  {connector.APIKey, map[string]string{"key": " \t", "secret": "x"}, "credentials.key"},
		"none":                         {connector.APIKey, nil, "credentials.key"},
		"a token":                      {connector.RemoteOAuth, map[string]string{connector.AccessToken: "t"}, ""},
		"no token":                     {connector.RemoteOAuth, map[string]string{"key": "k", "secret": "x"}, "credentials.accessToken"},
		"of one that needs none":       {connector.NoAuth, map[string]string{"key": "k", "secret": "x"}, "credentials"},
		"of one authorised by us":      {connector.ServerMediated, map[string]string{connector.AccessToken: "t"}, "credentials"},
		"none, of one that needs none": {connector.NoAuth, nil, "credentials"},
	} {
		err := connector.Provider{ID: "p", Auth: c.auth, Fields: fields}.CheckCredentials(c.texts)
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), c.field+" ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheCatalogKeepsWhatItWasMadeOf(t *testing.T) {
	providers := []connector.Provider{{ID: "a", Enabled: true}, {ID: "b"}, {ID: "c", Enabled: true}}
	clients := map[string]connector.Client{"https://as.example.com": {ID: "us"}}
	c := connector.NewCatalog(providers, clients)
	providers[0].ID = "changed"
	clients["https://other.example.com"] = connector.Client{}

	slugs := func() (all []string) {
		for _, p := range c.Enabled() {
			all = append(all, p.ID)
		}
		return all
	}
	if got := slugs(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("enabled are %q", got)
	}
	c.Enabled()[0].ID = "changed"
	if got := slugs(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("enabled are %q after a list was changed", got)
	}
	for slug, want := range map[string]bool{"a": true, "b": true, "c": true, "changed": false, "": false, "A": false} {
		if p, ok := c.Get(slug); ok != want || ok && p.ID != slug {
			t.Errorf("%q is found: %t, %+v", slug, ok, p)
		}
	}
	if client, ok := c.Client("https://as.example.com"); !ok || client.ID != "us" {
		t.Errorf("the client is %+v, %t", client, ok)
	}
	for _, unknown := range []string{"https://other.example.com", "https://as.example.com/", ""} {
		if _, ok := c.Client(unknown); ok {
			t.Errorf("%q knows us", unknown)
		}
	}
}
