package session

import "time"

// Limits of operators' sessions in browsers.
const (
	// OperatorLifetime is how long an operator's session lasts at most.
	OperatorLifetime = time.Hour
	// OperatorIdle is how long it lasts after its last renewal.
	OperatorIdle = 15 * time.Minute
	// operatorSkew is how much later than ours another server's clock may be when it begins one.
	operatorSkew = time.Minute
)

// Operator is an operator's session in a browser. No record of it is stored.
type Operator struct {
	StartedAt time.Time
	ExpiresAt time.Time // unless it is renewed
}

// BeginOperator returns the session of an operator who gave the secret at now.
func BeginOperator(now time.Time) Operator {
	return Operator{StartedAt: now, ExpiresAt: now.Add(OperatorIdle)}
}

// EndsAt returns when the session ends even if it is renewed.
func (o Operator) EndsAt() time.Time { return o.StartedAt.Add(OperatorLifetime) }

// Valid reports whether the session has begun and not ended at now, whatever times it has.
func (o Operator) Valid(now time.Time) bool {
	return !o.StartedAt.After(now.Add(operatorSkew)) && now.Before(o.ExpiresAt) && now.Before(o.EndsAt())
}

// Renewed returns the session as used at now: it expires later, but not after EndsAt.
func (o Operator) Renewed(now time.Time) Operator {
	o.ExpiresAt = now.Add(OperatorIdle)
	if end := o.EndsAt(); o.ExpiresAt.After(end) {
		o.ExpiresAt = end
	}
	return o
}
