package main

import (
	"slices"
	"testing"
	"testing/fstest"

	"collab/test/must"
)

func TestTestsThatTryMoreInASoakAreFound(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{
		"test/suite/suite.go": `package suite
import "pgregory.net/rapid"
func Property(t T) { for range 1 { check(t) } }
func Example(t T) {}
func check(t T) { rapid.Check(t, nil) }`,
		"a/a_test.go": `package a
import ("collab/test/soak"; contract "collab/test/suite")
var rounds = soak.Count(10)
type world struct{}
func (world) rush() { for range rounds {} }
func TestMain(m M) { print(rounds) }
func TestByAVariable(t T) { world{}.rush() }
func TestByASuite(t T) { contract.Property(t) }
func TestOnce(t T) { contract.Example(t) }`,
		"b/b_test.go": `package b
import "pgregory.net/rapid"
func TestOfItsOwn(t T) { check := rapid.MakeCheck; check(nil) }
func TestDraws(t T) { rapid.Int() }`,
		"c/c_test.go":          `package c; func TestOnce(t T) {}`,
		"b/testdata/d_test.go": `no Go`,
		".cache/e/e_test.go":   `no Go`,
	} {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tests, directories, err := scaled(fsys)
	must.NoError(t, err)
	if want := []string{"TestByASuite", "TestByAVariable", "TestOfItsOwn"}; !slices.Equal(tests, want) {
		t.Errorf("the tests are %q instead of %q", tests, want)
	}
	if want := []string{"./a", "./b"}; !slices.Equal(directories, want) {
		t.Errorf("the directories are %q instead of %q", directories, want)
	}
}
