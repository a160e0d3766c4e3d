package release

import (
	"unicode/utf8"

	"collab/domain/fault"
)

// maxClient is how long a device's id can be, in characters.
const maxClient = 200

// ParseClient reads a device's id, which is any text of 1 to maxClient characters.
// Invalid for anything else.
func ParseClient(field, s string) (string, error) {
	if s == "" || len(s) > maxClient*utf8.UTFMax || !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxClient {
		return "", fault.Field(field, "must have 1 to %d characters", maxClient)
	}
	return s, nil
}
