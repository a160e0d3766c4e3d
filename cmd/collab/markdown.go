package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

const (
	maxTextWidth = 100      // of text that is wrapped
	maxBlock     = 64 << 10 // bytes of a block that are kept until it ends
)

// markdown writes Markdown to a terminal, each block once it has ended, so that its text cannot
// control the terminal. Close writes the rest.
type markdown struct {
	app       *app
	pending   string // blocks that may go on
	separator string // before the next block
	parser    parser.Parser
}

func (a *app) markdown() *markdown {
	return &markdown{app: a, parser: goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)).Parser()}
}

func (m *markdown) Write(p []byte) (int, error) {
	m.pending += string(p)
	if !strings.Contains(string(p), "\n") && len(m.pending) < maxBlock {
		// The begin of a line can end the block before it.
		if before := len(m.pending) - len(p); before == 0 || m.pending[before-1] != '\n' {
			return len(p), nil
		}
	}
	end := completeLength(m.pending)
	if end == 0 && len(m.pending) >= maxBlock {
		end = len(m.pending)
	}
	blocks := m.pending[:end]
	m.pending = m.pending[end:]
	return len(p), m.print(blocks)
}

func (m *markdown) Close() error {
	blocks := m.pending
	m.pending = ""
	return m.print(blocks)
}

// completeLength returns how many bytes of a text are blocks that have ended: what is before an empty line
// outside of code that a line without indentation follows.
func completeLength(text string) (end int) {
	at, fence, empty := 0, "", false
	for line := range strings.Lines(text) {
		if empty && strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '\t' {
			end = at
		}
		at += len(line)
		line = strings.TrimSpace(line)
		run := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		if run == "" {
			run = line[:len(line)-len(strings.TrimLeft(line, "~"))]
		}
		switch {
		case fence != "":
			if strings.HasPrefix(run, fence) && run == line {
				fence = ""
			}
		case len(run) >= 3 && !strings.Contains(line[len(run):], "`"):
			fence = run
		}
		empty = fence == "" && line == ""
	}
	return end
}

func (m *markdown) print(source string) error {
	var b strings.Builder
	m.writeBlocks(&b, m.parser.Parse(text.NewReader([]byte(source))), []byte(source), "", "", true)
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(m.app.out, m.separator+b.String())
	m.separator = "\n"
	return err
}

// writeBlocks writes the blocks below n. Their first line begins with first and the others with rest.
func (m *markdown) writeBlocks(b *strings.Builder, n ast.Node, source []byte, first, rest string, loose bool) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if c != n.FirstChild() {
			if first = rest; loose {
				b.WriteString(strings.TrimRight(rest, " ") + "\n")
			}
		}
		m.writeBlock(b, c, source, first, rest)
	}
}

// nestedPrefixes returns what the lines of a block begin with that is within another one: its own marks are left out once
// those of the others take half of the terminal.
func (m *markdown) nestedPrefixes(first, rest, mark, other string) (string, string) {
	if displayWidth(rest) >= m.width()/2 {
		return first, rest
	}
	return first + mark, rest + other
}

func (m *markdown) writeBlock(b *strings.Builder, n ast.Node, source []byte, first, rest string) {
	switch n := n.(type) {
	case *ast.Heading:
		m.writeWrapped(b, m.spans(n, source, bold), first, rest)
	case *ast.ThematicBreak:
		b.WriteString(first + strings.Repeat("─", min(m.width(), 40)) + "\n")
	case *ast.Blockquote:
		first, rest = m.nestedPrefixes(first, rest, "│ ", "│ ")
		m.writeBlocks(b, n, source, first, rest, true)
	case *ast.List:
		number := n.Start
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			marker := "• "
			if n.IsOrdered() {
				marker = fmt.Sprintf("%d. ", number)
				number++
			}
			marked, indented := m.nestedPrefixes(first, rest, marker, strings.Repeat(" ", displayWidth(marker)))
			m.writeBlocks(b, c, source, marked, indented, !n.IsTight)
			if first = rest; !n.IsTight && c.NextSibling() != nil {
				b.WriteString(strings.TrimRight(rest, " ") + "\n")
			}
		}
	case *ast.CodeBlock, *ast.FencedCodeBlock, *ast.HTMLBlock:
		lines := n.Lines().Sliced(0, n.Lines().Len())
		if html, ok := n.(*ast.HTMLBlock); ok && html.HasClosure() {
			lines = append(lines, html.ClosureLine)
		}
		for _, line := range lines {
			text := printable(strings.ReplaceAll(strings.TrimRight(string(line.Value(source)), "\n"), "\t", "    "))
			b.WriteString(first + "    " + m.app.styled(code, text) + "\n")
			first = rest
		}
	case *tables.Table:
		m.writeTable(b, n, source, first, rest)
	default:
		m.writeWrapped(b, m.spans(n, source, ""), first, rest)
	}
}

