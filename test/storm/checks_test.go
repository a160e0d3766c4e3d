package storm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"collab/domain/object"
	"collab/test/feed"
	"collab/test/must"
)

// follow has a follower read the frames of a feed.
func follow(received *feed.Received, frames ...string) (*feed.Follower, error) {
	f := &feed.Follower{Received: received}
	n := 0
	return f, f.Read(strings.NewReader("id: 1-0\n\n"+strings.Join(frames, "")), func() bool {
		n++
		return n > len(frames)
	})
}

// event returns a frame of the version n of a file that has had no other changes.
func event(n string) string {
	return "id: 1-" + n + "\ndata: {\"type\":\"file-changed\",\"storageKey\":\"o/shared/artifacts/a\",\"path\":\"a\",\"checksum\":\"" + n + "\",\"version\":" + n + ",\"changedBy\":\"u\"}\n\n"
}

// entries returns the log of a file that has these versions.
func entries(versions ...int64) (log []object.Change) {
	for i, v := range versions {
		e := object.Change{N: int64(i + 1), Type: object.Changed, By: "u"}
		e.Object.Org, e.Object.Kind, e.Object.Scope, e.Object.Path = "o", object.Artifact, object.Shared, "a"
		e.Object.Version, e.Object.Checksum = v, string(rune('0'+v))
		log = append(log, e)
	}
	return log
}

// moved returns the log of a file that is made and moved, and the event of the move.
func moved(checksum string) (log []object.Change, frame string) {
	log = entries(1, 2)
	log[1].Object.Path, log[1].Object.Checksum, log[1].FromPath = "b", checksum, "a"
	frame = strings.Replace(event("2"), `artifacts/a","path":"a","checksum":"2"`, `artifacts/b","path":"b","from":"o/shared/artifacts/a","fromPath":"a","checksum":"`+checksum+`"`, 1)
	return log, frame
}

func TestChecksOfFeedsFindWhatIsWrong(t *testing.T) {
	all := func(object.Change) bool { return true }
	first := feed.Write{Key: "o/shared/artifacts/a", Version: 1, Checksum: "1"}
	move, moveEvent := moved("1")
	bad, badEvent := moved("3")
	for _, c := range []struct {
		about  string
		frames []string
		log    []object.Change
		acks   []feed.Write
		wrong  string
	}{
		{"nothing", []string{event("1"), event("2"), event("3")}, entries(1, 2, 3), []feed.Write{first}, ""},
		{"a doubled event", []string{event("1"), event("1")}, entries(1), nil, "after 1-1 came 1-1"},
		{"events out of order", []string{event("2"), event("1")}, entries(1, 2), nil, "after 1-2 came 1-1"},
		{"a gap", []string{event("1"), event("3")}, entries(1, 2, 3), nil, "missing [2]"},
		{"a lost last event", []string{event("1")}, entries(1, 2), nil, "missing [2]"},
		{"an event of nothing", []string{event("1"), event("2")}, entries(1), nil, "too many [2]"},
		{"an event of another content", []string{strings.Replace(event("1"), `"checksum":"1"`, `"checksum":"2"`, 1)}, entries(1), nil, "was sent as"},
		{"a lost write", []string{event("1")}, entries(1), []feed.Write{{Key: first.Key, Version: 2, Checksum: "2"}}, "was acknowledged and is not in the log"},
		{"a move", []string{event("1"), moveEvent}, move, []feed.Write{first, {Key: "o/shared/artifacts/b", Version: 2, Checksum: "1"}}, ""},
		{"a move that says nothing of before", []string{event("1"), strings.Replace(moveEvent, `"fromPath":"a",`, "", 1)}, move, nil, "was sent as"},
		{"a move with another content", []string{event("1"), badEvent}, bad, nil, "moves o/shared/artifacts/a with another content"},
		{"a version that does not follow", []string{event("1")}, entries(1, 3), nil, "makes version 3"},
	} {
		var received feed.Received
		f, err := follow(&received, c.frames...)
		if err == nil {
			err = f.Compare(c.log, all)
		}
		_, _, errs := feed.Replay("o", c.log, c.acks, &received)
		expect(t, c.about, append(errs, err), c.wrong)
	}
	for version, want := range map[int64]string{1: "", 3: "", 4: "makes version 4"} { // of a file that was deleted as the second one
		log := entries(1, 2, 2, version)
		log[2].Type = object.Deleted
		_, _, errs := feed.Replay("o", log, nil, &feed.Received{})
		expect(t, fmt.Sprint("the version after a deletion is ", version), errs, want)
	}
	visible := entries(1, 2, 3, 4)
	for _, i := range []int{1, 2} {
		visible[i].Type = object.AccessChanged
	}
	resync := func(n string) string { return "event: resync\nid: 1-" + n + "\ndata: {\"id\":\"1-" + n + "\"}\n\n" }
	for _, c := range []struct {
		about  string
		frames []string
		wrong  string
	}{
		{"both resyncs", []string{event("1"), resync("2"), resync("3"), event("4")}, ""},
		{"one for both", []string{event("1"), resync("2"), event("4")}, ""},
		{"a lost resync", []string{event("1"), event("4")}, "received the resyncs [], of [2 3]"},
		{"a resync too late", []string{event("1"), resync("3"), event("4")}, "received the resyncs [3], of [2 3]"},
		{"a resync without reason", []string{resync("1"), resync("2"), event("4")}, "received the resyncs [1 2], of [2 3]"},
	} {
		f, err := follow(&feed.Received{}, c.frames...)
		if err == nil {
			err = f.Compare(visible, all)
		}
		expect(t, c.about, []error{err}, c.wrong)
	}
	var received feed.Received
	must.Do(follow(&received, event("1"))).Or(t)
	_, err := follow(&received, strings.Replace(event("1"), `"u"`, `"v"`, 1))
	expect(t, "two followers received different events", []error{err}, "another one")
}

// expect checks that what was found wrong contains a text; empty: nothing was.
func expect(t *testing.T, about string, errs []error, want string) {
	t.Helper()
	if err := errors.Join(errs...); want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%s: found wrong is %v, want %q", about, err, want)
	}
}

func TestChecksOfRecordsFindWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		about string
		made  map[string]outcome
		found map[string]int
		wrong string
	}{
		{"nothing", map[string]outcome{"a": exists, "b": indeterminate, "c": indeterminate, "d": absent}, map[string]int{"a": 1, "b": 1}, ""},
		{"a lost record", map[string]outcome{"a": exists}, nil, "a was acknowledged and is not there"},
		{"a record made twice", map[string]outcome{"a": exists}, map[string]int{"a": 2}, "a is there 2 times"},
		{"an unknown one made twice", map[string]outcome{"a": indeterminate}, map[string]int{"a": 2}, "a is there 2 times"},
		{"a refused or deleted one", map[string]outcome{"a": absent}, map[string]int{"a": 1}, "a was refused or deleted and is there"},
		{"one that nobody sent", nil, map[string]int{"a": 1}, "a is there and was never sent"},
	} {
		expect(t, c.about, recordErrors("record", c.made, c.found), c.wrong)
	}
}

func TestChecksOfArchivesFindWhatIsWrong(t *testing.T) {
	made := lifetime{}.after(exists, 1, 2)
	deleted := made.after(absent, 3, 4)
	for _, c := range []struct {
		about    string
		life     lifetime
		found    int
		from, to int64
		wrong    string
	}{
		{"a record that was acknowledged", made, 1, 3, 4, ""},
		{"a lost record", made, 0, 3, 4, "lacks"},
		{"a record that was made meanwhile", made, 0, 2, 4, ""},
		{"a record that was made later", made, 1, 0, 0, "was sent later"},
		{"a record that is there twice", made, 2, 3, 4, "more than once"},
		{"a record that was deleted meanwhile", deleted, 1, 3, 5, ""},
		{"another one", deleted, 0, 3, 5, ""},
		{"a record that was deleted later", deleted, 0, 3, 2, "lacks"},
		{"a record that was deleted before", deleted, 1, 5, 6, "refused or deleted"},
		{"a refused record", lifetime{}.after(absent, 1, 2), 1, 3, 4, "refused or deleted"},
		{"a record of an unknown request", lifetime{}.after(indeterminate, 1, 2), 0, 3, 4, ""},
		{"a record whose deletion is unknown", made.after(indeterminate, 3, 4), 1, 5, 6, ""},
		{"a record that was restored", deleted.after(exists, 5, 6), 1, 7, 8, ""},
	} {
		found := map[string]int{}
		if c.found > 0 {
			found["a"] = c.found
		}
		expect(t, c.about, exportErrors("task", map[string]lifetime{"a": c.life}, found, c.from, c.to), c.wrong)
	}
	expect(t, "one that nobody sent", exportErrors("task", nil, map[string]int{"a": 1}, 1, 2), "task a, which was never sent")
}

