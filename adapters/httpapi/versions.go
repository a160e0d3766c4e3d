package httpapi

import (
	"math"
	"net/http"
	"strconv"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// appendEnding appends a comma, the end of a version with its user under the two names, and its expiry.
func appendEnding(dst []byte, at, by string, v object.EarlierVersion) []byte {
	dst = append(append(append(dst, ',', '"'), at...), '"', ':')
	dst = encode.AppendTime(dst, v.EndedAt)
	dst = append(append(append(dst, ',', '"'), by...), '"', ':')
	dst = encode.AppendOptional(dst, textOrNull(v.EndedBy))
	return encode.AppendTime(append(dst, `,"expiresAt":`...), v.ExpiresAt)
}

// appendDeleted appends the record of a deleted file.
func appendDeleted(dst []byte, v object.EarlierVersion) ([]byte, error) {
	dst = appendObject(dst, v.Object)
	dst = append(dst[:len(dst)-1], `,"deleted":true`...)
	return append(appendEnding(dst, "deletedAt", "deletedBy", v), '}'), nil
}

func positionOfDeleted(v object.EarlierVersion) body.Position {
	return body.Position{Key: v.DeletedKey()}
}

// appendVersion appends the record of a version of a file.
func appendVersion(dst []byte, v objects.Version) ([]byte, error) {
	dst = appendObject(dst, v.Object)
	dst = append(dst[:len(dst)-1], `,"present":`...)
	dst = strconv.AppendBool(dst, v.Present)
	if v.Present {
		return append(dst, `,"deleted":false,"endedAt":null,"endedBy":null,"expiresAt":null}`...), nil
	}
	dst = strconv.AppendBool(append(dst, `,"deleted":`...), v.Deleted)
	return append(appendEnding(dst, "endedAt", "endedBy", v.EarlierVersion), '}'), nil
}

func positionOfVersion(v objects.Version) body.Position {
	return body.Position{Rank: v.Version, ID: string(v.ID)}
}

// listVersions replies with the versions of a file, or of a deleted one, the latest first.
func (a *api) listVersions(c *call) error {
	file, err := pathID[id.Object](c, "id", "File")
	if err != nil {
		return err
	}
	q, p, err := c.listQuery()
	if err != nil {
		return err
	}
	before := int64(math.MaxInt64)
	if p.After.ID != "" {
		before = p.After.Rank
	}
	read := func(actor org.Actor, each func(objects.Version) error) error {
		return a.Objects.Versions(c.r.Context(), actor, file, before, p.Fetch(), each)
	}
	return list(a, c, q, p, positionOfVersion, appendVersion, read)
}

// pathVersion reads the number of a version in the path.
func pathVersion(c *call) (int64, error) {
	n, err := parseVersion(c.vars["version"])
	if err != nil || n < 1 {
		return 0, fault.Missing("Version")
	}
	return n, nil
}

func (a *api) readVersion(c *call, actor org.Actor, file id.Object) error {
	return a.sendFile(c, func() (object.Object, error) {
		version, err := pathVersion(c)
		if err != nil {
			return object.Object{}, err
		}
		return a.Objects.Version(c.r.Context(), actor, file, version)
	})
}

// restoreFile restores an earlier version of a file as the next one, or a deleted file.
func (a *api) restoreFile(c *call) error {
	file, expected, f, err := c.fileChange()
	if err != nil {
		return err
	}
	restoration := objects.Restoration{Path: body.Optional(f, "path", body.Text)}
	if version := body.Optional(f, "version", body.Integer); version != nil {
		if restoration.Version = *version; restoration.Version < 1 {
			f.Refuse("version", "must be at least 1")
		}
	}
	restoration.Expected = expectedIn(f, expected)
	if err := f.Err(); err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	return c.replyObject(http.StatusOK)(a.Objects.RestoreVersion(c.r.Context(), actor, file, restoration))
}

func (a *api) discardVersion(c *call, actor org.Actor, file id.Object) error {
	version, err := pathVersion(c)
	if err != nil {
		return err
	}
	return c.succeedUnless(a.Objects.DiscardVersion(c.r.Context(), actor, file, version))
}
