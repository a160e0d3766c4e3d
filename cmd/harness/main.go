// Command harness runs scenarios against the whole core, offline.
package main

import (
	"context"
	"os"
	"os/signal"

	"collab/test/harness/scenario"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(scenario.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
