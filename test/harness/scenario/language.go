// Package scenario runs scenarios, text files with requests to the API, acts of outside
// parties and expectations, against the whole server in one process: without network, database
// or files, and with a clock that they move.
package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// scenario is a file of acts and of what is expected of them.
type scenario struct {
	File  string
	steps []*step
}

// syntaxError is something in a file that is not the language of scenarios.
type syntaxError struct {
	File    string
	Line    int
	Message string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message) }

// step is an act with its expectations, or a block of steps.
type step struct {
	line int
	text string // as it was written

	act     *act // nil: a block
	actor   string
	subject *word // the argument without a name; nil: none
	args    []word
	as      *word // the name for the result; nil: none
	expects []expectation
	refusal *refusal // nil: the act must succeed

	variable string // of a block; empty: none
	values   []string
	times    int // how often a block without values runs
	body     []*step
}

// expectation is a condition on the result of an act.
type expectation struct {
	line  int
	text  string
	path  word
	op    string
	value word
}

// word is a part of a line between spaces.
type word struct {
	key    string // of key=value
	keyed  bool
	text   string // without quotes; of key=value the value
	quoted bool   // the text was in quotes, and stands for itself
}

var operators = []string{"=", "!=", "~", "!~", "<", ">"}

// parse reads a scenario. All errors are returned, as *syntaxError joined in a list.
func parse(file, text string) (*scenario, []error) {
	p := &parser{file: file}
	for line := range strings.SplitSeq(text, "\n") {
		p.read(line)
	}
	if len(p.errs) == 0 && len(p.open) > 0 {
		b := p.open[len(p.open)-1]
		p.line = b.line
		p.fail("the block %q has no end", b.text)
	}
	if len(p.errs) > 0 {
		return nil, p.errs
	}
	return &scenario{File: file, steps: p.steps}, nil
}

type parser struct {
	file  string
	line  int
	steps []*step
	open  []*step // the blocks around the present line, the innermost last
	last  *step   // the act that expectations are about; nil: none
	errs  []error
}

func (p *parser) fail(format string, args ...any) {
	p.errs = append(p.errs, &syntaxError{p.file, p.line, fmt.Sprintf(format, args...)})
}

// read takes the next line.
func (p *parser) read(line string) {
	p.line++
	text := strings.TrimSpace(line)
	if text == "" || text[0] == '#' {
		return
	}
	if text[0] == '!' && (len(text) == 1 || text[1] == ' ') {
		p.refusal(strings.TrimSpace(text[1:]))
		return
	}
	words, err := split(text)
	if err != "" {
		p.fail("%s", err)
		return
	}
	if len(words) > 1 && !words[1].keyed && !words[1].quoted && slices.Contains(operators, words[1].text) {
		p.expectation(text, words)
		return
	}
	if words[0].keyed || words[0].quoted {
		p.fail("a line begins with the actor, or is an expectation: path = value, with spaces around the sign")
		return
	}
	switch words[0].text {
	case "repeat", "each":
		p.block(text, words)
	case "end":
		p.last = nil
		if len(p.open) == 0 {
			p.fail("end without repeat or each")
			return
		}
		if len(words) > 1 {
			p.fail("nothing stands behind end")
		}
		p.open = p.open[:len(p.open)-1]
	default:
		p.act(text, words)
	}
}

// add puts a step where the present line is.
func (p *parser) add(s *step) {
	s.line = p.line
	if n := len(p.open); n > 0 {
		p.open[n-1].body = append(p.open[n-1].body, s)
		return
	}
	p.steps = append(p.steps, s)
}

func (p *parser) block(text string, words []word) {
	s := &step{text: text}
	p.last = nil
	switch {
	case words[0].text == "repeat" && (len(words) == 2 || len(words) == 4 && words[2].text == "as"):
		n, err := strconv.Atoi(words[1].text)
		if err != nil || n < 0 {
			p.fail("%q is not how often a block is repeated", words[1].text)
		}
		s.times = n
		if len(words) == 4 {
			s.variable = words[3].text
		}
	case words[0].text == "each" && len(words) >= 4 && words[2].text == "in":
		s.variable = words[1].text
		for _, w := range words[3:] {
			values, problem := span(w)
			if problem != "" {
				p.fail("%s", problem)
				break
			}
			s.values = append(s.values, values...)
		}
	default:
		p.fail("write repeat 10, repeat 10 as day, each m in ada bob, or each m in m1..m50")
	}
	if s.variable != "" && !isName(s.variable) {
		p.fail("%q cannot be the name of a variable", s.variable)
	}
	p.add(s)
	p.open = append(p.open, s)
}

