package ports

import (
	"context"

	"collab/domain/chat"
)

// Models is one provider of models.
type Models interface {
	// Stream makes one call and passes the response to the sink as it arrives, in the
	// caller's goroutine: text unchanged, a tool call once it is complete and its
	// arguments are a JSON object, and tools that the provider runs with their results. It
	// neither retries nor sends done or error chunks. If the provider pauses the response,
	// Stream continues it within the limits of chat.Call.NextLimits; if those are used up, it
	// ends the response as at the output limit.
	//
	// Stream returns nil only after the provider's end marker; else a chat.Failure, an
	// error of the sink unchanged, or the cause of ctx, whose end also ends the provider's
	// request. The cause of a failure is logged, so it contains no text of either side.
	// The reply has the usage as far as it is known.
	Stream(ctx context.Context, c chat.Call, to Sink) (chat.Reply, error)
}

// ChunkSink receives the chunks of a response. Its methods are never called concurrently.
type ChunkSink interface {
	// Chunk takes a chunk.
	Chunk(chat.Chunk) error
	// Wait flushes the chunks taken so far; it is called before more is waited for, and not after the last chunk.
	Wait() error
}

// Sink receives a response: chunks of the types text, tool_call and tool_result, and when the provider took part.
type Sink interface {
	ChunkSink
	// Sent is called once the provider's server has the whole request, which its operator bills from then on.
	Sent()
	// Alive is called whenever the provider has sent anything, even without a chunk.
	Alive()
}

// Generations records every call once. It does not block: records that it cannot store are
// dropped and counted.
type Generations interface {
	Record(g chat.Generation)
}
