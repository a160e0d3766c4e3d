package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"collab/test/must"
)

// peer is another program that synchronises two directories. In its arguments {a} and {z} stand for the
// directories, and {home} for that of its own files.
type peer struct {
	name    string
	install func(ctx context.Context, b *bench) (program string, err error)
	prepare func(ctx context.Context, program, home, a, z string) error // nil: nothing
	serve   [][]string                                                  // arguments of processes that run until they are stopped
	once    []string                                                    // arguments of one that ends; it is repeated until the others are ready
	version string                                                      // argument that prints the version

	program string
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// peers installs the peers once and returns the available ones. It reports the others on standard error.
func (b *bench) peers(ctx context.Context) []*peer {
	if b.installed != nil {
		return b.installed
	}
	b.installed = []*peer{}
	for _, p := range []*peer{
		{name: "Unison", install: unpackDebian("unison-2.52", "unison-2.52"), once: []string{"{a}", "{z}", "-batch", "-auto", "-silent"}, version: "-version"},
		{name: "rclone bisync", install: unpackDebian("rclone", "rclone"), once: []string{"bisync", "{a}", "{z}", "--resync", "--workdir", "{home}/work", "--transfers", fmt.Sprint(mirrorWorkers)}, version: "version"},
		{name: "Syncthing", install: unpackDebian("syncthing", "syncthing"), prepare: prepareSyncthing, serve: [][]string{
			{"serve", "--home", "{home}/a", "--no-browser", "--no-restart", "--no-upgrade"},
			{"serve", "--home", "{home}/z", "--no-browser", "--no-restart", "--no-upgrade"},
		}, version: "--version"},
		{name: "Mutagen", install: buildMutagen, serve: [][]string{{"daemon", "run"}}, once: []string{"sync", "create", "{a}", "{z}"}, version: "version"},
	} {
		var err error
		if p.program, err = p.install(ctx, b); err == nil {
			var text []byte
			text, err = exec.CommandContext(ctx, p.program, p.version).Output()
			p.version = versionNumber.FindString(string(text))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", p.name, err)
			continue
		}
		b.installed = append(b.installed, p)
	}
	return b.installed
}

// eachPeer calls fn with each peer, in a scope of its own.
func (b *bench) eachPeer(ctx context.Context, fn func(*peer)) {
	for _, p := range b.peers(ctx) {
		b.named(p.name, func() { fn(p) })
	}
}

// eachWatcher is eachPeer without the peers that must be started for each change.
func (b *bench) eachWatcher(ctx context.Context, fn func(*peer)) {
	b.eachPeer(ctx, func(p *peer) {
		if len(p.serve) > 0 {
			fn(p)
		}
	})
}

// unpackDebian returns a function that unpacks a program of a Debian package.
func unpackDebian(name, program string) func(context.Context, *bench) (string, error) {
	return func(ctx context.Context, b *bench) (string, error) {
		to := filepath.Join(b.folder, "package-"+name)
		if err := os.Mkdir(to, 0o700); err != nil {
			return "", err
		}
		if err := command(ctx, to, nil, "apt-get", "download", name); err != nil {
			return "", err
		}
		files, err := filepath.Glob(filepath.Join(to, "*.deb"))
		if err != nil || len(files) != 1 {
			return "", errors.Join(err, fmt.Errorf("apt-get download %s left %d files", name, len(files)))
		}
		return filepath.Join(to, "usr/bin", program), command(ctx, to, nil, "dpkg-deb", "-x", files[0], to)
	}
}

// mutagenVersion is the newest version that the Go module proxy resolves.
const mutagenVersion = "github.com/mutagen-io/mutagen@v0.18.1"

// buildMutagen builds Mutagen from its module, without the parts under another licence.
func buildMutagen(ctx context.Context, b *bench) (string, error) {
	environ := []string{"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off"}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", mutagenVersion)
	download.Dir, download.Env = b.folder, append(os.Environ(), environ...)
	text, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", mutagenVersion, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(text, &module); err != nil {
		return "", err
	}
	program := filepath.Join(b.folder, "mutagen")
	return program, command(ctx, module.Dir, environ, "go", "build", "-tags=mutagencli", "-o", program, "./cmd/mutagen")
}

