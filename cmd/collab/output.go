package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// Colours of terminals.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
	bold   = "1"
)

// paint returns text in a colour if the stream is a terminal and NO_COLOR is not set.
func (a *app) paint(terminal bool, colour, text string) painted {
	if !terminal || a.env("NO_COLOR") != "" || a.env("TERM") == "dumb" {
		return painted(plain(text))
	}
	return painted("\x1b[" + colour + "m" + plain(text) + "\x1b[0m")
}

// painted is text that may have the sequences of a colour.
type painted string

// note prints a line for people, on the stream of errors. Texts and errors among args are printed
// without characters that control a terminal.
func (a *app) note(format string, args ...any) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = plain(arg)
		case error:
			args[i] = plain(arg.Error())
		}
	}
	fmt.Fprintf(a.err, format+"\n", args...)
}

// values returns records that are there.
func values[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// column is a column of a table.
type column[T any] struct {
	name string
	text func(T) string
}

// rows prints records: as a table on a terminal, tab-separated without a heading elsewhere, or
// as --json and --jq say.
func rows[T any](a *app, records iter.Seq2[T, error], columns ...column[T]) error {
	if a.flags.json != "" || a.flags.jq != "" {
		all := []T{}
		for r, err := range records {
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return a.printJSON(all, fieldsOf(reflect.TypeFor[T]()))
	}
	var lines [][]string
	for r, err := range records {
		if err != nil {
			return err
		}
		line := make([]string, len(columns))
		for i, c := range columns {
			line[i] = plain(c.text(r))
		}
		if a.outTerminal {
			lines = append(lines, line)
		} else if _, err := fmt.Fprintln(a.out, strings.Join(line, "\t")); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		return nil
	}
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = strings.ToUpper(c.name)
	}
	return a.table(append([][]string{heads}, lines...))
}

// table prints lines in columns, of which the widest is cut to the terminal's width.
func (a *app) table(lines [][]string) error {
	widths := make([]int, len(lines[0]))
	total := 2 * (len(widths) - 1)
	for i := range widths {
		for _, line := range lines {
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
		total += widths[i]
	}
	if a.width > 0 && total > a.width {
		widest := slices.Index(widths, slices.Max(widths))
		widths[widest] = max(12, widths[widest]-(total-a.width))
	}
	var b strings.Builder
	for n, line := range lines {
		for i, text := range line {
			if utf8.RuneCountInString(text) > widths[i] {
				text = string([]rune(text)[:widths[i]-1]) + "…"
			}
			padded := text
			if i < len(line)-1 {
				padded += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2)
			}
			if n == 0 {
				padded = string(a.paint(a.outTerminal, dim, padded))
			}
			b.WriteString(padded)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(a.out, b.String())
	return err
}

// record prints one record: a line for each column, or as --json and --jq say.
func record[T any](a *app, r T, columns ...column[T]) error {
	if a.flags.json != "" || a.flags.jq != "" {
		return a.printJSON(r, fieldsOf(reflect.TypeFor[T]()))
	}
	width := 0
	for _, c := range columns {
		width = max(width, len(c.name))
	}
	for _, c := range columns {
		text := plain(c.text(r))
		if a.outTerminal {
			text = string(a.paint(true, dim, c.name+strings.Repeat(" ", width-len(c.name)))) + "  " + text
		} else {
			text = c.name + "\t" + text
		}
		if _, err := fmt.Fprintln(a.out, text); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the names that the fields of a struct have in JSON.
func fieldsOf(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// printJSON prints a value with the fields of --json, through the expression of --jq.
func (a *app) printJSON(v any, known []string) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return err
	}
	if a.flags.json != "" && a.flags.json != "all" {
		wanted := strings.Split(a.flags.json, ",")
		for _, name := range wanted {
			if !slices.Contains(known, name) {
				return usage("--json: there is no field %q, but all and %s", name, strings.Join(known, ","))
			}
		}
		tree = pick(tree, wanted)
	}
	return a.printTree(tree)
}

// pick keeps the fields of an object, or of those in an array.
func pick(tree any, wanted []string) any {
	switch v := tree.(type) {
	case []any:
		for i := range v {
			v[i] = pick(v[i], wanted)
		}
	case map[string]any:
		kept := map[string]any{}
		for _, name := range wanted {
			kept[name] = v[name]
		}
		return kept
	}
	return tree
}

// printTree prints JSON, through the expression of --jq: texts as they are, other values each
// on a line.
func (a *app) printTree(tree any) error {
	encode := json.NewEncoder(a.out)
	encode.SetEscapeHTML(false)
	if a.outTerminal {
		encode.SetIndent("", "  ")
	}
	if a.flags.jq == "" {
		return encode.Encode(tree)
	}
	query, err := gojq.Parse(a.flags.jq)
	if err != nil {
		return usage("--jq: %w", err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return usage("--jq: %w", err)
	}
	results := code.Run(tree)
	for {
		v, more := results.Next()
		if !more {
			return nil
		}
		if err, failed := v.(error); failed {
			return fmt.Errorf("--jq: %w", err)
		}
		if text, isText := v.(string); isText {
			_, err = fmt.Fprintln(a.out, text)
		} else {
			err = encode.Encode(v)
		}
		if err != nil {
			return err
		}
	}
}

// plain returns text on one line, without characters that control a terminal or the order of
// its text.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)
}

// or returns what p points to, or other.
func or(p *string, other string) string {
	if p == nil {
		return other
	}
	return *p
}

// given returns a text that is not empty.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// day returns a time as people read it.
func day(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// sizeText returns a size in bytes as people read it.
func sizeText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprint(n, " B")
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
