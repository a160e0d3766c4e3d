package bucket

import "collab/ports"

// What tests look at from outside.
var (
	OpenWithin = open
	KeyOf      = keyOf
	NameOf     = nameOf
	ObjectKey  = objectKey
	Check      = check
)

// Named makes a store in files give what it writes a name aside, as on file
// systems that know no other way.
func Named(b ports.Blobs) {
	b.(*Bucket).Blobs.(*files).nameless = false
}
