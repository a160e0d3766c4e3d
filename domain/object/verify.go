package object

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

// Verify returns a reader of content that fails in place of io.EOF, with the error of wrong for the
// size that was read, unless the content has the size and the checksum.
func Verify(r io.Reader, size int64, checksum string, mismatch func(size int64) error) io.Reader {
	return &verifier{r: r, sum: sha256.New(), size: size, checksum: checksum, mismatch: mismatch}
}

type verifier struct {
	r        io.Reader
	sum      hash.Hash
	read     int64
	size     int64
	checksum string
	mismatch func(size int64) error
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	v.read += int64(n)
	if err == io.EOF && (v.read != v.size || hex.EncodeToString(v.sum.Sum(nil)) != v.checksum) {
		err = v.mismatch(v.read)
	}
	return n, err
}
