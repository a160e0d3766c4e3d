package connector_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
)

// begun is an authorization that was started at noon.
func begun() connector.Flow {
	return connector.Flow{State: id.Digest("state"), Org: "o", User: "u", Instance: "i"}.Started(noon)
}

var browser = id.Digest("browser")

func TestAnAuthorizationGoesFromItsStartToItsEnd(t *testing.T) {
	f := begun()
	if f.Status() != connector.Pending || !f.CreatedAt.Equal(noon) || !f.ExpiresAt.Equal(noon.Add(10*time.Minute)) || f.CheckOpen(noon) != nil {
		t.Fatalf("started: %+v", f)
	}
	confirmed, err := f.Confirmed(browser, noon.Add(time.Minute))
	if err != nil || confirmed.Status() != connector.Pending || confirmed.Browser != browser {
		t.Fatalf("confirmed: %+v, %v", confirmed, err)
	}
	redeemed, err := confirmed.Redeemed(browser, noon.Add(2*time.Minute))
	if err != nil || redeemed.Status() != connector.Redeeming || !redeemed.ExpiresAt.Equal(f.ExpiresAt) {
		t.Fatalf("redeemed: %+v, %v", redeemed, err)
	}
	if done := redeemed.Done(); done.Status() != connector.Ready || done.Error != "" {
		t.Errorf("done: %+v", done)
	}
	if failed := redeemed.Failed("why"); failed.Status() != connector.Refused || failed.Error != "why" {
		t.Errorf("failed: %+v", failed)
	}
}

func TestAnAuthorizationIsOpenUntilItExpiresOrIsAnswered(t *testing.T) {
	f, _ := begun().Confirmed(browser, noon)
	redeemed, _ := f.Redeemed(browser, noon)
	for name, c := range map[string]struct {
		flow connector.Flow
		now  time.Time
		open bool
	}{
		"at once":                  {begun(), noon, true},
		"at the last moment":       {f, f.ExpiresAt.Add(-1), true},
		"when it expires":          {f, f.ExpiresAt, false},
		"later":                    {f, f.ExpiresAt.Add(time.Hour), false},
		"while it is redeemed":     {redeemed, noon, false},
		"when it is done":          {redeemed.Done(), noon, false},
		"when it failed":           {redeemed.Failed("why"), noon, false},
		"when it failed before":    {begun().Failed("why"), noon, false},
		"when nobody has begun it": {connector.Flow{ExpiresAt: noon.Add(1)}, noon, false},
	} {
		if err := c.flow.CheckOpen(c.now); (err == nil) != c.open || err != nil && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
		got, err := c.flow.Confirmed(id.Digest("another"), c.now)
		if (err == nil) != c.open || err != nil && (!fault.Is(err, fault.NotFound) || !reflect.DeepEqual(got, c.flow)) {
			t.Errorf("%s, confirmed: %+v, %v", name, got, err)
		}
		if c.flow.Browser == "" {
			continue
		}
		got, err = c.flow.Redeemed(browser, c.now)
		if (err == nil) != c.open || err != nil && (!fault.Is(err, fault.NotFound) || !reflect.DeepEqual(got, c.flow)) {
			t.Errorf("%s, redeemed: %+v, %v", name, got, err)
		}
	}
}