// writeTable writes a table, or a line for each cell where it does not fit the terminal.
func (m *markdown) writeTable(b *strings.Builder, n ast.Node, source []byte, first, rest string) {
	var lines [][][]span
	widths := make([]int, n.FirstChild().ChildCount())
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var line [][]span
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			line = append(line, m.spans(cell, source, map[bool]string{true: bold}[lines == nil]))
			widths[len(line)-1] = max(widths[len(line)-1], spansWidth(line[len(line)-1])+2)
		}
		lines = append(lines, line)
	}
	total := displayWidth(first) - 2
	for _, width := range widths {
		total += width
	}
	if total > m.width() {
		for _, line := range lines[1:] {
			for x, cell := range line {
				m.writeWrapped(b, slices.Concat(lines[0][x], []span{{": ", ""}}, cell), first, rest)
				first = rest
			}
		}
		return
	}
	for _, line := range lines {
		b.WriteString(first)
		for x, cell := range line {
			for _, s := range cell {
				b.WriteString(m.app.styled(s.style, s.text))
			}
			if x < len(line)-1 {
				b.WriteString(strings.Repeat(" ", widths[x]-spansWidth(cell)))
			}
		}
		b.WriteByte('\n')
		first = rest
	}
}

// span is text in one style, the parameters of an SGR sequence.
type span struct{ text, style string }

func spansWidth(all []span) (n int) {
	for _, s := range all {
		n += displayWidth(s.text)
	}
	return n
}

// spans returns the text below n. A line break in it ends a line.
func (m *markdown) spans(n ast.Node, source []byte, style string) (all []span) {
	with := func(more string) string {
		if slices.Contains(strings.Split(style, ";"), more) {
			return style
		}
		return strings.Trim(style+";"+more, ";")
	}
	add := func(text, style string) {
		if text != "" {
			all = append(all, span{printable(text), style})
		}
	}
	link := func(n ast.Node, destination []byte) {
		inside := m.spans(n, source, with(underlined))
		all = append(all, inside...)
		if len(inside) != 1 || inside[0].text != string(destination) {
			add(" ("+string(destination)+")", with(dim))
		}
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			value := c.Value(source)
			if !c.IsRaw() {
				value = util.UnescapePunctuations(util.ResolveEntityNames(util.ResolveNumericReferences(value)))
			}
			add(strings.ReplaceAll(string(value), "\n", " "), style)
			switch {
			case c.HardLineBreak():
				add("\n", style)
			case c.SoftLineBreak():
				add(" ", style)
			}
		case *ast.String:
			add(string(c.Value), style)
		case *ast.CodeSpan:
			all = append(all, m.spans(c, source, with(code))...)
		case *ast.Emphasis:
			all = append(all, m.spans(c, source, with([]string{italic, bold}[min(c.Level, 2)-1]))...)
		case *tables.Strikethrough:
			all = append(all, m.spans(c, source, with(struck))...)
		case *tables.TaskCheckBox:
			add(map[bool]string{true: "☑ ", false: "☐ "}[c.IsChecked], style)
		case *ast.Link:
			link(c, c.Destination)
		case *ast.Image:
			link(c, c.Destination)
		case *ast.AutoLink:
			add(string(c.Label(source)), with(underlined))
		case *ast.RawHTML:
			add(string(c.Segments.Value(source)), style)
		default:
			all = append(all, m.spans(c, source, style)...)
		}
	}
	return all
}

func (m *markdown) width() int {
	if m.app.width == 0 {
		return 80
	}
	return min(m.app.width, maxTextWidth)
}

// writeWrapped writes text in lines that fit the terminal.
func (m *markdown) writeWrapped(b *strings.Builder, all []span, first, rest string) {
	b.WriteString(first)
	column, gap := displayWidth(first), ""
	var word []span
	end := func() {
		if len(word) == 0 {
			return
		}
		if width := spansWidth(word); gap != "" && column+1+width > m.width() {
			b.WriteString("\n" + rest)
			column = displayWidth(rest) + width
		} else {
			b.WriteString(gap)
			column += len(gap) + width
		}
		for _, s := range word {
			b.WriteString(m.app.styled(s.style, s.text))
		}
		word, gap = nil, " "
	}
	for _, s := range all {
		for i, line := range strings.Split(s.text, "\n") {
			if i > 0 {
				end()
				b.WriteString("\n" + rest)
				column, gap = displayWidth(rest), ""
			}
			for j, part := range strings.Split(line, " ") {
				if j > 0 {
					end()
				}
				if part != "" {
					word = append(word, span{part, s.style})
				}
			}
		}
	}
	end()
	b.WriteByte('\n')
}
