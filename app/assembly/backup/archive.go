package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"collab/adapters/archive"
	"collab/adapters/bucket"
)

// An archive is a tar compressed by zstd, as other tools read it too:
//
//	collab-backup.txt   the description, see archiveHeader
//	collab.db           the database
//	token-keys.pem …    the existing ones of SmallFiles
//	blobs/…             the content of files, named as in the data directory, in the
//	                    order of the names in the store
//	manifest.txt        a line for each of the entries before it: SHA-256, size in
//	                    bytes and name, with two spaces between; and their number and size
//
// A skippable zstd frame at the end has the SHA-256 of all bytes before it, so that every
// change of the file is detected.
const (
	archiveFormat = 1
	headerName    = "collab-backup.txt"
	manifestName  = "manifest.txt"
	databaseName  = "collab.db"
	blobsName     = "blobs"
)

// SmallFiles are the keys, secrets and state of development providers that servers make in the
// data directory, in their order in archives.
var SmallFiles = []string{
	"token-keys.pem", "secrets-keys.json", "identity-webhook-secret", "payment-webhook-secret",
	"dev-identity-key.pem", "dev-identity-accounts.json", "dev-payments.json",
}

// Bounds of an archive's parts, in bytes, against content that expands to use up memory.
const (
	maxHeader  = 4 << 10
	maxSmall   = 64 << 20
	maxContent = 1 << 40
	zstdWindow = 4 << 20
)

// checksumFrame is the header of the frame with the hash: zstd's magic number of a skippable frame, and
// the length of the hash.
var checksumFrame = []byte{0x50, 0x2a, 0x4d, 0x18, sha256.Size, 0, 0, 0}

// zstdMagic is zstd's magic number of a data frame, with which archives begin.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// archiveHeader is the description of an archive.
type archiveHeader struct {
	createdAt time.Time // when the database was copied, to the second
	version   string    // of the program that made it
	schema    int64     // version of the database's schema
}

func (a archiveHeader) encode() []byte {
	return fmt.Appendf(nil, "collab backup %d\nmade %s\nby %s\nschema %d\n",
		archiveFormat, a.createdAt.UTC().Format(time.RFC3339), a.version, a.schema)
}

func parseHeader(text []byte) (a archiveHeader, err error) {
	var format int
	if _, err := fmt.Sscanf(string(text), "collab backup %d\n", &format); err != nil {
		return a, errors.New("its description is not that of a backup")
	}
	if format != archiveFormat {
		return a, fmt.Errorf("it has the format %d, and this program reads only %d: "+
			"use the program of the version that made it", format, archiveFormat)
	}
	lines := strings.Split(string(text), "\n")
	values := make([]string, 3)
	if len(lines) == 5 {
		for i, label := range []string{"made ", "by ", "schema "} {
			values[i], _ = strings.CutPrefix(lines[i+1], label)
		}
	}
	a.version = values[1]
	if a.createdAt, err = time.Parse(time.RFC3339, values[0]); err == nil {
		a.schema, err = strconv.ParseInt(values[2], 10, 64)
	}
	if err != nil || a.schema < 1 || !bytes.Equal(a.encode(), text) {
		return a, fmt.Errorf("%s is malformed", headerName)
	}
	return a, nil
}

// entry is one file in an archive.
type entry struct {
	name string
	blob string // for content, its name in the store
	size int64  // in bytes
	sum  string // SHA-256, lower-case hexadecimal
}

func (e entry) line() string { return fmt.Sprintf("%s  %d  %s\n", e.sum, e.size, e.name) }

// totals count the entries without the manifest.
type totals struct {
	entries int64
	blobs   int64
	bytes   int64
}

func (t *totals) add(e entry) {
	t.entries++
	t.bytes += e.size
	if e.blob != "" {
		t.blobs++
	}
}

func (t totals) line() string {
	return fmt.Sprintf("total  %d  entries  %d  bytes\n", t.entries, t.bytes)
}

// archiver writes an archive.
type archiver struct {
	header     archiveHeader
	manifest   *os.File // lines of the entries written so far, in a file because they may be many
	lines      *bufio.Writer
	totals     totals
	sum        hash.Hash
	out        io.Writer // the archive, and sum
	compressor *zstd.Encoder
	tar        *tar.Writer
}

