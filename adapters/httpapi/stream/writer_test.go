package stream

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"collab/test/must"
)

// writes records the length of each write.
type writes struct {
	*httptest.ResponseRecorder
	lengths []int
}

func (w *writes) Write(b []byte) (int, error) {
	w.lengths = append(w.lengths, len(b))
	return w.ResponseRecorder.Write(b)
}

func TestFramesAreSentInFewWritesOfBoundedLength(t *testing.T) {
	frame := func(size int) []byte { return CloseFrame(append(OpenFrame(size), strings.Repeat("x", size)...)) }
	const small, half = 100, FlushAt/2 + 1
	for name, test := range map[string]struct{ frames, want []int }{
		"one frame":    {[]int{small}, []int{small}},
		"small frames": {[]int{small, small, small}, []int{3 * small}},
		"large frames": {[]int{small, half, half, 2 * FlushAt, small}, []int{small + half, half, 2 * FlushAt, small}},
	} {
		t.Run(name, func(t *testing.T) {
			to := &writes{ResponseRecorder: httptest.NewRecorder()}
			var frames [][]byte
			for _, size := range test.frames {
				frames = append(frames, frame(size))
			}
			must.NoError(t, NewWriter(to, httptest.NewRequest("GET", "/", nil), time.Now).Send(frames...))
			must.Equal(t, test.want, to.lengths)
		})
	}
}
