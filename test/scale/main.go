// Command scale estimates what fleets of servers carry. It simulates requests that queue for servers,
// for a primary of Postgres and for its disk, with costs that were measured, and writes the tables of
// docs/scale.md.
//
// With -measure it measures the costs of Postgres on a temporary server instead, and prints them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"collab/test/postgres"
)

func main() {
	page := flag.String("page", "docs/scale.md", "the document to write")
	measures := flag.Bool("measure", false, "measure Postgres and print what statements and records take")
	partitions := flag.Bool("partition", false, "with -measure: on partitioned tables as well")
	flag.Parse()
	err := error(nil)
	if *measures {
		err = measureAll(context.Background(), *partitions)
	} else {
		err = write(*page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the tables into the document.
func write(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	updated, err := insert(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(updated), 0o644)
}

// rounds and repeats say how often each operation is measured; the first round is not counted.
const rounds, repeats = 8, 300

// measureAll measures operations on one database, or by turns on it and on one with partitions.
func measureAll(ctx context.Context, partitioned bool) (err error) {
	server, err := postgres.Start(ctx, postgres.Options{NoSync: true, Settings: map[string]string{"autovacuum": "off", "max_wal_size": "4GB", "shared_buffers": "512MB"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	var databases []*database
	for len(databases) == 0 || partitioned && len(databases) == 1 {
		b, err := newDatabase(ctx, server, len(databases) == 1)
		if err != nil {
			return err
		}
		defer b.close()
		databases = append(databases, b)
	}
	sizes, err := databases[0].sizes(ctx)
	if err != nil {
		return err
	}
	fmt.Println("bytes of a record: table, with its row, with indexes, both")
	for _, s := range sizes {
		fmt.Printf("%-20s %6.0f %6.0f %6.0f\n", s.name, s.heap, s.indexes, s.heap+s.indexes)
	}
	fmt.Println("an execution: µs of Postgres' processor time, bytes of WAL without images of pages; the same on partitioned tables, and the ratio of times")
	for _, op := range operations {
		cpu, wal := make([][]time.Duration, len(databases)), make([][]float64, len(databases))
		var ratios []float64
		for r := range rounds {
			var costs []cost
			for _, b := range databases {
				c, err := b.run(ctx, op, r*repeats, repeats)
				if err != nil {
					return fmt.Errorf("%s: %w", op.name, err)
				}
				costs = append(costs, c)
			}
			if r == 0 {
				continue
			}
			for i, c := range costs {
				cpu[i], wal[i] = append(cpu[i], c.cpu), append(wal[i], c.wal)
			}
			ratios = append(ratios, float64(costs[len(costs)-1].cpu)/float64(costs[0].cpu))
		}
		fmt.Printf("%-45s", op.name)
		for i := range databases {
			fmt.Printf(" %6.1f %6.0f", float64(median(cpu[i]))/1e3, median(wal[i]))
		}
		if partitioned {
			fmt.Printf("  %.2f", median(ratios))
		}
		fmt.Println()
	}
	return nil
}
