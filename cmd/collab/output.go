package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
	"golang.org/x/text/width"

	"collab/adapters/apiclient"
)

// Styles of terminals, parameters of an SGR sequence.
const (
	bold       = "1"
	dim        = "2"
	italic     = "3"
	underlined = "4"
	struck     = "9"
	red        = "31"
	green      = "32"
	yellow     = "33"
	code       = "36"
)

// paint returns text in a style if the stream is a terminal and NO_COLOR is not set.
func (a *app) paint(terminal bool, style, text string) safeText {
	text = printableLine(text)
	if terminal {
		text = a.styled(style, text)
	}
	return safeText(text)
}

// styled returns text, which cannot control a terminal, in a style of terminals unless NO_COLOR is set or they have none.
func (a *app) styled(style, text string) string {
	if style == "" || text == "" || a.dumbTerminal || a.env("NO_COLOR") != "" || a.env("TERM") == "dumb" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// safeText is text without characters that control a terminal, except its own escape sequences of colours.
type safeText string

// printErrf prints a line on the stream of errors. Texts and errors among args are printed
// without characters that control a terminal.
func (a *app) printErrf(format string, args ...any) {
	fmt.Fprintf(a.err, format+"\n", cleanArgs(args)...)
}

// printSuccess prints a line about what was done, as printErrf does.
func (a *app) printSuccess(format string, args ...any) { a.printMarked(green, "✓", format, args) }

// printWarning prints a line about what was not done, as printErrf does.
func (a *app) printWarning(format string, args ...any) {
	a.printMarked(yellow, "warning:", format, args)
}

func (a *app) printMarked(style, mark, format string, args []any) {
	a.printErrf("%s "+format, slices.Insert(args, 0, any(a.paint(a.errTerminal, style, mark)))...)
}

func cleanArgs(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = printableLine(arg)
		case error:
			args[i] = printableLine(arg.Error())
		}
	}
	return args
}

// interactive reports whether CI is not set and the streams are terminals.
func (a *app) interactive(streams ...bool) bool {
	return a.env("CI") == "" && !slices.Contains(streams, false)
}

// canPrompt reports whether a person can be asked.
func (a *app) canPrompt() bool { return a.interactive(a.inTerminal, a.errTerminal) }

// prompt asks the person at the terminal, and returns what was typed.
func (a *app) prompt(ctx context.Context, format string, args ...any) (string, error) {
	fmt.Fprintf(a.err, format, cleanArgs(args)...)
	if a.inReader == nil {
		a.inReader = bufio.NewReader(a.in)
	}
	line, err := awaitCall(ctx, startCall(func() (string, error) {
		line, err := a.inReader.ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return strings.TrimSpace(line), err
	}))
	if ctx.Err() != nil {
		fmt.Fprintln(a.err)
	}
	return line, err
}

