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
		{"a brace alone", connector.APIKey, map[string]string{"X-Key": "a{b"}, "", http.Header{"X-Key": {"a{b"}}},
		{"no credentials", connector.APIKey, map[string]string{"X-Key": "{key}"}, "", nil},
		{"a token", connector.ServerMediated, nil, `{"accessToken":"abc","tokenType":"Bearer"}`, http.Header{"Authorization": {"Bearer abc"}}},
		{"a token of the client's", connector.RemoteOAuth, nil, `{"accessToken":"abc"}`, http.Header{"Authorization": {"Bearer abc"}}},
		{"no token", connector.ServerMediated, nil, "", nil},
		{"a token where there is no authorization", connector.APIKey, nil, `{"accessToken":"abc"}`, nil},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, _ := sent(t, connector.Access{URL: "https://tools.example", Transport: connector.HTTP, Auth: c.auth, Carriers: c.carriers, Entries: c.entries})
			want := own.Clone()
			maps.Copy(want, c.want)
			must.Equal(t, want, got)
		})
	}
}

func TestCredentialsThatCannotBeInAHeader(t *testing.T) {
	for _, c := range []struct {
		about   string
		auth    connector.AuthMode
		carrier string
		entries string
		kind    fault.Kind
		message string
	}{
		{"a line break", connector.APIKey, "X-Key", `{"key":"s3cret\r\nX-Other: 1"}`, fault.Forbidden, "The credentials hold characters that cannot be sent"},
		{"a null character", connector.APIKey, "X-Key", `{"key":"s3cret\u0000s"}`, fault.Forbidden, "The credentials hold characters that cannot be sent"},
		{"a letter beyond Latin", connector.APIKey, "X-Key", `{"key":"s3cretσ"}`, fault.Forbidden, "The credentials hold characters that cannot be sent"},
		{"a token with a line break", connector.ServerMediated, "X-Key", `{"accessToken":"s3cret\nX"}`, fault.Forbidden, "The credentials hold characters that cannot be sent"},
		{"no object", connector.APIKey, "X-Key", `["s3cret"]`, fault.Forbidden, "The credentials cannot be read"},
		{"no JSON", connector.APIKey, "X-Key", `s3cret`, fault.Forbidden, "The credentials cannot be read"},
		{"the host", connector.APIKey, "host", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"the length", connector.APIKey, "CONTENT-LENGTH", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"the type", connector.APIKey, "Content-Type", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"the encoding", connector.APIKey, "Transfer-Encoding", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"the connection", connector.APIKey, "Connection", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"a header of the protocol", connector.APIKey, "mcp-session-id", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"a header of proxies", connector.APIKey, "Proxy-Authorization", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"a name that is none", connector.APIKey, "X Key", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"a name with a line break", connector.APIKey, "X-Key\r\nX-Other", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
		{"no name", connector.APIKey, "", `{"key":"s3cret"}`, fault.Invalid, notTheirs},
	} {
		t.Run(c.about, func(t *testing.T) {
			got, err := sent(t, connector.Access{
				URL: "https://tools.example", Transport: connector.HTTP, Auth: c.auth,
				Carriers: map[string]string{c.carrier: "{key}"}, Entries: c.entries,
			})
			wantFault(t, err, c.kind, c.message)
			if got != nil {
				t.Errorf("a request was made, with %v", got)
			}
		})
	}
}

const notTheirs = "The connector's credentials go into a header that is not theirs"

// FuzzHeaders expands random entries in random headers and patterns. A request has at most
// one header more than without credentials, and errors do not contain the entry.
func FuzzHeaders(f *testing.F) {
	for _, s := range [][3]string{
		{"X-Api-Key", "{key}", "abc"}, {"Authorization", "Bearer {key}", "abc"}, {"Host", "{key}", "evil.example"},
		{"X-Key", "{key}", "a\r\nContent-Length: 0\r\n\r\n"}, {"Content-Length", "{key}", "0"}, {"X-Key\r\nX", "{key}", "a"},
		{"X-Key", "{{key}}{", "{key}"}, {"X-Key", "é{key}", "\x80"}, {"mcp-Session-id", "1", ""}, {"User-Agent", "{key}", "a b"}, {"x-key", "{other}", "a"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, name, pattern, value string) {
		entries, err := json.Marshal(map[string]string{"key": value})
		if err != nil {
			t.Skip("no entry")
		}
		plain := own(t)
		header, err := sent(t, connector.Access{
			URL: "https://tools.example", Transport: connector.HTTP, Auth: connector.APIKey,
			Carriers: map[string]string{name: pattern}, Entries: string(entries),
		})
		if header == nil {
			if kind := fault.KindOf(err); kind != fault.Forbidden && kind != fault.Invalid {
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
			t.Errorf("%q: %q became %+v", name, value, read)
		}
		more := 0
		for name, values := range read.Header {
			switch {
			case name == "Content-Length":
			case len(plain[name]) == 0 || name == "User-Agent" && values[0] != plain[name][0]:
				more++
			case !cmp.Equal(plain[name], values):
				t.Errorf("%s is %q", name, values)
			}
		}
		if more > 1 {
			t.Errorf("%q: %q became %v", name, value, read.Header)
		}
	})
}
