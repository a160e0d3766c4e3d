package docs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"collab/domain/connector"
	"collab/domain/plan"
	"collab/test/must"
)

var update = flag.Bool("update", false, "write the golden files")

func TestThePageOfStatesIsTheTables(t *testing.T) {
	const file = "states.md"
	page := subscriptions() + "\n" + connectors()
	if *update {
		must.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	}
	want := must.Do(os.ReadFile(file)).Or(t)
	if page != string(want) {
		t.Fatalf("%s is not what the tables say; run the test with -update", file)
	}
}

// names joins states, in which every state there is is any.
func names[S ~string](of []S, all int) string {
	if len(of) == all {
		return "any"
	}
	texts := make([]string, len(of))
	for i, s := range of {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

func subscriptions() string {
	var b strings.Builder
	b.WriteString("# States of a subscription\n\nGenerated from `domain/plan/machine.go` by a test. Each pair of state and trigger has exactly one row.\n\n")
	b.WriteString("ACTIVE is a paid plan; FREE also has the status ACTIVE, NO_PLAN the status CANCELED. " +
		"*Managed externally* is a plan set by an operator. The payment provider's triggers are named after the subscription's current state at the provider, whatever event caused the read. " +
		"If the provider no longer knows the subscription, the event's content applies. Events about other subscriptions change nothing.\n\n")
	b.WriteString("Source: *specification*: a row of its table; *decided*: a choice of this project.\n\n")
	b.WriteString("| From | Trigger | To | Also happens | Source |\n|---|---|---|---|---|\n")
	table := plan.Table()
	for i, row := range table {
		by := string(row.Trigger)
		if row.To == "unchanged" && row.From[0] == plan.StateExternal { // one line for all triggers
			if i+1 < len(table) {
				continue
			}
			by = "any other"
		}
		to, also, source := string(row.To), row.Effects, "specification"
		if row.Refusal != "" {
			to, also = "refused (409)", row.Refusal
		}
		if row.OwnDecision {
			source = "decided"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", names(row.From, len(plan.States())), by, to, also, source)
	}
	return b.String()
}

func connectors() string {
	var b strings.Builder
	b.WriteString("# States of a connector\n\nGenerated from `domain/connector/status.go` by a test. A trigger without a row for a state is refused (409). " +
		"The specification has states but no transitions; all are decided here.\n\n")
	b.WriteString("| From | Trigger | To | Also happens |\n|---|---|---|---|\n")
	for _, row := range connector.Table() {
		from := names(row.From, len(connector.Statuses()))
		if from == string(connector.None) {
			from = "none"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", from, row.Trigger, row.To, row.Effects)
	}
	return b.String()
}
