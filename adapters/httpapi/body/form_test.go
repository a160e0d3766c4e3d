package body

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"collab/adapters/httpapi/spool"
	"collab/domain/fault"
	"collab/test/must"
)

// unlimited are resources without limits.
type unlimited struct{}

func (unlimited) Hold(int64) error    { return nil }
func (unlimited) Release(int64)       {}
func (unlimited) HoldDisk(int64) bool { return true }

// peek returns a peekReader without limits.
func peek(from io.Reader) *peekReader { return must.Get(newPeekReader(from, unlimited{})) }

func whole(r io.Reader) io.Reader { return r }

// multipartBody returns a body of the parts, which include their headers.
func multipartBody(parts ...string) string {
	return "--b\r\n" + strings.Join(parts, "\r\n--b\r\n") + "\r\n--b--\r\n"
}

const (
	filePartText  = "Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\ncontent"
	fieldPartText = "Content-Disposition: form-data; name=%q\r\n\r\n%s"
)

// readJSONForm reads a form to its end, and checks that the pairs before the content stay unchanged.
func readJSONForm(from io.Reader) (content string, found bool, pairs []pair, err error) {
	in := peek(from)
	defer in.close()
	j := newJSONForm(in)
	if found, err = j.open(); err != nil || !found {
		return "", false, j.pairs, err
	}
	before := slices.Clone(j.pairs)
	text, err := io.ReadAll(j)
	if err != nil {
		return "", true, nil, err
	}
	if err := j.finish(); err != nil {
		return "", true, nil, err
	}
	for i, p := range before {
		if string(p.name) != string(j.pairs[i].name) || string(p.raw) != string(j.pairs[i].raw) {
			return "", true, nil, fmt.Errorf("%s %s became %s %s", p.name, p.raw, j.pairs[i].name, j.pairs[i].raw)
		}
	}
	return string(text), true, j.pairs, nil
}

