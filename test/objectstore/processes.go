package objectstore

import (
	"bytes"
	"context"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"collab/test/cached"
	"collab/test/loopback"
	"collab/test/must"
	"collab/test/nodejs"
)

// startTimeout is how long a store may take until it answers.
const startTimeout = time.Minute

// Store is a bucket of a store that runs in a process of its own.
type Store struct {
	Address     string   // as COLLAB_BLOB_URL has it
	Host        string   // what the store listens at
	Credentials []string // variables of the environment, as name=value

	stop func()
}

// Stop ends the store and waits until it has ended.
func (s *Store) Stop() { s.stop() }

// Setenv gives this process the credentials until the test ends.
func (s *Store) Setenv(t testing.TB) {
	for _, variable := range s.Credentials {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}

// versitygw is a store in files that speaks Amazon's protocol and checks signatures.
const versitygw = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// skipS3 is the variable without which StartS3 starts a store.
const skipS3 = "COLLAB_SKIP_S3"

// StartS3 starts a store that speaks Amazon's protocol until the test ends. The
// first time it builds the store, of which it says so on standard error. Where
// COLLAB_SKIP_S3 is set, it skips the test.
func StartS3(t testing.TB) *Store {
	t.Helper()
	if os.Getenv(skipS3) != "" {
		t.Skip(skipS3 + " is set: nothing is tried on a store that speaks Amazon's protocol")
	}
	store := must.Do(ListenS3(t.TempDir())).Or(t)
	t.Cleanup(store.Stop)
	return store
}

// ListenS3 starts a store that speaks Amazon's protocol outside of a test. It keeps objects in
// the directory, whose file system must have extended attributes.
func ListenS3(data string) (*Store, error) {
	version := versitygw[strings.LastIndex(versitygw, "@")+1:]
	directory, err := cached.Directory("versitygw-"+version, func(dir string) error {
		fmt.Fprintf(os.Stderr, "building %s once, which takes some minutes; %s=1 goes without\n", versitygw, skipS3)
		build := exec.Command("go", "install", "-trimpath", versitygw)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOBIN="+dir)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go install %s: %w\n%s", versitygw, err, out)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	const access, secret, region = "collab-test", "collab-test-secret", "eu-central-1"
	if err := os.MkdirAll(filepath.Join(data, "collab"), 0o700); err != nil {
		return nil, err
	}
	s := &Store{Credentials: []string{"AWS_ACCESS_KEY_ID=" + access, "AWS_SECRET_ACCESS_KEY=" + secret}}
	if err := loopback.Start(func(port int) (err error) {
		s.Host = "127.0.0.1:" + strconv.Itoa(port)
		c := exec.Command(filepath.Join(directory, "versitygw"), "--port", s.Host, "--region", region, "--health", "/health", "--quiet",
			"posix", data)
		c.Env = []string{"ROOT_ACCESS_KEY=" + access, "ROOT_SECRET_KEY=" + secret}
		s.stop, err = run(c, func() bool {
			r, err := http.Get("http://" + s.Host + "/health")
			return err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK
		})
		return err
	}); err != nil {
		return nil, err
	}
	s.Address = "s3://collab?region=" + region + "&use_path_style=true&endpoint=http://" + s.Host
	return s, nil
}

// azurite has what npm installs Azurite by, a store that speaks Azure's protocol and
// checks signatures.
//
//go:embed azurite
var azurite embed.FS

// azuriteKey is the key that Azurite's first account has everywhere.
const azuriteKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

// StartAzure starts a store that speaks Azure's protocol until the test ends. Where
// COLLAB_SKIP_NODE is set, it skips the test.
func StartAzure(t testing.TB) *Store { return startAzure(t, http.DefaultClient, "http") }

// StartAzureWithTokens starts such a store that also takes tokens of Microsoft Entra, of
// which it does not check the signature. It has the certificate of the server, which
// must speak TLS.
func StartAzureWithTokens(t testing.TB, server *httptest.Server) *Store {
	t.Helper()
	certificate := server.TLS.Certificates[0]
	key := must.Do(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)).Or(t)
	options := []string{"--oauth", "basic"}
	for option, block := range map[string]*pem.Block{
		"--cert": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}, "--key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		file := filepath.Join(t.TempDir(), "pem")
		must.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
		options = append(options, option, file)
	}
	return startAzure(t, server.Client(), "https", options...)
}

func startAzure(t testing.TB, through *http.Client, protocol string, options ...string) *Store {
	t.Helper()
	packages := must.Do(fs.Sub(azurite, "azurite")).Or(t)
	program := nodejs.InstallFrom(t, "nothing is tried on a store that speaks Azure's protocol", packages)
	const account = "devstoreaccount1"
	s := &Store{Credentials: []string{"AZURE_STORAGE_ACCOUNT=" + account, "AZURE_STORAGE_KEY=" + azuriteKey}}
	must.NoError(t, loopback.Start(func(port int) (err error) {
		s.Host = "127.0.0.1:" + strconv.Itoa(port)
		c := program.Node(append([]string{"node_modules/azurite/dist/src/blob/main.js", "--location", t.TempDir(), "--blobPort", strconv.Itoa(port),
			"--skipApiVersionCheck", "--silent", "--disableTelemetry"}, options...)...)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		s.stop, err = run(c, func() bool {
			r, err := through.Get(protocol + "://" + s.Host)
			return err == nil && r.Body.Close() == nil
		})
		return err
	}))
	t.Cleanup(s.stop)
	credential := must.Do(azblob.NewSharedKeyCredential(account, azuriteKey)).Or(t)
	client, err := azblob.NewClientWithSharedKeyCredential(protocol+"://"+s.Host+"/"+account, credential,
		&azblob.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: through}})
	must.NoError(t, err)
	must.Do(client.CreateContainer(t.Context(), "collab", nil)).Or(t)
	s.Address = "azblob://collab?protocol=" + protocol + "&localemu=true&domain=" + s.Host
	return s
}

// run starts a store and returns when it is ready. stop ends it and waits until it has ended.
func run(c *exec.Cmd, ready func() bool) (stop func(), err error) {
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	// An interrupt at the terminal reaches the process that uses the store.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return nil, err
	}
	ended, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		_ = c.Wait() // it is ended by a signal
	}()
	stop = func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended.Done():
		case <-time.After(startTimeout):
			_ = c.Process.Kill()
			<-ended.Done()
		}
		http.DefaultClient.CloseIdleConnections()
	}
	for deadline := time.Now().Add(startTimeout); !ready(); {
		select {
		case <-ended.Done():
			return nil, fmt.Errorf("%s has ended:\n%s", c.Path, output.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			stop()
			return nil, fmt.Errorf("%s does not answer", c.Path)
		}
	}
	return stop, nil
}
