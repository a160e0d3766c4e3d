// Package levenshtein finds names that are similar to a misspelt one. It is a leaf: it
// imports the standard library alone.
package levenshtein

// Distance returns the Levenshtein distance of two texts in bytes.
func Distance(a, b string) int {
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
