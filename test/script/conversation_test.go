package script

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A document is one file of conversations.
//
// The file is prose with conversations in it. A line that begins with one of
// these marks and a space counts; every other line is for the reader.
//
//	== A task is made with its defaults
//
// begins a conversation, which has users, organisations and names of its own
// and runs beside the others.
//
//   - anna signs in to acme as owner
//   - zoe signs in
//   - calls come from 127.0.0.9
//   - calls go over HTTP/2
//
// Anna gets an account at the development identity provider, which tells the
// server of her, and exchanges its token for a service token. Zoe belongs to no
// organisation. The other lines set the address that what follows comes from, and
// the protocol.
//
//	> PATCH /api/v1/tasks/<id:report> as anna
//	> If-Match: <etag:first>
//	> {"title": "Write the report"}
//
// is a request: its headers, then its body, which is JSON unless a Content-Type
// says otherwise; the lines of a multipart body end as they must. After the path
// stand, in this order and all optional: "as anna" (her service token), "as
// anna's identity" (the provider's token), "as operator" (the admin secret), or
// "delivered m1" (a webhook message with this id, signed by the runner; with "by
// svix", "with the old secret", "with a wrong secret", "4m late" or "4m early"
// after it), or "signed" (a message of the payment provider, with "by stripe"
// and the same after it).
//
//	< 400 naming title
//	< ETag: <etag:second>
//	< no Link
//	< {"id": "<id:report>", "tags": [], ...}
//
// is the response that is expected: its status, headers, and its body, JSON in
// which "..." stands for more fields or elements. "naming title" says that the
// message has the field's name in it; "says text" that the body contains the
// text, "finds text" the same with placeholders that take what is there, and "is
// text" that the body is this and nothing else ("is" alone: it is empty).
//
//	> GET /api/v1/sync/changes as anna open as feed
//	> Last-Event-ID: <word:last>
//	< 200
//
// is a request whose answer is a stream of events that stays open under a name.
// What comes over it is stated by steps of their own, with an id, the event's type
// where it has one, and its data as JSON:
//
//   - feed begins
//     < id: <int:epoch>-0
//   - feed brings
//     < id: <int:epoch>-1
//     < {"type": "file-changed", ...}
//   - feed beats
//   - feed ends
//   - feed hangs up
//
// It begins with a retry time, a comment and an id without data; it brings the
// next event with data; it beats with a comment, of which one with an id is
// waited for where an id is expected; it ends in order; and it hangs up on our
// side. Nothing is ever skipped but comments.
//
//	< 200
//	< tells It is ... degrees.
//	< brings {"type": "done", ...}
//
// is a response that is a stream which ends: each line is an event with its data
// as JSON, except that "tells" stands for any number of text chunks of a model
// that say the text together.
//
//   - the provider hears Hello <unique>
//     < says It |is |21 degrees.
//     < stops end_turn
//   - the provider was asked Hello <unique>
//     < X-Api-Key: key
//     < {"model": "claude-sonnet-5-5", ...}
//   - the provider was asked 1 times Hello <unique>
//   - the provider goes on with Hello <unique>
//
// are about the provider of models that stands beside the server. What it does
// when a user's last text is the given one is a script, in the words that are in
// provider_test.go; the next script for the same text is for the next time, and
// the last one for all times after. What it was asked is looked at in order, and
// where a script says that it waits, a step lets it go on.
//
//	> GET /api/v1/metering/user as anna until so
//
// is asked again until the response is the expected one.
//
//	> POST <url:consent>
//
// goes to the authorization server that stands beside the server, where that is
// whose address a response had; the tool servers are in connectors_test.go.
//
// Placeholders are written <kind:name>. In a response the first one takes what is
// there, if it is of that kind, and later ones must find the same; in a request
// they stand for it. The kinds are in pattern_test.go.
//
//	$ COLLAB_RATE_LIMITS=caller=3/m
//
// before the first conversation gives the file a server of its own with this
// setting.
type document struct {
	path          string
	settings      []string
	conversations []conversation
}

type conversation struct {
	title string
	line  int
	steps []step
}

// A step is one of these: a sign-in, an address to call from, another protocol, a
// request with its response, what an open stream does, or something about the
// provider of models.
type step struct {
	line     int
	signIn   *signIn
	from     string
	http2    bool
	request  *request
	response *response
	frame    *expectedFrame
	provider *provision
}

