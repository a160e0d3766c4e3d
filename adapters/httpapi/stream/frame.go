package stream

// A frame is the text of one event as a chunk of HTTP/1.1: its length in eight hexadecimal
// digits, the text, a line end. It is made once and sent unchanged to all hijacked
// connections; other protocols are sent the text.
const (
	frameStart = "00000000\r\n"
	frameHead  = len(frameStart)
	frameTail  = len("\r\n")
	lastChunk  = "0\r\n\r\n"
)

// OpenFrame begins a frame with capacity for a text of so many bytes, which is appended to
// it.
func OpenFrame(size int) []byte {
	return append(make([]byte, 0, frameHead+size+frameTail), frameStart...)
}

// ReopenFrame begins a frame in the memory of another.
func ReopenFrame(f []byte) []byte { return append(f[:0], frameStart...) }

// CloseFrame ends a frame and sets its length.
func CloseFrame(f []byte) []byte {
	n := len(f) - frameHead
	for i := frameHead - 3; i >= 0; i-- {
		f[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	return append(f, "\r\n"...)
}

// frameText returns the text inside a frame.
func frameText(f []byte) []byte { return f[frameHead : len(f)-frameTail] }