// newArchiver returns an archiver that has written the header. Manifest is an empty file, which the
// archiver uses until it is closed.
func newArchiver(out io.Writer, a archiveHeader, manifest *os.File) (*archiver, error) {
	w := &archiver{header: a, manifest: manifest, lines: bufio.NewWriter(manifest), sum: sha256.New()}
	w.out = io.MultiWriter(out, w.sum)
	// At most one processor is used, to leave the others to a running server.
	compressor, err := zstd.NewWriter(w.out,
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow))
	if err != nil {
		return nil, err
	}
	w.compressor, w.tar = compressor, tar.NewWriter(compressor)
	text := a.encode()
	_, err = w.add(entry{name: headerName, size: int64(len(text))}, bytes.NewReader(text))
	return w, err
}

// add writes an entry and returns it with its hash. It returns errLength or errContentLength unless r
// has exactly the entry's size.
func (w *archiver) add(e entry, r io.Reader) (entry, error) {
	if e.size > maxContent {
		return e, fmt.Errorf("%s has %d bytes, and %d are the most that a backup takes", e.name, e.size, int64(maxContent))
	}
	err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Size: e.size, Mode: 0o600, ModTime: w.header.createdAt})
	if err != nil {
		return e, err
	}
	sum := sha256.New()
	n, err := archive.Copy(io.MultiWriter(w.tar, sum), io.LimitReader(r, e.size))
	if err != nil {
		return e, err
	}
	lengthErr := errLength
	if e.blob != "" {
		lengthErr = errContentLength
	}
	if n < e.size {
		return e, lengthErr
	}
	if more, err := io.ReadFull(r, make([]byte, 1)); more > 0 || err != io.EOF {
		return e, errors.Join(lengthErr, err)
	}
	e.sum = hex.EncodeToString(sum.Sum(nil))
	if e.name == manifestName {
		return e, nil
	}
	w.totals.add(e)
	_, err = w.lines.WriteString(e.line())
	return e, err
}

// Errors of a size that differs from the expected one. Content does not change, so another backup would
// fail too.
var (
	errLength        = errors.New("it changed while it was read: run the backup again")
	errContentLength = errors.New("its size is not the one that the database has")
)

// close writes the manifest and ends the archive.
func (w *archiver) close() error {
	if _, err := w.lines.WriteString(w.totals.line()); err != nil {
		return err
	}
	if err := w.lines.Flush(); err != nil {
		return err
	}
	size, err := w.manifest.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := w.manifest.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := w.add(entry{name: manifestName, size: size}, w.manifest); err != nil {
		return err
	}
	if err := w.tar.Close(); err != nil {
		return err
	}
	if err := w.compressor.Close(); err != nil {
		return err
	}
	if _, err := w.out.Write(checksumFrame); err != nil {
		return err
	}
	_, err = w.out.Write(w.sum.Sum(nil))
	return err
}

// scan reads a whole archive and calls each with every entry but the manifest, in their order;
// each need not read all of an entry. If it returns nil, the archive is complete and valid.
// Each is called before that is known, so its effects must be undone if scan fails.
func scan(ctx context.Context, file io.ReadSeeker, each func(archiveHeader, entry, io.Reader) error) (archiveHeader, totals, error) {
	s := &scanner{ctx: ctx, each: each, manifestSum: sha256.New()}
	err := s.readArchive(file)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case err != nil && !errors.As(err, new(callbackError)):
		err = fmt.Errorf("the archive is refused: %w", err)
	}
	return s.header, s.totals, err
}

// callbackError is an error of the function that scan calls.
type callbackError struct{ error }

func (e callbackError) Unwrap() error { return e.error }

type scanner struct {
	ctx          context.Context
	each         func(archiveHeader, entry, io.Reader) error
	header       archiveHeader
	totals       totals
	manifestSum  hash.Hash // of the manifest as it should be
	manifestSize int64     // of the same, in bytes
	nextOrder    int       // least index in entryOrder of the next entry; len(entryOrder) is a blob
	lastBlob     string    // name of the last blob
}

func (s *scanner) readArchive(file io.ReadSeeker) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	bodySize := end - int64(len(checksumFrame)+sha256.Size)
	if bodySize < 0 {
		return errors.New("it is too short to be one")
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	body := io.TeeReader(archive.ContextReader{Ctx: s.ctx, Reader: io.LimitReader(file, bodySize)}, sum)
	if err := s.readCompressed(body); err != nil {
		return err
	}
	rest := make([]byte, len(checksumFrame)+sha256.Size)
	if _, err := archive.Copy(io.Discard, body); err != nil {
		return err
	}
	if _, err := io.ReadFull(file, rest); err != nil {
		return err
	}
	sum.Write(rest[:len(checksumFrame)])
	if !bytes.Equal(rest, append(slices.Clone(checksumFrame), sum.Sum(nil)...)) {
		return errors.New("it is incomplete or was changed (checksum mismatch): use another backup")
	}
	return nil
}

