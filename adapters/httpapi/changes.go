package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"collab/adapters/encode"
	"collab/adapters/httpapi/stream"
	"collab/domain/object"
	"collab/domain/org"
)

// cursorHeader is the header with the feed cursor of a response.
const cursorHeader = "X-Sync-Cursor"

// followChanges replies with the stream of changes from now on, or after the client's last
// event id.
func (a *api) followChanges(c *call, actor org.Actor) error {
	from, resumes := lastEventID(c.r.Header, c.r.URL.RawQuery)
	if c.r.Method == http.MethodHead {
		stream.SetHeaders(c.Header())
		c.WriteHeader(http.StatusOK)
		return nil
	}
	sub, err := a.Feed.Subscribe(c.r.Context(), actor, from, resumes)
	if err != nil {
		return err
	}
	at, lost := sub.Start()
	c.Set(cursorHeader, at.String())
	return a.follow(c, actor, sub, firstFrame(at, lost))
}

// lastEventID returns the last event id of the header, or of the query for clients that cannot set headers, which
// have two names for it and add other parameters.
func lastEventID(header http.Header, query string) (from string, given bool) {
	// Several values, joined, are not a valid id.
	if from = strings.Join(header["Last-Event-Id"], ","); from != "" {
		return from, true
	}
	if query == "" {
		return "", false
	}
	values, err := url.ParseQuery(query)
	for _, name := range []string{"lastEventId", "last_event_id"} {
		if from = strings.Join(values[name], ","); from != "" {
			return from, true
		}
	}
	// An invalid query may contain an id, so the client gets a resync.
	return "", err != nil
}

// firstFrame returns the first frame of a stream. Its id without data is the cursor from
// which a client resumes if it is disconnected before the first event; if the cursor was
// lost, the resync event has the id.
func firstFrame(at object.Cursor, lost bool) []byte {
	f := stream.OpenFrame(128)
	f = append(f, "retry: 3000\n: the changes of the organisation\n"...)
	if !lost {
		f = appendID(f, at)
	}
	return stream.CloseFrame(append(f, '\n'))
}

// cursorFrame returns a comment that keeps a stream open, with the present cursor.
func cursorFrame(at object.Cursor) []byte {
	return stream.CloseFrame(append(appendID(append(stream.OpenFrame(64), ":\n"...), at), '\n'))
}

var heartbeatFrame = stream.CloseFrame(append(stream.OpenFrame(16), ":\n\n"...))

// EncodeChange returns the frame of an entry of the log, in the form that
// streams send.
func EncodeChange(at object.Cursor, c object.Change) []byte {
	f := stream.OpenFrame(512)
	if c.Type == object.AccessChanged {
		f = appendID(append(f, "event: resync\n"...), at)
		f = append(f, `data: {"id":"`...)
		f = appendCursor(f, at)
		return stream.CloseFrame(append(f, "\"}\n\n"...))
	}
	f = append(appendID(f, at), `data: {"type":"`...)
	f = append(f, c.Type...)
	f = encode.AppendString(append(f, `","storageKey":`...), c.Object.StorageKey())
	f = encode.AppendString(append(f, `,"path":`...), c.Object.Path)
	if c.FromPath != "" {
		f = encode.AppendString(append(f, `,"from":`...), c.FromKey())
		f = encode.AppendString(append(f, `,"fromPath":`...), c.FromPath)
	}
	if c.Type == object.Changed {
		f = encode.AppendString(append(f, `,"checksum":`...), c.Object.Checksum)
		f = strconv.AppendInt(append(f, `,"version":`...), c.Object.Version, 10)
	}
	if c.By != "" {
		f = encode.AppendString(append(f, `,"changedBy":`...), string(c.By))
	}
	f = encode.AppendTime(append(f, `,"timestamp":`...), c.At)
	return stream.CloseFrame(append(f, "}\n\n"...))
}

func appendID(dst []byte, at object.Cursor) []byte {
	return append(appendCursor(append(dst, "id: "...), at), '\n')
}

func appendCursor(dst []byte, at object.Cursor) []byte {
	dst = strconv.AppendInt(dst, at.Epoch, 10)
	return strconv.AppendInt(append(dst, '-'), at.N, 10)
}