func TestChecksOfAuditLogsFindWhatIsWrong(t *testing.T) {
	sent := map[string]entryRange{"a": {1, 1}, "b": {0, 1}, "c": {0, 1}, "d": {0, 0}}
	for _, c := range []struct {
		about   string
		entries []string
		wrong   string
	}{
		{"nothing", []string{"a", "b"}, ""},
		{"a missing entry", []string{"b"}, "a has 0 entries"},
		{"two entries", []string{"a", "a"}, "a has 2 entries"},
		{"two entries of an unknown one", []string{"a", "b", "b"}, "b has 2 entries"},
		{"an entry of a refused one", []string{"a", "d"}, "d has 1 entries"},
		{"an entry of a reading request", []string{"a", "e"}, "e has 1 entries"},
	} {
		expect(t, c.about, auditErrors(sent, c.entries), c.wrong)
	}
}

func TestChecksOfTokensContentsAndPlansFindWhatIsWrong(t *testing.T) {
	right := balance{Used: 10, Shown: 10, Ledger: 10, Summary: 10, Limit: 10}
	for about, change := range map[string]func(*balance){
		"a token too many":           func(b *balance) { b.Used++ },
		"a token too few":            func(b *balance) { b.Ledger++ },
		"another sum":                func(b *balance) { b.Summary-- },
		"another number shown":       func(b *balance) { b.Shown-- },
		"tokens left reserved":       func(b *balance) { b.Reserved = 1 },
		"more tokens than the limit": func(b *balance) { b.Limit-- },
	} {
		b := right
		change(&b)
		if balanceError(right) != nil || balanceError(b) == nil {
			t.Errorf("%s: %v, and of %+v %v", about, balanceError(right), b, balanceError(b))
		}
	}
	a, b := map[string]bool{"a": true}, map[string]bool{"a": true, "b": true}
	expect(t, "the same contents", contentErrors(a, a), "")
	expect(t, "a missing content", contentErrors(b, a), "b is missing")
	expect(t, "a content that is left", contentErrors(a, b), "b is named by nothing")
	expect(t, "sent content", sentErrors(entries(1), map[string]bool{"1": true}), "")
	expect(t, "refused content", sentErrors(entries(1), map[string]bool{"1": false}), "was not sent or was refused")
	expect(t, "one of each", subscriptionErrors(map[string]int{"o": 1}, map[string]int{"o": 1}), "")
	expect(t, "two trials", subscriptionErrors(map[string]int{"o": 2}, nil), "2 trials")
	expect(t, "two subscriptions", subscriptionErrors(nil, map[string]int{"o": 2}), "2 live subscriptions")
}

