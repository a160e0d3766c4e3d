package contract

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
)

// SignedBlobs is the suite of ports.SignedBlobs, over a store of ports.Blobs. Requests to
// addresses are sent by the client. Binds says whether the store itself refuses content that is
// not as it was declared.
func SignedBlobs(t *testing.T, client *http.Client, binds bool, open func(t *testing.T) (ports.Blobs, ports.SignedBlobs)) {
	const lifetime = time.Minute
	type signedFixture struct {
		*blobFixture
		signed ports.SignedBlobs
	}
	declared := func(name, content string) object.Content {
		return object.Content{Blob: name, Size: int64(len(content)), Checksum: must.Sum(content)}
	}
	send := func(s *signedFixture, method, address string, headers map[string]string, content string) (int, http.Header, string) {
		s.Helper()
		r := must.Do(http.NewRequestWithContext(s.ctx, method, address, strings.NewReader(content))).Or(s.fixture)
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		response := must.Do(client.Do(r)).Or(s.fixture)
		defer response.Body.Close()
		body := must.Do(io.ReadAll(response.Body)).Or(s.fixture)
		return response.StatusCode, response.Header, string(body)
	}
	accepted := func(status int) bool { return status/100 == 2 }
	runSuite(t, map[string]func(s *signedFixture){
		"an address reads the content, with the headers that were asked for": func(s *signedFixture) {
			for i, name := range names {
				name = s.name(name)
				s.put(name, "content of it")
				disposition := "attachment; filename*=UTF-8''a%20b%22%C3%A9.html"
				address := must.Do(s.signed.SignGet(s.ctx, name, "text/html; charset=utf-8", disposition, lifetime)).Or(s.fixture)
				status, h, got := send(s, "GET", address, nil, "")
				if status != 200 || got != "content of it" || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Content-Disposition") != disposition || h.Get("Cache-Control") != "no-store" {
					s.Fatalf("name %d: %d %v %.500q", i, status, h, got)
				}
			}
			name := s.name(names[0])
			address := must.Do(s.signed.SignGet(s.ctx, name, "text/plain", "attachment", lifetime)).Or(s.fixture)
			if status, _, got := send(s, "GET", address, map[string]string{"Range": "bytes=3-6"}, ""); status != 206 || got != "tent" {
				s.Errorf("a range is %d %q", status, got)
			}
			for _, method := range []string{"PUT", "DELETE"} {
				if status, _, _ := send(s, method, address, map[string]string{"x-ms-blob-type": "BlockBlob"}, "other"); accepted(status) {
					s.Errorf("%s is %d", method, status)
				}
			}
			if status, _, _ := send(s, "GET", strings.Replace(address, "text%2Fplain", "text%2Fhtml", 1), nil, ""); accepted(status) {
				s.Errorf("with another type it is %d", status)
			}
			s.wantContent(name, "content of it")
		},
		"an address reads nothing where there is nothing": func(s *signedFixture) {
			address := must.Do(s.signed.SignGet(s.ctx, s.name("x@1-x"), "text/plain", "attachment", lifetime)).Or(s.fixture)
			if status, _, _ := send(s, "GET", address, nil, ""); status != 404 {
				s.Errorf("it is %d", status)
			}
		},
		"an address takes the declared content, once": func(s *signedFixture) {
			for i, name := range append([]string{"empty@1-x"}, names...) {
				name = s.name(name)
				content := strings.Repeat("0123456789", i*100)
				to := must.Do(s.signed.SignPut(s.ctx, "text/markdown", declared(name, content), lifetime)).Or(s.fixture)
				if _, _, err := s.signed.Stat(s.ctx, name); !fault.Is(err, fault.NotFound) {
					s.Fatalf("before it was sent: %v", err)
				}
				if status, _, body := send(s, "PUT", to.URL, to.Headers, content); !accepted(status) {
					s.Fatalf("name %d: %d %s", i, status, body)
				}
				s.wantContent(name, content)
				size, checksum, err := s.signed.Stat(s.ctx, name)
				s.ok(err)
				if want := declared(name, content); size != want.Size || checksum != want.Checksum && (binds || checksum != "") {
					s.Fatalf("name %d has %d bytes, %q", i, size, checksum)
				}
				wantEqual(s.fixture, s.listed()[name], int64(len(content)))
				for _, again := range []string{content, content + "more"} {
					if status, _, _ := send(s, "PUT", to.URL, to.Headers, again); accepted(status) {
						s.Fatalf("name %d: sent again it is %d", i, status)
					}
				}
				s.wantContent(name, content)
			}
		},
		"an address is for one blob, and no longer than its lifetime": func(s *signedFixture) {
			name := s.name("a@1-x")
			to := must.Do(s.signed.SignPut(s.ctx, "text/plain", declared(name, "content"), lifetime)).Or(s.fixture)
			other := strings.NewReplacer("a%401-x", "b%401-x", "a@1-x", "b@1-x").Replace(to.URL)
			if status, _, _ := send(s, "PUT", other, to.Headers, "content"); other == to.URL || accepted(status) {
				s.Errorf("for another blob it is %d", status)
			}
			for _, parameter := range []string{"X-Amz-Expires=60", "se="} {
				if tampered := strings.Replace(to.URL, parameter, parameter+"1", 1); tampered != to.URL {
					if status, _, _ := send(s, "PUT", tampered, to.Headers, "content"); accepted(status) {
						s.Errorf("with %s1 it is %d", parameter, status)
					}
				}
			}
			for _, method := range []string{"GET", "DELETE"} {
				if status, _, _ := send(s, method, to.URL, to.Headers, ""); accepted(status) {
					s.Errorf("%s is %d", method, status)
				}
			}
			s.wantAbsent(name)
		},
		"other content is refused by stores that bind it": func(s *signedFixture) {
			name := s.name("a@1-x")
			to := must.Do(s.signed.SignPut(s.ctx, "text/plain", declared(name, "content"), lifetime)).Or(s.fixture)
			status, _, _ := send(s, "PUT", to.URL, to.Headers, "CONTENT")
			if accepted(status) == binds {
				s.Fatalf("it is %d", status)
			}
			if !binds {
				return
			}
			s.wantAbsent(name)
			for header := range to.Headers {
				without := maps.Clone(to.Headers)
				delete(without, header)
				if status, _, _ := send(s, "PUT", to.URL, without, "content"); accepted(status) {
					s.Errorf("without %s it is %d", header, status)
				}
			}
			s.wantAbsent(name)
		},
		"invalid names are refused": func(s *signedFixture) {
			s.wantError(must.ErrorOf(s.signed.SignGet(s.ctx, "../x", "text/plain", "attachment", lifetime)), fault.Invalid)
			s.wantError(must.ErrorOf(s.signed.SignPut(s.ctx, "text/plain", declared("../x", ""), lifetime)), fault.Invalid)
			_, _, err := s.signed.Stat(s.ctx, "../x")
			s.wantError(err, fault.Invalid)
		},
	}, func(t *testing.T) *signedFixture {
		blobs, signed := open(t)
		return &signedFixture{newBlobFixture(t, blobs), signed}
	})
}
