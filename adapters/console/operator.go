package console

import (
	"encoding/json"
	"net/http"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/session"
)

const maxOperatorSecret = 8 << 10 // bytes of the body that has the operator's secret

// operatorView is an operator's session as the page gets it.
type operatorView struct {
	ExpiresAt time.Time `json:"expiresAt"` // unless it is used
	EndsAt    time.Time `json:"endsAt"`
}

// beginOperator begins an operator's session by the secret in the body, a JSON object with secret.
func (c *Console) beginOperator(w http.ResponseWriter, r *http.Request, origin audit.Origin) error {
	var body struct {
		Secret string `json:"secret"`
	}
	switch ok, err := readBody(r, maxOperatorSecret, &body); {
	case err != nil:
		return err
	case !ok || body.Secret == "":
		return fault.Field("secret", "must be the operator's secret")
	}
	token, s, err := c.access.BeginOperator(r.Context(), body.Secret, origin)
	if err != nil {
		return err
	}
	return c.replyOperator(w, token, s)
}

// renewOperator prolongs the operator's session of the cookie, which a page asks for when it is
// used. Requests through the bridge do not, so that one that is answered after the sign-out cannot
// set the cookie again.
func (c *Console) renewOperator(w http.ResponseWriter, r *http.Request) error {
	token, s, err := c.access.RenewOperator(cookieValue(r, c.opCookie))
	if err != nil {
		return err
	}
	return c.replyOperator(w, token, s)
}

// replyOperator replies with an operator's session.
func (c *Console) replyOperator(w http.ResponseWriter, token string, s session.Operator) error {
	c.reply(w, c.operatorCookie(token), session.OperatorIdle, http.StatusOK)
	return json.NewEncoder(w).Encode(operatorView{s.ExpiresAt, s.EndsAt()})
}
