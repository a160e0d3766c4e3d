package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Of the bare server's files.
const (
	bareUploads = "/files"
	barePlain   = "/plain" // the same files, sent without a look at what they are
	bareBlock   = 256 << 10
)

// bareFiles stores what is posted to it in files of a folder, under its checksum
// and something random, and sends them back.
type bareFiles struct{ folder string }

var bareBlocks = sync.Pool{New: func() any { return new(make([]byte, bareBlock)) }}

// upload takes the part named file of a form, or the body where it is none. It
// is on the disk, and so is its name, before the answer says so.
func (f bareFiles) upload(w http.ResponseWriter, r *http.Request) {
	content := io.Reader(r.Body)
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media == "multipart/form-data" {
		form, err := r.MultipartReader()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for {
			part, err := form.NextPart()
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if part.FormName() == "file" {
				content = part
				break
			}
			if _, err := io.Copy(io.Discard, part); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
	}
	name, size, err := f.store(content)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusCreated, struct {
		ID       string `json:"id"`
		Size     int64  `json:"size"`
		Checksum string `json:"checksum"`
	}{name, size, name[:hex.EncodedLen(sha256.Size)]})
}

func (f bareFiles) store(content io.Reader) (name string, size int64, err error) {
	file, err := os.CreateTemp(f.folder, "new-")
	if err != nil {
		return "", 0, err
	}
	sum := sha256.New()
	if size, err = pump(io.MultiWriter(sum, file), content); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", 0, errors.Join(err, os.Remove(file.Name()))
	}
	name = hex.EncodeToString(sum.Sum(nil)) + "-" + rand.Text()
	if err := os.Rename(file.Name(), filepath.Join(f.folder, name)); err != nil {
		return "", 0, err
	}
	d, err := os.Open(f.folder)
	if err != nil {
		return "", 0, err
	}
	return name, size, errors.Join(d.Sync(), d.Close())
}

// pump copies in whole blocks: what reads forms has little to give at once.
func pump(to io.Writer, from io.Reader) (size int64, err error) {
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

// download sends a file and looks whether it is what was stored, before it sends
// the last of it.
func (f bareFiles) download(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("id")
	file, err := os.Open(filepath.Join(f.folder, filepath.Base(name)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	c := &checking{to: w, sum: sha256.New(), left: info.Size(), want: name[:hex.EncodedLen(sha256.Size)]}
	if _, err := pump(c, file); err != nil {
		panic(http.ErrAbortHandler) // the client must not take it for whole
	}
}

// checking writes content on as long as it is right.
type checking struct {
	to   io.Writer
	sum  hash.Hash
	left int64
	want string
}

func (c *checking) Write(b []byte) (int, error) {
	c.sum.Write(b)
	if c.left -= int64(len(b)); c.left == 0 && hex.EncodeToString(c.sum.Sum(nil)) != c.want {
		return 0, errors.New("the file is damaged")
	}
	return c.to.Write(b)
}

// plain sends a file as net/http does, which has the kernel copy it.
func (f bareFiles) plain(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeFile(w, r, filepath.Join(f.folder, filepath.Base(r.PathValue("id"))))
}
