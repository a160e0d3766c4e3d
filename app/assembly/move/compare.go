package move

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"collab/adapters/gormdb"
	"collab/domain/id"
)

// maxNamed is how many organisations that differ are printed for each table.
const maxNamed = 20

// compare reads source and target again and prints the numbers and digests of records for each table,
// and of content by name and size. It returns ErrDiffers if they are not the same in every organisation.
func (m *mover) compare(ctx context.Context) error {
	var total int64
	for _, table := range gormdb.ComparedTables() {
		n, err := m.source.Count(ctx, table)
		if err != nil {
			return err
		}
		total += 2 * n
	}
	m.progress.start("comparison", total)
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "table\trecords\torganisations\tsource\ttarget\t")
	same := true
	for _, table := range gormdb.ComparedTables() {
		source, target, err := m.digests(ctx, table)
		if err != nil {
			return err
		}
		if !printDigests(w, table, source, target) {
			same = false
		}
	}
	m.progress.end()
	if m.toBlobs != nil {
		source, target, err := m.contentDigests(ctx)
		if err != nil {
			return err
		}
		if !printDigests(w, "content", map[id.Org]gormdb.Digest{"": source}, map[id.Org]gormdb.Digest{"": target}) {
			same = false
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !same {
		return ErrDiffers
	}
	return nil
}

// digests reads a table of source and target concurrently.
func (m *mover) digests(ctx context.Context, table string) (source, target map[id.Org]gormdb.Digest, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	progress := func(n int) { m.progress.add(int64(n)) }
	done := make(chan error, 1)
	go func() {
		var err error
		source, err = m.source.Digests(ctx, table, progress)
		done <- err
	}()
	target, err = m.target.Digests(ctx, table, progress)
	if err != nil {
		cancel()
		<-done
		return nil, nil, err
	}
	err = <-done // source is set
	return source, target, err
}

// contentDigests returns the digests of the names and sizes of the content that records name, and of the
// target's. If the move was resumed and its source was in use, it ignores other content of the target,
// which the source may have removed after it was copied.
func (m *mover) contentDigests(ctx context.Context) (source, target gormdb.Digest, err error) {
	var names map[[sha256.Size]byte]struct{} // hashes, which take less memory
	if m.target.Resumed && !m.source.Resumable() {
		names = map[[sha256.Size]byte]struct{}{}
	}
	add := func(d *gormdb.Digest, name string, size int64) {
		d.Add(strconv.AppendInt([]byte(name+"\x00"), size, 10))
	}
	for content, err := range m.source.Contents(ctx, "") {
		if err != nil {
			return source, target, err
		}
		add(&source, content.Blob, content.Size)
		if names != nil {
			names[sha256.Sum256([]byte(content.Blob))] = struct{}{}
		}
	}
	err = m.toBlobs.List(ctx, func(name string, size int64, _ time.Time) error {
		if _, found := names[sha256.Sum256([]byte(name))]; found || names == nil {
			add(&target, name, size)
		}
		return nil
	})
	return source, target, err
}

// printDigests prints a row, and the organisations that differ. It reports whether none differ.
func printDigests(w *tabwriter.Writer, table string, source, target map[id.Org]gormdb.Digest) bool {
	var s, t gormdb.Digest
	var different []id.Org
	orgs := 0
	for o, d := range source {
		s.Merge(d)
		if o != "" {
			orgs++
		}
		if target[o] != d {
			different = append(different, o)
		}
	}
	for o, d := range target {
		t.Merge(d)
		if _, found := source[o]; !found {
			different = append(different, o)
		}
	}
	verdict := "equal"
	if len(different) > 0 {
		verdict = "DIFFERENT"
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", table, s.Records, orgs, s, t, verdict)
	slices.Sort(different)
	for _, o := range different[:min(len(different), maxNamed)] {
		name := string(o)
		if o == "" {
			name = "no organisation"
		}
		fmt.Fprintf(w, "  %s\t%d, %d\t\t%s\t%s\t\n", name, source[o].Records, target[o].Records, source[o], target[o])
	}
	return len(different) == 0
}
