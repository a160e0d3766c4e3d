package chat

import (
	"time"

	"collab/domain/id"
)

// ChunkType is the type of a chunk.
type ChunkType string

// The types of chunks. A stream is any number of text, tool_call and
// tool_result chunks and then one done or error, which ends it. A result comes
// after the call that it answers.
const (
	TextChunk   ChunkType = "text"
	CallChunk   ChunkType = "tool_call"
	ResultChunk ChunkType = "tool_result"
	ErrorChunk  ChunkType = "error"
	DoneChunk   ChunkType = "done"
)

// Chunk is one part of an answer.
type Chunk struct {
	Type ChunkType
	// Text is the text of a text chunk, and the message of an error.
	Text string

	CallID        string // of a call and of a result
	Name          string // of a call
	Args          string // of a call: a JSON object
	ServerHandled bool   // of a call
	Result        string // of a result: a JSON value

	Usage Usage // of done
}

// Usage is the usage of a call, in tokens.
type Usage struct {
	Input        int64 // cache reads and writes included
	Output       int64
	CacheRead    int64 // of Input
	CacheCreated int64 // of Input
	Searches     int64 // web searches
}

// Total returns the tokens that count against quotas.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Plus returns the sum of u and v.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheCreated + v.CacheCreated,
		u.Searches + v.Searches,
	}
}

// Provenance is the source of a usage's figures.
type Provenance string

const (
	Provider  Provenance = "provider"  // the provider's figures of the whole call
	Partial   Provenance = "partial"   // the provider's figure of the input, and our count of the output
	Estimated Provenance = "estimated" // our estimates
)

// FailureKind classifies a provider's failure.
type FailureKind uint8

const (
	OtherFailure FailureKind = iota // any other
	Overloaded                      // the provider is overloaded
	RateLimited
	Network   // the provider was not reached, or the connection was lost
	Truncated // the stream ended without its end marker
)

// Failure is an error of a provider. The cause is for the log and must not contain
// a provider's error message, which may repeat the conversation.
type Failure struct {
	Kind  FailureKind
	Cause error
}

func (f *Failure) Error() string {
	if f.Cause != nil {
		return f.Message() + ": " + f.Cause.Error()
	}
	return f.Message()
}

func (f *Failure) Unwrap() error { return f.Cause }

// Retryable reports whether the call may be made again, if no part of the answer was sent.
func (f *Failure) Retryable() bool { return f.Kind == Overloaded || f.Kind == Network }

// Message returns the message for the client.
func (f *Failure) Message() string {
	switch f.Kind {
	case Overloaded:
		return "The model is overloaded. Please retry in a few moments."
	case RateLimited:
		return "Rate limit exceeded."
	}
	return "An error occurred while processing your request."
}

// Outcome is how a call ended.
type Outcome string

const (
	Completed  Outcome = "completed"
	ClientGone Outcome = "client_gone"
	Failed     Outcome = "failed"    // the provider reported a failure
	CutOff     Outcome = "truncated" // the provider's stream ended without its end marker
	TimedOut   Outcome = "timeout"
	ShutDown   Outcome = "shutdown" // the server was stopped
)

// Reply has a provider's figures of a call, complete or interrupted.
type Reply struct {
	Usage       Usage
	InputKnown  bool   // Usage has the provider's figures of the input
	OutputKnown bool   // Usage has the provider's figure of the whole output
	Unsent      int64  // least estimate of the output that is in no chunk, such as a part of a call's arguments; 0 if OutputKnown
	Stop        string // why the model stopped, in the provider's words; empty when it did not
}

// Plus returns the reply of a call that was retried: the usage of both attempts. A figure
// is known if it is known of both.
func (r Reply) Plus(retry Reply) Reply {
	return Reply{
		Usage: r.Usage.Plus(retry.Usage), Unsent: r.Unsent + retry.Unsent,
		InputKnown: r.InputKnown && retry.InputKnown, OutputKnown: r.OutputKnown && retry.OutputKnown,
		Stop: retry.Stop,
	}
}

// FinalUsage returns the usage that a call is charged: the provider's figures where they
// are known, else estimates. Output is the least estimate of the chunks, in tokens.
func (c Call) FinalUsage(r Reply, output int64) (Usage, Provenance) {
	u, from := r.Usage, Provider
	if !r.OutputKnown {
		u.Output, from = max(u.Output, output+r.Unsent), Partial
	}
	if !r.InputKnown {
		u.Input, from = max(u.Input, c.Estimate()), Estimated
	}
	return u, from
}

// Generation is the record of a call for analytics: figures, never content.
type Generation struct {
	ID         id.Request
	Org        id.Org
	User       id.User
	Model      string
	Provider   string
	StartedAt  time.Time
	FirstChunk time.Duration // until the first chunk was sent; 0: none was
	Duration   time.Duration
	Usage      Usage
	Provenance Provenance
	Outcome    Outcome
	Failure    string // the kind of failure, empty for none
	Stop       string
	Tools      int // in the request
	WebSearch  bool
	Attempts   int
}

// String names the kind for the log and for analytics.
func (k FailureKind) String() string {
	return [...]string{"error", "overloaded", "rate_limited", "network", "truncated"}[k]
}
