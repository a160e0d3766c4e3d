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
// gathered, and goes out in one write.
type answer struct {
	conn   net.Conn
	header http.Header
	status int // 0: not decided
	body   []byte
	out    bytes.Buffer

	deadline time.Time // of writes, as it was set
	date     []byte    // of second
	second   int64
}

// begin begins another answer.
func (a *answer) begin() {
	clear(a.header)
	a.status, a.body = 0, a.body[:0]
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

// finish sends the answer, the last one of the connection where it is to be or the
// handler says so; more says that another one may follow.
func (a *answer) finish(now time.Time, last bool) (more bool, err error) {
	a.WriteHeader(http.StatusOK)
	length, said := strconv.Itoa(len(a.body)), a.header["Content-Length"]
	switch {
	case !hasBody(a.status):
		delete(a.header, "Content-Length")
		if a.status == http.StatusNotModified {
			delete(a.header, "Content-Type")
		}
	case said != nil && (len(said) != 1 || said[0] != length):
		return false, errHandler
	}
	told := a.header["Connection"] != nil // of which "close" is the only use here
	a.out.Reset()
	a.out.WriteString("HTTP/1.1 ")
	a.out.WriteString(strconv.Itoa(a.status))
	a.out.WriteByte(' ')
	a.out.WriteString(http.StatusText(a.status))
	a.out.Write(lineEnd)
	_ = a.header.Write(&a.out) // a buffer takes it all
	a.out.WriteString("Date: ")
	if s := now.Unix(); s != a.second || a.date == nil {
		a.second, a.date = s, now.UTC().AppendFormat(a.date[:0], http.TimeFormat)
	}
	a.out.Write(a.date)
	a.out.Write(lineEnd)
	if hasBody(a.status) && said == nil {
		a.out.WriteString("Content-Length: ")
		a.out.WriteString(length)
		a.out.Write(lineEnd)
	}
	if last && !told {
		a.out.WriteString("Connection: close\r\n")
	}
	a.out.Write(lineEnd)
	a.out.Write(a.body)
	_, err = a.conn.Write(a.out.Bytes())
	if a.out.Cap()+cap(a.body) > keepSize { // which a connection that rests has no use for
		a.out, a.body = bytes.Buffer{}, nil
	}
	return !last && !told, err
}
