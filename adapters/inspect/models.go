package inspect

import (
	"net/http"
	"strings"
)

// ModelServer is the server of a provider of models.
type ModelServer struct {
	Address     Address
	KeyVariable string
	URLVariable string
	Models      []string // of the registry
}

// Findings reports the models that the server does not have. Status is the status of an error
// response, or 0, and err another failure.
func (s ModelServer) Findings(unknown []string, status int, err error) (f Findings) {
	at := s.Address
	if at.Plaintext() {
		f.Note("set "+s.URLVariable+" to an https:// address unless the network is private",
			"%s is not https: conversations can be read on the network", at)
	}
	reach := "let this machine reach it, or set " + s.URLVariable
	switch {
	case status == http.StatusUnauthorized:
		f.Wrong("set "+s.KeyVariable, "%s: the provider does not know the key", at)
	case status == http.StatusForbidden:
		f.Wrong("set "+s.KeyVariable, "%s: the key may not ask for models", at)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		f.Note("",
			"%s answers, and does not list its models: whether it takes the key and knows them is not known", at)
	case status != 0:
		f.Wrong(reach, "%s cannot answer", at).Err = err
	case err != nil:
		f.Wrong(reach, "%s does not answer", at).Err = err
	case len(unknown) > 0:
		f.Wrong("set COLLAB_MODELS_FILE to a registry without them, or use a key that may have them",
			"%s takes the key, and does not know %s", at, strings.Join(unknown, ", "))
	default:
		f.OK("%s takes the key and knows %s", at, strings.Join(s.Models, ", "))
	}
	return f
}
