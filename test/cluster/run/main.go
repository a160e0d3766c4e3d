// Command run starts a cluster, prints the addresses of its parts and ends it on an interrupt.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"collab/test/cluster"
)

func main() {
	binary := flag.String("binary", "bin/collabd", "the program of the servers")
	servers := flag.Int("servers", 3, "how many servers run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *servers); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run runs a cluster until the context ends.
func run(ctx context.Context, binary string, servers int) (err error) {
	if servers < 1 {
		return fmt.Errorf("-servers %d: at least 1 server must run", servers)
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "collab-cluster-")
	if err != nil {
		return err
	}
	fmt.Println("starting Postgres, NATS, an object store and", servers, "servers")
	c, err := cluster.Start(ctx, cluster.Options{
		Servers: servers, Dir: dir,
		Command:  func() (*exec.Cmd, error) { return exec.Command(binary), nil },
		Settings: []string{"COLLAB_LOG_FORMAT=text"},
	})
	if err != nil {
		return fmt.Errorf("%w; logs are in %s", err, dir)
	}
	fmt.Printf("\n  %-13s %s\n", "balancer", c.URL)
	for i, s := range c.Servers {
		fmt.Printf("  server %-6d %s  log %s\n", i+1, s.URL(), s.LogFile())
	}
	fmt.Printf("  %-13s %s\n  %-13s %s\n  %-13s %s\n", "Postgres", c.Database, "NATS", c.NATS.URL, "object store", "http://"+c.Store.Host)
	fmt.Printf("\nSign in at %s/dev/identity/sign-in; operator endpoints take X-Admin-Secret: %s\nCtrl-C ends the cluster and removes %s.\n", c.URL, cluster.AdminSecret, dir)
	<-ctx.Done()
	fmt.Println("\nending")
	if err := c.Close(); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