// prepareSyncthing configures two devices that know only each other, with the shortest delay of the watcher, one
// second.
func prepareSyncthing(ctx context.Context, program, home, a, z string) error {
	var devices string
	var ids, addresses [2]string
	for i, name := range []string{"a", "z"} {
		at := filepath.Join(home, name)
		if err := command(ctx, home, nil, program, "generate", "--home", at, "--no-default-folder", "--skip-port-probing"); err != nil {
			return err
		}
		id, err := exec.CommandContext(ctx, program, "--home", at, "--device-id").Output()
		if err != nil {
			return err
		}
		if addresses[i], err = freeAddress(); err != nil {
			return err
		}
		ids[i] = strings.TrimSpace(string(id))
		devices += fmt.Sprintf(`<device id=%q name=%q><address>tcp://%s</address></device>`, ids[i], name, addresses[i])
	}
	for i, dir := range []string{a, z} {
		text := fmt.Sprintf(`<configuration version="36">
<folder id="bench" path=%q type="sendreceive" rescanIntervalS="3600" fsWatcherEnabled="true" fsWatcherDelayS="1"><device id=%q></device><device id=%q></device></folder>
%s<gui enabled="false"></gui>
<options><listenAddress>tcp://%s</listenAddress><globalAnnounceEnabled>false</globalAnnounceEnabled><localAnnounceEnabled>false</localAnnounceEnabled>
<reconnectionIntervalS>1</reconnectionIntervalS><relaysEnabled>false</relaysEnabled><natEnabled>false</natEnabled><urAccepted>-1</urAccepted><crashReportingEnabled>false</crashReportingEnabled>
<stunKeepaliveStartS>0</stunKeepaliveStartS></options></configuration>`, dir, ids[0], ids[1], devices, addresses[i])
		if err := errors.Join(os.Mkdir(filepath.Join(dir, ".stfolder"), 0o700), os.WriteFile(filepath.Join(home, []string{"a", "z"}[i], "config.xml"), []byte(text), 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program to its end, with further variables in the environment.
func command(ctx context.Context, dir string, environ []string, program string, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = dir, append(os.Environ(), environ...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, bytes.TrimSpace(out))
	}
	return nil
}

// peerRun is a run of a peer with two directories of its own.
type peerRun struct {
	*peer
	home, a, z string
	running    []*process
}

// prepared creates the directories of a run. The first has the files of from unless from is empty.
func (p *peer) prepared(ctx context.Context, b *bench, from string) *peerRun {
	home := must.Do(os.MkdirTemp(b.folder, "peer-")).Or(b)
	r := &peerRun{peer: p, home: home, a: filepath.Join(home, "from"), z: filepath.Join(home, "to")}
	must.NoError(b, errors.Join(os.Mkdir(r.a, 0o777), os.Mkdir(r.z, 0o777)))
	if from != "" {
		must.NoError(b, os.CopyFS(r.a, os.DirFS(from)))
	}
	if p.prepare != nil {
		must.NoError(b, p.prepare(ctx, p.program, home, r.a, r.z))
	}
	return r
}

// arguments returns args with the directories in the place of {a}, {z} and {home}.
func (r *peerRun) arguments(args []string) (filled []string) {
	names := strings.NewReplacer("{a}", r.a, "{z}", r.z, "{home}", r.home)
	for _, arg := range args {
		filled = append(filled, names.Replace(arg))
	}
	return filled
}

// start starts the programs, which run until the end of the scope.
func (r *peerRun) start(ctx context.Context, b *bench) {
	environ := []string{"HOME=" + r.home, "UNISON=" + r.home, "MUTAGEN_DATA_DIRECTORY=" + r.home, "MUTAGEN_DISABLE_AUTOSTART=1"}
	for i, args := range r.serve {
		name := fmt.Sprintf("%s-%d", strings.Fields(r.name)[0], i)
		p := b.launch(name, r.home, "", r.program, append(os.Environ(), environ...), r.arguments(args)...)
		r.running = append(r.running, p)
	}
	if r.once == nil {
		return
	}
	var err error
	for range 50 {
		if err = command(ctx, r.home, environ, r.program, r.arguments(r.once)...); err == nil || len(r.serve) == 0 {
			break
		}
		must.NoError(b, sleep(ctx, 100*time.Millisecond))
	}
	must.NoError(b, err)
}

// filled starts the programs with the n files of from, and measures the time until the other directory has them.
func (p *peer) filled(ctx context.Context, b *bench, from string, n int) (r *peerRun, took time.Duration) {
	r = p.prepared(ctx, b, from)
	took = timed(func() {
		r.start(ctx, b)
		b.waitUntil(ctx, mirrorPoll, func() bool { return filled(r.z, n) })
	})
	b.compare(r.a, r.z)
	return r, took
}

// saved measures save between the directories of a run.
func (p *peer) saved(ctx context.Context, b *bench, n int) (p50, p99 time.Duration) {
	r := p.prepared(ctx, b, "")
	r.start(ctx, b)
	return b.save(ctx, r.a, r.z, n)
}
