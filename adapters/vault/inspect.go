package vault

import "collab/adapters/inspect"

// Inspect reads the keyset and checks that it seals and opens data.
func Inspect(file inspect.KeyFile) (f inspect.Findings) {
	file.Remedy = "set " + file.Variable + " to the file that the secrets in the database were sealed with; " +
		"for a new database print one with collabd keys secrets"
	text, ok := file.Read(&f)
	if !ok {
		return f
	}
	v, err := New(text)
	if err == nil {
		var sealed []byte
		if sealed, err = v.Seal([]byte("doctor"), nil); err == nil {
			_, err = v.Open(sealed, nil)
		}
	}
	if err != nil {
		f.Wrong(file.Remedy, "%s", file.Path).Err = err
		return f
	}
	f.OK("%s seals and opens", file.Path)
	return f
}
