package natsbus

import (
	"encoding/binary"
	"encoding/hex"

	"collab/domain/id"
	"collab/domain/object"
)

// A hint is encoded as a version, the 16 bytes of the organisation's id, and the number as
// an unsigned varint.
const (
	version = 1
	maxHint = 1 + 16 + binary.MaxVarintLen64
)

// encode returns the hint's bytes; ok is false if the organisation's id is invalid.
func encode(h object.Hint) (b []byte, ok bool) {
	if _, ok := id.Parse[id.Org](string(h.Org)); !ok || h.N < 0 {
		return nil, false
	}
	s := string(h.Org)
	b = make([]byte, 1, maxHint)
	b[0] = version
	if b, _ = hex.AppendDecode(b, []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:])); len(b) != 17 {
		return nil, false
	}
	return binary.AppendUvarint(b, uint64(h.N)), true
}

// decode decodes a hint. It returns false for any other message.
func decode(b []byte) (h object.Hint, ok bool) {
	if len(b) < 18 || len(b) > maxHint || b[0] != version {
		return object.Hint{}, false
	}
	n, size := binary.Uvarint(b[17:])
	if size != len(b)-17 || size > 1 && b[len(b)-1] == 0 || n > 1<<63-1 {
		return object.Hint{}, false
	}
	s := hex.EncodeToString(b[1:17])
	return object.Hint{Org: id.Org(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]), N: int64(n)}, true
}
