package bucket

// FileOf returns where the content of a name lies below the folder of a file://
// store, with slashes. The name must be one that Put takes.
func FileOf(name string) string { return keyOf(name) }

// NameOfFile returns the name whose content lies there; ok is false where that
// is none's, as of a path that leads out of the folder.
func NameOfFile(path string) (name string, ok bool) { return nameOf(path) }
