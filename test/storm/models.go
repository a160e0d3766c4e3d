package storm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// historyOp is one operation on an object of a history. Times are nanoseconds of one clock.
type historyOp struct {
	Client       int
	Kind         string // read, write, change or add
	Expected     string `json:",omitempty"` // of a change: the value that it replaces
	Value        string `json:",omitempty"` // that was read, written or changed to
	Tokens       int64  `json:",omitempty"` // read, or added; of an unknown addition the most that it may have added
	Refused      bool   `json:",omitempty"` // a change: the object had another value
	Unknown      bool   `json:",omitempty"` // it may have happened, at any time after Call
	Call, Return int64
}

// register is the model of an object whose reads return what was written last. A change writes if
// the object has the expected value, and is refused otherwise.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		op, got := input.(historyOp), state.(string)
		switch {
		case op.Kind == "read":
			return op.Value == got, got
		case op.Kind == "write":
			return true, op.Value
		case op.Refused:
			return op.Expected != got, got
		case op.Unknown && op.Expected != got:
			return true, got // it was refused
		}
		return op.Expected == got, op.Value
	},
	DescribeOperation: describe,
	DescribeState:     func(state any) string { return state.(string) },
}

// spent is the state of an account: what calls of known use have added, what those of unknown use
// have, as far as reads show it, and the most that they may have added.
type spent struct{ known, unknown, most int64 }

// account is the model of a member's used tokens.
var account = porcupine.Model{
	Init: func() any { return spent{} },
	Step: func(state, input, _ any) (bool, any) {
		op, s := input.(historyOp), state.(spent)
		switch {
		case op.Kind == "read":
			unknown := op.Tokens - s.known
			if unknown < s.unknown || unknown > s.most {
				return false, s
			}
			s.unknown = unknown
		case op.Unknown:
			s.most += op.Tokens
		default:
			s.known += op.Tokens
		}
		return true, s
	},
	DescribeOperation: describe,
	DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
}

func describe(input, _ any) string { return fmt.Sprintf("%+v", input) }

// checkTime bounds the search for an order of one history.
const checkTime = 30 * time.Second

// linearizable returns an error if there is no order of the operations, each between its call and
// its return, that the model allows. Decided is false if none was found in checkTime.
func linearizable(model porcupine.Model, ops []historyOp) (decided bool, err error) {
	var history []porcupine.Operation
	for _, op := range bounded(ops) {
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: op.Return})
	}
	switch porcupine.CheckOperationsTimeout(model, history, checkTime) {
	case porcupine.Illegal:
		return true, fmt.Errorf("%d operations have no possible order", len(ops))
	case porcupine.Unknown:
		return false, nil
	}
	return true, nil
}

// bounded gives unknown operations a return, which bounds the search, without allowing or
// forbidding any other history. A history ends with a read, and each of its changes has a value of
// its own, which only repetitions of the change share.
//
// An unknown addition has only made more reads possible, so that it counts as made at its call. An
// unknown write or change whose value nobody saw need not have happened; of one whose value an
// operation saw, that operation returned after it. Of several attempts of one change at most one
// happened, as the value that it expects never returns: the one that was answered, if there is one.
func bounded(ops []historyOp) (all []historyOp) {
	seen := map[string]int64{} // the first return of those that saw a value
	see := func(value string, at int64) {
		if first, ok := seen[value]; !ok || at < first {
			seen[value] = at
		}
	}
	writes, changed := map[string]int{}, map[string]bool{}
	for _, op := range ops {
		switch {
		case op.Kind == "read":
			see(op.Value, op.Return)
		case op.Kind == "write":
			writes[op.Value]++
		case op.Kind == "change" && !op.Refused && !op.Unknown:
			see(op.Expected, op.Return)
			changed[op.Value] = true
		}
	}
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b historyOp) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range ops {
		first, was := seen[op.Value]
		switch {
		case !op.Unknown:
		case op.Kind == "add":
			op.Return = op.Call
		case !was, op.Kind == "change" && changed[op.Value]:
			continue
		case writes[op.Value] > 1:
			op.Return = math.MaxInt64
		default:
			// A value that was seen before it was sent is refused by the model.
			op.Return = max(first, op.Call)
			changed[op.Value] = op.Kind == "change"
		}
		all = append(all, op)
	}
	return all
}
