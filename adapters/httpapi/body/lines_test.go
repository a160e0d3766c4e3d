package body

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// readLines returns the lines of a reader with a buffer of the size. A long line is "LONG".
func readLines(t *rapid.T, from io.Reader, size, most int) (found []string) {
	r := &LineReader{From: from, Buffer: make([]byte, size)}
	for {
		lines, err := r.Next(most)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil || len(lines) == 0 || len(lines) > most {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		for _, line := range lines {
			if line == nil {
				line = []byte("LONG")
			}
			found = append(found, string(line))
		}
	}
}

func TestLineReader(t *testing.T) {
	long := 0
	rapid.Check(t, func(t *rapid.T) {
		size, most := rapid.IntRange(1, 12).Draw(t, "size"), rapid.IntRange(1, 4).Draw(t, "most")
		lines := rapid.SliceOfN(rapid.StringMatching(`[ ab\r]{0,20}`), 0, 8).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		var want []string
		for _, line := range lines {
			switch {
			case len(line) >= size && (len(line) > size || strings.Trim(line, " \r") != ""):
				// A line that fills the buffer is long unless the text ends there.
				want = append(want, "LONG")
				long++
			case strings.Trim(line, " \r") != "":
				want = append(want, line)
			}
		}
		count := &LineCounter{}
		reader := io.TeeReader(strings.NewReader(text), count)
		if rapid.Bool().Draw(t, "byte by byte") {
			reader = iotest.OneByteReader(reader)
		}
		found := readLines(t, reader, size, most)
		if count.Lines != len(found) {
			t.Fatalf("%d lines were counted, %d read", count.Lines, len(found))
		}
		if !slices.ContainsFunc(lines, func(line string) bool { return len(line) >= size }) && !slices.Equal(found, want) {
			t.Fatalf("%q in a buffer of %d is %q, want %q", text, size, found, want)
		}
		for _, line := range found {
			same := func(s string) bool { return strings.Trim(s, " \r") == strings.Trim(line, " \r") }
			if line != "LONG" && !slices.ContainsFunc(lines, same) {
				t.Fatalf("%q is not a line of %q", line, text)
			}
		}
	})
	if long == 0 {
		t.Error("no long line was read")
	}
	rapid.Check(t, func(t *rapid.T) {
		short := rapid.StringMatching(`[ab]{1,5}`).Draw(t, "short")
		text := short + "\n" + strings.Repeat("x", rapid.IntRange(9, 40).Draw(t, "length")) + "\n" + short
		if found := readLines(t, strings.NewReader(text), 8, 3); !slices.Equal(found, []string{short, "LONG", short}) {
			t.Fatalf("%q is %q", text, found)
		}
	})
}

func TestDecodeBase64MatchesTheStream(t *testing.T) {
	valid, invalid := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[AQgw]{0,9}={0,5}`), rapid.StringMatching(`[AQ\n= ]{0,6}`),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), base64.StdEncoding.EncodeToString),
		).Draw(t, "text")
		got, ok := decodeBase64([]byte(text))
		in := peek(strings.NewReader(text))
		defer in.close()
		want, err := io.ReadAll(&base64Reader{in: in})
		if ok != (err == nil) || ok && !bytes.Equal(got, want) {
			t.Fatalf("%q is %q, %t; as a stream %q, %v", text, got, ok, want, err)
		}
		if ok {
			valid++
		} else {
			invalid++
		}
	})
	if valid == 0 || invalid == 0 {
		t.Errorf("%d texts were valid, %d not", valid, invalid)
	}
}
