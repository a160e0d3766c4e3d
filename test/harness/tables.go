package harness

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a file of tables.
const (
	maxTables    = 256 << 10 // bytes of a file
	maxTableLine = 4 << 10   // bytes of a line
)

// Cells with a meaning of their own.
const (
	arrow   = "->" // stands between what is asked and what is answered
	nothing = "-"  // no value
	anyway  = "?"  // the answer is not known, and only asked for
)

//go:embed testdata/tables/*.txt
var shipped embed.FS

// ErrDiffers is the error of tables that could be asked, and in which a row says
// something else than the domain.
var ErrDiffers = errors.New("the domain answers otherwise")

// PrintTables writes tables with the answers that the domain gives: those of the
// files, or those that ship where none is named. Where each row says what the
// domain answers, and its columns are aligned, what is written is what was read,
// with an empty line between files. Rows that differ are in the error, by file
// and line, which is then ErrDiffers; any other says why a file could not be
// read, and nothing is written.
func PrintTables(w io.Writer, files ...string) error {
	open := func(name string) (fs.File, error) { return os.Open(name) }
	if len(files) == 0 {
		var err error
		if files, err = fs.Glob(shipped, "testdata/tables/*.txt"); err != nil {
			return err
		}
		open = shipped.Open
	}
	var texts, differences []string
	for _, name := range files {
		content, err := readTables(open, name)
		if err != nil {
			return err
		}
		lines, err := parseTables(name, content)
		if err != nil {
			return err
		}
		text, different, err := answerTables(name, lines)
		if err != nil {
			return err
		}
		texts, differences = append(texts, text), append(differences, different...)
	}
	if _, err := io.WriteString(w, strings.Join(texts, "\n")); err != nil {
		return err
	}
	if len(differences) > 0 {
		return fmt.Errorf("%s\n%w", strings.Join(differences, "\n"), ErrDiffers)
	}
	return nil
}

func readTables(open func(string) (fs.File, error), name string) (string, error) {
	f, err := open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxTables+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxTables:
		return "", fmt.Errorf("%s: a file of tables has at most %d bytes", name, maxTables)
	}
	return string(content), nil
}

// tableLine is a line of a file of tables. One without cells is kept as it is: a
// comment, an empty line, or the name of a table.
type tableLine struct {
	number  int // from 1
	text    string
	table   string
	heading bool // its cells are the names of the columns
	in, out []cell
}

// cell is a value as it stands in a file, in quotes where it has to be, and what
// it means.
type cell struct{ text, value string }

// parseTables reads the tables in a file's content.
func parseTables(name, content string) ([]tableLine, error) {
	var lines []tableLine
	table, heading := "", false
	content = strings.TrimSuffix(strings.ReplaceAll(content, "\r\n", "\n"), "\n")
	for s := range strings.SplitSeq(content, "\n") {
		line := tableLine{number: len(lines) + 1, text: strings.TrimRight(s, " \t"), table: table}
		wrong := func(format string, args ...any) ([]tableLine, error) {
			return nil, fmt.Errorf("%s:%d: %s", name, line.number, fmt.Sprintf(format, args...))
		}
		if len(s) > maxTableLine {
			return wrong("a line has at most %d bytes", maxTableLine)
		}
		if !utf8.ValidString(s) {
			return wrong("this is not UTF-8")
		}
		trimmed := strings.TrimSpace(s)
		if trimmed == "" || trimmed[0] == '#' {
			lines = append(lines, line)
			continue
		}
		if named, ok := strings.CutPrefix(trimmed, "table "); ok && !strings.Contains(trimmed, arrow) {
			table, heading = strings.TrimSpace(named), true
			if _, ok := questions[table]; !ok {
				return wrong("there is no table %q; there are %s", table, strings.Join(tableNames(), ", "))
			}
			lines = append(lines, line)
			continue
		}
		if table == "" {
			return wrong("before rows there is a line with the name of their table, such as: table %s", tableNames()[0])
		}
		var err error
		if line.in, line.out, err = cells(trimmed); err != nil {
			return wrong("%s", err)
		}
		q := questions[table]
		if heading {
			if !slices.Equal(values(line.in), q.in) || !slices.Equal(values(line.out), q.out) {
				return wrong("the columns of the table %s are: %s  %s  %s", table, strings.Join(q.in, "  "), arrow, strings.Join(q.out, "  "))
			}
			line.heading, heading = true, false
		}
		if len(line.in) != len(q.in) || len(line.out) != len(q.out) && !slices.Equal(values(line.out), []string{anyway}) {
			return wrong("a row of the table %s has %d and %d cells, with two spaces between cells and %s between the two parts; here are %d and %d",
				table, len(q.in), len(q.out), arrow, len(line.in), len(line.out))
		}
		lines = append(lines, line)
	}
	if heading {
		return nil, fmt.Errorf("%s:%d: after the name of a table come its columns", name, len(lines))
	}
	return lines, nil
}

