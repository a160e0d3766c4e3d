package collabd

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"collab/adapters/standardwebhooks"
)

// The secrets of servers whose settings have them.
const (
	AdminSecret   = "operator-of-the-integration-tests"
	WebhookSecret = "whsec_c2VjcmV0LW9mLXRoZS1pbnRlZ3JhdGlvbi10ZXN0cw=="
	PaymentSecret = "whsec_of-the-payments-of-the-integration-tests"
)

// Grant gives the client's organisation a plan, as an operator who has AdminSecret.
func (c Client) Grant(t testing.TB, plan string) {
	t.Helper()
	c.Must(t, 200, "PUT", "/admin/organisations/"+c.Org+"/subscription", map[string]any{"plan": plan}, nil, "X-Admin-Secret: "+AdminSecret)
}

// Deliver sends a message of the identity provider, signed with WebhookSecret.
func (s *Server) Deliver(id, body string) (status int, response []byte, err error) {
	now := time.Now()
	sent, err := json.Marshal(json.RawMessage(body))
	if err != nil {
		return 0, nil, err
	}
	signature, err := standardwebhooks.Sign(WebhookSecret, id, now, sent)
	if err != nil {
		return 0, nil, err
	}
	return Client{Base: s.URL}.Do("POST", "/auth/webhook", json.RawMessage(body), "svix-id: "+id, fmt.Sprint("svix-timestamp: ", now.Unix()), "svix-signature: "+signature)
}
