package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"

	"collab/adapters/mcp"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/test/must"

	"github.com/google/go-cmp/cmp"
)

// sent returns the header of the first request with an access, or nil, and the error.
func sent(t *testing.T, a connector.Access) (header http.Header, err error) {
	t.Helper()
	network := roundTrip(func(r *http.Request) (*http.Response, error) {
		if header == nil {
			header = r.Header.Clone()
		}
		return nil, errors.New("no network")
	})
	_, err = mcp.NewServers(&http.Client{Transport: network}, isBlocked).Tools(t.Context(), a)
	return header, err
}

// own are the headers of requests without credentials.
func own(t *testing.T) http.Header {
	t.Helper()
	header, _ := sent(t, open("https://tools.example"))
	if len(header) == 0 {
		t.Fatal("no request was made")
	}
	return header
}

func TestHeadersCarryCredentials(t *testing.T) {
	own := own(t)
	for _, c := range []struct {
		about    string
		auth     connector.AuthMode
		carriers map[string]string
		entries  string
		want     http.Header
	}{
		{"one entry", connector.APIKey, map[string]string{"X-Api-Key": "{key}"}, `{"key":"abc"}`, http.Header{"X-Api-Key": {"abc"}}},
		{"an entry with more", connector.APIKey, map[string]string{"authorization": "Token {key}!"}, `{"key":"abc"}`, http.Header{"Authorization": {"Token abc!"}}},
		{"two entries", connector.APIKey, map[string]string{"X-Key": "{user}:{key}"}, `{"user":"u","key":"k"}`, http.Header{"X-Key": {"u:k"}}},
		{"two headers", connector.APIKey, map[string]string{"X-User": "{user}", "X-Key": "{key}"}, `{"user":"u","key":"k"}`, http.Header{"X-User": {"u"}, "X-Key": {"k"}}},
		{"an entry that is missing", connector.APIKey, map[string]string{"X-User": "{user}", "X-Key": "a {key}"}, `{"user":"u"}`, http.Header{"X-User": {"u"}}},
		{"an entry that is empty", connector.APIKey, map[string]string{"X-Key": "a {key}"}, `{"key":" "}`, nil},
		{"an entry that is no text", connector.APIKey, map[string]string{"X-Key": "{key}"}, `{"key":1}`, nil},
		{"an entry with names in it", connector.APIKey, map[string]string{"X-Key": "{key}"}, `{"key":"{user}","user":"u"}`, http.Header{"X-Key": {"{user}"}}},
		{"space around an entry", connector.APIKey, map[string]string{"X-Key": "{key}"}, `{"key":" abc\r\n"}`, http.Header{"X-Key": {"abc"}}},
		{"Latin letters", connector.APIKey, map[string]string{"X-Key": "{key}"}, `{"key":"é"}`, http.Header{"X-Key": {"\xe9"}}},
		{"no entry", connector.NoAuth, map[string]string{"X-Client": "collab"}, "", http.Header{"X-Client": {"collab"}}},
		{"no credentials", connector.APIKey, map[string]string{"X-Key": "{key}"}, "", nil},
		{"a token", connector.ServerMediated, nil, `{"accessToken":"abc","tokenType":"Bearer"}`, http.Header{"Authorization": {"Bearer abc"}}},
		{"a token of the client's", connector.RemoteOAuth, nil, `{"accessToken":"abc"}`, http.Header{"Authorization": {"Bearer abc"}}},
		{"no token", connector.ServerMediated, nil, "", nil},
		{"a token where there is no authorization", connector.APIKey, nil, `{"accessToken":"abc"}`, nil},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, _ := sent(t, connector.Access{URL: "https://tools.example", Transport: connector.HTTP, Auth: c.auth, CredentialTemplates: c.carriers, Entries: c.entries})
			want := own.Clone()
			maps.Copy(want, c.want)
			must.Equal(t, want, got)
		})
	}
}

func TestCredentialsThatCannotBeInAHeader(t *testing.T) {
	const unsendable, unreadable = "The credentials hold characters that cannot be sent", "The credentials cannot be read"
	for _, c := range []struct {
		about   string
		auth    connector.AuthMode
		entries string
		message string
	}{
		{"a line break", connector.APIKey, `{"key":"s3cret\r\nX-Other: 1"}`, unsendable},
		{"a null character", connector.APIKey, `{"key":"s3cret\u0000s"}`, unsendable},
		{"a letter beyond Latin", connector.APIKey, `{"key":"s3cretσ"}`, unsendable},
		{"a token with a line break", connector.ServerMediated, `{"accessToken":"s3cret\nX"}`, unsendable},
		{"no object", connector.APIKey, `["s3cret"]`, unreadable},
		{"no JSON", connector.APIKey, `s3cret`, unreadable},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, err := sent(t, connector.Access{
				URL: "https://tools.example", Transport: connector.HTTP, Auth: c.auth,
				CredentialTemplates: map[string]string{"X-Key": "{key}"}, Entries: c.entries,
			})
			wantFault(t, err, fault.Forbidden, c.message)
			if got != nil {
				t.Errorf("a request was made, with %v", got)
			}
		})
	}
}

// FuzzHeaders expands random entries in random patterns. A request has at most one header more
// than without credentials, and errors do not contain the entry.
func FuzzHeaders(f *testing.F) {
	for _, s := range [][2]string{
		{"{key}", "abc"}, {"Bearer {key}", "abc"}, {"{key}", "a\r\nContent-Length: 0\r\n\r\n"}, {"{{key}}{", "{key}"}, {"é{key}", "\x80"}, {"{other}", "a"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		entries, err := json.Marshal(map[string]string{"key": value})
		if err != nil {
			t.Skip("no entry")
		}
		plain := own(t)
		header, err := sent(t, connector.Access{
			URL: "https://tools.example", Transport: connector.HTTP, Auth: connector.APIKey,
			CredentialTemplates: map[string]string{"X-Key": pattern}, Entries: string(entries),
		})
		if header == nil {
			if !fault.Is(err, fault.Forbidden) {
				t.Errorf("nothing was sent for %v", err)
			}
			if len(value) > 20 && strings.Contains(err.Error(), value) {
				t.Errorf("the error %q holds the credentials", err)
			}
			return
		}
		r := must.Do(http.NewRequest(http.MethodPost, "https://tools.example/mcp", strings.NewReader("{}"))).Or(t)
		r.Header = header
		var wire bytes.Buffer
		if err := r.Write(&wire); err != nil {
			t.Fatalf("a request with %q cannot be written: %v", header, err)
		}
		read, err := http.ReadRequest(bufio.NewReader(&wire))
		if err != nil {
			t.Fatalf("a request with %q cannot be read: %v", header, err)
		}
		if read.Host != "tools.example" || read.ContentLength != 2 || len(read.TransferEncoding) > 0 {
			t.Errorf("%q became %+v", value, read)
		}
		more := 0
		for name, values := range read.Header {
			switch {
			case name == "Content-Length":
			case len(plain[name]) == 0:
				more++
			case !cmp.Equal(plain[name], values):
				t.Errorf("%s is %q", name, values)
			}
		}
		if more > 1 {
			t.Errorf("%q became %v", value, read.Header)
		}
	})
}
