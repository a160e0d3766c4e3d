package bucket

// What tests look at from outside.
var (
	OpenWithin = open
	KeyOf      = keyOf
	NameOf     = nameOf
	ObjectKey  = objectKey
	Check      = check
)
