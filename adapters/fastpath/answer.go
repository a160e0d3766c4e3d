package fastpath

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// answer is the way of one answer after the other to a connection. Each is
// gathered, and goes out in one write, but for long bodies: one that is written at once,
// as long as its length says, goes out of the handler's own memory.
type answer struct {
	conn   net.Conn
	gone   func() bool // whether the server goes away
	header http.Header
	status int // 0: not decided
	body   []byte
	out    bytes.Buffer
	sent   bool // it went out
	last   bool // it is the last one of the connection
	err    error

	deadline time.Time // of writes, as it was set
	date     []byte    // of second
	second   int64
}

// begin begins another answer.
func (a *answer) begin() {
	clear(a.header)
	a.status, a.body = 0, a.body[:0]
	a.sent, a.last, a.err = false, false, nil
}

// Header returns the answer's headers.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader decides the status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write takes a part of the body.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !hasBody(a.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if a.sent {
		return 0, http.ErrContentLength
	}
	if said := a.header["Content-Length"]; len(a.body) == 0 && len(b) > keepSize && len(said) == 1 && said[0] == strconv.Itoa(len(b)) {
		a.send(b)
		return len(b), a.err
	}
	a.body = append(a.body, b...)
	return len(b), nil
}

// SetWriteDeadline sets when the answer has to be out. A deadline that is only a
// little later than the one before is not worth setting.
func (a *answer) SetWriteDeadline(t time.Time) error {
	if later := t.Sub(a.deadline); !a.deadline.IsZero() && later >= 0 && later < writeSlack {
		return nil
	}
	a.deadline = t
	return a.conn.SetWriteDeadline(t)
}

// SetReadDeadline has nothing to do: a plain request has no body.
func (a *answer) SetReadDeadline(time.Time) error { return nil }

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// errHandler says that a handler answered in a way that net/http would have
// corrected or refused.
var errHandler = errors.New("fastpath: the length of the body is not what was said")

// finish sends the answer where that was not done; more says that another one may
// follow.
func (a *answer) finish() (more bool, err error) {
	a.WriteHeader(http.StatusOK)
	if !a.sent {
		said := a.header["Content-Length"]
		if hasBody(a.status) && said != nil && (len(said) != 1 || said[0] != strconv.Itoa(len(a.body))) {
			return false, errHandler
		}
		a.send(a.body)
	}
	if a.out.Cap()+cap(a.body) > keepSize { // which a connection that rests has no use for
		a.out, a.body = bytes.Buffer{}, nil
	}
	return !a.last, a.err
}

// send sends the answer with its body, the last one of the connection where the server
// goes away or the handler says so.
func (a *answer) send(body []byte) {
	if !hasBody(a.status) {
		delete(a.header, "Content-Length")
		if a.status == http.StatusNotModified {
			delete(a.header, "Content-Type")
		}
	}
	told := a.header["Connection"] != nil // of which "close" is the only use here
	going := a.gone()
	a.sent, a.last = true, told || going
	a.out.Reset()
	a.out.WriteString("HTTP/1.1 ")
	a.out.WriteString(strconv.Itoa(a.status))
	a.out.WriteByte(' ')
	a.out.WriteString(http.StatusText(a.status))
	a.out.Write(lineEnd)
	_ = a.header.Write(&a.out) // a buffer takes it all
	a.out.WriteString("Date: ")
	now := time.Now()
	if s := now.Unix(); s != a.second || a.date == nil {
		a.second, a.date = s, now.UTC().AppendFormat(a.date[:0], http.TimeFormat)
	}
	a.out.Write(a.date)
	a.out.Write(lineEnd)
	if hasBody(a.status) && a.header["Content-Length"] == nil {
		a.out.WriteString("Content-Length: ")
		a.out.WriteString(strconv.Itoa(len(body)))
		a.out.Write(lineEnd)
	}
	if going && !told {
		a.out.WriteString("Connection: close\r\n")
	}
	a.out.Write(lineEnd)
	if len(body) <= keepSize {
		a.out.Write(body)
		body = nil
	}
	if _, a.err = a.conn.Write(a.out.Bytes()); a.err == nil && body != nil {
		_, a.err = a.conn.Write(body)
	}
}
