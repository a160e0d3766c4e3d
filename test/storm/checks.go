package storm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"collab/domain/object"
)

// outcome says whether a record must exist after the load.
type outcome int

// The outcomes.
const (
	absent        outcome = iota // it was refused, or its deletion was acknowledged
	exists                       // it was acknowledged
	indeterminate                // its call has no response; there is at most one such record
)

// lifetime is the time in which a record existed, in nanoseconds of one clock. Zeros are unknown.
type lifetime struct {
	Sent  int64 // before, it did not exist
	Made  int64 // from then on it existed
	Ends  int64 // from then on it may not exist
	Ended int64 // from then on it does not exist
}

// after returns the lifetime after a call with the outcome, which was sent at call and returned at ret.
func (l lifetime) after(f outcome, call, ret int64) lifetime {
	l.Sent = cmp.Or(l.Sent, call)
	if f == exists {
		l.Made, l.Ended = cmp.Or(l.Made, ret), 0
		return l
	}
	l.Ends = cmp.Or(l.Ends, call)
	if f == absent {
		l.Ended = ret
	}
	return l
}

// exportErrors compares the records of a kind in an archive, whose snapshot is of a time between from and
// to, with the lifetimes of all.
func exportErrors(kind string, lifetimes map[string]lifetime, found map[string]int, from, to int64) (errs []error) {
	report := func(format, name string) {
		errs = append(errs, fmt.Errorf("an archive "+format, kind+" "+name))
	}
	for _, name := range slices.Sorted(maps.Keys(lifetimes)) {
		switch l, n := lifetimes[name], found[name]; {
		case n > 1:
			report("has %s more than once", name)
		case n == 0 && l.Made != 0 && l.Made < from && (l.Ends == 0 || l.Ends > to):
			report("lacks %s, which was acknowledged before", name)
		case n == 1 && l.Ended != 0 && l.Ended < from:
			report("has %s, which was refused or deleted before", name)
		case n == 1 && l.Sent > to:
			report("has %s, which was sent later", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, ok := lifetimes[name]; !ok {
			report("has %s, which was never sent", name)
		}
	}
	return errs
}

// recordErrors compares the outcomes of records of a kind with how often each was found.
func recordErrors(kind string, made map[string]outcome, found map[string]int) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(made)) {
		switch o, n := made[name], found[name]; {
		case n > 1:
			errs = append(errs, fmt.Errorf("%s %s is there %d times", kind, name, n))
		case o == exists && n == 0:
			errs = append(errs, fmt.Errorf("%s %s was acknowledged and is not there", kind, name))
		case o == absent && n == 1:
			errs = append(errs, fmt.Errorf("%s %s was refused or deleted and is there", kind, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, ok := made[name]; !ok {
			errs = append(errs, fmt.Errorf("%s %s is there and was never sent", kind, name))
		}
	}
	return errs
}

// entryRange bounds how many entries of the audit log a request has.
type entryRange struct{ Min, Max int }

// auditErrors compares the requests of an organisation that belong into its audit log, by their ids,
// with the ids in its entries.
func auditErrors(sent map[string]entryRange, entries []string) (errs []error) {
	count := map[string]int{}
	for _, request := range entries {
		count[request]++
	}
	for _, request := range slices.Sorted(maps.Keys(sent)) {
		if n, want := count[request], sent[request]; n < want.Min || n > want.Max {
			errs = append(errs, fmt.Errorf("the request %s has %d entries of the audit log, want %d to %d", request, n, want.Min, want.Max))
		}
		delete(count, request)
	}
	for _, request := range slices.Sorted(maps.Keys(count)) {
		errs = append(errs, fmt.Errorf("the request %s has %d entries of the audit log, and changed nothing", request, count[request]))
	}
	return errs
}

// balance has the numbers of a member's tokens in all records.
type balance struct {
	Used, Reserved int64 // of the account
	Shown          int64 // by the servers
	Ledger         int64 // the sum of the entries
	Summary        int64 // the sum that servers show
	Limit          int64
}

// balanceError returns an error unless all records of a member's tokens agree.
func balanceError(b balance) error {
	if b.Used != b.Ledger || b.Used != b.Shown || b.Used != b.Summary || b.Reserved != 0 || b.Used > b.Limit {
		return fmt.Errorf("the tokens do not agree: %+v", b)
	}
	return nil
}

// contentErrors compares the names of content that objects have with those in the store.
func contentErrors(named, stored map[string]bool) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !stored[name] {
			errs = append(errs, fmt.Errorf("the content %s is missing", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if !named[name] {
			errs = append(errs, fmt.Errorf("the content %s is named by nothing", name))
		}
	}
	return errs
}

// sentErrors returns an error for each entry of a change log whose content was never sent, or was
// refused.
func sentErrors(log []object.Change, sent map[string]bool) (errs []error) {
	for _, e := range log {
		if e.Type == object.Changed && !sent[e.Object.Checksum] {
			errs = append(errs, fmt.Errorf("entry %d has content that was not sent or was refused: %s", e.N, e.Object.StorageKey()))
		}
	}
	return errs
}

// subscriptionErrors returns an error for each organisation with more than one trial or live
// subscription.
func subscriptionErrors(trials, live map[string]int) (errs []error) {
	for what, counts := range map[string]map[string]int{"trials": trials, "live subscriptions": live} {
		for _, org := range slices.Sorted(maps.Keys(counts)) {
			if counts[org] > 1 {
				errs = append(errs, fmt.Errorf("the organisation %s has %d %s", org, counts[org], what))
			}
		}
	}
	return errs
}
