package servicetoken

import "collab/adapters/inspect"

// Inspect reads the keys of service tokens.
func Inspect(file inspect.KeyFile) (f inspect.Findings) {
	file.Remedy = "print new ones with collabd keys tokens, and set " + file.Variable + " to their file"
	text, ok := file.Read(&f)
	if !ok {
		return f
	}
	keys, err := Parse(text)
	if err != nil {
		f.Wrong(file.Remedy, "%s", file.Path).Err = err
		return f
	}
	names := keys.names()
	if len(names) == 1 {
		f.OK("%s signs, of %s", names[0], file.Path)
	} else {
		f.OK("%s signs, and %d more verify, of %s", names[0], len(names)-1, file.Path)
	}
	return f
}