// FuzzJSONUpload compares the pairs of a stream with those of parseObject, which FuzzObject compares with
// encoding/json, and its content with encoding/json.
func FuzzJSONUpload(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `{"content":"x"}`, ` { "a" : [1,{"content":"y"}] , "content" : "\u00e9\ud83d\ude00\n" , "b":null } `, `{"c\u006fntent":"x"}`, `{"content":5}`,
		`{"content":"x","content":"y"}`, `["content","content":"x"]`, `{"content" "x"}`, `{"content":"\ud83d"}`, "{\"content\":\"\xe6\x96\"}", `{"a":{"content":"x"},"content":"é文"}`,
		`{"content":"x"}}`, `{"content":"x"`, `{"content":"x\`, `"content"`, `{"a":"content","b":"x"}`, `{"content":{"a":"b"},"c":"d"}`, "{\"content\":\"\x01\"}", `{"a\"content":"x"}`, "{\"content\":\"\xe6",
		`{"content":"x","c\u006fntent":"y"}`, `{"content":"x`, `{"content":"x\q"}`, "{\"content\":\"é\xff\"}", `{"content":"x","a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > maxJSONOverhead {
			return
		}
		s := scanner{data: []byte(body), maxNames: maxOverheadFields}
		want, wrong := s.whole()
		for _, pieces := range []func(io.Reader) io.Reader{whole, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			content, found, got, err := readJSONForm(pieces(strings.NewReader(body)))
			if (err != nil) != (wrong != nil) {
				t.Fatalf("%q as a stream: %v, as a whole: %v", body, err, wrong)
			}
			if err != nil {
				if len(strings.TrimSpace(body)) > 0 && err.Error() != wrong.Error() {
					t.Fatalf("%q as a stream: %v, as a whole: %v", body, err, wrong)
				}
				continue
			}
			if len(got) != len(want) {
				t.Fatalf("%q has %d fields, want %d", body, len(got), len(want))
			}
			for i, p := range want {
				raw := string(p.raw)
				if string(p.name) == "content" && raw[0] == '"' {
					var text string
					if err := json.Unmarshal(p.raw, &text); err != nil || !found || text != content {
						t.Fatalf("%q has the content %q, want %q (%v)", body, content, text, err)
					}
					raw = `""`
				}
				if string(got[i].name) != string(p.name) || string(got[i].raw) != raw {
					t.Fatalf("%q has %s %s, want %s %s", body, got[i].name, got[i].raw, p.name, raw)
				}
			}
		}
	})
}

func TestJSONFormStreamsLongTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\\n\x00é\u2028😀\ufffd"))), rapid.SampledFrom([]string{strings.Repeat("x", spool.BlockSize-3), strings.Repeat("文", spool.BlockSize/3), strings.Repeat("\n", 1000)}))
		text := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "text"), "")
		quoted, _ := json.Marshal(text)
		body := fmt.Sprintf(` {"path":"p","content" : %s,"encoding":"utf8"}`, quoted)
		content, found, _, err := readJSONForm(strings.NewReader(body))
		if err != nil || !found || content != strings.ToValidUTF8(text, "\ufffd") {
			t.Fatalf("%d bytes became %d: %v", len(text), len(content), err)
		}
	})
}

// FuzzBase64 compares the stream with the strict decoders of encoding/base64, which ignore line breaks.
func FuzzBase64(f *testing.F) {
	for _, text := range []string{"", "eA", "eA==", "eHk=", "eHl6", "eHl6eA", "eHl6eA==", "e", "eB", "=", "====", "eA=", "eHl6=", "eA\n==", "eHl6\r\n", "ab=c", "eA==eA=="} {
		f.Add(text, 1)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		want, wrong := base64.StdEncoding.Strict().DecodeString(text)
		if wrong != nil {
			want, wrong = base64.RawStdEncoding.Strict().DecodeString(text)
		}
		if strings.ContainsAny(text, "\r\n") {
			wrong = errors.New("line breaks")
		}
		in := peek(iotest.HalfReader(strings.NewReader(text)))
		defer in.close()
		d, b := &base64Reader{in: in}, make([]byte, 1+uint(size)%64)
		var got []byte
		var err error
		for n := 0; err == nil; {
			n, err = d.Read(b)
			got = append(got, b[:n]...)
		}
		if (wrong == nil) != errors.Is(err, io.EOF) {
			t.Fatalf("%q ends in %v, want %v", text, err, wrong)
		}
		if wrong == nil && !bytes.Equal(got, want) {
			t.Fatalf("%q is %q, want %q", text, got, want)
		}
	})
}

// FuzzMultipartUpload checks that mime/multipart reads the same parts of each body that is accepted.
func FuzzMultipartUpload(f *testing.F) {
	for _, body := range []string{
		multipartBody(filePartText), multipartBody(fmt.Sprintf(fieldPartText, "path", "a"), filePartText, fmt.Sprintf(fieldPartText, "x", "\r\n--bb")), "\r\n" + multipartBody(filePartText), "--b--", "--b \t\r\n" + filePartText + "\r\n--b-- \r\n",
		multipartBody("Content-Disposition: form-data; name=\"a\\\"b\"; filename*=UTF-8''%e2%82%ac\r\n\r\nx"), "--b\r\n\r\nx\r\n--b--", multipartBody(filePartText + "\r\n--b"),
		"--b\r\nContent-Disposition:form-data;name=a\r\n\":\r\n\r\n\r\n--b--",
		multipartBody("content-disposition:form-data;name=file\r\nContent-Type: text/plain\r\n\r\n\r\n\r\n"),
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var first []string
		for i, pieces := range []func(io.Reader) io.Reader{whole, iotest.OneByteReader, iotest.HalfReader} {
			got, err := readMultipart(pieces(strings.NewReader(body)))
			if err != nil {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("%q: %v", body, err)
				}
				got = []string{"refused: " + err.Error()}
			}
			if i == 0 {
				first = got
			} else if diff := cmp.Diff(first, got); diff != "" {
				t.Fatalf("%q depends on the sizes of reads: %s", body, diff)
			}
		}
		if len(first) > 0 && strings.HasPrefix(first[0], "refused: ") {
			return
		}
		var want []string
		m := multipart.NewReader(strings.NewReader(body), "b")
		for {
			p, err := m.NextRawPart()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q is accepted, but %v", body, err)
			}
			content, err := io.ReadAll(p)
			if err != nil {
				t.Fatalf("%q is accepted, but %v", body, err)
			}
			want = append(want, p.FormName()+": "+string(content))
		}
		must.Equal(t, want, first)
	})
}

func readMultipart(from io.Reader) (all []string, err error) {
	in := peek(from)
	defer in.close()
	m := newMultipartForm(in, "b")
	for {
		p, ok, err := m.next()
		if err != nil || !ok {
			return all, err
		}
		content, err := io.ReadAll(m)
		if err != nil {
			return nil, err
		}
		all = append(all, p.name+": "+string(content))
	}
}

func TestMultipartRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		boundary := rapid.StringMatching(`[a-zA-Z0-9'()+_,./:=?-]{1,60}`).Draw(t, "boundary")
		near := rapid.SampledFrom([]string{"\r", "\n", "\r\n", "\r\n--", "\r\n-", "--" + boundary, "\r\n--" + boundary[:len(boundary)-1], strings.Repeat("\r\n--", 100), strings.Repeat("x", spool.BlockSize-2), "\r\n--x"})
		contents := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(near, 0, 5), func(s []string) string { return strings.Join(s, "") }), 1, 4).Draw(t, "contents")
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		must.NoError(t, w.SetBoundary(boundary))
		for i, content := range contents {
			part := must.Do(w.CreateFormField(fmt.Sprint(i))).Or(t)
			_, _ = io.WriteString(part, content)
		}
		_ = w.Close()
		in := peek(&b)
		defer in.close()
		m := newMultipartForm(in, boundary)
		for i, want := range contents {
			if strings.Contains("\r\n"+want, "\r\n--"+boundary) {
				return // the writer chooses another boundary
			}
			p, ok, err := m.next()
			if err != nil || !ok || p.name != fmt.Sprint(i) {
				t.Fatalf("part %d is %+v, %v, %v", i, p, ok, err)
			}
			if got, err := io.ReadAll(m); err != nil || string(got) != want {
				t.Fatalf("part %d has %.200q, want %.200q (%v)", i, got, want, err)
			}
		}
		if _, ok, err := m.next(); ok || err != nil {
			t.Fatalf("after the last part: %v, %v", ok, err)
		}
	})
}
