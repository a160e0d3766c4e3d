//go:build !linux

package bucket

import (
	"errors"
	"os"
)

func takesNameless(string) bool { return false }

func createNameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func nameFile(*os.File, string) error { return errors.ErrUnsupported }
