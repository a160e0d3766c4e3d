package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"collab/adapters/inspect"
)

// removeTimeout limits the removal of Inspect's object after the context has ended.
const removeTimeout = 5 * time.Second

// permissionRemedies are the remedies for missing permissions by the scheme of the address.
var permissionRemedies = map[string]string{
	"gs":     "give the service account the role roles/storage.objectUser on the bucket, or set COLLAB_BLOB_URL",
	"s3":     "allow s3:ListBucket on the bucket and s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload in it, or set COLLAB_BLOB_URL",
	"azblob": "give the identity the role Storage Blob Data Contributor on the container, or set COLLAB_BLOB_URL",
	"file":   "give the directory to the user that the server runs as (chown, chmod 700), or set COLLAB_BLOB_URL",
}

// Inspect writes an object to the store at the address, reads it and removes it.
func Inspect(ctx context.Context, at inspect.Address, clocks *inspect.Clocks) (f inspect.Findings) {
	location := at.String()
	scheme, path, _ := strings.Cut(at.Text(), "://")
	switch scheme {
	case "mem":
		f.Note("", "data is kept in memory only: COLLAB_BLOB_URL is mem://")
		return f
	case "file":
		location = path
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if _, ok := f.Directory(path, "COLLAB_BLOB_URL"); ok {
				f.Note("", "%s is created at the first start", path)
			}
			return f
		}
		f.Space(path)
	case "gs":
		server := "https://storage.googleapis.com"
		if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
			f.Note("unset it to reach Google", "STORAGE_EMULATOR_HOST leads to %s", host)
			server = "http://" + host
		}
		// This request records the server's clock, and fails sooner than Google's client.
		if _, err := inspect.Get(ctx, clocks.Client("the object store"), server); err != nil {
			f.Wrong("let this machine reach it, or set COLLAB_BLOB_URL", "%s does not answer", server).Err = err
			return f
		}
	}
	b, err := Open(ctx, at.Text())
	if err != nil {
		f.Wrong("give the process credentials for it, or set COLLAB_BLOB_URL", "%s cannot be opened", location).Err = err
		return f
	}
	defer b.Close()
	began := time.Now()
	step, err := "be listed", b.Ready(ctx)
	if err == nil {
		name := "collabd-doctor/" + began.UTC().Format("20060102T150405Z") + "-" + rand.Text()
		var removeErr error
		step, err, removeErr = b.roundTrip(ctx, name)
		switch {
		case err == nil && removeErr != nil:
			f.Wrong(permissionRemedies[scheme], "%s refuses to have objects removed%s: %s is left there",
				location, statusOf(removeErr), name)
		case err == nil:
			f.OK("%s: an object was written, read and removed in %s", location, inspect.Milliseconds(time.Since(began)))
		}
	}
	switch code := Status(err); {
	case err == nil:
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		f.Wrong(permissionRemedies[scheme], "%s refuses to %s%s", location, step, statusOf(err))
	case code == http.StatusNotFound:
		f.Wrong("make it, or set COLLAB_BLOB_URL", "%s is not there%s", location, statusOf(err))
	case scheme == "file" && errors.Is(err, fs.ErrPermission):
		f.Wrong(permissionRemedies[scheme], "%s cannot %s", location, step).Err = err
	case scheme == "file":
		f.Wrong("see what is wrong with its disk, or set COLLAB_BLOB_URL", "%s cannot %s", location, step).Err = err
	default:
		f.Wrong("let this machine reach it, or set COLLAB_BLOB_URL", "%s cannot %s", location, step).Err = err
	}
	return f
}

// roundTrip writes, reads and removes an object. It returns the step that failed with its
// error, and the error of the removal, which it tries in any case.
func (b *Bucket) roundTrip(ctx context.Context, name string) (step string, err, removeErr error) {
	defer func() {
		removeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		removeErr = b.Remove(removeCtx, name)
	}()
	content := []byte("Written and removed by collabd doctor.\n")
	if err := b.Put(ctx, name, "text/plain", int64(len(content)), bytes.NewReader(content)); err != nil {
		return "be written to", err, nil
	}
	r, err := b.Blobs.Open(ctx, name, 0, -1)
	if err != nil {
		return "be read", err, nil
	}
	got, err := io.ReadAll(io.LimitReader(r, 1<<10))
	if err = errors.Join(err, r.Close()); err == nil && !bytes.Equal(got, content) {
		err = errors.New("it gives back something else than it was given")
	}
	return "be read", err, nil
}

// statusOf returns the HTTP status of a refusal in brackets, else an empty string.
func statusOf(err error) string {
	if code := Status(err); code != 0 {
		return fmt.Sprintf(" (%d)", code)
	}
	return ""
}
