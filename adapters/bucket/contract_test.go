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
	"collab/test/must"
	"collab/test/objectstore"
)

// envStore is the variable that makes the test binary serve an object store, whose content
// is then not in the memory of the test process. Its value is the store's directory.
const envStore = "COLLAB_TEST_OBJECT_STORE"

func TestMain(m *testing.M) {
	if folder, set := os.LookupEnv(envStore); set {
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
	if folder := os.Getenv(envWriter); folder != "" {
		writeUntilKilled(folder)
	}
	// A library of the object store starts this goroutine in its init.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// openFiles opens a store in a temporary directory.
func openFiles(t testing.TB) *bucket.Bucket { return openBucket(t, "file://"+t.TempDir()) }

func openBucket(t testing.TB, address string) *bucket.Bucket {
	t.Helper()
	b := must.Do(bucket.Open(t.Context(), address)).Or(t)
	closeAfter(t, b)
	return b
}

// openWithTimeout opens a store with a limit of each step.
func openWithTimeout(t *testing.T, address string, timeout time.Duration) *bucket.Bucket {
	t.Helper()
	b := must.Do(bucket.OpenWithin(t.Context(), address, timeout)).Or(t)
	closeAfter(t, b)
	return b
}

func closeAfter(t testing.TB, b *bucket.Bucket) {
	t.Cleanup(func() {
		must.Succeed(t, b.Close())
	})
}

// google starts a store that speaks Google's protocol, in this process.
func google(t testing.TB) *objectstore.Store {
	s := objectstore.Start(t, "")
	return &objectstore.Store{Address: s.Bucket("collab"), Host: s.Host, Credentials: []string{objectstore.EnvHost + "=" + s.Host}}
}

// googleProcess starts such a store in another process. It keeps objects in the folder, or in
// memory if that is empty.
func googleProcess(t testing.TB, folder string) *objectstore.Store {
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), envStore+"="+folder), os.Stderr
	in := must.Do(c.StdinPipe()).Or(t)
	out := must.Do(c.StdoutPipe()).Or(t)
	must.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		must.Succeed(t, c.Wait())
	})
	host := must.Do(bufio.NewReader(out).ReadString('\n')).Or(t)
	host = strings.TrimSpace(host)
	return &objectstore.Store{Address: "gs://collab", Host: host, Credentials: []string{objectstore.EnvHost + "=" + host}}
}

// servers start stores in other processes.
var servers = map[string]func(testing.TB) *objectstore.Store{
	"Google": func(t testing.TB) *objectstore.Store { return googleProcess(t, t.TempDir()) },
	"S3":     objectstore.StartS3,
	"Azure":  objectstore.StartAzure,
}

// withPrefix returns the address with a prefix in its bucket.
func withPrefix(prefix, address string) string {
	bucket, parameters, _ := strings.Cut(address, "?")
	return bucket + "/" + prefix + "?" + parameters
}

func TestBlobs(t *testing.T) {
	named := openFiles(t)
	bucket.UseNamedFiles(named)
	for name, b := range map[string]*bucket.Bucket{"files": openFiles(t), "files with names": named, "memory": openBucket(t, "mem://")} {
		t.Run(name, func(t *testing.T) {
			contract.Blobs(t, func(*testing.T) ports.Blobs { return b })
		})
	}
	all := maps.Clone(servers)
	all["Google"] = func(t testing.TB) *objectstore.Store { return googleProcess(t, "") } // file names in a directory are too short
	for name, start := range all {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			store.Setenv(t)
			b := openBucket(t, withPrefix("a/long prefix!", store.Address))
			contract.Blobs(t, func(*testing.T) ports.Blobs { return b })
			contract.BoundedBlobs(t, func(*testing.T) ports.Blobs { return b })
		})
	}
}

func TestBoundedBlobsInFiles(t *testing.T) {
	b := openFiles(t)
	contract.BoundedBlobs(t, func(*testing.T) ports.Blobs { return b })
}