// sequence returns an iterator over records that are in memory.
func sequence[T any](all []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// column is a record's text in a column of a table.
type column struct{ name, text string }

// wantsJSON reports whether --json or --jq is given.
func (a *app) wantsJSON() bool { return a.flags.json != "" || a.flags.jq != "" }

// printRows prints records: as a table on a terminal, tab-separated without a heading elsewhere, or
// as --json and --jq say.
func printRows[T any](a *app, records iter.Seq2[T, error], columns func(T) []column) error {
	if a.wantsJSON() {
		all := []T{}
		for r, err := range records {
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return a.printJSON(all)
	}
	var lines [][]string
	for r, err := range records {
		if err != nil {
			return err
		}
		line := columns(r)
		if !a.outTerminal {
			if err := a.printTabbed(line); err != nil {
				return err
			}
			continue
		}
		if lines == nil {
			lines = [][]string{cells(line, func(c column) string { return strings.ToUpper(c.name) })}
		}
		lines = append(lines, cells(line, column.printable))
	}
	switch {
	case lines != nil:
		return a.printTable(lines)
	case a.outTerminal:
		a.printErrf("nothing was found")
	}
	return nil
}

func (c column) printable() string { return printableLine(c.text) }

// cells returns a text of each column.
func cells(columns []column, text func(column) string) []string {
	line := make([]string, len(columns))
	for i, c := range columns {
		line[i] = text(c)
	}
	return line
}

// printTabbed prints a line whose texts tabs separate.
func (a *app) printTabbed(columns []column) error {
	_, err := fmt.Fprintln(a.out, strings.Join(cells(columns, column.printable), "\t"))
	return err
}

// minColumnWidth is how narrow the columns of a table become at most.
const minColumnWidth = 8

// printTable prints lines in columns, of which the widest ones are cut to the terminal's width.
func (a *app) printTable(lines [][]string) error {
	widths := make([]int, len(lines[0]))
	total := 2 * (len(widths) - 1)
	for i := range widths {
		for _, line := range lines {
			widths[i] = max(widths[i], displayWidth(line[i]))
		}
		total += widths[i]
	}
	for ; a.width > 0 && total > a.width && slices.Max(widths) > minColumnWidth; total-- {
		widths[slices.Index(widths, slices.Max(widths))]--
	}
	var b strings.Builder
	for n, line := range lines {
		for i, text := range line {
			if displayWidth(text) > widths[i] {
				text = truncate(text, widths[i]-1) + "…"
			}
			padded := text
			if i < len(line)-1 {
				padded += strings.Repeat(" ", widths[i]-displayWidth(text)+2)
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

// printList returns a function that prints the records of a response as printRows does.
func printList[T any](a *app, columns func(T) []column) func(*apiclient.List[T], error) error {
	return func(list *apiclient.List[T], err error) error {
		if err != nil {
			return err
		}
		return printRows(a, list.All(), columns)
	}
}

// printOne calls call, unless --json names a field that its record does not have, and prints the record as printRecord does.
func printOne[T any](a *app, columns func(T) []column, call func() (T, error)) error {
	if err := a.checkFields(*new(T)); err != nil {
		return err
	}
	r, err := call()
	if err != nil {
		return err
	}
	return a.printRecord(r, columns(r))
}

// printRecord prints one record: a line for each column, or as --json and --jq say.
func (a *app) printRecord(r any, columns []column) error {
	if a.wantsJSON() {
		return a.printJSON(r)
	}
	width := 0
	for _, c := range columns {
		width = max(width, len(c.name))
	}
	for _, c := range columns {
		text := c.name + "\t" + c.printable()
		if a.outTerminal {
			text = string(a.paint(true, dim, fmt.Sprintf("%-*s", width, c.name))) + "  " + c.printable()
		}
		if _, err := fmt.Fprintln(a.out, text); err != nil {
			return err
		}
	}
	return nil
}

// fieldNames returns the names that the fields of a struct, or of those in a slice, have in JSON.
func fieldNames(v any) (names []string) {
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// wantedFields returns the fields that --json names, none for all.
func (a *app) wantedFields() []string {
	if a.flags.json == "" || a.flags.json == "all" {
		return nil
	}
	return strings.Split(a.flags.json, ",")
}

// checkFields returns an error if --json names a field that a value does not have.
func (a *app) checkFields(v any) error {
	known := fieldNames(v)
	for _, name := range a.wantedFields() {
		if !slices.Contains(known, name) {
			return usage("--json: there is no field %q, but all and %s", name, strings.Join(known, ","))
		}
	}
	return nil
}

// printJSON prints a value with the fields of --json, through the expression of --jq.
func (a *app) printJSON(v any) error {
	if err := a.checkFields(v); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var tree any
	if err := apiclient.NewDecoder(bytes.NewReader(text)).Decode(&tree); err != nil {
		return err
	}
	return a.printTree(selectFields(tree, a.wantedFields()))
}

// selectFields returns an object, or the objects of an array, with the wanted fields only; nil for all.
func selectFields(tree any, wanted []string) any {
	if wanted == nil {
		return tree
	}
	switch v := tree.(type) {
	case []any:
		for i := range v {
			v[i] = selectFields(v[i], wanted)
		}
	case map[string]any:
		selected := map[string]any{}
		for _, name := range wanted {
			selected[name] = v[name]
		}
		return selected
	}
	return tree
}

// printTree prints JSON, through the expression of --jq: texts as they are, other values each
// on a line. It does not control a terminal.
func (a *app) printTree(tree any) error {
	encode := json.NewEncoder(a.toTerminal(escaped))
	encode.SetEscapeHTML(false)
	if a.outTerminal {
		encode.SetIndent("", "  ")
	}
	if a.flags.jq == "" {
		return encode.Encode(tree)
	}
	expression, err := a.compileJQ()
	if err != nil {
		return err
	}
	results := expression.Run(tree)
	for {
		v, more := results.Next()
		if !more {
			return nil
		}
		if err, failed := v.(error); failed {
			return fmt.Errorf("--jq: %w", err)
		}
		if text, isText := v.(string); isText {
			_, err = fmt.Fprintln(a.toTerminal(printable), text)
		} else {
			err = encode.Encode(v)
		}
		if err != nil {
			return err
		}
	}
}

// compileJQ compiles the expression of --jq.
func (a *app) compileJQ() (code *gojq.Code, err error) {
	query, err := gojq.Parse(a.flags.jq)
	if err == nil {
		code, err = gojq.Compile(query)
	}
	if err != nil {
		return nil, usage("--jq: %w", err)
	}
	return code, nil
}

// printableLine returns text on one line, without characters that control a terminal or the order of
// its text.
func printableLine(text string) string {
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

// printable returns text without characters that control a terminal or the order of its text, but with
// its lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.In(r, unicode.Zl, unicode.Zp) || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, text)
}

// escaped returns JSON with escapes for characters that control a terminal or the order of its text.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= 0x7f && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// toTerminal returns the output, which on a terminal has what clean makes of text.
func (a *app) toTerminal(clean func(string) string) io.Writer {
	if !a.outTerminal {
		return a.out
	}
	return &cleaningWriter{to: a.out, clean: clean}
}

// cleaningWriter is a writer of what clean makes of text.
type cleaningWriter struct {
	to    io.Writer
	clean func(string) string
	rest  []byte // the beginning of a character
}

func (c *cleaningWriter) Write(p []byte) (int, error) {
	text := append(c.rest, p...)
	end := len(text)
	for i := max(0, end-utf8.UTFMax); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			end = i
			break
		}
	}
	c.rest = slices.Clone(text[end:])
	if _, err := io.WriteString(c.to, c.clean(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// displayWidth returns how many columns of a terminal a text takes.
func displayWidth(text string) (n int) {
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// truncate returns the beginning of a text that takes so many columns at most.
func truncate(text string, columns int) string {
	for i, r := range text {
		if columns -= displayWidth(string(r)); columns < 0 {
			return text[:i]
		}
	}
	return text
}

// enumFlag adds a flag that is to have one of the values, which shells complete. Its default is what to
// points to.
func enumFlag(c *cobra.Command, to *string, flag, about string, values ...string) {
	c.Flags().StringVar(to, flag, *to, about+": "+strings.Join(values[:len(values)-1], ", ")+" or "+values[len(values)-1])
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// valueOr returns *p, or other if p is nil.
func valueOr[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// formatOptional returns the text of *p, empty if p is nil.
func formatOptional[T any](p *T, text func(T) string) string {
	if p == nil {
		return ""
	}
	return text(*p)
}

// formatPercent returns a number of percent with its sign.
func formatPercent(n int64) string { return strconv.FormatInt(n, 10) + " %" }

// optionalText returns a pointer to text, nil if text is empty.
func optionalText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// formatTime returns a time as people read it.
func formatTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// formatSize returns a size in bytes as people read it.
func formatSize(n int64) string {
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
