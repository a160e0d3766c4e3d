package assembly

import (
	"fmt"
	"strings"
)

// minAdminSecret is how long the operator's secret is to be, in bytes.
const minAdminSecret = 32

// warning is what makes a configuration unsafe that can be served nevertheless.
type warning struct {
	check   string // of the doctor's
	message string
	remedy  string
}

// warnings returns what is unsafe in production. In development it returns what
// would be there with the same secrets and the same issuer.
func (c Config) warnings() []warning {
	var all []warning
	for _, a := range []struct{ name, address string }{{"COLLAB_PUBLIC_URL", c.PublicURL}, {"COLLAB_APP_URL", c.AppURL}} {
		if c.Production() && !strings.HasPrefix(a.address, "https://") {
			all = append(all, warning{"public-url", bare(a.address) + " is not https: whatever goes there can be read on its way",
				"have a proxy with a certificate in front, and set " + a.name + " to its https:// address"})
		}
	}
	if c.IdentityIssuer != "" && len(c.IdentityAudience) == 0 && len(c.IdentityParties) == 0 {
		all = append(all, warning{"identity", "tokens for any application of the issuer are accepted",
			"set COLLAB_IDENTITY_AUDIENCE or COLLAB_IDENTITY_AUTHORIZED_PARTIES to what tokens for this service have in aud or azp"})
	}
	if c.AdminSecret != "" && len(c.AdminSecret) < minAdminSecret {
		all = append(all, warning{"operator", fmt.Sprintf("COLLAB_ADMIN_SECRET is shorter than %d bytes: it can be guessed", minAdminSecret),
			"set COLLAB_ADMIN_SECRET to something random, such as openssl rand -base64 32 prints"})
	}
	return all
}

// warn notes the warnings of the check.
func (l *lines) warn() {
	for _, w := range l.d.c.warnings() {
		if w.check == l.name {
			l.inProduction(w.remedy, "%s", w.message)
		}
	}
}
