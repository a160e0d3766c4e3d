package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"

	"collab/domain/calendar"
)

// Registers is the number of registers of a Sketch, of one byte each.
const Registers = 1 << sketchBits

const (
	sketchBits = 11
	sketchMax  = 64 - sketchBits // the largest rank but one
)

// Sketch estimates the number of different devices that were added to it, without their ids: it is a
// HyperLogLog of the digests of the ids. Two of three estimates are within 2.3 percent of the number.
// The zero value has no devices.
type Sketch [Registers]byte

// Add adds the device with the id, which is not empty. It reports whether the sketch changed.
func (s *Sketch) Add(client string) bool {
	var room [64]byte // as in Bucket, whose part of the digest is another one
	sum := sha256.Sum256(append(room[:0], client...))
	h := binary.BigEndian.Uint64(sum[8:16])
	at, rank := h>>(64-sketchBits), byte(min(bits.LeadingZeros64(h<<sketchBits), sketchMax)+1)
	if s[at] >= rank {
		return false
	}
	s[at] = rank
	return true
}

// Merge adds the devices of another sketch.
func (s *Sketch) Merge(other *Sketch) {
	for i, rank := range other {
		s[i] = max(s[i], rank)
	}
}

// Count estimates the number of devices, by the method of Ertl, "New cardinality estimation algorithms
// for HyperLogLog sketches", 2017, section 4. Registers of the largest rank are left out: they change
// the estimate only beyond 2^53 devices.
func (s *Sketch) Count() int64 {
	var ranks [256]float64 // registers by rank
	for _, rank := range s {
		ranks[rank]++
	}
	const m = float64(Registers)
	z := 0.0
	for rank := sketchMax; rank >= 1; rank-- {
		z = (z + ranks[rank]) / 2
	}
	z += m * sigma(ranks[0]/m)
	return int64(math.Round(min(m*m/(2*math.Ln2*z), 1<<53)))
}

// sigma is the sum of x^(2^k) 2^(k-1) from k = 1, and x; infinite for 1.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	for y, z := 1.0, x; ; y *= 2 {
		x *= x
		next := z + x*y
		if next == z {
			return z
		}
		z = next
	}
}

// DailyDevices are the devices of one target that checked on a day.
type DailyDevices struct {
	Day calendar.Day
	Target
	Devices Sketch
}

// Compare orders records by day and target, which no two stored ones share.
func (s DailyDevices) Compare(o DailyDevices) int {
	return cmp.Or(cmp.Compare(s.Day, o.Day), s.Target.Compare(o.Target))
}

// DeviceDays is the number of days, today included, of which the devices of a target are counted.
const DeviceDays = 7