// span returns the values that a word of each stands for: m1..m3 is m1 m2 m3.
func span(w word) (values []string, problem string) {
	first, last, ok := strings.Cut(w.text, "..")
	if !ok || w.quoted {
		return []string{w.text}, ""
	}
	stem, from := number(first)
	stem2, to := number(last)
	if from < 0 || to < from || stem2 != "" && stem2 != stem {
		return nil, fmt.Sprintf("%q is not a row of names such as m1..m50", w.text)
	}
	for n := from; n <= to; n++ {
		values = append(values, stem+strconv.Itoa(n))
	}
	return values, ""
}

// number takes the number off the end of a name; -1: there is none.
func number(s string) (stem string, n int) {
	stem = strings.TrimRight(s, "0123456789")
	n, err := strconv.Atoi(s[len(stem):])
	if err != nil {
		n = -1
	}
	return stem, n
}

func (p *parser) act(text string, words []word) {
	s := &step{text: text, actor: words[0].text}
	p.last = s
	before := len(p.errs)
	party, words := partyOf(s.actor), words[1:]
	if party == person && !isPerson(s.actor) && !strings.Contains(s.actor, "$") {
		p.fail("%q cannot act: names of people are small letters, digits and hyphens, the first a letter", s.actor)
		return
	}
	name := ""
	if party != clock {
		if len(words) == 0 || words[0].keyed || words[0].quoted {
			p.fail("write what %s does, such as %s GET /auth/me", s.actor, s.actor)
			return
		}
		name, words = words[0].text, words[1:]
	}
	if s.act = actOf(party, name); s.act == nil {
		p.fail("%s is not an act of %s", name, party)
		return
	}
	if n := len(words); n > 1 && words[n-2] == (word{text: "as"}) && !words[n-1].keyed {
		if s.as, words = &words[n-1], words[:n-2]; !isName(s.as.text) && !strings.Contains(s.as.text, "$") {
			p.fail("%q cannot be a name: names are letters, digits, hyphens and underscores, the first a letter", s.as.text)
		}
	}
	for _, w := range words {
		switch {
		case w.keyed && slices.ContainsFunc(s.args, func(a word) bool { return a.key == w.key }):
			p.fail("%s stands twice", w.key)
		case w.keyed && !s.act.takes(w.key):
			p.fail("%s does not take %s", s.act.title(), w.key)
		case w.keyed:
			s.args = append(s.args, w)
		case s.subject == nil && s.act.subject != "":
			s.subject = &w
		case s.act.subject == "":
			p.fail("%s takes no argument without a name: write name=value", s.act.title())
		default:
			p.fail("%q is one too many: texts with spaces stand in quotes, and as name at the end", w.text)
		}
	}
	if s.subject == nil && s.act.needsSubject() {
		p.fail("%s needs %s", s.act.title(), s.act.subject)
	}
	for _, name := range s.act.required() {
		if !slices.ContainsFunc(s.args, func(a word) bool { return a.key == name }) {
			p.fail("%s needs %s=…", s.act.title(), name)
		}
	}
	p.checkVariables(s.actor)
	for _, w := range append(slices.Clone(s.args), valueOf(s.subject), valueOf(s.as)) {
		p.checkVariables(w.text)
	}
	if len(p.errs) == before {
		p.add(s)
	}
}

func valueOf(w *word) word {
	if w == nil {
		return word{}
	}
	return *w
}

// checkVariables checks that every $name of a text belongs to a block around it.
func (p *parser) checkVariables(text string) {
	expand(text, func(name string) (string, bool) {
		if !slices.ContainsFunc(p.open, func(b *step) bool { return b.variable == name }) {
			p.fail("no block around this line has the variable $%s; a $ by itself is written $$", name)
		}
		return "", true
	})
}

func (p *parser) expectation(text string, words []word) {
	if p.last == nil {
		p.fail("an expectation stands below an act")
		return
	}
	if len(words) != 3 {
		p.fail("an expectation is path, sign and value: a text with spaces stands in quotes")
		return
	}
	path := words[0]
	if path.quoted || path.keyed {
		p.fail("%q does not begin with a path", text)
		return
	}
	if _, err := parsePath(path.text); err != "" && !strings.Contains(path.text, "$") {
		p.fail("%s", err)
	}
	value := words[2]
	if value.keyed {
		value = word{text: value.key + "=" + value.text}
	}
	p.last.expects = append(p.last.expects, expectation{p.line, text, path, words[1].text, value})
	p.checkVariables(path.text)
	p.checkVariables(value.text)
}

// refusal reads the status that an act must fail with, and its message.
func (p *parser) refusal(text string) {
	status, message, _ := strings.Cut(text, ":")
	status, message = strings.TrimSpace(status), strings.TrimSpace(message)
	code, _ := strconv.Atoi(status)
	switch {
	case p.last == nil:
		p.fail("a refusal stands below an act")
	case p.last.refusal != nil:
		p.fail("an act is refused once")
	case status != crashed && (code < 400 || code > 599):
		p.fail("%q is no refusal: write ! and a status from 400 to 599, or %s", status, crashed)
	default:
		p.last.refusal = &refusal{p.line, status, message}
		p.checkVariables(message)
	}
}

