package audit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/test/must"
)

const user id.User = "0198a1b2-0000-7000-8000-000000000003"

func TestActionsAreAllThatAreDeclared(t *testing.T) {
	f := must.Do(parser.ParseFile(token.NewFileSet(), "audit.go", nil, 0)).Or(t)
	var declared []audit.Action
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			if of, ok := v.Type.(*ast.Ident); ok && of.Name == "Action" {
				text := must.Do(strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)).Or(t)
				declared = append(declared, audit.Action(text))
			}
		}
		return true
	})
	if !slices.Equal(declared, audit.Actions) {
		t.Errorf("declared are %q, and listed %q", declared, audit.Actions)
	}
}

func TestConditionsOfFilters(t *testing.T) {
	at := time.UnixMilli(5).UTC()
	e := audit.Entry{Actor: user, Action: audit.MemberRemoved, Target: "t", At: at}
	for name, c := range map[string]struct {
		filter audit.Filter
		entry  audit.Entry
		want   bool
	}{
		"no condition":                  {audit.Filter{}, e, true},
		"the actor":                     {audit.Filter{Actor: user}, e, true},
		"another actor":                 {audit.Filter{Actor: "x"}, e, false},
		"users are no source":           {audit.Filter{Source: audit.Automatic}, e, false},
		"an operator":                   {audit.Filter{Source: audit.Operators}, audit.Entry{Operator: true}, true},
		"an operator is not the system": {audit.Filter{Source: audit.Automatic}, audit.Entry{Operator: true}, false},
		"the system":                    {audit.Filter{Source: audit.Automatic}, audit.Entry{}, true},
		"the action":                    {audit.Filter{Action: audit.MemberRemoved}, e, true},
		"another action of the kind":    {audit.Filter{Action: audit.MemberLeft}, e, false},
		"the kind":                      {audit.Filter{Kind: "member"}, e, true},
		"the beginning of a kind":       {audit.Filter{Kind: "mem"}, e, false},
		"another target":                {audit.Filter{Target: "T"}, e, false},
		"from its time":                 {audit.Filter{From: at}, e, true},
		"before its time":               {audit.Filter{To: at}, e, false},
		"between":                       {audit.Filter{From: at, To: at.Add(time.Millisecond)}, e, true},
	} {
		if got := c.filter.Selects(c.entry); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestFiltersOfClients(t *testing.T) {
	for _, text := range []string{string(user), "operator", "system"} {
		must.Do((audit.Filter{}).WithActor(text)).Or(t)
	}
	for _, text := range []string{"", "Operator", strings.ToUpper(string(user)), string(user) + "0"} {
		if _, err := (audit.Filter{}).WithActor(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("the actor %q: %v", text, err)
		}
	}
	for _, a := range audit.Actions {
		must.Is(t, a, must.Do((audit.Filter{}).WithAction(string(a))).Or(t).Action)
		if f, err := (audit.Filter{}).WithAction(a.Kind()); err != nil || f.Kind != a.Kind() || f.Action != "" {
			t.Errorf("%v, %v", f, err)
		}
	}
	for _, text := range []string{"", ".", "member.", ".removed", "member.removed.x", "Member"} {
		if _, err := (audit.Filter{}).WithAction(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("the action %q: %v", text, err)
		}
	}
	for _, f := range []audit.Filter{{Target: strings.Repeat("t", 256)}, {From: time.UnixMilli(5), To: time.UnixMilli(5)}, {From: time.UnixMilli(6), To: time.UnixMilli(5)}} {
		if err := f.Check(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", f, err)
		}
	}
	must.NoError(t, (audit.Filter{Target: strings.Repeat("t", 255), From: time.UnixMilli(5), To: time.UnixMilli(6)}).Check())
}
