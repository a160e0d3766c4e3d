package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"collab/adapters/httpapi/body"
	"collab/app/tasks"
	"collab/domain/fault"
	"collab/domain/object"
)

// jsonTagSuffix is the suffix of the entity tag of content in a JSON object, which is another representation than
// the bytes.
const jsonTagSuffix = "-json"

// etag returns the entity tag of a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// notModified replies with 304 and returns true if If-None-Match names the tag.
func (c *call) notModified(tag string) bool {
	if !namesTag(c.r.Header["If-None-Match"], tag, true) {
		return false
	}
	c.Set("Etag", tag)
	c.WriteHeader(http.StatusNotModified)
	return true
}

// ifMatch returns the condition of the If-Match header, nil if there is none.
func ifMatch(c *call) tasks.Match {
	header := c.r.Header["If-Match"]
	if len(header) == 0 {
		return nil
	}
	return func(version int64) bool { return namesTag(header, etag(version), false) }
}

// namesTag reports whether a list of entity tags contains a strong one: "*" matches any,
// and a weak tag counts only if weak is set.
func namesTag(header []string, tag string, weak bool) bool {
	for _, line := range header {
		for one := range strings.SplitSeq(line, ",") {
			one = strings.TrimSpace(one)
			if weak {
				one = strings.TrimPrefix(one, "W/")
			}
			if one == "*" || one == tag {
				return true
			}
		}
	}
	return false
}

// expected returns the version that a write expects by If-Match, If-None-Match or the query's expectedVersion, as
// objects.Upload.Expected.
func (c *call) expected() (version *int64, err error) {
	if header := c.r.Header["If-Match"]; len(header) > 0 {
		tagged, ok := versionOfTag(header)
		if !ok {
			return nil, fault.Field("If-Match", "must be one entity tag of the file's, its version, or *")
		}
		version = &tagged
	}
	if header := c.r.Header["If-None-Match"]; len(header) > 0 {
		if len(header) != 1 || strings.TrimSpace(header[0]) != "*" || version != nil {
			return nil, fault.Field("If-None-Match", "must be *, for nothing, and without If-Match")
		}
		version = new(int64(0))
	}
	text, given := c.params.Get("expectedVersion")
	switch {
	case !given:
		return version, nil
	case version != nil:
		return nil, fault.Field("expectedVersion", "must be given only once")
	}
	named, err := parseVersion(text)
	if err != nil {
		return nil, err
	}
	return &named, nil
}

// expectedIn returns the version that a write expects by the field expectedVersion, or else by its headers or query.
func expectedIn(f *body.Fields, otherwise *int64) *int64 {
	version := body.Optional(f, "expectedVersion", body.Integer)
	if version == nil {
		return otherwise
	}
	if otherwise != nil {
		f.Refuse("expectedVersion", "must be given only once")
	}
	if *version < 0 {
		f.Refuse("expectedVersion", "must be the number of a version")
	}
	return version
}

// versionOfTag returns the version of the header's only entity tag, or of a plain number in its place. A weak tag
// never matches (RFC 9110, section 13.1.1).
func versionOfTag(header []string) (version int64, ok bool) {
	if len(header) != 1 {
		return 0, false
	}
	text := strings.TrimSpace(header[0])
	if text == "*" {
		return object.AnyVersion, true
	}
	text, weak := strings.CutPrefix(text, "W/")
	tag, quoted := strings.CutPrefix(text, `"`)
	if quoted {
		if text, quoted = strings.CutSuffix(tag, `"`); !quoted {
			return 0, false
		}
		text = strings.TrimSuffix(text, jsonTagSuffix)
	}
	version, err := parseVersion(text)
	if err != nil || weak && !quoted {
		return 0, false
	}
	if weak {
		version = object.WeakVersion
	}
	return version, true
}

// parseVersion parses the number of a version in canonical form.
func parseVersion(text string) (int64, error) {
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 || strconv.FormatInt(version, 10) != text {
		return 0, fault.Field("expectedVersion", "must be the number of a version")
	}
	return version, nil
}