// provision is what the provider of models is to do, or has done, about a
// message.
type provision struct {
	does    string // "hears", "was asked" or "goes on with"
	message string
	times   int      // that it was asked; -1: the next time is looked at
	script  []string // that it hears
	fields  []header
	body    string
}

// expectedFrame is what a stream is expected to do.
type expectedFrame struct {
	stream string
	does   string // "begins", "brings", "beats", "ends" or "hangs up"
	fields []header
	body   string
}

type signIn struct {
	who, org, role string
}

type request struct {
	line     int
	method   string
	target   string
	as       string // caller's name, "operator" or empty
	identity bool   // as, with the identity provider's token
	delivery *delivery
	stream   string // the name under which the response stays open, or empty
	until    bool   // asked again until it is answered so
	headers  []header
	body     string
}

type delivery struct {
	id      string // empty: the payment provider's, whose messages have theirs in the body
	svix    bool
	payment bool
	stripe  bool          // in the header that the payment provider names after itself
	secret  string        // "", "old" or "wrong"
	shift   time.Duration // of the timestamp
}

type header struct {
	line        int
	name, value string
	absent      bool
}

type response struct {
	line     int
	status   int
	field    string
	headers  []header
	body     string
	contains []string
	finds    []string
	is       *string // the whole body
	events   []event // all of a stream
}

// event is one event of a stream that ends, or the texts of several.
type event struct {
	tells bool
	data  string
}

