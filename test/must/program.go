package must

import (
	"errors"
	"fmt"
)

// Program is the T of a program that has no *testing.T. Its methods end the innermost call of Catch, whose
// goroutine must call them.
type Program struct{}

var _ T = Program{}

// Helper does nothing.
func (Program) Helper() {}

// Errorf ends the call of Catch with an error.
func (Program) Errorf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Fatal ends the call of Catch with an error.
func (Program) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// failure is the value of a panic of Program.
type failure struct{ error }

// Catch calls fn and returns the error with which a Program ended it.
func Catch(fn func()) (err error) {
	defer func() {
		switch value := recover().(type) {
		case nil:
		case failure:
			err = value.error
		default:
			panic(value)
		}
	}()
	fn()
	return nil
}
