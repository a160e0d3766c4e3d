package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"collab/test/must"
)

// listedPackage is a package in the output of go list.
type listedPackage struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

// packages are all that are compiled into the server, by path.
type packages map[string]listedPackage

// load returns the packages of the server.
func load(ctx context.Context, t must.T, environ ...string) packages {
	c := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Imports,Module", program)
	c.Env, c.Stderr = append(os.Environ(), environ...), os.Stderr
	all := packages{}
	for decoder := json.NewDecoder(bytes.NewReader(must.Do(c.Output()).Or(t))); decoder.More(); {
		var p listedPackage
		must.NoError(t, decoder.Decode(&p))
		all[p.ImportPath] = p
	}
	return all
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

// without returns the packages of the server if nothing imported the module.
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

// weighCold builds and starts the server in empty cache directories, and prints the time and size of each module.
func weighCold(ctx context.Context, t must.T) {
	directory := must.Do(os.MkdirTemp("", "weigh-*")).Or(t)
	defer os.RemoveAll(directory)
	graph := filepath.Join(directory, "graph.json")
	caches := []string{"GOCACHE=" + filepath.Join(directory, "build"), "GOMODCACHE=" + filepath.Join(directory, "modules")}
	const writable = " -modcacherw" // so that the directory can be removed
	flags := "GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")) + writable
	bin := "BIN=" + filepath.Join(directory, "bin")
	s := start(ctx, t, directory, append(caches, bin, flags+" -debug-actiongraph="+graph)...)
	cpu := must.Do(s.stop()).Or(t)
	fmt.Printf("ready after %.0f s, of which libraries are fetched; %.0f s of processor time\n\n",
		s.ready.Seconds(), cpu.Seconds())

	environ := append(caches, flags)
	all := load(ctx, t, environ...)
	seconds, sizes := compileTimes(t, graph), symbolSizes(ctx, t, filepath.Join(directory, "collabd"), environ)
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
}

// compileTimes returns the processor seconds of go build for each package, from its action graph.
func compileTimes(t must.T, graph string) map[string]float64 {
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys float64 // nanoseconds
	}
	must.NoError(t, json.Unmarshal(must.Do(os.ReadFile(graph)).Or(t), &actions))
	seconds := map[string]float64{}
	for _, a := range actions {
		if a.Mode == "build" {
			seconds[a.Package] += (a.CmdUser + a.CmdSys) / 1e9
		}
	}
	return seconds
}

// symbolSizes builds the server with symbols and returns the bytes of the symbols of each package.
func symbolSizes(ctx context.Context, t must.T, binary string, environ []string) map[string]float64 {
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, program)
	build.Env, build.Stderr = append(os.Environ(), environ...), os.Stderr
	must.NoError(t, build.Run())
	file := must.Do(elf.Open(binary)).Or(t)
	defer file.Close()
	sizes := map[string]float64{}
	for _, s := range must.Do(file.Symbols()).Or(t) {
		if int(s.Section) < len(file.Sections) && file.Sections[s.Section].Type == elf.SHT_PROGBITS {
			sizes[packageOf(s.Name)] += float64(s.Size)
		}
	}
	return sizes
}

// packageOf returns the path of the package that a symbol's name begins with.
func packageOf(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, "[") // type arguments are other packages' names
	last := strings.LastIndexByte(symbol, '/') + 1
	name, _, _ := strings.Cut(symbol[last:], ".")
	return strings.ReplaceAll(symbol[:last]+name, "%2e", ".")
}