func TestOnlyTheBrowserThatConfirmedRedeems(t *testing.T) {
	confirmed, _ := begun().Confirmed(browser, noon)
	twice, _ := confirmed.Confirmed(id.Digest("another"), noon)
	for name, c := range map[string]struct {
		flow    connector.Flow
		browser string
		ok      bool
	}{
		"the one":                        {confirmed, browser, true},
		"another":                        {confirmed, id.Digest("another"), false},
		"none":                           {confirmed, "", false},
		"a part of it":                   {confirmed, browser[:63], false},
		"one, that nobody confirmed":     {begun(), browser, false},
		"none, that nobody confirmed":    {begun(), "", false},
		"the last that confirmed":        {twice, id.Digest("another"), true},
		"one that confirmed before that": {twice, browser, false},
	} {
		got, err := c.flow.Redeemed(c.browser, noon)
		if (err == nil) != c.ok || err != nil && (!fault.Is(err, fault.Forbidden) || !reflect.DeepEqual(got, c.flow)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestAnAuthorizationIsVisibleToItsStarter(t *testing.T) {
	f := begun()
	for name, c := range map[string]struct {
		org  id.Org
		user id.User
		now  time.Time
		ok   bool
	}{
		"who started it": {"o", "u", noon, true}, "at the last moment": {"o", "u", f.ExpiresAt.Add(-1), true}, "too late": {"o", "u", f.ExpiresAt, false},
		"another": {"o", "v", noon, false}, "in another organisation": {"p", "u", noon, false}, "nobody": {"", "", noon, false},
	} {
		if err := f.CheckVisible(c.org, c.user, c.now); (err == nil) != c.ok || err != nil && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Failed("why").CheckVisible(c.org, c.user, c.now); (err == nil) != c.ok {
			t.Errorf("%s, of one that failed: %v", name, err)
		}
	}
}

func TestResponsesComeFromTheServerThatWasAsked(t *testing.T) {
	const issuer = "https://as.example.com"
	for name, c := range map[string]struct {
		namesItself bool
		iss         string
		ok          bool
	}{
		"its name, always there":                    {true, issuer, true},
		"its name, where it need not be there":      {false, issuer, true},
		"no name, where it need not be there":       {false, "", true},
		"no name, where it is always there":         {true, "", false},
		"another's name":                            {true, "https://as2.example.com", false},
		"another's name, where none need be there":  {false, "https://as2.example.com", false},
		"its name with a slash":                     {true, issuer + "/", false},
		"its name in capitals":                      {false, "https://AS.example.com", false},
		"its name with the port that it has anyway": {true, issuer + ":443", false},
	} {
		f := connector.Flow{Server: connector.AuthServer{Issuer: issuer, ReturnsIssuer: c.namesItself}, Redirect: "https://collab.example.com/callback/a"}
		err := f.CheckResponse(f.Redirect, c.iss)
		if other := f.CheckResponse("https://collab.example.com/callback/b", c.iss); !fault.Is(other, fault.Forbidden) {
			t.Errorf("%s, at the address of another issuer: %v", name, other)
		}
		if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSealedCredentialsAreBoundToOneContext(t *testing.T) {
	seen := map[string]string{}
	for name, context := range map[string][]byte{
		"entries":           connector.SealingContext("o", "i", 1, connector.EntriesPart),
		"renewal":           connector.SealingContext("o", "i", 1, connector.RenewalPart),
		"another version":   connector.SealingContext("o", "i", 11, connector.EntriesPart),
		"another instance":  connector.SealingContext("o", "j", 1, connector.EntriesPart),
		"another tenant":    connector.SealingContext("p", "i", 1, connector.EntriesPart),
		"revocation":        connector.RevocationContext("o", "i"),
		"client":            connector.RegisteredContext("o", "i"),
		"flow":              connector.FlowContext("o|i"),
		"another's client":  connector.RegisteredContext("o", "j"),
		"client elsewhere":  connector.RegisteredContext("p", "i"),
		"tenant's other":    connector.RevocationContext("o", "j"),
		"elses' revocation": connector.RevocationContext("p", "i"),
	} {
		if other, taken := seen[string(context)]; taken {
			t.Errorf("%s is bound to the same as %s", name, other)
		}
		seen[string(context)] = name
	}
}

func TestEachIssuerHasAddressesOfItsOwn(t *testing.T) {
	const callback = "https://collab.example.com/callback"
	if got, want := connector.Redirect(callback, "https://as.example.com"), callback+"/qt4gfywlvm6qc2chjwaar7ay7k"; got != want {
		t.Errorf("the address is %s, want %s: clients that operators have registered would be refused", got, want)
	}
	seen := map[string]string{callback: "no issuer"}
	for _, issuer := range []string{"https://as.example.com", "https://as.example.com/", "https://AS.example.com", "https://as2.example.com", "document-", ""} {
		key := connector.IssuerKey(issuer)
		if !connector.IsIssuerKey(key) {
			t.Errorf("the key of %q is %q", issuer, key)
		}
		for _, address := range []string{connector.Redirect(callback, issuer), connector.DocumentRedirect(callback, key)} {
			if other, taken := seen[address]; taken {
				t.Errorf("%q and %q have the address %s", issuer, other, address)
			}
			seen[address] = issuer
		}
	}
	for _, text := range []string{"", "a", strings.Repeat("a", 25), strings.Repeat("a", 27), strings.Repeat("A", 26), strings.Repeat("1", 26), "document-" + strings.Repeat("a", 17)} {
		if connector.IsIssuerKey(text) {
			t.Errorf("%q is a key", text)
		}
	}
}

func TestADocumentIsOnlyForServersThatNameThemselves(t *testing.T) {
	for _, c := range [][3]bool{{false, false, false}, {true, false, false}, {false, true, false}, {true, true, true}} {
		if got := (connector.AuthServer{Documents: c[0], ReturnsIssuer: c[1]}).SupportsClientDocument(); got != c[2] {
			t.Errorf("with documents %t and iss %t: %t", c[0], c[1], got)
		}
	}
}