// cells splits a row at its two or more spaces, and at the arrow.
func cells(s string) (in, out []cell, err error) {
	s = strings.ReplaceAll(s, "\t", "  ")
	answer := false
	for s != "" {
		var c cell
		if s[0] == '"' {
			if c.text, err = strconv.QuotedPrefix(s); err != nil {
				return nil, nil, errors.New("a quotation mark is never closed, or something in the quotes is written wrong")
			}
			if c.value, err = strconv.Unquote(c.text); err != nil {
				return nil, nil, err
			}
			s = s[len(c.text):]
			if s != "" && s[0] != ' ' {
				return nil, nil, errors.New("after a closing quotation mark comes the next cell, or the end of the line")
			}
		} else {
			end := len(s)
			for _, mark := range []string{"  ", " " + arrow + " "} {
				if i := strings.Index(s, mark); i >= 0 {
					end = min(end, i)
				}
			}
			if rest, ok := strings.CutPrefix(s, arrow+" "); ok { // with one space behind it
				end = len(s) - len(rest) - 1
			}
			c = cell{s[:end], s[:end]}
			s = s[end:]
		}
		s = strings.TrimLeft(s, " ")
		switch {
		case c.text == arrow && answer:
			return nil, nil, fmt.Errorf("a row has one %s", arrow)
		case c.text == arrow:
			answer = true
		case answer:
			out = append(out, c)
		default:
			in = append(in, c)
		}
	}
	if !answer {
		return nil, nil, fmt.Errorf("a row has %s between what is asked and what is answered", arrow)
	}
	return in, out, nil
}

func values(of []cell) []string {
	all := make([]string, len(of))
	for i, c := range of {
		all[i] = c.value
	}
	return all
}

// shown returns the cell in which a value can be read again.
func shown(value string) cell {
	if value == "" || value != strings.TrimSpace(value) || value[0] == '"' || strings.Contains(value, "  ") || strings.Contains(value, arrow) ||
		strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return cell{strconv.Quote(value), value}
	}
	return cell{value, value}
}

// answerTables asks the domain for each row, and returns the tables with what it
// answers, and a report of each row that says something else.
func answerTables(name string, lines []tableLine) (text string, different []string, err error) {
	for i := range lines {
		line := &lines[i]
		if line.in == nil || line.heading {
			continue
		}
		q := questions[line.table]
		answers, err := q.ask(values(line.in))
		if err != nil {
			return "", nil, fmt.Errorf("%s:%d: %w", name, line.number, err)
		}
		var report strings.Builder
		said := line.out
		line.out = nil
		for n, answer := range answers {
			c := shown(answer)
			if len(said) == len(answers) && said[n].value == answer {
				c = said[n]
			} else if len(said) == len(answers) && said[n].value != anyway {
				fmt.Fprintf(&report, "\n  %s\n    expected  %s\n    actual    %s", q.out[n], said[n].text, c.text)
			}
			line.out = append(line.out, c)
		}
		if report.Len() > 0 {
			different = append(different, fmt.Sprintf("%s:%d: %s%s", name, line.number, strings.TrimSpace(line.text), report.String()))
		}
	}
	return aligned(lines), different, nil
}

// aligned returns the lines with the columns of each table below one another.
func aligned(lines []tableLine) string {
	widths := map[string][]int{}
	for _, l := range lines {
		for n, c := range l.row() {
			if n == len(widths[l.table]) {
				widths[l.table] = append(widths[l.table], 0)
			}
			widths[l.table][n] = max(widths[l.table][n], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, l := range lines {
		text := l.text
		if l.in != nil {
			text = ""
			for n, c := range l.row() {
				text += c.text + strings.Repeat(" ", widths[l.table][n]-utf8.RuneCountInString(c.text)+2)
			}
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return b.String()
}

// row returns the line's cells with the arrow, none for a line without cells.
func (l tableLine) row() []cell {
	if l.in == nil {
		return nil
	}
	return slices.Concat(l.in, []cell{{arrow, arrow}}, l.out)
}