func (s *scanner) readCompressed(body io.Reader) error {
	decompressor, err := zstd.NewReader(body,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer decompressor.Close()
	files := tar.NewReader(decompressor)
	for {
		h, err := files.Next()
		switch {
		case err == io.EOF:
			return errors.New("it has no manifest")
		case errors.Is(err, zstd.ErrMagicMismatch):
			return errors.New("it is no backup; collabd import reads exports")
		case err != nil:
			return err
		}
		if h.Name == manifestName {
			if err := s.readManifest(h, files); err != nil {
				return err
			}
			break
		}
		if err := s.readEntry(h, files); err != nil {
			return err
		}
	}
	if h, err := files.Next(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%q comes after the manifest", h.Name)
		}
		return err
	}
	if n, err := decompressor.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return errors.Join(errors.New("something comes after its end"), err)
	}
	return nil
}

// readEntry reads one entry, which must be allowed at its position.
func (s *scanner) readEntry(h *tar.Header, content io.Reader) error {
	e, limit, err := s.parseEntry(h)
	if err != nil {
		return err
	}
	if h.Size > limit {
		return fmt.Errorf("%q has %d bytes, and %d are the most", h.Name, h.Size, limit)
	}
	sum := sha256.New()
	content = io.TeeReader(content, sum)
	if e.name == headerName {
		text, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if s.header, err = parseHeader(text); err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	if s.header.schema == 0 {
		return fmt.Errorf("it does not begin with %s", headerName)
	}
	if err := s.each(s.header, e, content); err != nil {
		return callbackError{err}
	}
	if _, err := archive.Copy(io.Discard, content); err != nil {
		return err
	}
	e.sum = hex.EncodeToString(sum.Sum(nil))
	s.totals.add(e)
	s.addLine(e.line())
	return nil
}

// addLine adds a line to the expected manifest.
func (s *scanner) addLine(line string) {
	s.manifestSum.Write([]byte(line))
	s.manifestSize += int64(len(line))
}

// entryOrder has the entries that are not content, in their order. The first two are required.
var entryOrder = append([]string{headerName, databaseName}, SmallFiles...)

// parseEntry returns the entry of a header and its largest size in bytes, or an error if it is not allowed
// at this position.
func (s *scanner) parseEntry(h *tar.Header) (e entry, limit int64, err error) {
	if err := archive.CheckRegular(h); err != nil {
		return e, 0, err
	}
	e = entry{name: h.Name, size: h.Size}
	index := slices.Index(entryOrder, h.Name)
	next := index + 1
	switch index {
	case 0:
		limit = maxHeader
	case 1:
		limit = maxContent
	case -1:
		path, in := strings.CutPrefix(h.Name, blobsName+"/")
		name, ok := bucket.NameOf(path)
		if !in || !ok {
			return e, 0, fmt.Errorf("%q does not belong in a backup", h.Name)
		}
		index, next = len(entryOrder), len(entryOrder)
		if name <= s.lastBlob {
			return e, 0, fmt.Errorf("%q is out of order", h.Name)
		}
		s.lastBlob, e.blob, limit = name, name, maxContent
	default:
		limit = maxSmall
	}
	if index < s.nextOrder || index > s.nextOrder && s.nextOrder < 2 {
		return e, 0, fmt.Errorf("%q is out of order", h.Name)
	}
	s.nextOrder = next
	return e, limit, nil
}

// readManifest compares the manifest with what was read.
func (s *scanner) readManifest(h *tar.Header, content io.Reader) error {
	if err := archive.CheckRegular(h); err != nil {
		return err
	}
	if s.nextOrder < 2 {
		return fmt.Errorf("it has no %s", databaseName)
	}
	s.addLine(s.totals.line())
	sum := sha256.New()
	if h.Size == s.manifestSize {
		if _, err := archive.Copy(sum, content); err != nil {
			return err
		}
	}
	if !bytes.Equal(sum.Sum(nil), s.manifestSum.Sum(nil)) {
		return errors.New("the manifest does not match the contents")
	}
	return nil
}

// formatSize formats a number of bytes in a binary unit.
func formatSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	unit := min(int(math.Log2(float64(n))/10), 4)
	return fmt.Sprintf("%.1f %ciB", float64(n)/math.Pow(1024, float64(unit)), " KMGT"[unit])
}
