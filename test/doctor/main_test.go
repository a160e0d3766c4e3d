package doctor

import (
	"os"
	"testing"

	"collab/test/collabd"
)

func TestMain(m *testing.M) { os.Exit(collabd.Run(m)) }
