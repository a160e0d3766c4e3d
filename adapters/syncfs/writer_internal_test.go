package syncfs

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestAWriterHasTwoWindowsUnwrittenAtMost(t *testing.T) {
	const mib = 1 << 20
	var file bytes.Buffer
	var calls []string
	var broken error
	w := &Writer{
		file:  &file,
		start: func(offset, length int64) { calls = append(calls, fmt.Sprintf("start %d+%d", offset/mib, length/mib)) },
		wait: func(offset, length int64) error {
			calls = append(calls, fmt.Sprintf("wait %d+%d", offset/mib, length/mib))
			return broken
		},
		truncate: func(size int64) error {
			calls = append(calls, fmt.Sprint("cut ", size/mib))
			return nil
		},
		offset: mib, started: mib, written: mib,
	}
	write := func(times, size int) (err error) {
		for range times {
			if _, err = w.Write(make([]byte, size)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(write(11, mib), write(1, 6*mib)); err != nil {
		t.Fatal(err)
	}
	want := []string{"start 1+4", "start 5+4", "wait 1+4", "start 9+9", "wait 5+4"}
	if !slices.Equal(calls, want) || file.Len() != 17*mib {
		t.Errorf("after %d bytes: %q instead of %q", file.Len(), calls, want)
	}
	broken = errors.New("no space")
	if err := write(4, mib); !errors.Is(err, broken) || !slices.Equal(calls[len(want):], []string{"start 18+4", "wait 9+9", "cut 9"}) {
		t.Errorf("the error of a wait is %v, after %q", err, calls)
	}
}
