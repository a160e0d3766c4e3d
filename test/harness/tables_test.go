package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"collab/domain/connector"
	"collab/domain/plan"
	"collab/domain/task"
)

// tableFiles are the tables that ship.
func tableFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/tables/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no tables:", err)
	}
	return files
}

func TestTablesSayWhatTheDomainSays(t *testing.T) {
	var all []string
	for _, f := range tableFiles(t) {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(content))
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			var b strings.Builder
			if err := PrintTables(&b, f); err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(string(content), b.String()); d != "" {
				t.Errorf("it is printed otherwise (-is +printed):\n%s", d)
			}
		})
	}
	var b strings.Builder
	if err := PrintTables(&b); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(strings.Join(all, "\n"), b.String()); d != "" {
		t.Errorf("together they are printed otherwise (-are +printed):\n%s", d)
	}
}

func TestEveryTableIsAskedSomething(t *testing.T) {
	rows := map[string]int{}
	for _, l := range shippedRows(t) {
		rows[l.table]++
	}
	for _, name := range tableNames() {
		if rows[name] == 0 {
			t.Errorf("no row of the table %s ships", name)
		}
	}
}

// The page of tables names each with its columns, and its example can be asked.
func TestThePageOfTablesIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/tables.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tableNames() {
		line := fmt.Sprintf("\n- `%s`: %s -> %s\n", name, strings.Join(questions[name].in, ", "), strings.Join(questions[name].out, ", "))
		if !strings.Contains(string(page), line) {
			t.Errorf("it does not have%s", line)
		}
	}
	_, example, _ := strings.Cut(string(page), "```text\n")
	example, _, _ = strings.Cut(example, "```")
	var b strings.Builder
	if err := PrintTables(&b, written(t, example)); err != nil || !strings.Contains(b.String(), "our-laptop  ->  ") {
		t.Errorf("the example: %v\n%s", err, b.String())
	}
}

// shippedRows are the rows of the tables that ship.
func shippedRows(t testing.TB) []tableLine {
	var rows []tableLine
	for _, f := range tableFiles(t) {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := parseTables(f, string(content))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, slices.DeleteFunc(lines, func(l tableLine) bool { return l.in == nil || l.heading })...)
	}
	return rows
}

// The tables, and those from which docs/states.md is printed, say the same of
// each state and each move.
func TestEveryStateOfASubscriptionMeetsEveryMove(t *testing.T) {
	moves := map[string]plan.Move{
		"subscription is past_due": plan.RemotePastDue, "subscription is unpaid": plan.RemotePastDue, "operator sets PREMIUM": plan.OperatorGrant,
		"invoice.payment_failed": plan.PaymentFailed, "invoice.paid": plan.PaymentReceived, "customer.subscription.deleted": plan.RemoteCanceled,
	}
	type step struct {
		from plan.State
		by   plan.Move
	}
	want := map[step]plan.State{}
	for _, row := range plan.Table() {
		for _, from := range row.From {
			switch want[step{from, row.By}] = row.To; row.To {
			case "":
				want[step{from, row.By}] = "refused"
			case "stays":
				want[step{from, row.By}] = from
			}
		}
	}
	met := map[step]bool{}
	for _, l := range shippedRows(t) {
		if l.table != "subscription-moves" {
			continue
		}
		by, ok := moves[l.in[1].value]
		if !ok {
			by = plan.Move(l.in[1].value)
		}
		for _, state := range statesIn(l.in[0].value) {
			s := step{plan.State(state), by}
			to := plan.State(l.out[0].value)
			if to == "stays" {
				to = s.from
			}
			if met[s] = true; to != want[s] {
				t.Errorf("%s, %s: the table has %s, docs/states.md %s", s.from, l.in[1].value, to, want[s])
			}
		}
	}
	for _, from := range plan.States() {
		for _, by := range plan.Moves() {
			if !met[step{from, by}] {
				t.Errorf("%s meets no: %s", from, by)
			}
		}
	}
}

func TestEveryStateOfAConnectorMeetsEveryMove(t *testing.T) {
	type step struct {
		from connector.Status
		by   connector.Move
	}
	want := map[step]connector.Status{}
	for _, row := range connector.Table() {
		for _, from := range row.From {
			want[step{from, row.By}] = row.To
		}
	}
	met := map[step]bool{}
	for _, l := range shippedRows(t) {
		if l.table != "connector-moves" {
			continue
		}
		s := step{connector.Status(l.in[0].value), connector.Move(l.in[1].value)}
		if s.from == "(none)" {
			s.from = connector.None
		}
		to := connector.Status(l.out[0].value)
		if strings.HasPrefix(string(to), "conflict: ") {
			to = ""
		}
		if met[s] = true; to != want[s] {
			t.Errorf("%s, %s: the table has %s, docs/states.md %s", s.from, s.by, to, want[s])
		}
	}
	for _, by := range connector.Moves() {
		if by == connector.MadeOpen || by == connector.MadeClosed {
			if !met[step{connector.None, by}] {
				t.Errorf("nothing meets: %s", by)
			}
			continue
		}
		for _, from := range connector.Statuses() {
			if !met[step{from, by}] {
				t.Errorf("%s meets no: %s", from, by)
			}
		}
	}
}

func TestEveryStatusOfATaskMeetsEveryOther(t *testing.T) {
	met := map[[2]string]bool{}
	for _, l := range shippedRows(t) {
		if l.table == "task-status" {
			met[[2]string{l.in[0].value, l.in[1].value}] = true
		}
	}
	all := []string{nothing, string(task.Todo), string(task.InProgress), string(task.Done), string(task.Cancelled)}
	for _, from := range all {
		for _, to := range all {
			if !met[[2]string{from, to}] {
				t.Errorf("no row goes from %s to %s", from, to)
			}
		}
	}
}

