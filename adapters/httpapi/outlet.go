package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"

	"collab/adapters/httpapi/spool"
	"collab/domain/fault"
)

// What a list that is being read waits for its client, all in all. Whoever takes
// it more slowly must not hold a connection of the database's meanwhile.
const (
	outletParts    = 8 // of flushAt bytes, that wait in memory
	outletPatience = 250 * time.Millisecond
)

// outlet sends a list while it is read. What the client is too slow for waits in
// memory for a moment, and then in a file. A list whose reading holds nothing between
// two records waits for its client instead.
type outlet struct {
	c      *call
	waits  bool
	parts  chan *[]byte  // for the sender; nil: nothing was sent yet
	sent   chan struct{} // closed when the sender is done
	err    error         // of the sender; read when it is done
	waited time.Duration // for the sender
	full   bool          // the rest is kept
	rest   *spool.Spool
}

// put takes a part of the list over and returns a buffer for the next.
func (o *outlet) put(part *[]byte) (*[]byte, error) {
	if o.parts == nil {
		o.c.Header()["Content-Type"] = jsonType
		o.parts, o.sent = make(chan *[]byte, outletParts), make(chan struct{})
		go o.send()
	}
	if !o.full {
		switch taken, err := o.offer(part); {
		case err != nil:
			return part, err
		case taken:
			return take(), nil
		}
		o.full = true
	}
	if _, err := o.rest.Write(*part); err != nil {
		return part, fault.Wrap(fault.Unavailable, err, "There is no room for the list now")
	}
	*part = (*part)[:0]
	return part, nil
}

// offer gives the sender a part, as long as there is patience left.
func (o *outlet) offer(part *[]byte) (taken bool, err error) {
	select {
	case o.parts <- part:
		return true, nil
	case <-o.sent:
		return false, o.c.leave(o.err)
	default:
	}
	if o.waits {
		select {
		case o.parts <- part:
			return true, nil
		case <-o.sent:
			return false, o.c.leave(o.err)
		}
	}
	began := time.Now()
	patience := time.NewTimer(outletPatience - o.waited)
	defer patience.Stop()
	select {
	case o.parts <- part:
		o.waited += time.Since(began)
		return true, nil
	case <-o.sent:
		return false, o.c.leave(o.err)
	case <-patience.C:
		return false, nil
	}
}

func (o *outlet) send() {
	defer close(o.sent)
	for part := range o.parts {
		o.c.prolong(len(*part))
		if _, o.err = o.c.Write(*part); o.err != nil {
			return
		}
		give(part)
	}
}

// finish sends what is left.
func (o *outlet) finish() error {
	o.end()
	if o.err != nil {
		return o.c.leave(o.err)
	}
	if !o.full {
		return nil
	}
	if err := o.rest.Rewind(); err != nil {
		return err
	}
	b := take()
	defer give(b)
	for part := (*b)[:cap(*b)]; ; {
		n, err := o.rest.Read(part)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		o.c.prolong(n)
		if _, err := o.c.Write(part[:n]); err != nil {
			return o.c.leave(err)
		}
	}
}

// end waits for the sender, who gets no more parts.
func (o *outlet) end() {
	if o.parts != nil {
		close(o.parts)
		<-o.sent
		o.parts = nil
	}
}

// close ends the sending, also of what was not sent, and gives back what the
// outlet takes.
func (o *outlet) close() {
	if o.parts != nil {
		_ = http.NewResponseController(o.c.w).SetWriteDeadline(time.Unix(1, 0))
		o.end()
	}
	_ = o.rest.Close() // of a file that has no name any more
}
