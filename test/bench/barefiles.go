package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// The files of the bare server.
const (
	bareUploads = "/files"
	bareBlock   = 256 << 10
)

// bareFiles stores posted contents in files of a folder and serves them.
type bareFiles struct{ folder string }

var bareBlocks = sync.Pool{New: func() any { return new(make([]byte, bareBlock)) }}

// upload stores the part named file of a form, or a body of another type. The content is synced before the
// response, and with it its name on ext4 and XFS, whose journals are ordered.
func (f bareFiles) upload(w http.ResponseWriter, r *http.Request) error {
	content := io.Reader(r.Body)
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media == "multipart/form-data" {
		form, err := r.MultipartReader()
		if err != nil {
			return err
		}
		for {
			part, err := form.NextPart()
			if err != nil {
				return err
			}
			if part.FormName() == "file" {
				content = part
				break
			}
			if _, err := io.Copy(io.Discard, part); err != nil {
				return err
			}
		}
	}
	name, size, checksum, err := f.store(content)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, struct {
		ID       string `json:"id"`
		Size     int64  `json:"size"`
		Checksum string `json:"checksum"`
	}{name, size, checksum})
}

func (f bareFiles) store(content io.Reader) (name string, size int64, checksum string, err error) {
	name = rand.Text()
	file, err := os.OpenFile(filepath.Join(f.folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, "", err
	}
	sum := sha256.New()
	if size, err = copyBlocks(io.MultiWriter(sum, file), content); err == nil {
		err = file.Sync()
	}
	return name, size, hex.EncodeToString(sum.Sum(nil)), errors.Join(err, file.Close())
}

// copyBlocks copies in whole blocks, because the reader of a form returns few bytes at a time.
func copyBlocks(to io.Writer, from io.Reader) (size int64, err error) {
	block := bareBlocks.Get().(*[]byte)
	defer bareBlocks.Put(block)
	for {
		n, err := io.ReadFull(from, *block)
		size += int64(n)
		if _, failed := to.Write((*block)[:n]); failed != nil {
			return size, failed
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
}

// download sends a file with net/http, for which the kernel copies.
func (f bareFiles) download(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeFile(w, r, filepath.Join(f.folder, filepath.Base(r.PathValue("id"))))
}
