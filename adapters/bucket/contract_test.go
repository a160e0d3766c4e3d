package bucket_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

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
	if folder := os.Getenv(asStore); folder != "" {
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
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// on starts an object store for the whole test and returns its bucket's
// address.
func on(t *testing.T) string {
	t.Helper()
	s := objectstore.Start(t, "")
	t.Setenv(objectstore.EnvHost, s.Host)
	return s.Bucket("collab")
}

func TestBlobs(t *testing.T) {
	emulated := on(t)
	for name, address := range map[string]string{
		"files": "file://" + t.TempDir(), "memory": "mem://", "objects": emulated + "/a/long prefix!",
	} {
		t.Run(name, func(t *testing.T) {
			b := opened(t, address)
			contract.Blobs(t, func(*testing.T) ports.Blobs { return b })
		})
	}
}

// servers start the stores that run in processes of their own.
var servers = map[string]func(testing.TB) *objectstore.Store{"S3": objectstore.StartS3, "Azure": objectstore.StartAzure}

// below returns the address of a prefix in the bucket of an address.
func below(prefix, address string) string {
	bucket, parameters, _ := strings.Cut(address, "?")
	return bucket + "/" + prefix + "?" + parameters
}

func TestBlobsOnOtherProtocols(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			store.Setenv(t)
			b := opened(t, below("a/long prefix!", store.Address))
			contract.Blobs(t, func(*testing.T) ports.Blobs { return b })
			contract.BoundedBlobs(t, func(*testing.T) ports.Blobs { return b })
		})
	}
}

func TestBlobsInFilesWithNames(t *testing.T) {
	b := kept(t)
	bucket.Named(b)
	contract.Blobs(t, func(*testing.T) ports.Blobs { return b })
}

func TestBoundedBlobs(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		b := kept(t)
		contract.BoundedBlobs(t, func(*testing.T) ports.Blobs { return b })
	})
	t.Run("objects", func(t *testing.T) {
		c := exec.Command(os.Args[0])
		c.Env, c.Stderr = append(os.Environ(), asStore+"="+t.TempDir()), os.Stderr
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
		t.Setenv(objectstore.EnvHost, strings.TrimSpace(host))
		b := opened(t, "gs://collab/prefix")
		contract.BoundedBlobs(t, func(*testing.T) ports.Blobs { return b })
	})
}
