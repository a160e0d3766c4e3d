package config

import (
	"fmt"
	"slices"
	"strings"

	"collab/adapters/levenshtein"
)

// Unknown is a variable with the server's prefix that the server does not have.
type Unknown struct {
	Name    string
	Nearest string // of the server's variables
}

// String returns a sentence that names the variable and the nearest one.
func (u Unknown) String() string {
	return fmt.Sprintf("%s is not a variable of collabd; the nearest one is %s", u.Name, u.Nearest)
}

// unknownVariables returns the unknown variables that begin with COLLAB_, by name, without
// COLLAB_TEST_ and COLLAB_SKIP_, which are for the project's tests.
func unknownVariables(environ []string) (all []Unknown) {
	var names []string
	for _, f := range fields() {
		names = append(names, f.Tag.Get("env"))
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "COLLAB_") || slices.Contains(names, name) ||
			strings.HasPrefix(name, "COLLAB_TEST_") || strings.HasPrefix(name, "COLLAB_SKIP_") {
			continue
		}
		nearest := slices.MinFunc(names, func(a, b string) int {
			return levenshtein.Distance(name, a) - levenshtein.Distance(name, b)
		})
		all = append(all, Unknown{name, nearest})
	}
	slices.SortFunc(all, func(a, b Unknown) int { return strings.Compare(a.Name, b.Name) })
	return all
}
