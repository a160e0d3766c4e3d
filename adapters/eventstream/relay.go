package eventstream

import "context"

// Sink receives the chunks of a response.
type Sink[C any] interface {
	Chunk(C) error
	Wait() error
	Sent()
	Alive()
}

// Relay passes chunks to a sink, and calls its Wait once after the last chunk.
type Relay[C any] struct {
	To      Sink[C]
	Err     error // the last error of the sink
	pending bool  // a chunk was sent since the last Wait
}

// Chunk sends a chunk.
func (r *Relay[C]) Chunk(c C) error {
	r.pending = true
	r.Err = r.To.Chunk(c)
	return r.Err
}

// Wait calls the sink's Wait unless nothing was sent since the last time.
func (r *Relay[C]) Wait() error {
	if !r.pending {
		return nil
	}
	r.pending = false
	r.Err = r.To.Wait()
	return r.Err
}

// Cause returns the error of a stream that was relayed: the sink's, that of ctx if it
// ended, else err.
func (r *Relay[C]) Cause(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case r.Err != nil:
		return r.Err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}
