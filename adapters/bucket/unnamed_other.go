//go:build !linux

package bucket

import (
	"errors"
	"os"
)

func isOrdered(string) bool { return false }

func createUnnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }
