package storm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"collab/domain/object"
)

// fate is what must have become of a record in the end.
type fate int

// The fates.
const (
	absent  fate = iota // it was refused, or its deletion was acknowledged
	exists              // it was acknowledged
	perhaps             // nobody knows, but there is at most one
)

// life is when a record was there, in nanoseconds of one clock. Zeros are unknown.
type life struct {
	Sent  int64 // before, it was not there
	Made  int64 // from then on it was
	Ends  int64 // from then on it may not have been
	Ended int64 // from then on it was not
}

// after returns the life of a record after a call, from its beginning to its response, by what has
// become of the record.
func (l life) after(f fate, call, ret int64) life {
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

// exportErrors compares the records of a kind in an archive with the lives of all. The archive is of a
// moment between two times.
func exportErrors(kind string, lives map[string]life, found map[string]int, from, to int64) (wrong []error) {
	report := func(format, name string) {
		wrong = append(wrong, fmt.Errorf("an archive "+format, kind+" "+name))
	}
	for _, name := range slices.Sorted(maps.Keys(lives)) {
		switch l, n := lives[name], found[name]; {
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
		if _, ok := lives[name]; !ok {
			report("has %s, which was never sent", name)
		}
	}
	return wrong
}

// madeErrors compares the fates of records of a kind with how often each was found.
func madeErrors(kind string, made map[string]fate, found map[string]int) (wrong []error) {
	for _, name := range slices.Sorted(maps.Keys(made)) {
		switch fate, n := made[name], found[name]; {
		case n > 1:
			wrong = append(wrong, fmt.Errorf("%s %s is there %d times", kind, name, n))
		case fate == exists && n == 0:
			wrong = append(wrong, fmt.Errorf("%s %s was acknowledged and is not there", kind, name))
		case fate == absent && n == 1:
			wrong = append(wrong, fmt.Errorf("%s %s was refused or deleted and is there", kind, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, ok := made[name]; !ok {
			wrong = append(wrong, fmt.Errorf("%s %s is there and was never sent", kind, name))
		}
	}
	return wrong
}

// entryRange bounds how many entries of the audit log a request has.
type entryRange struct{ Min, Max int }

// auditErrors compares the requests of an organisation that belong into its audit log, by their ids,
// with the ids in its entries.
func auditErrors(sent map[string]entryRange, entries []string) (wrong []error) {
	count := map[string]int{}
	for _, request := range entries {
		count[request]++
	}
	for _, request := range slices.Sorted(maps.Keys(sent)) {
		if n, want := count[request], sent[request]; n < want.Min || n > want.Max {
			wrong = append(wrong, fmt.Errorf("the request %s has %d entries of the audit log, want %d to %d", request, n, want.Min, want.Max))
		}
		delete(count, request)
	}
	for _, request := range slices.Sorted(maps.Keys(count)) {
		wrong = append(wrong, fmt.Errorf("the request %s has %d entries of the audit log, and changed nothing", request, count[request]))
	}
	return wrong
}

// balance is what the records of a member's tokens say.
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
func contentErrors(named, stored map[string]bool) (wrong []error) {
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !stored[name] {
			wrong = append(wrong, fmt.Errorf("the content %s is missing", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if !named[name] {
			wrong = append(wrong, fmt.Errorf("the content %s is named by nothing", name))
		}
	}
	return wrong
}

// sentErrors returns an error for each entry of a change log whose content was never sent, or was
// refused.
func sentErrors(log []object.Change, sent map[string]bool) (wrong []error) {
	for _, e := range log {
		if e.Type == object.Changed && !sent[e.Object.Checksum] {
			wrong = append(wrong, fmt.Errorf("entry %d has content that was not sent or was refused: %s", e.N, e.Object.StorageKey()))
		}
	}
	return wrong
}

// subscriptionErrors returns an error for each organisation with more than one trial or live
// subscription.
func subscriptionErrors(trials, live map[string]int) (wrong []error) {
	for what, counts := range map[string]map[string]int{"trials": trials, "live subscriptions": live} {
		for _, org := range slices.Sorted(maps.Keys(counts)) {
			if counts[org] > 1 {
				wrong = append(wrong, fmt.Errorf("the organisation %s has %d %s", org, counts[org], what))
			}
		}
	}
	return wrong
}
