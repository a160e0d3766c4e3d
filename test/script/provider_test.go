package script

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"collab/test/contract/provider"
)

// modelsKey is what the server shows to the provider of models.
const modelsKey = "key-of-the-scripts"

// models is the provider of models beside a server, which speaks both protocols.
// Conversations tell by the user's last text what it does.
type models struct {
	provider *provider.Server

	mu      sync.Mutex
	scripts map[string][]provider.Script  // guarded by mu
	asked   map[string][]provider.Request // guarded by mu
	waiting map[string]chan struct{}      // guarded by mu
}

func newModels(p *provider.Server) *models {
	m := &models{provider: p, scripts: map[string][]provider.Script{}, asked: map[string][]provider.Request{}, waiting: map[string]chan struct{}{}}
	p.Choose(m.choose)
	return m
}

func (m *models) choose(r provider.Request) provider.Script {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[r.Message] = append(m.asked[r.Message], r)
	scripts := m.scripts[r.Message]
	switch len(scripts) {
	case 0:
		return provider.Script{provider.Refuse(400, "invalid_request_error", "no conversation has a script for this")}
	case 1:
	default:
		m.scripts[r.Message] = scripts[1:]
	}
	return scripts[0]
}

// gate is closed when the provider is to go on with a message.
func (m *models) gate(message string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[message] == nil {
		m.waiting[message] = make(chan struct{})
	}
	return m.waiting[message]
}

func (m *models) hears(message string, s provider.Script) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts[message] = append(m.scripts[message], s)
}

func (m *models) questions(message string) []provider.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[message]
}

// words are what a script is written in. A text is given in pieces with | between
// them, each of which goes out on its own.
//
//	says It is |21 degrees.
//	thinks that it is warm
//	calls call_1 get_weather {"city":|"Oslo"}
//	searches srvtoolu_1 Oslo weather            and finds the page Example Domain
//	searches in vain srvtoolu_1 max_uses_exceeded
//	pings
//	waits                                       until it is to go on, or is left
//	uses input 12 read 3 made 4 output 7        instead of 12 and 7
//	stops pause_turn                            for this reason
//	refuses 529 overloaded_error Overloaded     before a stream
//	fails overloaded_error Overloaded           in the stream
//	ends early                                  in order, without the end marker
//	says no end marker                          but all that comes before it
//	drops                                       the connection
var words = map[string]func(rest string) (provider.Step, error){
	"says":     func(rest string) (provider.Step, error) { return provider.Text(strings.Split(rest, "|")...), nil },
	"thinks":   func(rest string) (provider.Step, error) { return provider.Think(rest), nil },
	"pings":    func(string) (provider.Step, error) { return provider.Ping(), nil },
	"stops":    func(rest string) (provider.Step, error) { return provider.Stop(rest), nil },
	"ends":     func(string) (provider.Step, error) { return provider.Cut(), nil },
	"drops":    func(string) (provider.Step, error) { return provider.Drop(), nil },
	"searches": searches,
	"calls": func(rest string) (provider.Step, error) {
		part := strings.SplitN(rest, " ", 3)
		if len(part) < 3 {
			return nil, fmt.Errorf("calls id name arguments is meant")
		}
		return provider.Call(part[0], part[1], strings.Split(part[2], "|")...), nil
	},
	"refuses": func(rest string) (provider.Step, error) {
		part := strings.SplitN(rest, " ", 3)
		status, err := strconv.Atoi(part[0])
		if err != nil || len(part) < 3 {
			return nil, fmt.Errorf("refuses status kind message is meant")
		}
		return provider.Refuse(status, part[1], part[2]), nil
	},
	"fails": func(rest string) (provider.Step, error) {
		kind, message, _ := strings.Cut(rest, " ")
		return provider.Fail(kind, message), nil
	},
	"uses": uses,
}

func searches(rest string) (provider.Step, error) {
	if failed, ok := strings.CutPrefix(rest, "in vain "); ok {
		id, code, _ := strings.Cut(failed, " ")
		return provider.SearchFailed(id, "something", code), nil
	}
	id, query, _ := strings.Cut(rest, " ")
	return provider.Search(id, query, provider.Result{Title: "Example Domain", URL: "https://example.com/"}), nil
}

func uses(rest string) (provider.Step, error) {
	var u provider.Usage
	part := strings.Fields(rest)
	for i := 0; i < len(part); i += 2 {
		field := map[string]*int64{"input": &u.Input, "read": &u.CacheRead, "made": &u.CacheCreated, "output": &u.Output}[part[i]]
		if field == nil || i+1 == len(part) {
			return nil, fmt.Errorf("uses input 1 read 2 made 3 output 4 is meant")
		}
		var err error
		if *field, err = strconv.ParseInt(part[i+1], 10, 64); err != nil {
			return nil, err
		}
	}
	return provider.SetUsage(u), nil
}

// script reads a script, whose waits end with the gate.
func script(lines []string, gate <-chan struct{}) (s provider.Script, err error) {
	for _, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		var step provider.Step
		switch read := words[word]; {
		case line == "waits":
			step = provider.Hold(gate)
		case line == "says no end marker":
			step = provider.Unmarked()
		default:
			if step, err = read(rest); err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
		}
		s = append(s, step)
	}
	return s, nil
}

// provide tells the provider what to do, or looks at what it was asked.
func (t *conversationRun) provide(line int, p *provision) []mismatch {
	stop := func(err error) []mismatch { return []mismatch{{line, err.Error(), true}} }
	say := func(format string, args ...any) []mismatch {
		return []mismatch{{line: line, text: fmt.Sprintf(format, args...)}}
	}
	message, err := t.values.fill(p.message)
	if err != nil {
		return stop(err)
	}
	m := t.server.models
	switch p.does {
	case "hears":
		lines := make([]string, len(p.script))
		for i := range lines {
			if lines[i], err = t.values.fill(p.script[i]); err != nil {
				return stop(err)
			}
		}
		s, err := script(lines, m.gate(message))
		if err != nil {
			return stop(err)
		}
		m.hears(message, s)
		return nil
	case "goes on with":
		close(m.gate(message))
		return nil
	}
	all := m.questions(message)
	if p.times >= 0 {
		if len(all) != p.times {
			return say("the provider was asked %d times", len(all))
		}
		return nil
	}
	n := t.looked[message]
	if t.looked[message]++; n >= len(all) {
		return say("the provider was asked %d times, and not again", n)
	}
	var wrong []string
	for _, h := range p.fields {
		if differs := t.values.match(h.value, all[n].Header.Get(h.name)); differs != "" {
			wrong = append(wrong, "header "+h.name+": "+differs)
		}
	}
	if p.body != "" {
		wrong = append(wrong, t.values.matchJSON(p.body, all[n].Body)...)
	}
	if len(wrong) == 0 {
		return nil
	}
	return say("the provider was asked otherwise\n\t%s\n\tquestion: %s", strings.Join(wrong, "\n\t"), all[n].Body)
}
