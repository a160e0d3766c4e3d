package config

import (
	"slices"
	"testing"

	"collab/test/must"
)

func TestUnknownVariablesAreNamedWithTheNearest(t *testing.T) {
	environ := []string{"COLLAB_LISTN=1", "COLLAB_DATABSE_URL=x", "COLLAB_LOG_LEVEL=info", "COLLAB_SKIP_NODE=1", "COLLAB_TEST_POSTGRES_URL=x", "PATH=/bin", "COLLABD=1"}
	c := must.Do(Read(environ)).Or(t)
	if want := []Unknown{{"COLLAB_DATABSE_URL", "COLLAB_DATABASE_URL"}, {"COLLAB_LISTN", "COLLAB_LISTEN"}}; !slices.Equal(c.Unknown, want) {
		t.Errorf("unknown are %v", c.Unknown)
	}
}
