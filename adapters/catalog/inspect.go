package catalog

import (
	"io/fs"
	"os"

	"collab/adapters/inspect"
	"collab/domain/connector"
)

// Inspect reports the catalog of a file, of the built-in one if file is empty, or the error of
// reading it. Callback is the redirect URI of authorizations.
func Inspect(file string, known connector.Catalog, err error, callback string) (f inspect.Findings) {
	switch {
	case err != nil:
		f.Wrong("correct the file, or set COLLAB_CONNECTORS_FILE to another", "").Err = err
	case file == "":
		f.OK("the built-in catalog")
	default:
		if info, err := os.Stat(file); err == nil && info.Mode()&fs.FileMode(0o007) != 0 {
			f.Note("chmod 640 "+file+" where it has secrets of clients", "%s can be read by all users of this machine", file)
		}
		f.OK("%s", file)
	}
	for _, issuer := range known.Issuers() {
		f.OK("%s, registered with our client of %s, is where that sends people back to", connector.Redirect(callback, issuer), issuer)
	}
	return f
}
