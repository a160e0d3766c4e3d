package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"

	"collab/test/collabd"
	"collab/test/forms"
	"collab/test/must"
)

// consoleBrowser signs a person of an organisation in to the console, and returns a client with the
// cookie.
func consoleBrowser(t *testing.T, s *collabd.Server, email, organisation string) *http.Client {
	t.Helper()
	b := forms.New(t)
	b.CheckRedirect = nil // so that redirects are followed
	in := b.Submit(b.Open(s.URL+"/console/sign-in"), url.Values{
		"account": {"new"}, "email": {email}, "name": {"Con"}, "org": {"new"}, "orgName": {organisation}, "role": {"owner"}, "action": {"sign-in"},
	})
	if in.StatusCode != http.StatusOK || in.Request.URL.Path != "/console" {
		t.Fatalf("the sign-in ends at %s: %s", in.Request.URL, in.Status)
	}
	return b.Client
}

// slowBody is a body of which a part comes, and the rest never.
type slowBody struct {
	part  io.Reader
	taken chan struct{} // closed when the part was read
	done  <-chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.part.Read(p)
	if errors.Is(err, io.EOF) {
		close(b.taken)
		<-b.done
		return 0, context.Canceled
	}
	return n, err
}

func TestUploadsThroughTheConsoleAreThoseOfTheInterface(t *testing.T) {
	const largest = 8 << 20
	s := collabd.Start(t, "COLLAB_MAX_UPLOAD_BYTES=8388608")
	browser := consoleBrowser(t, s, "con@collab.example", "Uploads")
	send := func(ctx context.Context, method, path string, content io.Reader) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, method, s.URL+"/console/api/v1"+path, content)
		if err != nil {
			return 0, nil, err
		}
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if content != nil {
			r.Header.Set("Content-Type", "application/octet-stream")
		}
		response, err := browser.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return response.StatusCode, text, err
	}
	content := make([]byte, largest)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content)
	// unsized hides the length, so that it is sent in chunks.
	unsized := func(b []byte) io.Reader { return io.MultiReader(bytes.NewReader(b)) }

	for name, body := range map[string]io.Reader{"sized.bin": bytes.NewReader(content), "unsized.bin": unsized(content)} {
		status, text, err := send(t.Context(), "POST", "/sync/files?path="+name, body)
		var made struct {
			Checksum string
			Size     int
		}
		if err == nil {
			err = json.Unmarshal(text, &made)
		}
		if err != nil || status != http.StatusCreated || made.Checksum != must.Sum(content) || made.Size != largest {
			t.Errorf("%s: %d %.300s %v", name, status, text, err)
		}
	}
	for name, body := range map[string]io.Reader{"sized": bytes.NewReader(append(content, 0)), "unsized": unsized(append(content, 0))} {
		// The server may close the connection before the client has sent all.
		if status, text, err := send(t.Context(), "POST", "/sync/files?path=large.bin", body); err == nil && status != http.StatusRequestEntityTooLarge {
			t.Errorf("one byte too many, %s: %d %s", name, status, text)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	half := &slowBody{part: bytes.NewReader(content[:largest/2]), taken: make(chan struct{}), done: ctx.Done()}
	go func() {
		<-half.taken
		cancel()
	}()
	if _, _, err := send(ctx, "POST", "/sync/files?path=cancelled.bin", half); !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled upload: %v", err)
	}
	status, text, err := send(t.Context(), "GET", "/sync/files", nil)
	var files []struct{ Path string }
	if err == nil {
		err = json.Unmarshal(text, &files)
	}
	if err != nil || status != http.StatusOK || len(files) != 2 {
		t.Errorf("there are %d %s, %v", status, text, err)
	}
	if status, text, err := send(t.Context(), "POST", "/sync/files?path=cancelled.bin", bytes.NewReader(content)); err != nil || status != http.StatusCreated {
		t.Errorf("the upload after it: %d %s %v", status, text, err)
	}
}