// split cuts a line into words. The problem is empty when there is none.
func split(line string) (words []word, problem string) {
	for i := 0; ; {
		for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
			i++
		}
		if i == len(line) || line[i] == '#' {
			return words, ""
		}
		var w word
		var n int
		if w, n, problem = next(line[i:]); problem != "" {
			return nil, problem
		}
		words = append(words, w)
		i += n
	}
}

// next reads the word at the beginning of a text, and how long it is. Quotes are
// quotes where a word or a value begins, and brackets hold spaces together in
// paths.
func next(s string) (w word, n int, problem string) {
	var b strings.Builder
	for n < len(s) && s[n] != ' ' && s[n] != '\t' {
		switch c := s[n]; {
		case c == '"' && b.Len() == 0:
			text, size, bad := unquote(s[n:])
			if bad != "" {
				return w, 0, bad
			}
			if n += size; n < len(s) && s[n] != ' ' && s[n] != '\t' {
				return w, 0, "a space is missing behind a text in quotes"
			}
			w.text, w.quoted = text, true
			return w, n, ""
		case c == '[' && !w.keyed:
			end := strings.IndexByte(s[n:], ']')
			if end < 0 {
				return w, 0, "[ without ]"
			}
			b.WriteString(s[n : n+end+1])
			n += end + 1
			continue
		case c == '=' && !w.keyed && isName(b.String()):
			w.key, w.keyed = b.String(), true
			b.Reset()
		default:
			b.WriteByte(c)
		}
		n++
	}
	w.text = b.String()
	return w, n, ""
}

// unquote reads a text in quotes at the beginning of s.
func unquote(s string) (text string, n int, problem string) {
	var b strings.Builder
	for n = 1; n < len(s); n++ {
		switch s[n] {
		case '"':
			return b.String(), n + 1, ""
		case '\\':
			n++
			if n == len(s) {
				return "", 0, "the text in quotes has no end"
			}
			switch s[n] {
			case '"', '\\':
				b.WriteByte(s[n])
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				return "", 0, fmt.Sprintf(`\%c has no meaning: write \" \\ \n or \t`, s[n])
			}
		default:
			b.WriteByte(s[n])
		}
	}
	return "", 0, "the text in quotes has no end"
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// isName reports whether s can be the name of a result.
func isName(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isDigit(s[i]) && s[i] != '-' && s[i] != '_') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// isPerson reports whether s can be the name of a person.
func isPerson(s string) bool {
	return isName(s) && s == strings.ToLower(s) && !strings.Contains(s, "_")
}

// expand replaces every $name in a text, and $$ by $.
func expand(text string, value func(name string) (string, bool)) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == '$' {
			b.WriteByte('$')
			i++
			continue
		}
		end := i + 1
		for end < len(text) && (isLetter(text[end]) || end > i+1 && isDigit(text[end])) {
			end++
		}
		v, ok := value(text[i+1 : end])
		if !ok {
			v = text[i:end]
		}
		b.WriteString(v)
		i = end - 1
	}
	return b.String()
}

// part is one step of a path.
type part struct {
	name  string // of a field
	index *int   // of an element, from 0; below 0 from the end
	key   string // of the field by which an element is found; empty: by its id
	value string
	find  bool
}

// parsePath reads a path such as tasks[0].title, [@bob].role or [title=Notes].
func parsePath(s string) (parts []part, problem string) {
	bad := fmt.Sprintf("%q is no path: write field, a.b, [0].field, [@name].field or [field=value].field", s)
	for rest := s; rest != ""; {
		if rest[0] == '[' {
			inside, after, ok := strings.Cut(rest[1:], "]")
			if !ok || inside == "" {
				return nil, bad
			}
			if n, err := strconv.Atoi(inside); err == nil {
				parts = append(parts, part{index: &n})
			} else if key, value, ok := strings.Cut(inside, "="); ok {
				parts = append(parts, part{find: true, key: strings.TrimSpace(key), value: strings.TrimSpace(value)})
			} else if inside[0] == '@' {
				parts = append(parts, part{find: true, value: inside})
			} else {
				return nil, bad
			}
			rest = after
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if !isName(rest[:end]) {
				return nil, bad
			}
			parts = append(parts, part{name: rest[:end]})
			rest = rest[end:]
		}
		if rest != "" && rest[0] == '.' {
			if rest = rest[1:]; rest == "" {
				return nil, bad
			}
		} else if rest != "" && rest[0] != '[' {
			return nil, bad
		}
	}
	if parts == nil {
		return nil, bad
	}
	return parts, ""
}