var (
	signInLine   = regexp.MustCompile(`^([a-z]+) signs in(?: to ([a-z]+)(?: as ([a-z:_]+))?)?$`)
	fromLine     = regexp.MustCompile(`^calls come from (\d+\.\d+\.\d+\.\d+)$`)
	streamLine   = regexp.MustCompile(`^([a-z]+) (begins|brings|beats|ends|hangs up)$`)
	providerLine = regexp.MustCompile(`^the provider (hears|was asked|goes on with) (?:(\d+) times )?(.+)$`)
	requestLine  = regexp.MustCompile(`^([A-Z]+) (\S+)(?: as ([a-z]+)('s identity)?)?(?: open as ([a-z]+))?( until so)?(?: (?:delivered (\S+)( by svix)?|(signed)( by stripe)?)(?: with (?:the|a) (old|wrong) secret)?(?: (\d+[smh]) (late|early))?)?$`)
	statusLine   = regexp.MustCompile(`^(\d{3})(?: naming (\S+))?$`)
	headerLine   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*): ?(.*)$`)
	absentLine   = regexp.MustCompile(`^no ([A-Za-z][A-Za-z0-9-]*)$`)
)

func parse(path, text string) (*document, error) {
	d := &document{path: path}
	var c *conversation
	var s *step // the request or answer that is being read
	number := 0
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", path, number, fmt.Sprintf(format, args...))
	}
	unanswered := func() error {
		if c == nil || len(c.steps) == 0 {
			return nil
		}
		if last := c.steps[len(c.steps)-1]; last.request != nil && last.response == nil {
			return fmt.Errorf("%s:%d: the request has no answer", path, last.line)
		}
		return nil
	}
	previous := byte(0)
	for raw := range strings.Lines(text) {
		number++
		line := strings.TrimRight(raw, "\r\n")
		mark, rest := byte(0), ""
		if line != "" {
			mark = line[0]
			rest = strings.TrimPrefix(line[1:], " ")
		}
		switch {
		case strings.HasPrefix(line, "== "):
			if err := unanswered(); err != nil {
				return nil, err
			}
			d.conversations = append(d.conversations, conversation{title: strings.TrimSpace(line[3:]), line: number})
			c, s = &d.conversations[len(d.conversations)-1], nil
			mark = '='
		case mark == '$':
			if c != nil || !strings.Contains(rest, "=") {
				return nil, fail("a setting is NAME=value before the first conversation")
			}
			d.settings = append(d.settings, rest)
		case mark == '*' || mark == '>' || mark == '<':
			if len(line) > 1 && line[1] != ' ' {
				return nil, fail("a space is missing after %q", mark)
			}
			if c == nil {
				return nil, fail("this belongs to no conversation")
			}
			switch mark {
			case '*':
				if err := unanswered(); err != nil {
					return nil, err
				}
				next := step{line: number}
				if m := signInLine.FindStringSubmatch(rest); m != nil {
					next.signIn = &signIn{who: m[1], org: m[2], role: m[3]}
				} else if m := fromLine.FindStringSubmatch(rest); m != nil {
					next.from = m[1]
				} else if rest == "calls go over HTTP/2" {
					next.http2 = true
				} else if m := streamLine.FindStringSubmatch(rest); m != nil {
					next.frame = &expectedFrame{stream: m[1], does: m[2]}
				} else if m := providerLine.FindStringSubmatch(rest); m != nil && (m[2] == "" || m[1] == "was asked") {
					next.provider = &provision{does: m[1], message: m[3], times: -1}
					if m[2] != "" {
						next.provider.times, _ = strconv.Atoi(m[2])
					}
				} else {
					return nil, fail("unknown statement %q", rest)
				}
				c.steps = append(c.steps, next)
				s = &c.steps[len(c.steps)-1]
			case '>':
				if previous != '>' {
					if err := unanswered(); err != nil {
						return nil, err
					}
					r, err := parseRequest(rest)
					if err != nil {
						return nil, fail("%v", err)
					}
					r.line = number
					c.steps = append(c.steps, step{line: number, request: r})
					s = &c.steps[len(c.steps)-1]
					break
				}
				addTo(&s.request.headers, &s.request.body, rest, number)
			case '<':
				if s != nil && s.frame != nil && (previous == '*' || previous == '<') {
					addTo(&s.frame.fields, &s.frame.body, rest, number)
					break
				}
				if s != nil && s.provider != nil && (previous == '*' || previous == '<') {
					if s.provider.does == "hears" {
						if word, _, _ := strings.Cut(rest, " "); words[word] == nil && rest != "waits" {
							return nil, fail("a provider does not understand %q", rest)
						}
						s.provider.script = append(s.provider.script, rest)
					} else {
						addTo(&s.provider.fields, &s.provider.body, rest, number)
					}
					break
				}
				if s == nil || s.request == nil {
					return nil, fail("an answer without a request")
				}
				if previous != '<' {
					m := statusLine.FindStringSubmatch(rest)
					if m == nil || s.response != nil {
						return nil, fail("an answer begins with its status, once")
					}
					status, _ := strconv.Atoi(m[1])
					s.response = &response{line: number, status: status, field: m[2]}
					break
				}
				if text, ok := strings.CutPrefix(rest, "says "); ok && s.response.body == "" {
					s.response.contains = append(s.response.contains, text)
				} else if text, ok := strings.CutPrefix(rest, "brings "); ok && s.response.body == "" {
					s.response.events = append(s.response.events, event{data: text})
				} else if text, ok := strings.CutPrefix(rest, "tells "); ok && s.response.body == "" {
					s.response.events = append(s.response.events, event{tells: true, data: text})
				} else if text, ok := strings.CutPrefix(rest, "finds "); ok && s.response.body == "" {
					s.response.finds = append(s.response.finds, text)
				} else if text, ok := strings.CutPrefix(rest+" ", "is "); ok && s.response.body == "" {
					text = strings.TrimSuffix(text, " ")
					s.response.is = &text
				} else if m := absentLine.FindStringSubmatch(rest); m != nil && s.response.body == "" {
					s.response.headers = append(s.response.headers, header{line: number, name: m[1], absent: true})
				} else {
					addTo(&s.response.headers, &s.response.body, rest, number)
				}
			}
		default:
			mark = 0
		}
		if mark != 0 || line == "" {
			previous = mark
		} else {
			previous = 0
		}
	}
	if err := unanswered(); err != nil {
		return nil, err
	}
	if len(d.conversations) == 0 {
		return nil, fmt.Errorf("%s: no conversations", path)
	}
	return d, nil
}

// addTo takes a line as a header as long as there is no body.
func addTo(headers *[]header, body *string, line string, number int) {
	if *body == "" {
		if m := headerLine.FindStringSubmatch(line); m != nil {
			*headers = append(*headers, header{line: number, name: m[1], value: m[2]})
			return
		}
		*body = line
		return
	}
	*body += "\n" + line
}

func parseRequest(line string) (*request, error) {
	m := requestLine.FindStringSubmatch(line)
	if m == nil {
		return nil, fmt.Errorf("unknown request %q", line)
	}
	r := &request{method: m[1], target: m[2], as: m[3], identity: m[4] != "", stream: m[5], until: m[6] != ""}
	if m[7] != "" || m[9] != "" {
		r.delivery = &delivery{id: m[7], svix: m[8] != "", payment: m[9] != "", stripe: m[10] != "", secret: m[11]}
		if m[12] != "" {
			by, err := time.ParseDuration(m[12])
			if err != nil {
				return nil, err
			}
			if m[13] == "late" {
				by = -by
			}
			r.delivery.shift = by
		}
	}
	return r, nil
}
