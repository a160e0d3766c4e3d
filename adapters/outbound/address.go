package outbound

import (
	"errors"
	"net/url"
)

// ParseAddress parses the address of a server whose paths are joined to it.
func ParseAddress(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must be an http or https address without a query")
	}
	return u, nil
}