func TestModelsFindWhatIsNotLinearizable(t *testing.T) {
	write := func(value string, call, ret int64) historyOp {
		return historyOp{Kind: "write", Value: value, Call: call, Return: ret}
	}
	read := func(value string, call, ret int64) historyOp {
		return historyOp{Kind: "read", Value: value, Call: call, Return: ret}
	}
	change := func(from, to string, call, ret int64) historyOp {
		return historyOp{Kind: "change", Expected: from, Value: to, Call: call, Return: ret}
	}
	refused := func(op historyOp) historyOp { op.Refused = true; return op }
	unknown := func(op historyOp) historyOp { op.Unknown = true; return op }
	add := func(n, call, ret int64) historyOp { return historyOp{Kind: "add", Tokens: n, Call: call, Return: ret} }
	used := func(n, call, ret int64) historyOp { return historyOp{Kind: "read", Tokens: n, Call: call, Return: ret} }
	a := write("a", 1, 2)
	for _, c := range []struct {
		about string
		model porcupine.Model
		ops   []historyOp
		right bool
	}{
		{"a read of the last write", register, []historyOp{a, write("b", 3, 4), read("b", 5, 6)}, true},
		{"a stale read", register, []historyOp{a, write("b", 3, 4), read("a", 5, 6)}, false},
		{"a lost write", register, []historyOp{a, write("b", 3, 4), write("c", 5, 6), read("b", 7, 8)}, false},
		{"a read beside a write", register, []historyOp{a, write("b", 3, 8), read("a", 4, 5), read("b", 6, 7)}, true},
		{"a read that goes back", register, []historyOp{a, write("b", 3, 9), read("b", 4, 5), read("a", 6, 7)}, false},
		{"two changes of one value", register, []historyOp{a, change("a", "b", 3, 4), change("a", "c", 5, 6), read("c", 7, 8)}, false},
		{"a change that was refused", register, []historyOp{a, change("a", "b", 3, 4), refused(change("a", "c", 5, 6)), read("b", 7, 8)}, true},
		{"a change that was refused without reason", register, []historyOp{a, refused(change("a", "c", 5, 6)), read("a", 7, 8)}, false},
		{"an unknown change that happened", register, []historyOp{a, unknown(change("a", "b", 3, 4)), refused(change("a", "b", 5, 6)), read("b", 7, 8)}, true},
		{"an unknown change that did not happen", register, []historyOp{a, unknown(change("a", "b", 3, 4)), change("a", "c", 5, 6), read("c", 7, 8)}, true},
		{"two unknown attempts of a change that happened", register, []historyOp{a, unknown(change("a", "b", 3, 4)), unknown(change("a", "b", 5, 6)), change("b", "c", 9, 10), read("c", 11, 12)}, true},
		{"an unknown attempt of a change that was answered", register, []historyOp{a, unknown(change("a", "b", 3, 4)), change("a", "b", 5, 6), read("b", 7, 8)}, true},
		{"an unknown write that happened late", register, []historyOp{a, unknown(write("b", 3, 4)), read("a", 5, 6), read("b", 7, 8)}, true},
		{"a value that was seen before it was sent", register, []historyOp{a, read("b", 3, 4), unknown(write("b", 5, 6)), read("b", 7, 8)}, false},
		{"an unknown write that came and went", register, []historyOp{a, unknown(write("b", 3, 4)), read("b", 5, 6), read("a", 7, 8)}, false},
		{"all tokens", account, []historyOp{add(5, 1, 2), add(7, 3, 4), used(12, 5, 6)}, true},
		{"a token too many", account, []historyOp{add(5, 1, 2), used(6, 5, 6)}, false},
		{"tokens that were lost", account, []historyOp{add(5, 1, 2), add(7, 3, 4), used(5, 5, 6)}, false},
		{"tokens of a call of unknown use", account, []historyOp{add(5, 1, 2), unknown(add(7, 3, 4)), used(8, 5, 6), used(12, 7, 8)}, true},
		{"tokens of unknown use that are returned", account, []historyOp{add(5, 1, 2), unknown(add(7, 3, 4)), used(8, 5, 6), used(5, 7, 8)}, false},
		{"more than a call can have used", account, []historyOp{unknown(add(7, 3, 4)), used(8, 5, 6)}, false},
	} {
		if decided, err := linearizable(c.model, c.ops); !decided || (err == nil) != c.right {
			t.Errorf("%s: %v, decided %v", c.about, err, decided)
		}
	}
}

func TestRequestsAreOfEveryKind(t *testing.T) {
	next, seen := requestsOf(1, 1), map[string]bool{}
	for range 5000 {
		seen[next().Kind] = true
	}
	if len(seen) != len(mix) {
		t.Errorf("%d kinds of requests of %d were made", len(seen), len(mix))
	}
}
