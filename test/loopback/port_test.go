package loopback

import (
	"errors"
	"testing"

	"collab/test/must"
)

func TestStartTriesOtherPorts(t *testing.T) {
	taken := errors.New("the port is taken")
	for fails, want := range map[int]error{0: nil, 2: nil, 3: taken} {
		attempts := 0
		must.FailIs(t, Start(func(int) error {
			if attempts++; attempts <= fails {
				return taken
			}
			return nil
		}), want)
		must.Is(t, min(fails+1, 3), attempts)
	}
}
