package syncfs_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"collab/adapters/syncfs"
)

func TestCallersThatWaitShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		responses := make(chan error)
		calls := 0
		f := syncfs.New(func() error { calls++; return <-responses })
		results := make(chan error, 8)
		sync := func(n int) {
			for range n {
				go func() { results <- f.Sync(0) }()
			}
			synctest.Wait()
		}
		taken := func() (taken []error) {
			synctest.Wait()
			for len(results) > 0 {
				taken = append(taken, <-results)
			}
			return taken
		}
		sync(1)
		sync(3)
		responses <- nil
		if got := taken(); !slices.Equal(got, []error{nil}) || calls != 2 {
			t.Errorf("after the first sync: %v, %d calls", got, calls)
		}
		sync(1) // not by the second sync, which has begun
		responses <- nil
		if got := taken(); !slices.Equal(got, []error{nil, nil, nil}) || calls != 3 {
			t.Errorf("after the second sync: %v, %d calls", got, calls)
		}
		sync(2)
		failure := errors.New("no")
		responses <- failure
		responses <- nil
		if got := taken(); !slices.Equal(got, []error{failure, failure, failure}) {
			t.Errorf("of those that wrote before a failure: %v", got)
		}
		go func() { results <- f.Sync(f.Failures()) }()
		responses <- nil
		if got := taken(); !slices.Equal(got, []error{nil}) || f.Failures() != 1 {
			t.Errorf("of one that wrote after it: %v, %d failures", got, f.Failures())
		}
	})
}
