// Package limits holds the real server to what it promises of every row of the route
// table, and of callers who send much, slowly or at once: rights, memory and delay.
package limits

import (
	"os"
	"testing"
	"time"

	"collab/test/collabd"
)

// patience bounds what a test waits for that is to happen at once; it measures
// nothing.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(collabd.Run(m)) }
