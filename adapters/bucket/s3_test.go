package bucket_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"collab/adapters/bucket"
	"collab/test/must"
	"collab/test/objectstore"
)

// clearAmazonEnv clears Amazon's environment variables.
func clearAmazonEnv(t *testing.T) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", t.TempDir())
}

func TestS3Credentials(t *testing.T) {
	store := objectstore.StartS3(t)
	_, access, _ := strings.Cut(store.Credentials[0], "=")
	_, secret, _ := strings.Cut(store.Credentials[1], "=")
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n"+
		"[files]\naws_access_key_id = "+access+"\naws_secret_access_key = "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"AccessKeyId":"`+access+`","SecretAccessKey":"`+secret+`","Expiration":"`+
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	}))
	defer role.Close()
	inFile := "AWS_SHARED_CREDENTIALS_FILE=" + file
	inEnvironment := append(store.Credentials, "AWS_REGION=eu-central-1", "AWS_ENDPOINT_URL_S3=http://"+store.Host)
	for name, row := range map[string]struct {
		address string
		environ []string
	}{
		"of the environment":                          {store.Address, store.Credentials},
		"with region and endpoint of the environment": {"s3://collab?use_path_style=true", inEnvironment},
		"of the file's profile in the address":        {store.Address + "&profile=files", []string{inFile}},
		"of the file's profile in the environment":    {store.Address, []string{inFile, "AWS_PROFILE=files"}},
		"of the container's role": {store.Address, []string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + role.URL, "AWS_CONTAINER_AUTHORIZATION_TOKEN=token",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			clearAmazonEnv(t)
			(&objectstore.Store{Credentials: row.environ}).Setenv(t)
			if err := openBucket(t, row.address).Ready(t.Context()); err != nil {
				t.Errorf("%v: %v", err, errors.Unwrap(err))
			}
		})
	}
	t.Run("that are wrong are refused", func(t *testing.T) {
		clearAmazonEnv(t)
		t.Setenv("AWS_ACCESS_KEY_ID", access)
		t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
		b := openBucket(t, store.Address)
		err := b.Ready(t.Context())
		unavailable(t, err)
		if status := bucket.Status(err); status != http.StatusForbidden {
			t.Errorf("the status is %d: %v", status, errors.Unwrap(err))
		}
	})
}

func TestS3Addresses(t *testing.T) {
	clearAmazonEnv(t)
	for _, address := range []string{
		"s3://bucket", "s3://bucket?region=us-east-1", "s3://bucket.with.dots/a/b?region=cn-north-1", "s3://bucket?endpoint=store.example.com",
		"s3://bucket?endpoint=https%3A%2F%2Fstore.example.com:9000/&use_path_style=false", "s3://bucket?profile=files",
	} {
		t.Run("valid: "+address, func(t *testing.T) { openBucket(t, address) })
	}
	for _, parameters := range []string{
		"endpoint=ftp://x", "endpoint=https://x/path", "endpoint=https://user:hunter2@x", "endpoint=https://x%3Fa=hunter2", "use_path_style=yes",
		"region=a&region=b", "ssetype=AES256",
	} {
		t.Run("invalid: "+parameters, func(t *testing.T) {
			expectRefused(t, "s3://bucket?"+parameters, "")
		})
	}
}

func TestAFailedUploadToS3LeavesNoParts(t *testing.T) {
	store := objectstore.StartS3(t)
	store.Setenv(t)
	b := openBucket(t, store.Address)
	long := strings.Repeat("0123456789abcdef", 12<<20/16)
	if err := b.Put(t.Context(), "org/x@1-x", "", -1, io.MultiReader(strings.NewReader(long), failingReader{})); err == nil {
		t.Fatal("it was written")
	}
	put(t, b, "org/y@1-x", long)
	if err := b.Put(t.Context(), "org/y@1-x", "", -1, strings.NewReader(long)); err == nil {
		t.Fatal("it was written again")
	}

	client, err := minio.New(store.Host, &minio.Options{Region: "eu-central-1", BucketLookup: minio.BucketLookupPath, Creds: credentials.NewEnvAWS()})
	must.NoError(t, err)
	for upload := range client.ListIncompleteUploads(t.Context(), "collab", "", true) {
		t.Errorf("the store keeps %+v", upload)
	}
	if got := list(t, b); len(got) != 1 || got[0] != "org/y@1-x" {
		t.Errorf("the list is %q", got)
	}
}

func TestPartsOfAnUploadToS3Grow(t *testing.T) {
	total := 0
	for number := 1; number <= 10_000; number++ {
		total += bucket.PartSizeOf(number)
	}
	if total < 268<<30 || bucket.PartSizeOf(1) != 5<<20 || bucket.PartSizeOf(10_000) > 55<<20 {
		t.Errorf("10,000 parts have %d bytes", total)
	}

	store := objectstore.StartS3(t)
	store.Setenv(t)
	b := openBucket(t, store.Address)
	bucket.SetPartSizes(b, func(number int) int { return 5<<20 + number/3<<19 })
	var long strings.Builder
	for long.Len() < 24<<20 {
		fmt.Fprintf(&long, "%d ", long.Len())
	}
	put(t, b, "org/x@1-x", long.String())
	r := must.Do(b.Open(t.Context(), "org/x@1-x", 0, -1)).Or(t)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != long.String() {
		t.Errorf("%d of %d bytes are the same, %v", len(got), long.Len(), err)
	}
}
