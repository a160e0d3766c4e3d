package config

import (
	"fmt"
	"slices"
	"strings"
)

// Unknown is a variable that looks like one of the server's and is none.
type Unknown struct {
	Name    string
	Nearest string // of the server's variables
}

// String returns a sentence that names the variable and the nearest one.
func (u Unknown) String() string {
	return fmt.Sprintf("%s is not a variable of collabd; the nearest one is %s", u.Name, u.Nearest)
}

// unknownVariables returns the variables of an environment that begin with COLLAB_ and
// are none of the server's, by name. Those that begin with COLLAB_TEST_ and COLLAB_SKIP_
// are for the project's tests.
func unknownVariables(environ []string) (all []Unknown) {
	var names []string
	for _, f := range fields() {
		names = append(names, f.Tag.Get("env"))
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "COLLAB_") || strings.HasPrefix(name, "COLLAB_TEST_") || strings.HasPrefix(name, "COLLAB_SKIP_") || slices.Contains(names, name) {
			continue
		}
		all = append(all, Unknown{name, slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })})
	}
	slices.SortFunc(all, func(a, b Unknown) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// distance returns the Levenshtein distance of two texts in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, substituted)
		}
	}
	return row[len(b)]
}
