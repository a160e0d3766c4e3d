package harness

import (
	"strings"

	"collab/domain/chat"
	"collab/domain/quota"
	"collab/domain/usage"
)

// chatActs are what people ask of models, and what the models are set to answer.
var chatActs = []*act{
	{
		who: person, name: "chat", on: "message", args: "model maxTokens systemPrompt enableWebSearch tool leave",
		does: "Asks a model (POST /chat). Answers with text, chunks (type, text, name, args, result), usage.inputTokens, usage.outputTokens, and with error where the stream ended in one. `tool` names a tool of the client's; with `leave=true` the client is gone after the first chunk.",
		do:   talk,
	},
	{
		who: person, name: "models",
		does: "Lists the models, the default one first: id, displayName, provider, tier, contextWindow, maxOutputTokens, capabilities (GET /models).",
		do:   answers(func(c *call) (chat.Registry, error) { return c.Chats.Models(c.actor) }),
	},
	{
		who: person, name: "quota",
		does: "Answers with used, limit, remaining and resetsAt (GET /metering/quota).",
		do:   answers(func(c *call) (quota.Status, error) { return c.Chats.Quota(c.ctx, c.actor) }),
	},
	{
		who: person, name: "usage",
		does: "Answers with what the person used in the billing period: periodStart, periodEnd, inputTokens, outputTokens, totalTokens, requests, byModel, byDay (GET /metering/user).",
		do: func(c *call) (any, error) {
			s, err := c.Metering.Own(c.ctx, c.actor)
			return c.summary(s), err
		},
	},
	{
		who: person, name: "org-usage",
		does: "Answers with what everybody used in the billing period; byUser is for those who manage the organisation (GET /metering/org).",
		do: func(c *call) (any, error) {
			var r record
			users, isTold := []any{}, false
			err := c.Metering.Organisation(c.ctx, c.actor, func(s usage.Summary, byUser bool) error {
				r, isTold = c.summary(s), byUser
				return nil
			}, func(p usage.Part) error {
				users = append(users, c.sum(p.Sum, field{"userId", p.Of}))
				return nil
			})
			if isTold {
				r = append(r, field{"byUser", users})
			}
			return r, err
		},
	},

	{
		who: modeller, name: "say", on: "text?", args: "input output call args search times",
		does: "The next call (the next `times` calls) of a model answers with the text. `input` and `output` are the tokens that the provider counts, at most what was asked for; without them they follow from the texts. `call` names a tool of the client's that the model calls, with `args` as a JSON object; `search` is what it looks for in the web.",
		do: func(c *call) (any, error) {
			r := c.reply()
			return only(c, func() error { return c.queue(r) })
		},
	},
	{
		who: modeller, name: "always-say", on: "text?", args: "input output call args search",
		does: "Every call for which no other answer is set answers with the text.",
		do: func(c *call) (any, error) {
			r := c.reply()
			return only(c, func() error {
				c.Model.always = r
				return nil
			})
		},
	},
	{
		who: modeller, name: "fail", on: "how", args: "after times input",
		does: "The next call (the next `times` calls) fails: overloaded, rate-limited, network or broken. With `after` it fails once that text was said.",
		do: func(c *call) (any, error) {
			kind, ok := failures[c.subject()]
			if !ok {
				return nil, &misuse{"a model fails overloaded, rate-limited, network or broken"}
			}
			r := reply{text: c.text("after"), input: c.number("input", -1), fails: true, failure: kind}
			return only(c, func() error { return c.queue(r) })
		},
	},
	{
		who: modeller, name: "cut", on: "text?", args: "times input",
		does: "The stream of the next call breaks off after the text.",
		do: func(c *call) (any, error) {
			r := reply{text: c.subject(), input: c.number("input", -1), vanishes: true}
			return only(c, func() error { return c.queue(r) })
		},
	},
	{
		who: modeller, name: "fall-silent", on: "text?", args: "input",
		does: "The next call says the text and then nothing more, for ten minutes, which pass.",
		do: func(c *call) (any, error) {
			r := reply{text: c.subject(), input: c.number("input", -1), silent: true}
			return only(c, func() error { return c.queue(r) })
		},
	},
	{
		who: modeller, name: "calls",
		does: "Lists what analytics learned of the last calls, the oldest first: model, outcome, provenance, usage, attempts, failure, stop.",
		do:   func(c *call) (any, error) { return c.Model.generations, nil },
	},
}

var failures = map[string]chat.FailureKind{
	"overloaded": chat.Overloaded, "rate-limited": chat.RateLimited, "network": chat.Network, "broken": chat.Broken,
}

// maxQueued is how many answers can be set beforehand.
const maxQueued = 10_000

// queue sets the answer of the next calls.
func (c *call) queue(r reply) error {
	times := c.number("times", 1)
	if times < 1 || times > maxQueued-int64(len(c.Model.next)) {
		return &misuse{"at most 10000 answers are set beforehand"}
	}
	for range times {
		c.Model.next = append(c.Model.next, r)
	}
	return nil
}

func (c *call) reply() reply {
	return reply{
		text: c.subject(), input: c.number("input", -1), output: c.number("output", -1),
		call: c.text("call"), args: c.or("args", "{}"), search: c.text("search"),
	}
}

func talk(c *call) (any, error) {
	r := chat.Request{Message: c.subject(), Model: c.text("model"), System: c.text("systemPrompt"), WebSearch: c.flag("enableWebSearch")}
	if n := c.count("maxTokens"); n != nil {
		r.MaxTokens = new(int(*n))
	}
	if name := c.text("tool"); name != "" {
		r.Tools = []chat.Tool{{Name: name, Description: name, Schema: `{"type":"object"}`}}
	}
	leaves := c.flag("leave")
	if err := c.bad(); err != nil {
		return nil, err
	}
	call, err := c.Chats.Admit(c.ctx, c.actor, r)
	if err != nil {
		return nil, err
	}
	l := &listener{leaves: leaves}
	call.Run(c.ctx, l)
	var text strings.Builder
	var failed, used any
	chunks := []any{}
	for _, k := range l.chunks {
		part := record{{"type", string(k.Type)}}
		switch k.Type {
		case chat.TextChunk:
			text.WriteString(k.Text)
			part = append(part, field{"text", k.Text})
		case chat.ErrorChunk:
			failed = k.Text
			part = append(part, field{"error", k.Text})
		case chat.CallChunk:
			part = append(part, field{"name", k.Name}, field{"args", k.Args}, field{"serverHandled", write(view(k.ServerHandled, c.Clock.Now()))})
		case chat.ResultChunk:
			part = append(part, field{"result", k.Result})
		case chat.DoneChunk:
			used = view(k.Usage, c.Clock.Now())
		}
		chunks = append(chunks, part)
	}
	return record{{"text", unset(text.String())}, {"error", failed}, {"usage", used}, {"chunks", chunks}}, nil
}

// summary is a summary of usage as the interface has it.
func (c *call) summary(s usage.Summary) record {
	parts := func(name string, of []usage.Part) any {
		all := []any{}
		for _, p := range of {
			all = append(all, c.sum(p.Sum, field{name, p.Of}))
		}
		return all
	}
	r := record{{"periodStart", instant(s.Start)}, {"periodEnd", instant(s.End)}}
	r = append(r, c.sum(s.Sum)...)
	return append(r, field{"byModel", parts("model", s.ByModel)}, field{"byDay", parts("date", s.ByDay)})
}

func (c *call) sum(of usage.Sum, more ...field) record {
	return append(more, view(of, c.Clock.Now()).(record).with("totalTokens", of.Input+of.Output)...)
}
