// Package words compares texts without regard to case, and looks for words in them. The databases
// fold letters in other ways, so that all adapters look for words with this package.
package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Fold returns the form in which texts are compared without regard to case. Letters are decomposed
// first, because the other case of a letter with a mark may be two characters.
func Fold(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return strings.ToUpper(text)
	}
	return norm.NFC.String(strings.Map(fold, norm.NFD.String(text)))
}

// Iota is the only letter one of whose cases is a mark. The mark cannot be its folded form,
// as marks are reordered when they are composed.
const (
	capitalIota = '\u0399'
	markForIota = '\u0345'
)

// fold maps all cases of a letter to the least of them.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	if least == markForIota {
		return capitalIota
	}
	return least
}

// Of returns the words of a text, folded.
func Of(text string) []string { return strings.Fields(Fold(text)) }

// In reports whether all words, which are folded, occur in a text.
func In(text string, words []string) bool {
	if len(words) == 0 {
		return true
	}
	text = Fold(text)
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}