// written puts a file of tables into a folder of the test's.
func written(t testing.TB, content string) string {
	name := filepath.Join(t.TempDir(), "mine.txt")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestARowThatSaysSomethingElseIsShown(t *testing.T) {
	name := written(t, "table plan-limits\nplan -> dailyTokens  members\nFREE -> 1000000  1\nPREMIUM -> 9000000  5\n")
	var b strings.Builder
	err := PrintTables(&b, name)
	want := name + `:4: PREMIUM -> 9000000  5
  dailyTokens
    expected  9000000
    actual    10000000
  members
    expected  5
    actual    unlimited
the domain answers otherwise`
	if !errors.Is(err, ErrDiffers) || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	printed := "table plan-limits\nplan     ->  dailyTokens  members\nFREE     ->  1000000      1\nPREMIUM  ->  10000000     unlimited\n"
	if b.String() != printed {
		t.Errorf("got\n%swant\n%s", b.String(), printed)
	}
}

func TestWhatIsNotKnownIsAskedFor(t *testing.T) {
	name := written(t, "# Mine.\r\ntable rollout-buckets\r\n\tclientId -> bucket\r\n\r\n  device-1 -> ?\r\n\"device-2\"\t->\t?")
	var b strings.Builder
	if err := PrintTables(&b, name); err != nil {
		t.Fatal(err)
	}
	want := "# Mine.\ntable rollout-buckets\nclientId    ->  bucket\n\ndevice-1    ->  20\n\"device-2\"  ->  19\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestTablesThatCannotBeRead(t *testing.T) {
	const head = "table trial-life\nage -> plan  status  hasActivePlan  dailyTokens\n"
	for _, c := range []struct{ content, want string }{
		{"age -> plan", `:1: before rows there is a line with the name of their table, such as: table billing-period`},
		{"table moods", `:1: there is no table "moods"; there are billing-period, connector-moves, `},
		{"table trial-life", `:1: after the name of a table come its columns`},
		{"table trial-life\n14d -> FREE  ACTIVE  yes  1", `:2: the columns of the table trial-life are: age  ->  plan  status  hasActivePlan  dailyTokens`},
		{head + "14d  FREE", `:3: a row has -> between what is asked and what is answered`},
		{head + "14d -> FREE -> ACTIVE", `:3: a row has one ->`},
		{head + "14d -> FREE", `:3: a row of the table trial-life has 1 and 4 cells, with two spaces between cells and -> between the two parts; here are 1 and 1`},
		{head + "-> ?", `:3: a row of the table trial-life has 1 and 4 cells`},
		{head + "a fortnight -> ?", `:3: age: "a fortnight" is not a duration such as 14d or 23h59m59.999s`},
		{head + "9999999d -> ?", `:3: age: "9999999d" is not a duration`},
		{head + `"14d -> ?`, `:3: a quotation mark is never closed, or something in the quotes is written wrong`},
		{head + `"14d"x -> ?`, `:3: after a closing quotation mark comes the next cell, or the end of the line`},
		{"\xff", `:1: this is not UTF-8`},
		{"#" + strings.Repeat("x", maxTableLine), `:1: a line has at most 4096 bytes`},
		{strings.Repeat("#\n", maxTables/2) + "#", `: a file of tables has at most 262144 bytes`},
	} {
		var b strings.Builder
		name := written(t, c.content)
		err := PrintTables(&b, name)
		if err == nil || errors.Is(err, ErrDiffers) || !strings.HasPrefix(err.Error(), name+c.want) {
			t.Errorf("%.80q: got %v, want %s", c.content, err, c.want)
		}
		if b.Len() > 0 {
			t.Errorf("%.80q: %q is printed", c.content, b.String())
		}
	}
	if err := PrintTables(&strings.Builder{}, filepath.Join(t.TempDir(), "none.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Whatever stands in the cells, the domain answers or a cell is refused.
func TestAnythingMayBeAsked(t *testing.T) {
	var words []string
	for _, l := range shippedRows(t) {
		words = append(words, values(l.in)...)
	}
	cell := rapid.OneOf(rapid.SampledFrom(words), rapid.String(), rapid.StringMatching(`-?[0-9]{1,19}(d|h|ms)?`))
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(tableNames()).Draw(t, "table")
		q := questions[name]
		out, err := q.ask(rapid.SliceOfN(cell, len(q.in), len(q.in)).Draw(t, "cells"))
		if err == nil && len(out) != len(q.out) {
			t.Fatalf("%s has %d answers, want %d", name, len(out), len(q.out))
		}
	})
}

// Tables that were printed are printed the same again.
func FuzzTables(f *testing.F) {
	for _, name := range tableFiles(f) {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	f.Add("table object-paths\npath -> kept\n\"a\\tb  ->\" -> ?\n")
	f.Add("table roles\nrole\t->\twrites  manages  owns\nOWNER -> ?\n")
	f.Fuzz(func(t *testing.T, content string) {
		lines, err := parseTables("fuzz.txt", content)
		if err != nil {
			return
		}
		once, _, err := answerTables("fuzz.txt", lines)
		if err != nil {
			return
		}
		if lines, err = parseTables("fuzz.txt", once); err != nil {
			t.Fatalf("what was printed cannot be read: %v\n%s", err, once)
		}
		if twice, different, err := answerTables("fuzz.txt", lines); err != nil || len(different) > 0 || twice != once {
			t.Fatalf("%v, %q: printed first as\n%s\nand then as\n%s", err, different, once, twice)
		}
	})
}
