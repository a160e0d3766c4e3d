package config

import (
	"fmt"
	"strings"
)

// minAdminSecret is the recommended length of the operator's secret, in bytes.
const minAdminSecret = 32

// Warning is an unsafe setting that does not keep the server from starting.
type Warning struct {
	Check   string // of the doctor's
	Message string
	Remedy  string
}

// Warnings returns the unsafe settings in production. In development it returns those that the
// same secrets and issuer would be in production.
func (c Config) Warnings() []Warning {
	var all []Warning
	for _, a := range []struct {
		name    string
		address URL
	}{{"COLLAB_PUBLIC_URL", c.PublicURL}, {"COLLAB_APP_URL", c.AppURL}} {
		if c.Production() && !strings.HasPrefix(a.address.Text(), "https://") {
			all = append(all, Warning{"public-url", a.address.String() + " is not https: requests can be read on the network",
				"have a proxy with a certificate in front, and set " + a.name + " to its https:// address"})
		}
	}
	if c.IdentityIssuer.IsSet() && len(c.IdentityAudience) == 0 && len(c.IdentityParties) == 0 {
		all = append(all, Warning{"identity", "tokens for any application of the issuer are accepted",
			"set COLLAB_IDENTITY_AUDIENCE or COLLAB_IDENTITY_AUTHORIZED_PARTIES to what tokens for this service have in aud or azp"})
	}
	if s := c.AdminSecret.Value(); s != "" && len(s) < minAdminSecret {
		all = append(all, Warning{"operator", fmt.Sprintf("COLLAB_ADMIN_SECRET is shorter than %d bytes: it can be guessed", minAdminSecret),
			"set COLLAB_ADMIN_SECRET to something random, such as openssl rand -base64 32 prints"})
	}
	return all
}
