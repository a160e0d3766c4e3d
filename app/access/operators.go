package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/session"
)

// operatorSession is the context in which the tokens of operators' sessions are authenticated.
var operatorSession = []byte("operator's session")

// operatorTimes is the size of the two times at the beginning of a token.
const operatorTimes = 16

type operatorKey struct{}

// WithOperator returns a context of a request by an operator's session, which is valid.
func WithOperator(ctx context.Context) context.Context {
	return context.WithValue(ctx, operatorKey{}, true)
}

// ByOperator reports whether ctx is of a request by an operator's session.
func ByOperator(ctx context.Context) bool {
	by, _ := ctx.Value(operatorKey{}).(bool)
	return by
}

// BeginOperator begins an operator's session in a browser, and returns its token: NotFound if the
// deployment has no operator's secret, Unauthenticated if the secret is another one. The token is
// not stored: all servers with the same keys and the same secret accept it until the session
// expires.
func (a *Access) BeginOperator(ctx context.Context, secret string, origin audit.Origin) (token string, s session.Operator, err error) {
	if err := a.checkOperators(); err != nil {
		return "", s, err
	}
	if !EqualSecrets(secret, a.OperatorSecret) {
		return "", s, fault.New(fault.Unauthenticated, "The secret is not the operator's")
	}
	now := a.Clock.Now()
	entry := audit.By(org.Actor{Operator: true}, origin, id.Entry(a.IDs.New()), "", audit.OperatorRead, "", "console", now)
	if err := a.Store.Journal().Audit().Add(ctx, entry); err != nil {
		return "", s, err
	}
	s = session.BeginOperator(now)
	token, err = a.operatorToken(s)
	return token, s, err
}

// VerifyOperator returns the operator's session of a token: Unauthenticated if it is none or has
// ended, or if keys or secret have changed.
func (a *Access) VerifyOperator(token string) (session.Operator, error) {
	ended := fault.New(fault.Unauthenticated, "There is no operator's session, or it has ended")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < operatorTimes || a.OperatorSecret == "" {
		return session.Operator{}, ended
	}
	times, mac := raw[:operatorTimes], raw[operatorTimes:]
	if ok, err := a.Sealer.Verify(mac, a.operatorData(times), operatorSession); err != nil || !ok {
		return session.Operator{}, ended
	}
	s := session.Operator{StartedAt: timeFrom(times), ExpiresAt: timeFrom(times[8:])}
	if !s.Valid(a.Clock.Now()) {
		return session.Operator{}, ended
	}
	return s, nil
}

// RenewOperator returns the operator's session of a token with a token that expires later. Its
// errors are those of VerifyOperator, and NotFound if the deployment has no operator's secret.
func (a *Access) RenewOperator(token string) (renewed string, s session.Operator, err error) {
	if err := a.checkOperators(); err != nil {
		return "", s, err
	}
	if s, err = a.VerifyOperator(token); err != nil {
		return "", s, err
	}
	s = s.Renewed(a.Clock.Now())
	renewed, err = a.operatorToken(s)
	return renewed, s, err
}

func (a *Access) checkOperators() error {
	if a.OperatorSecret == "" {
		return fault.New(fault.NotFound, "This deployment has no operator's secret")
	}
	return nil
}

// operatorToken returns the token of a session: its times and their message authentication code.
func (a *Access) operatorToken(s session.Operator) (string, error) {
	times := binary.BigEndian.AppendUint64(nil, uint64(s.StartedAt.UnixMilli()))
	times = binary.BigEndian.AppendUint64(times, uint64(s.ExpiresAt.UnixMilli()))
	mac, err := a.Sealer.MAC(a.operatorData(times), operatorSession)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(times, mac...)), nil
}

// operatorData returns the data that a token's code authenticates: its times, and the secret, so that a
// change of the secret ends all tokens.
func (a *Access) operatorData(times []byte) []byte {
	sum := sha256.Sum256([]byte(a.OperatorSecret))
	return append(sum[:], times...)
}

// EqualSecrets compares secrets in a time that depends on neither.
func EqualSecrets(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// timeFrom returns the time at the beginning of a token's times.
func timeFrom(times []byte) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(times))).UTC()
}
