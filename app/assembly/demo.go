package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"go.uber.org/fx"

	"collab/adapters/filelock"
	"collab/adapters/localmodel"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/app/assembly/demo"
)

// Demo is Serve on an organisation with a month of work, in the directory demo of the data
// directory. If there is none it is made first, by a server on the same address whose clock is
// moved through the month; random returns the numbers in [0, n) that the content depends on.
// Demo fails if c has anything but the development providers, so that it fills no deployment.
func Demo(ctx context.Context, c config.Config, random func(n int) int, out, log io.Writer) (err error) {
	if err := checkDemo(c); err != nil {
		return err
	}
	lock, err := datadir.Lock(filepath.Join(c.DataDir, "demo-lock"), true)
	if errors.Is(err, filelock.ErrLocked) {
		return fmt.Errorf("another collabd demo runs on %s", c.DataDir)
	}
	if err != nil {
		return fmt.Errorf("COLLAB_DATA_DIR: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	directory := filepath.Join(c.DataDir, "demo")
	switch _, err := os.Stat(directory); {
	case err == nil:
		fmt.Fprintf(out, "%s is in %s already. Remove that directory to have it made anew.\n", demo.Organisation, directory)
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(out, "Making %s in %s.\n", demo.Organisation, directory)
		if c.Listen, err = makeDemo(ctx, c, directory, random, out, log); err != nil {
			return fmt.Errorf("the demo was not made: %w", err)
		}
	default:
		return fmt.Errorf("COLLAB_DATA_DIR: %w", err)
	}
	defaults, err := defaultsIn(directory, c)
	if err != nil {
		return err
	}
	c.DataDir, c.DatabaseURL, c.BlobURL = defaults.DataDir, defaults.DatabaseURL, defaults.BlobURL
	return serveWith(ctx, c, log, func(base publicURL, page signInPage, _ net.Listener) {
		printAddresses(out, c, base, page)
		demo.PrintPeople(out)
	})
}

// checkDemo returns an error if c has other adapters or places than a development server has by
// default.
func checkDemo(c config.Config) error {
	defaults, err := defaultsIn(c.DataDir, c)
	if err != nil {
		return err
	}
	variable := ""
	if c.BlobURL.Text() != defaults.BlobURL.Text() {
		variable = "COLLAB_BLOB_URL"
	}
	if c.DatabaseURL.Text() != defaults.DatabaseURL.Text() {
		variable = "COLLAB_DATABASE_URL"
	}
	for i, ch := range profile(c) {
		if ch.adapter != profile(defaults)[i].adapter {
			variable = cmp.Or(variable, ch.variable)
		}
	}
	if c.Production() {
		variable = "COLLAB_MODE=production"
	}
	if variable != "" {
		return fmt.Errorf("collabd demo has a data directory and development providers of its own and fills no deployment, but %s is set", variable)
	}
	return nil
}

// defaultsIn returns the configuration of a development server in a data directory, without rate
// limits, that has c's addresses.
func defaultsIn(directory string, c config.Config) (config.Config, error) {
	return config.Read([]string{
		"COLLAB_DATA_DIR=" + directory, "COLLAB_LISTEN=" + string(c.Listen), "COLLAB_PUBLIC_URL=" + c.PublicURL.Text(),
		"COLLAB_LOG_FORMAT=" + c.LogFormat, "COLLAB_LOG_LEVEL=warn", "COLLAB_RATE_LIMITS=off", "COLLAB_TRUSTED_PROXIES=127.0.0.0/8,::1",
	})
}

// makeDemo makes the demo in a directory that does not exist, and returns the address on which
// it did. The directory appears when it is complete; before that it has another name, under which
// nothing stays.
func makeDemo(ctx context.Context, c config.Config, directory string, random func(n int) int, out, log io.Writer) (listen config.HostPort, err error) {
	incomplete, err := defaultsIn(directory+".incomplete", c)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(incomplete.DataDir); err != nil { // of a process that was killed
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(incomplete.DataDir)) }()
	now := system.Clock{}.Now()
	clock := memory.NewClock(now.AddDate(0, -2, 0))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type address struct {
		base     publicURL
		listener net.Listener
	}
	started, ended := make(chan address, 1), make(chan error, 1)
	go func() {
		ended <- serveWith(ctx, incomplete, log, func(base publicURL, _ signInPage, l net.Listener) { started <- address{base, l} },
			fx.Decorate(
				func(machineClock) machineClock { return machineClock{clock} },
				func(providers) providers { return providers{config.ProviderLocal: localmodel.New(nil)} }, // without pauses
			))
	}()
	var server address
	select {
	case server = <-started:
	case err := <-ended:
		return "", errors.Join(err, ctx.Err())
	}
	fillErr := demo.Fill(ctx, demo.Options{
		URL: string(server.base), Now: now, SetClock: clock.Set, Random: random,
		Progress: func(day, last int) {
			if day%10 == 0 {
				fmt.Fprintf(out, "  day %d of %d\n", day, last)
			}
		},
	})
	stop()
	if err := errors.Join(fillErr, <-ended); err != nil {
		return "", err
	}
	return config.HostPort(server.listener.Addr().String()), os.Rename(incomplete.DataDir, directory)
}
