package harness

import (
	"fmt"
	"io"
	"strings"
)

// usage is an act with its arguments; those in brackets may be left out.
func (a *act) usage() string {
	var b strings.Builder
	if a.who == person {
		b.WriteString("<who> ")
	} else {
		b.WriteString(string(a.who) + " ")
	}
	b.WriteString(a.name)
	if a.on != "" {
		if a.onRequired() {
			fmt.Fprintf(&b, " <%s>", a.onName())
		} else {
			fmt.Fprintf(&b, " [<%s>]", a.onName())
		}
	}
	for _, name := range strings.Fields(a.args) {
		if needed, ok := strings.CutSuffix(name, "*"); ok {
			b.WriteString(" " + needed + "=")
		} else {
			b.WriteString(" [" + name + "=]")
		}
	}
	return strings.ReplaceAll(b.String(), "  ", " ")
}

func actNames() (names []string) {
	for _, a := range acts {
		names = append(names, a.name)
	}
	return names
}

// headings are what the parts of the list of acts are called.
var headings = map[party]string{
	person: "People", clock: "The clock", device: "Devices", operating: "The operator", idprovider: "The identity provider", payers: "The payment provider",
	modeller: "The models", toolers: "The tool servers", server: "The server",
}

// PrintActs writes the list of all acts that docs/scenarios.md has.
func PrintActs(w io.Writer) error {
	var b strings.Builder
	for i, p := range parties {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "### %s\n\n", headings[p])
		for _, a := range acts {
			if a.who == p {
				fmt.Fprintf(&b, "- `%s`\n  %s\n", a.usage(), a.does)
			}
		}
	}
	b.WriteString("\nThe calls that `server fail` knows: " + strings.Join(lineCalls, ", ") + ".\n")
	_, err := io.WriteString(w, b.String())
	return err
}
