package session

import (
	"testing"
	"time"
)

func TestAnOperatorsSessionLastsAsLongAsItIsUsedAndAnHourAtMost(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := BeginOperator(began)
	if !s.Valid(began) || !s.Valid(began.Add(OperatorIdle-1)) || s.Valid(began.Add(OperatorIdle)) {
		t.Errorf("%+v is not valid for %s", s, OperatorIdle)
	}
	now := began
	for range 10 {
		now = now.Add(OperatorIdle - time.Minute)
		s = s.Renewed(now)
	}
	if end := began.Add(OperatorLifetime); s.ExpiresAt != end || s.EndsAt() != end || s.Valid(end) {
		t.Errorf("renewed often it is %+v", s)
	}
}

func TestAnOperatorsSessionOfAnotherClockIsNotValidForLonger(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if s := BeginOperator(now.Add(operatorSkew)); !s.Valid(now) {
		t.Errorf("%+v of a clock that is a little ahead is refused", s)
	}
	for _, s := range []Operator{
		BeginOperator(now.Add(operatorSkew + time.Second)),
		BeginOperator(now.Add(24 * time.Hour)),
		{StartedAt: now.Add(-2 * OperatorLifetime), ExpiresAt: now.Add(time.Hour)},
		{},
	} {
		if s.Valid(now) {
			t.Errorf("%+v is valid", s)
		}
	}
}
