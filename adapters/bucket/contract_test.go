package bucket_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"collab/adapters/bucket"
	"collab/ports"
	"collab/test/contract"
	"collab/test/objectstore"
)

// asStore makes the test binary an object store, so that what the store holds
// is not in this process's memory.
const asStore = "COLLAB_TEST_OBJECT_STORE"

func TestMain(m *testing.M) {
	if folder, set := os.LookupEnv(asStore); set {
		s, err := objectstore.Listen(folder)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		s.Bucket("collab")
		fmt.Println(s.Host)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		return
	}
	if folder := os.Getenv(asWriter); folder != "" {
		writeUntilKilled(folder)
	}
	// A library of the object store's starts this one with the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// kept is a store in files that end with the test.
func kept(t testing.TB) *bucket.Bucket { return opened(t, "file://"+t.TempDir()) }

func opened(t testing.TB, address string) *bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, b)
	return b
}

// openedWithin opens a store that may take so long for each step.
func openedWithin(t *testing.T, address string, patience time.Duration) *bucket.Bucket {
	t.Helper()
	b, err := bucket.OpenWithin(t.Context(), address, patience)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, b)
	return b
}

func closeAfter(t testing.TB, b *bucket.Bucket) {
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// google starts a store that speaks Google's protocol, in this process.
func google(t testing.TB) *objectstore.Store {
	s := objectstore.Start(t, "")
	return &objectstore.Store{Address: s.Bucket("collab"), Host: s.Host, Credentials: []string{objectstore.EnvHost + "=" + s.Host}}
}

// googleApart starts such a store in a process of its own, which keeps objects in the
// folder, in memory where that is empty.
func googleApart(t testing.TB, folder string) *objectstore.Store {
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), asStore+"="+folder), os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	host, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	host = strings.TrimSpace(host)
	return &objectstore.Store{Address: "gs://collab", Host: host, Credentials: []string{objectstore.EnvHost + "=" + host}}
}

// servers start stores that run in processes of their own.
var servers = map[string]func(testing.TB) *objectstore.Store{
	"Google": func(t testing.TB) *objectstore.Store { return googleApart(t, t.TempDir()) },
	"S3":     objectstore.StartS3,
	"Azure":  objectstore.StartAzure,
}

// below returns the address of a prefix in the bucket of an address.
func below(prefix, address string) string {
	bucket, parameters, _ := strings.Cut(address, "?")
	return bucket + "/" + prefix + "?" + parameters
}

func TestBlobs(t *testing.T) {
	named := kept(t)
	bucket.Named(named)
	for name, b := range map[string]*bucket.Bucket{"files": kept(t), "files with names": named, "memory": opened(t, "mem://")} {
		t.Run(name, func(t *testing.T) {
			contract.Blobs(t, func(*testing.T) ports.Blobs { return b })
		})
	}
	all := maps.Clone(servers)
	all["Google"] = func(t testing.TB) *objectstore.Store { return googleApart(t, "") } // folders have no long names
	for name, start := range all {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			store.Setenv(t)
			b := opened(t, below("a/long prefix!", store.Address))
			contract.Blobs(t, func(*testing.T) ports.Blobs { return b })
			contract.BoundedBlobs(t, func(*testing.T) ports.Blobs { return b })
		})
	}
}

func TestBoundedBlobsInFiles(t *testing.T) {
	b := kept(t)
	contract.BoundedBlobs(t, func(*testing.T) ports.Blobs { return b })
}
