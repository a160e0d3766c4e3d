package release_test

import (
	"fmt"
	"math"
	"testing"

	"collab/domain/release"
)

func TestSketchesEstimateTheNumberOfDevices(t *testing.T) {
	var s release.Sketch
	if n := s.Count(); n != 0 {
		t.Errorf("no devices are %d", n)
	}
	for n, next := 1, 1; n <= 300_000; n++ {
		s.Add(fmt.Sprint("device-", n))
		if n != next {
			continue
		}
		next = n*3/2 + 1
		if got := s.Count(); math.Abs(float64(got)-float64(n)) > max(1, float64(n)*0.07) {
			t.Errorf("%d devices are estimated as %d", n, got)
		}
	}
	full := s
	for i := range full {
		full[i] = 255
	}
	if n := full.Count(); n < 1<<40 {
		t.Errorf("a full sketch has %d devices", n)
	}
}

func TestSketchesCountADeviceOnce(t *testing.T) {
	var a, b release.Sketch
	for n := range 1000 {
		a.Add(fmt.Sprint(n))
		b.Add(fmt.Sprint(n + 500))
	}
	was := a
	for n := range 1000 {
		if a.Add(fmt.Sprint(n)) {
			t.Fatalf("%d changes it again", n)
		}
	}
	if a != was {
		t.Error("it is another")
	}
	a.Merge(&b)
	if n := a.Count(); n < 1400 || n > 1600 {
		t.Errorf("1500 devices of two sketches are %d", n)
	}
}
