package ports

import (
	"context"

	"collab/domain/chat"
)

// Models is one provider of models.
type Models interface {
	// Stream makes one call and hands its answer to the sink as it comes, in the
	// caller's goroutine: text as it is, a call of a tool once it is complete and
	// its arguments are a JSON object, what the provider ran itself with its
	// result. It neither retries nor sends done or error chunks. An answer that the
	// provider pauses it continues, each message within the limits of chat.Call.Next,
	// and ends as at the limit of output where that has none. It returns nil only after the provider's own end
	// marker; else a chat.Failure, an error of the sink as it is, or the cause of a
	// ctx that has ended, which also ends the provider's work at once. The cause of
	// a failure goes to the log, and so has nothing of what either side said. The
	// reply has what was known of the usage by then.
	Stream(ctx context.Context, c chat.Call, to Sink) (chat.Reply, error)
}

// Sink takes an answer. The adapter calls its methods one after the other.
type Sink interface {
	// Chunk takes a chunk of the types text, tool_call and tool_result.
	Chunk(chat.Chunk) error
	// Alive says that the provider has sent something, as much as it may be.
	Alive()
	// Wait says that nothing more is there yet: what was taken must go out now.
	Wait() error
}

// Generations learns of every call once. It neither waits nor fails: what cannot
// be kept is dropped and counted.
type Generations interface {
	Record(g chat.Generation)
}
