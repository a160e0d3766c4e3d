package main

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// imported is a package as go list describes it.
type imported struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

// packages are all that are compiled into the server, by path.
type packages map[string]imported

// load returns the packages of the server.
func load(ctx context.Context, environ ...string) (packages, error) {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Imports,Module", program)
	c.Env, c.Stderr = append(os.Environ(), environ...), os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	all := packages{}
	for decoder := json.NewDecoder(out); ; {
		var p imported
		if err := decoder.Decode(&p); err == io.EOF {
			return all, c.Wait()
		} else if err != nil {
			return nil, errors.Join(err, c.Wait())
		}
		all[p.ImportPath] = p
	}
}

// moduleOf returns the module of a package, "std" for the standard library's.
func (all packages) moduleOf(path string) string {
	if p := all[path]; p.Module != nil {
		return p.Module.Path
	}
	return "std"
}

// modules returns the modules of the packages, without the standard library.
func (all packages) modules() []string {
	found := map[string]bool{}
	for path := range all {
		found[all.moduleOf(path)] = true
	}
	delete(found, "std")
	return slices.Sorted(maps.Keys(found))
}

// without returns the packages that the server would consist of if nothing imported
// the module.
func (all packages) without(module string) packages {
	left := packages{}
	var visit func(path string)
	visit = func(path string) {
		p, known := all[path]
		if _, visited := left[path]; visited || !known || all.moduleOf(path) == module {
			return
		}
		left[path] = p
		for _, other := range p.Imports {
			visit(other)
		}
	}
	visit("collab/" + strings.TrimPrefix(program, "./"))
	return left
}

// direct returns the modules that packages of the project import.
func (all packages) direct() []string {
	found := map[string]bool{}
	for path, p := range all {
		if all.moduleOf(path) != "collab" {
			continue
		}
		for _, other := range p.Imports {
			found[all.moduleOf(other)] = true
		}
	}
	delete(found, "std")
	delete(found, "collab")
	return slices.Sorted(maps.Keys(found))
}

// weighCold builds and starts the server in empty cache directories and prints what that
// takes.
func weighCold(ctx context.Context) (err error) {
	directory, err := os.MkdirTemp("", "weigh-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	graph := filepath.Join(directory, "graph.json")
	caches := []string{"GOCACHE=" + filepath.Join(directory, "build"), "GOMODCACHE=" + filepath.Join(directory, "modules")}
	const writable = " -modcacherw" // so that the directory can be removed
	given := strings.TrimSpace(os.Getenv("GOFLAGS"))
	s, err := start(ctx, directory, append(caches, "BIN="+filepath.Join(directory, "bin"), "GOFLAGS="+given+writable+" -debug-actiongraph="+graph)...)
	if err != nil {
		return err
	}
	used, err := s.stop()
	if err != nil {
		return err
	}
	fmt.Printf("ready after %.0f s, of which libraries are fetched; %.0f s of processor time\n\n", s.ready.Seconds(), used.Seconds())

	environ := append(caches, "GOFLAGS="+given+writable)
	all, err := load(ctx, environ...)
	if err != nil {
		return err
	}
	seconds, err := compileTimes(graph)
	if err != nil {
		return err
	}
	sizes, err := symbolSizes(ctx, filepath.Join(directory, "collabd"), environ)
	if err != nil {
		return err
	}
	row := func(name string, kept func(path string) bool, modules int) {
		var s, bytes float64
		for path := range all {
			if kept(path) {
				s += seconds[path]
				bytes += sizes[path]
			}
		}
		fmt.Printf("%-66s %6.1f s %6.2f MB", name, s, bytes/1e6)
		if modules > 0 {
			fmt.Printf(" %3d modules", modules)
		}
		fmt.Println()
	}
	fmt.Println("Processor seconds to compile, and megabytes of symbols in the binary, by module:")
	byModule := map[string]float64{}
	for path := range all {
		byModule[all.moduleOf(path)] += seconds[path]
	}
	for _, module := range slices.SortedFunc(maps.Keys(byModule), func(a, b string) int { return cmp.Compare(byModule[b], byModule[a]) }) {
		row(module, func(path string) bool { return all.moduleOf(path) == module }, 0)
	}
	fmt.Println("\nWhat would not be compiled in without a library that the project itself imports:")
	for _, module := range all.direct() {
		left := all.without(module)
		row(module, func(path string) bool { _, stays := left[path]; return !stays }, len(all.modules())-len(left.modules()))
	}
	return nil
}

// compileTimes returns the processor seconds that go build took for each package, from
// its graph of actions.
func compileTimes(graph string) (map[string]float64, error) {
	content, err := os.ReadFile(graph)
	if err != nil {
		return nil, err
	}
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys float64 // nanoseconds
	}
	if err := json.Unmarshal(content, &actions); err != nil {
		return nil, err
	}
	seconds := map[string]float64{}
	for _, a := range actions {
		if a.Mode == "build" {
			seconds[a.Package] += (a.CmdUser + a.CmdSys) / 1e9
		}
	}
	return seconds, nil
}

// symbolSizes returns the bytes that the symbols of each package take in the server,
// which it builds with symbols.
func symbolSizes(ctx context.Context, binary string, environ []string) (map[string]float64, error) {
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, program)
	build.Env, build.Stderr = append(os.Environ(), environ...), os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	file, err := elf.Open(binary)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return nil, err
	}
	sizes := map[string]float64{}
	for _, s := range symbols {
		if int(s.Section) < len(file.Sections) && file.Sections[s.Section].Type == elf.SHT_PROGBITS {
			sizes[packageOf(s.Name)] += float64(s.Size)
		}
	}
	return sizes, nil
}

// packageOf returns the path of the package that a symbol's name begins with.
func packageOf(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, "[") // type arguments are other packages' names
	last := strings.LastIndexByte(symbol, '/') + 1
	name, _, _ := strings.Cut(symbol[last:], ".")
	return strings.ReplaceAll(symbol[:last]+name, "%2e", ".")
}
