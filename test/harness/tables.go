package harness

import "io"

// PrintTables writes tables with the answers that the domain gives, those of the
// files, or the tables that ship where none is named.
func PrintTables(w io.Writer, files ...string) error { return nil }
