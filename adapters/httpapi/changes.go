package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"collab/adapters/httpapi/encode"
	"collab/adapters/httpapi/stream"
	"collab/domain/object"
	"collab/domain/org"
)

// cursorHeader says where in the log of changes an answer stands.
const cursorHeader = "X-Sync-Cursor"

// followChanges answers with the stream of changes, from the present on or from
// where the client says that it left off.
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

// lastEventID returns what the client says that it left off at. The header
// counts more than the query, which is for clients that cannot set one; they
// spell it in two ways, and add parameters of their own.
func lastEventID(header http.Header, query string) (from string, given bool) {
	// More than one is none that we gave out.
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
	// What could not be read may have been an id: better to look at everything
	// again than to miss something.
	return "", err != nil
}

// firstFrame is what a stream begins with. The id without data is what the
// client goes on from when it is cut off before the first event; where that
// place was lost, the event that says so brings the id.
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
	f = append(f, `","storageKey":`...)
	f = encode.AppendString(f, c.Object.StorageKey())
	f = append(f, `,"path":`...)
	f = encode.AppendString(f, c.Object.Path)
	if c.Type == object.Changed {
		f = append(f, `,"checksum":`...)
		f = encode.AppendString(f, c.Object.Checksum)
		f = append(f, `,"version":`...)
		f = strconv.AppendInt(f, c.Object.Version, 10)
	}
	if c.By != "" {
		f = append(f, `,"changedBy":`...)
		f = encode.AppendString(f, string(c.By))
	}
	f = append(f, `,"timestamp":`...)
	f = encode.AppendTime(f, c.At)
	return stream.CloseFrame(append(f, "}\n\n"...))
}

func appendID(dst []byte, at object.Cursor) []byte {
	return append(appendCursor(append(dst, "id: "...), at), '\n')
}

func appendCursor(dst []byte, at object.Cursor) []byte {
	dst = strconv.AppendInt(dst, at.Epoch, 10)
	return strconv.AppendInt(append(dst, '-'), at.N, 10)
}
