package object

// Class is what the content of an object counts as.
type Class int

// The classes.
const (
	SharedFiles Class = iota
	PersonalFiles
	Memories // with the documents
	Versions // earlier versions of all of them
)

// Class returns the class of the place's objects.
func (p Place) Class() Class {
	switch {
	case p.Kind == HubMemory || p.Kind == TeamMemory || p.Kind == WorkspaceMemory:
		return Memories
	case p.Scope == Personal:
		return PersonalFiles
	}
	return SharedFiles
}

// Usage is the size of the content of an organisation's objects by class, and of their earlier
// versions, in bytes.
type Usage [Versions + 1]int64

// Total returns the sum of all classes.
func (u Usage) Total() int64 { return u.Present() + u[Versions] }

// Present returns the sum without earlier versions.
func (u Usage) Present() int64 { return u[SharedFiles] + u[PersonalFiles] + u[Memories] }

// Allows reports whether the content may grow by so many bytes, which may be negative, where
// it is limited to limit bytes. A negative limit is none. Content beyond the limit may shrink.
// Earlier versions do not count, as they give way: see Excess.
func (u Usage) Allows(growth, limit int64) bool {
	return limit < 0 || growth <= 0 || u.Present() <= limit-growth
}

// Excess returns how many bytes of earlier versions are to be discarded where all content is limited to
// limit bytes. A negative limit is none.
func (u Usage) Excess(limit int64) int64 {
	if limit < 0 {
		return 0
	}
	return max(0, min(u[Versions], u.Total()-limit))
}
