package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/spool"
	"collab/adapters/httpapi/stream"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// fileRecordMemory is the memory of the record of a file with the longest path, in bytes.
const fileRecordMemory = 3 << 10

// contentsType is the media type of lines that are each followed by content.
var contentsType = []string{"application/vnd.collab.files"}

// readWanted reads the selection of files of a request for several.
func readWanted(f *body.Fields) (wanted []objects.Wanted, err error) {
	body.Each(f, "files", func(part *body.Fields) {
		file, _ := id.Parse[id.Object](body.Required(part, "id", body.Text)) // a malformed id selects nothing
		wanted = append(wanted, objects.Wanted{Object: file, Expected: expectedIn(part, nil)})
	})
	if err := f.Err(); err != nil {
		return nil, err
	}
	if n := len(wanted); n == 0 || n > objects.MaxReads {
		return nil, fault.Field("files", "must be 1 to %d files", objects.MaxReads)
	}
	return wanted, nil
}

// readFiles replies with a line for each of the files, followed by content of the length in the line. Content is
// verified before its line is sent, so that damaged content is only the error of its file. If the store fails,
// the error is the response to the remaining files, or to the whole request if none was answered.
func (a *api) readFiles(c *call, actor org.Actor, wanted []objects.Wanted) error {
	a.chargeOperations(c, len(wanted))
	if err := c.Hold(int64(len(wanted)) * fileRecordMemory); err != nil {
		return err
	}
	outcomes, err := a.Objects.Select(c.r.Context(), actor, wanted)
	if err != nil {
		return err
	}
	c.databasePermit.Release()
	block, err := spool.TakeBlock(c, spool.BlockSize)
	if err != nil {
		return err
	}
	defer spool.ReleaseBlock(c, &block)
	out := stream.GetBuffer()
	defer stream.PutBuffer(out)
	c.Header()["Content-Type"] = contentsType
	index := 0
	confirm := a.confirmation(c, func(now org.Actor) bool {
		return !slices.ContainsFunc(outcomes[index:], func(o objects.Outcome) bool { return o.Err == nil && !o.Object.VisibleTo(now) })
	})
	for index < len(outcomes) {
		contents, failed := a.Objects.Contents(c.r.Context(), outcomes[index:], *block)
		if failed != nil {
			if index == 0 || !fault.Is(failed, fault.Unavailable) {
				return failed
			}
			a.classify(c, failed)
			contents = make([][]byte, len(outcomes)-index)
		}
		for _, content := range contents {
			o := outcomes[index]
			if o.Err == nil {
				o.Err = failed
			}
			var problem errorView
			if o.Err == nil {
				if err := confirm(); err != nil {
					return err
				}
			}
			switch {
			case fault.Is(o.Err, fault.Internal):
				problem = a.classify(c, o.Err)
			case o.Err != nil:
				problem = viewError(o.Err)
			}
			*out = appendRead(*out, index, o.Object, problem, len(content))
			if err := c.writeParts(out, content); err != nil {
				return err
			}
			index++
		}
	}
	return c.sendPart(*out)
}

// appendRead appends the line of a file that is followed by content of the length.
func appendRead(dst []byte, index int, file object.Object, problem errorView, length int) []byte {
	dst = appendOutcomeStart(dst, index, cmp.Or(problem.Status, http.StatusOK))
	dst = strconv.AppendInt(append(dst, `,"length":`...), int64(length), 10)
	return append(appendOutcomeEnd(dst, file, problem), '\n')
}

// writeParts appends content to the buffered part of the response, or sends both if they are long.
func (c *call) writeParts(out *[]byte, content []byte) error {
	if len(*out)+len(content) < stream.FlushAt {
		*out = append(*out, content...)
		return nil
	}
	if err := c.sendPart(*out); err != nil {
		return err
	}
	*out = (*out)[:0]
	return c.sendPart(content)
}

// sendPart sends a part of a response of unknown length.
func (c *call) sendPart(part []byte) error {
	c.ExtendFor(len(part))
	if _, err := c.Write(part); err != nil {
		return c.ClientClosed(err)
	}
	return nil
}
