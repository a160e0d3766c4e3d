package object

import (
	"collab/domain/check"
	"collab/domain/fault"
)

// Imported returns the record of an object that another deployment stored, or Invalid if no
// object can have its fields.
func Imported(o Object) (Object, error) {
	var c check.List
	path, err := ParsePath("path", o.Path)
	c.AddError(err)
	if err == nil && path != o.Path {
		c.Add("path", "must be composed")
	}
	if _, ok := ParseKind(string(o.Kind)); !ok {
		c.Add("kind", "must be a kind of files")
	}
	if _, ok := ParseScope(string(o.Scope)); !ok {
		c.Add("scope", "must be SHARED or PERSONAL")
	}
	if (o.Owner != nil) != (o.Scope == Personal) {
		c.Add("ownerId", "is that of a PERSONAL file, and of no other")
	}
	if err := c.Err(); err != nil {
		return Object{}, err
	}
	c.AddError(o.Place.check())
	_, err = mimeType(o.MimeType, o.Path)
	c.AddError(err)
	if sum, err := ParseChecksum(o.Checksum); err != nil || sum != o.Checksum {
		c.Add("checksum", "must be a SHA-256 in lower-case hexadecimal")
	}
	if o.Version < 1 || o.Version > check.MaxVersion {
		c.Add("version", "must be between 1 and %d", int64(check.MaxVersion))
	}
	if o.Size < 0 {
		c.Add("size", "must not be negative")
	}
	if o.MimeType == "" {
		return Object{}, fault.Field("mimeType", "must not be empty")
	}
	return o, c.Err()
}
