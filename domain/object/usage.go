package object

// Class is a kind of content that is counted for itself.
type Class int

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

// Excess returns how many bytes of earlier versions are to be discarded after a transaction that wrote
// so many bytes of content, and made versions of ended bytes, where all content is limited to limit bytes: a
// sixty-fourth of the limit more than necessary, but none of the made versions, and not more than was
// written if the rest alone is beyond the limit. A negative limit is none.
func (u Usage) Excess(limit, written, ended int64) int64 {
	excess := u.Total() - limit
	switch {
	case limit < 0 || excess <= 0 || written == 0:
		return 0
	case u.Present() > limit:
		excess = min(excess, written)
	default:
		excess += limit / 64
	}
	return max(0, min(excess, u[Versions]-ended))
}
