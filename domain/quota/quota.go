// Package quota holds the daily window of tokens that each member has, and the
// arithmetic of reserving and settling them.
package quota

import (
	"time"

	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
)

// Account is a member's tokens of one day. What is reserved belongs to requests
// that are still running.
type Account struct {
	Used     int64
	Reserved int64
}

// Need is the number of tokens that a request needs of an account.
type Need struct {
	Input  int64 // the estimate of its input
	Output int64 // the most that it may use beyond its input, at least 1: output, and what searches add to the input
}

// Grant returns how many of the needed tokens an account can reserve under a
// limit: all of them, or what is left as long as it holds the input and one
// token of output, else 0.
func (a Account) Grant(limit int64, n Need) int64 {
	granted := min(n.Input+n.Output, limit-a.Used-a.Reserved)
	if granted <= n.Input {
		return 0
	}
	return granted
}

// Exceeded returns the error of a request that needs more tokens than are left of an account.
func Exceeded(limit int64, resets time.Time) error {
	if limit == 0 {
		return fault.New(fault.Forbidden, "The organisation's plan includes no tokens for the chat")
	}
	return fault.New(fault.Forbidden, "The daily token quota is used up; it resets at %s", resets.UTC().Format(time.RFC3339))
}

// Status is the quota as it is shown to its member.
type Status struct {
	Used      int64
	Limit     int64
	Remaining int64
	ResetsAt  time.Time
}

// Status returns the account's status on a day. Reserved tokens do not count as used, as
// they may be returned.
func (a Account) Status(limit int64, d calendar.Day) Status {
	return Status{Used: a.Used, Limit: limit, Remaining: max(0, limit-a.Used), ResetsAt: d.End()}
}

// Lease is a reservation. If it is not settled, its tokens are returned when it
// expires, because the server that held it is gone.
type Lease struct {
	ID        id.Request
	Org       id.Org
	User      id.User
	Day       calendar.Day
	Tokens    int64
	ExpiresAt time.Time
}
