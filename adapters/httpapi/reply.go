package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"collab/domain/org"
)

// flushAt is how much of a list is gathered before it is sent on.
const flushAt = 32 << 10

// maxPageBytes is the length from which on a page gets no more records, in bytes: it
// is in memory until its Link header is known.
const maxPageBytes = 4 << 20

// errPageFull ends the reading of a list behind a full page.
var errPageFull = errors.New("the page is full")

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 4<<10)
	return &b
}}

// take returns an empty buffer.
func take() *[]byte { return buffers.Get().(*[]byte) }

// give takes a buffer back; one that grew large is left to the collector.
func give(b *[]byte) {
	if cap(*b) <= 2*flushAt {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// public has caches keep the answer for everybody. It says nothing of the limits of
// whoever happens to ask first.
func (c *call) public(caching []string) {
	c.Header()["Cache-Control"] = caching
	withdrawLimits(c)
}

// appendView appends a view in JSON, as encoding/json writes it without regard
// to HTML.
func appendView(dst []byte, view any) ([]byte, error) {
	w := bytes.NewBuffer(dst)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(view); err != nil {
		return dst, err
	}
	return w.Bytes()[:w.Len()-1], nil
}

const hexDigits = "0123456789abcdef"

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + size
		case r == '\u2028' || r == '\u2029':
			// Valid in JSON, but not in the JavaScript that JSON is pasted into.
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&15])
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape appends the escape of a character that cannot stand for itself.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendOptional appends a string or null.
func appendOptional[T ~string](dst []byte, s *T) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return appendText(dst, string(*s))
}

// appendTime appends a time as the interface writes it, in quotes.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	if year < 0 || year > 9999 {
		year = 0 // cannot be written; no record has such a time
	}
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst, '"',
		digit(year/1000), digit(year/100), digit(year/10), digit(year), '-',
		digit(int(month)/10), digit(int(month)), '-', digit(day/10), digit(day), 'T',
		digit(hour/10), digit(hour), ':', digit(minute/10), digit(minute), ':', digit(second/10), digit(second), '.',
		digit(ms/100), digit(ms/10), digit(ms), 'Z', '"')
}

func digit(n int) byte { return byte('0' + n%10) }

// moment is a time in a view.
type moment time.Time

// MarshalJSON writes the time as the interface does.
func (m moment) MarshalJSON() ([]byte, error) {
	return appendTime(make([]byte, 0, 26), time.Time(m)), nil
}

// maybe is an optional time in a view.
func maybe(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	m := moment(*t)
	return &m
}

// said is a text in a view whose empty value means that nobody said it.
func said[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

// An appender appends one record of a list.
type appender[T any] func(dst []byte, v T) ([]byte, error)

// viewed is the appender of what view makes of a record.
func viewed[T, V any](view func(T) V) appender[T] {
	return func(dst []byte, v T) ([]byte, error) { return appendView(dst, view(v)) }
}

// stream answers with the array of what run calls each with, for the actor that
// authorize returns once it is the list's turn. The complete list goes out as it
// comes, and run waits little for a client that is slow to take it, or as long as it
// takes where p says so; a page is held back until it is known whether there is a
// next one, as the header that says so comes first.
func stream[T any](a *api, c *call, q params, p page, key func(T) position, write appender[T], run func(actor org.Actor, each func(T) error) error) error {
	return streamWithin(a, c, q, p, key, write, func(actor org.Actor, text func([]byte), each func(T) error) error {
		text([]byte{'['})
		err := run(actor, each)
		text([]byte("]\n"))
		return err
	})
}

// streamWithin is stream for an answer that has more than the array: run calls text
// with what is before the first record and after the last.
func streamWithin[T any](a *api, c *call, q params, p page, key func(T) position, write appender[T], run func(actor org.Actor, text func([]byte), each func(T) error) error) error {
	if p.limit == 0 && c.caller.User != "" {
		done, err := a.lists.take(c.r.Context(), string(c.caller.User))
		if err != nil {
			return err
		}
		defer done()
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	out := outlet{c: c, waits: p.waits, rest: spool{c: c}}
	defer out.close()
	b := take()
	defer func() { give(b) }()
	shown, more := 0, false
	var last position
	err = run(actor, func(text []byte) { *b = append(*b, text...) }, func(v T) (err error) {
		if p.limit > 0 && (shown == p.limit || len(*b) >= maxPageBytes) {
			more = true
			return errPageFull
		}
		if shown > 0 {
			*b = append(*b, ',')
		}
		shown++
		if *b, err = write(*b, v); err != nil {
			return err
		}
		if p.limit > 0 {
			last = key(v)
		} else if len(*b) >= flushAt {
			b, err = out.put(b)
		}
		return err
	})
	if err != nil && !errors.Is(err, errPageFull) {
		return err
	}
	if out.parts != nil {
		if b, err = out.put(b); err != nil {
			return err
		}
		return out.finish()
	}
	if more {
		c.set("Link", a.next(c, q, last))
	}
	c.send(http.StatusOK, *b)
	return nil
}

// etag is the entity tag of a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }
