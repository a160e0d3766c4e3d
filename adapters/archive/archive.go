// Package archive writes and reads archives of organisations: a tar compressed by gzip, as
// docs/export.md describes it.
package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"collab/domain/archive"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

const (
	manifestName = "manifest.json"
	contentsName = "files/" // the content of files, as archive.ContentPath names them
)

// Bounds in bytes.
const (
	maxManifest = 64 << 10
	maxLine     = 1 << 20
	copyBuffer  = 128 << 10
	block       = 512        // of a tar
	maxPadding  = 20 * block // zeros that other programs write after the end of a tar
)

// Archiver implements ports.Archiver. Dir is the directory of temporary files, as for os.CreateTemp.
type Archiver struct{ Dir string }

var _ ports.Archiver = Archiver{}

type manifestRow struct {
	Format       int           `json:"format"`
	Organisation id.Org        `json:"organisationId"`
	CreatedAt    jsonTime      `json:"createdAt"`
	Version      string        `json:"version"`
	Issuer       string        `json:"identityIssuer"`
	Member       *id.User      `json:"visibleTo"`
	Parts        []partRow     `json:"parts"`
	Files        contentTotals `json:"files"`
}

type partRow struct {
	File    string `json:"file"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

type contentTotals struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

// partsWriter writes the parts to a temporary file, each as one gzip member that ends at the
// boundary of a tar block, so that copyTo can copy the members into the archive.
type partsWriter struct {
	file  *os.File
	zip   *gzip.Writer
	sum   hash.Hash
	parts []archive.Part
	ends  []int64 // offset in the file of the end of each part
}

// startPart starts the part of a kind, and empty ones for the kinds before it.
func (p *partsWriter) startPart(k archive.Kind) error {
	for len(p.parts) == 0 || p.parts[len(p.parts)-1].Kind != k {
		if err := p.endPart(); err != nil {
			return err
		}
		if len(p.parts) == len(archive.Kinds) {
			return fault.New(fault.Internal, "records of the kind %s are not in their order", k)
		}
		p.parts = append(p.parts, archive.Part{Kind: archive.Kinds[len(p.parts)]})
		p.sum = sha256.New()
		p.zip.Reset(p.file)
	}
	return nil
}

// endPart pads and ends the current part, if there is one.
func (p *partsWriter) endPart() error {
	if len(p.parts) == 0 {
		return nil
	}
	last := &p.parts[len(p.parts)-1]
	last.Checksum = hex.EncodeToString(p.sum.Sum(nil))
	if _, err := p.zip.Write(make([]byte, padding(last.Bytes))); err != nil {
		return err
	}
	if err := p.zip.Close(); err != nil {
		return err
	}
	at, err := p.file.Seek(0, io.SeekCurrent)
	p.ends = append(p.ends, at)
	return err
}

// padding returns the number of zeros that follow n bytes of content in a tar.
func padding(n int64) int64 { return (block - n%block) % block }

func (p *partsWriter) write(r archive.Record) error {
	if err := p.startPart(r.Kind()); err != nil {
		return err
	}
	line, err := codecs[r.Kind()].encodeLine(r)
	if err != nil {
		return err
	}
	last := &p.parts[len(p.parts)-1]
	last.Records++
	last.Bytes += int64(len(line))
	p.sum.Write(line)
	_, err = p.zip.Write(line)
	return err
}

// newGzip returns a writer of the fastest level, as contents are often compressed already.
func newGzip(w io.Writer) *gzip.Writer {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return z
}

// createTemp creates a temporary file, which has no name where the system allows that. Remove
// closes and removes it.
func (a Archiver) createTemp() (f *os.File, remove func(), err error) {
	f, err = os.CreateTemp(a.Dir, "collab-export-*")
	if err != nil {
		return nil, nil, err
	}
	_ = os.Remove(f.Name())
	return f, func() {
		_ = f.Close() // everything was read
		_ = os.Remove(f.Name())
	}, nil
}

// Pack implements ports.Archiver.
func (a Archiver) Pack(ctx context.Context, w io.Writer, m archive.Manifest, records func(each func(archive.Record) error) error,
	open func(context.Context, object.Object) (io.ReadCloser, error), progress func(contents, bytes int64),
) (archive.Manifest, error) {
	file, remove, err := a.createTemp()
	if err != nil {
		return m, err
	}
	defer remove()
	list, removeList, err := a.createTemp() // the objects whose content follows
	if err != nil {
		return m, err
	}
	defer removeList()
	p := &partsWriter{file: file, zip: newGzip(file)}
	lines := bufio.NewWriter(list)
	err = records(func(r archive.Record) error {
		if o := r.Object; o != nil {
			m.Contents++
			m.Bytes += o.Size
			if err := json.NewEncoder(lines).Encode(o); err != nil {
				return err
			}
		}
		return p.write(r)
	})
	if err == nil {
		err = p.startPart(archive.Kinds[len(archive.Kinds)-1])
	}
	if err == nil {
		err = p.endPart()
	}
	if err == nil {
		err = lines.Flush()
	}
	if err != nil {
		return m, err
	}
	m.Parts = p.parts
	if err := p.copyTo(w, m); err != nil {
		return m, err
	}
	if _, err := list.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	return m, packContents(ctx, w, m, list, open, progress)
}

// copyTo writes the manifest and the parts to w.
func (p *partsWriter) copyTo(w io.Writer, m archive.Manifest) error {
	row := manifestRow{
		Format: archive.Format, Organisation: m.Organisation, CreatedAt: jsonTime(m.CreatedAt),
		Version: m.Version, Issuer: m.Issuer, Files: contentTotals{m.Contents, m.Bytes},
	}
	if m.Member != "" {
		row.Member = &m.Member
	}
	for _, part := range m.Parts {
		row.Parts = append(row.Parts, partRow{archive.FileName(part.Kind), part.Records, part.Bytes, part.Checksum})
	}
	text, err := json.MarshalIndent(row, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	size := int64(len(text))
	if err := writeGzip(w, encodeHeader(manifestName, size, m.CreatedAt), text, make([]byte, padding(size))); err != nil {
		return err
	}
	start := int64(0)
	for i, part := range m.Parts {
		if err := writeGzip(w, encodeHeader(archive.FileName(part.Kind), part.Bytes, m.CreatedAt)); err != nil {
			return err
		}
		if _, err := Copy(w, io.NewSectionReader(p.file, start, p.ends[i]-start)); err != nil {
			return err
		}
		start = p.ends[i]
	}
	return nil
}

// writeGzip writes texts as one gzip member.
func writeGzip(w io.Writer, texts ...[]byte) error {
	z := newGzip(w)
	for _, text := range texts {
		if _, err := z.Write(text); err != nil {
			return err
		}
	}
	return z.Close()
}

func tarHeader(name string, size int64, modTime time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: modTime.Truncate(time.Second)}
}

// encodeHeader returns the encoded header of a file in a tar.
func encodeHeader(name string, size int64, modTime time.Time) []byte {
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(tarHeader(name, size, modTime)); err != nil {
		panic(err) // the names of parts are valid
	}
	return b.Bytes()
}

// packContents writes the contents and the end of the tar.
func packContents(ctx context.Context, w io.Writer, m archive.Manifest, list io.Reader,
	open func(context.Context, object.Object) (io.ReadCloser, error), progress func(contents, bytes int64),
) error {
	zip := newGzip(w)
	files := tar.NewWriter(zip)
	next := json.NewDecoder(bufio.NewReader(list))
	var total int64
	for i := range m.Contents {
		var o object.Object
		if err := next.Decode(&o); err != nil {
			return err
		}
		if err := packContent(ctx, files, o, m.CreatedAt, open); err != nil {
			return err
		}
		total += o.Size
		progress(i+1, total)
	}
	if err := files.Close(); err != nil {
		return err
	}
	return zip.Close()
}

func packContent(ctx context.Context, files *tar.Writer, o object.Object, createdAt time.Time,
	open func(context.Context, object.Object) (io.ReadCloser, error),
) error {
	r, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := files.WriteHeader(tarHeader(contentsName+archive.ContentPath(o), o.Size, createdAt)); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := Copy(io.MultiWriter(files, sum), io.LimitReader(ContextReader{ctx, r}, o.Size)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != o.Checksum {
		return fault.New(fault.Internal, "The stored content of %s has another checksum than its record", o.ID)
	}
	return nil
}

// Copy is io.CopyBuffer with a buffer of copyBuffer bytes, never io.ReaderFrom or io.WriterTo,
// so that a ContextReader's context is checked before each chunk.
func Copy(to io.Writer, from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, copyBuffer))
}

// ContextReader is a reader that fails after its context has ended.
type ContextReader struct {
	Ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r ContextReader) Read(p []byte) (int, error) {
	if err := r.Ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Read implements ports.Archiver.
func (a Archiver) Read(ctx context.Context, r io.Reader, only archive.Kind, each func(archive.Item) error) error {
	s := &scanner{only: only, each: each, lines: bufio.NewReaderSize(nil, maxLine)}
	err := s.readArchive(ContextReader{ctx, r})
	if e, ok := err.(callbackError); ok {
		return e.error
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// callbackError is an error that each returned.
type callbackError struct{ error }

// scanner reads an archive.
type scanner struct {
	only     archive.Kind // of the records that are read; empty: all
	each     func(archive.Item) error
	manifest archive.Manifest
	files    *tar.Reader
	lines    *bufio.Reader // of the current part
}

// yield calls each.
func (s *scanner) yield(i archive.Item) error {
	if err := s.each(i); err != nil {
		return callbackError{err}
	}
	return nil
}

// invalid returns the error of a malformed archive.
func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "The archive is refused: "+format, args...)
}

// readError returns the error for one of the gzip or tar reader.
func readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return invalid("it is not whole")
	}
	return fault.Wrap(fault.Invalid, err, "The archive is refused")
}

func (s *scanner) readArchive(r io.Reader) error {
	zip, err := gzip.NewReader(bufio.NewReaderSize(r, copyBuffer))
	switch {
	case err == gzip.ErrHeader:
		return invalid("it is no export; collabd restore reads backups")
	case err != nil:
		return readError(err)
	}
	s.files = tar.NewReader(zip)
	if err := s.readManifest(); err != nil {
		return err
	}
	for _, part := range s.manifest.Parts {
		if err := s.readPart(part); err != nil {
			return err
		}
	}
	if err := s.readContents(); err != nil {
		return err
	}
	rest, err := io.ReadAll(io.LimitReader(zip, maxPadding+1))
	switch {
	case err != nil:
		return readError(err)
	case len(rest) > maxPadding || bytes.ContainsFunc(rest, func(r rune) bool { return r != 0 }):
		return invalid("something follows its end")
	}
	return nil
}

// next returns the header of the next file, which must have the name.
func (s *scanner) next(name string, limit int64) (*tar.Header, error) {
	h, err := s.files.Next()
	switch {
	case err != nil:
		return nil, readError(err)
	case name != "" && h.Name != name:
		return nil, invalid("it has %.100q in the place of %s", h.Name, name)
	case h.Size > limit:
		return nil, invalid("%.100q has %d bytes, and %d are the most", h.Name, h.Size, limit)
	}
	if err := CheckRegular(h); err != nil {
		return nil, invalid("%v", err)
	}
	return h, nil
}

// CheckRegular returns an error unless the header is of a regular file. It refuses sparse files, which
// need more space than their size in the archive.
func CheckRegular(h *tar.Header) error {
	if h.Typeflag != tar.TypeReg || h.Linkname != "" {
		return fmt.Errorf("%.100q is not a regular file", h.Name)
	}
	for key := range h.PAXRecords {
		if key != "path" && key != "size" {
			return fmt.Errorf("%.100q has the attribute %q", h.Name, key)
		}
	}
	return nil
}

func (s *scanner) readManifest() error {
	if _, err := s.next(manifestName, maxManifest); err != nil {
		return err
	}
	text, err := io.ReadAll(s.files)
	if err != nil {
		return readError(err)
	}
	var format struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &format); err != nil {
		return invalid("%s is not as it is written", manifestName)
	}
	if format.Format != archive.Format {
		return invalid("it has the format %d, and this program reads only %d", format.Format, archive.Format)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var row manifestRow
	if err := d.Decode(&row); err != nil {
		return invalid("%s is not as it is written: %v", manifestName, err)
	}
	var f fields
	checkID(&f, "organisationId", row.Organisation)
	checkOptionalID(&f, "visibleTo", row.Member)
	f.Text("version", row.Version, maxText)
	f.Text("identityIssuer", row.Issuer, maxText)
	if row.Files.Count < 0 || row.Files.Bytes < 0 {
		f.Add("files", "must not be negative")
	}
	if len(row.Parts) != len(archive.Kinds) {
		f.Add("parts", "must be %d", len(archive.Kinds))
	}
	m := archive.Manifest{
		Organisation: row.Organisation, CreatedAt: time.Time(row.CreatedAt), Version: row.Version, Issuer: row.Issuer,
		Contents: row.Files.Count, Bytes: row.Files.Bytes,
	}
	if row.Member != nil {
		m.Member = *row.Member
	}
	for i, p := range row.Parts[:min(len(row.Parts), len(archive.Kinds))] {
		if p.File != archive.FileName(archive.Kinds[i]) || p.Records < 0 || p.Bytes < 0 {
			f.Add("parts", "must be those of the format in their order")
		}
		m.Parts = append(m.Parts, archive.Part{Kind: archive.Kinds[i], Records: p.Records, Bytes: p.Bytes, Checksum: p.SHA256})
	}
	if err := f.Err(); err != nil {
		return fault.Wrap(fault.Invalid, err, "The archive is refused: %s", manifestName)
	}
	s.manifest = m
	return s.yield(archive.Item{Manifest: &m})
}

// readPart reads the file of one kind.
func (s *scanner) readPart(p archive.Part) error {
	name := archive.FileName(p.Kind)
	h, err := s.next(name, p.Bytes)
	if err != nil {
		return err
	}
	if h.Size != p.Bytes {
		return invalid("%s has %d bytes, and %d in the manifest", name, h.Size, p.Bytes)
	}
	if s.only != "" && s.only != p.Kind {
		return nil
	}
	sum := sha256.New()
	lines := s.lines
	lines.Reset(io.TeeReader(s.files, sum))
	location := archive.Location{Kind: p.Kind}
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			break
		}
		location.Line++
		switch {
		case err == bufio.ErrBufferFull:
			return invalid("%s line %d has more than %d bytes", name, location.Line, maxLine)
		case err != nil:
			return readError(err)
		}
		r, err := codecs[p.Kind].parseLine(line, s.manifest.Organisation)
		if err != nil {
			return location.Wrap(err)
		}
		if err := s.yield(archive.Item{Record: r, Location: location}); err != nil {
			return err
		}
	}
	switch {
	case location.Line != p.Records:
		return invalid("%s has %d lines, and %d in the manifest", name, location.Line, p.Records)
	case hex.EncodeToString(sum.Sum(nil)) != p.Checksum:
		return invalid("%s has another SHA-256 than in the manifest", name)
	}
	return nil
}

// readContents reads the contents and the end of the tar.
func (s *scanner) readContents() error {
	var total int64
	for range s.manifest.Contents {
		h, err := s.next("", s.manifest.Bytes-total)
		if err != nil {
			return err
		}
		p, in := strings.CutPrefix(h.Name, contentsName)
		if !in || !fs.ValidPath(p) {
			return invalid("%.100q does not belong in it", h.Name)
		}
		total += h.Size
		content := &errorReader{Reader: s.files}
		if err := s.yield(archive.Item{Path: p, Size: h.Size, Content: content}); err != nil {
			if content.err != nil {
				return readError(content.err)
			}
			return err
		}
	}
	if total != s.manifest.Bytes {
		return invalid("its files have %d bytes, and %d in the manifest", total, s.manifest.Bytes)
	}
	h, err := s.files.Next()
	switch {
	case err == io.EOF:
		return nil
	case err != nil:
		return readError(err)
	}
	return invalid("%.100q is more than its manifest has", h.Name)
}

// errorReader records the error of its reader.
type errorReader struct {
	io.Reader
	err error
}

func (r *errorReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
