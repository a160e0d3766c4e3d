package bucket_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"collab/adapters/bucket"
	"collab/domain/fault"
	"collab/domain/object"
	"collab/ports"
	"collab/test/contract"
	"collab/test/must"
	"collab/test/objectstore"
)

// signedBy returns what signs the bucket's addresses.
func signedBy(t testing.TB, b *bucket.Bucket, public string) ports.SignedBlobs {
	t.Helper()
	s, err := b.Signed(public)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	return s
}

func TestSignedBlobs(t *testing.T) {
	for name, store := range map[string]struct {
		start func(testing.TB) *objectstore.Store
		binds bool
	}{"S3": {objectstore.StartS3, true}, "Azure": {objectstore.StartAzure, false}} {
		t.Run(name, func(t *testing.T) {
			running := store.start(t)
			running.Setenv(t)
			b := openBucket(t, withPrefix("a/long prefix!", running.Address))
			contract.SignedBlobs(t, http.DefaultClient, store.binds, func(t *testing.T) (ports.Blobs, ports.SignedBlobs) {
				return b, signedBy(t, b, "")
			})
			t.Run("the public address is in signed addresses", func(t *testing.T) { testPublicAddress(t, running) })
			t.Run("content with an encoding is refused", func(t *testing.T) { testEncodedContent(t, running) })
		})
	}
	t.Run("Azure with a connection string", func(t *testing.T) {
		running := objectstore.StartAzure(t)
		clearAzureEnv(t)
		_, account, _ := strings.Cut(running.Credentials[0], "=")
		_, key, _ := strings.Cut(running.Credentials[1], "=")
		t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName="+account+";AccountKey="+key+";BlobEndpoint=http://"+running.Host+"/"+account)
		b := openBucket(t, "azblob://collab")
		contract.SignedBlobs(t, http.DefaultClient, false, func(t *testing.T) (ports.Blobs, ports.SignedBlobs) {
			return b, signedBy(t, b, "")
		})
	})
	t.Run("Azure with a user delegation key", func(t *testing.T) {
		entra := startAuthority(t)
		running := objectstore.StartAzureWithTokens(t, entra.Server)
		entra.response.Store(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"expires_in":3599,"access_token":"`+token()+`"}`)
		})
		clearAzureEnv(t)
		t.Setenv("AZURE_STORAGE_ACCOUNT", "devstoreaccount1")
		t.Setenv("IDENTITY_ENDPOINT", entra.URL+"/identity")
		t.Setenv("IDENTITY_HEADER", "x")
		// The account is the first part of the host's name, as it is at Azure.
		transport := entra.Client().Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.ServerName = "example.com"
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "devstoreaccount1.blob.") {
				address = running.Host
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		b := must.Do(bucket.OpenAzure("collab", url.Values{"domain": {"blob.example.com"}}, transport)).Or(t)
		closeAfter(t, b)
		client := &http.Client{Transport: transport}
		signed, content := signedBy(t, b, ""), object.Content{Blob: "org/é x@1-x", Size: 7}
		for _, want := range []int{http.StatusCreated, http.StatusForbidden} { // it never overwrites
			to, err := signed.SignPut(t.Context(), "text/plain", content, time.Minute)
			if err != nil {
				t.Fatal(err, errors.Unwrap(err))
			}
			must.Is(t, want, send(t, client, to.URL, "content", to.Headers))
		}
		address := must.Do(signed.SignGet(t.Context(), content.Blob, "text/html", "attachment", time.Minute)).Or(t)
		response := must.Do(client.Get(address)).Or(t)
		defer response.Body.Close()
		if got, err := io.ReadAll(response.Body); err != nil || string(got) != "content" || response.Header.Get("Content-Type") != "text/html" {
			t.Errorf("%+v %q, %v", response, got, err)
		}
	})
}

func TestStoresWithoutAddresses(t *testing.T) {
	clearAzureEnv(t)
	t.Setenv("AZURE_STORAGE_ACCOUNT", "x")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "?sig=x")
	t.Setenv(objectstore.EnvHost, "127.0.0.1:1")
	for _, address := range []string{"file://" + t.TempDir(), "mem://", "azblob://container", "gs://bucket"} {
		if s, err := openBucket(t, address).Signed(""); s != nil || err != nil {
			t.Errorf("%s: %v, %v", address, s, err)
		}
	}
}

func TestOnlyLoopbackHostsHaveAzuresAccountInThePath(t *testing.T) {
	for domain, want := range map[string]string{
		"localhost:1": "http://localhost:1/x/container/", "127.0.0.2:1": "http://127.0.0.2:1/x/container/",
		"localhost.example.com": "http://x.localhost.example.com/container/", "127.0.0.1.example.com": "http://x.127.0.0.1.example.com/container/",
	} {
		clearAzureEnv(t)
		t.Setenv("AZURE_STORAGE_ACCOUNT", "x")
		t.Setenv("AZURE_STORAGE_KEY", "eA==")
		s := signedBy(t, openBucket(t, "azblob://container?protocol=http&domain="+domain), "")
		if address, err := s.SignGet(t.Context(), "org/x@1-x", "text/plain", "attachment", time.Minute); err != nil || !strings.HasPrefix(address, want) {
			t.Errorf("%s: %s, %v", domain, address, err)
		}
	}
}

func testPublicAddress(t *testing.T, running *objectstore.Store) {
	content := object.Content{Blob: "org/x@1-x", Size: 7, Checksum: strings.Repeat("ab", 32)}
	b := openBucket(t, withPrefix("public", running.Address))
	put(t, b, content.Blob, "content")
	s := signedBy(t, b, "http://"+strings.Replace(running.Host, "127.0.0.1", "localhost", 1))
	address, err := s.SignGet(t.Context(), content.Blob, "text/plain", "attachment", time.Minute)
	if err != nil || !strings.HasPrefix(address, "http://localhost:") {
		t.Fatal(address, err)
	}
	r := must.Do(http.Get(address)).Or(t)
	defer r.Body.Close()
	if got, err := io.ReadAll(r.Body); err != nil || string(got) != "content" {
		t.Errorf("%d %q, %v", r.StatusCode, got, err)
	}
	for _, wrong := range []string{"ftp://x", "https://user:hunter2@x", "https://x/path"} {
		if _, err := b.Signed(wrong); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestGoogleAddresses sends signed requests to an emulator, which checks neither signatures nor
// conditions: they are read from the addresses.
func TestGoogleAddresses(t *testing.T) {
	key := must.Do(rsa.GenerateKey(rand.Reader, 2048)).Or(t)
	private := must.Do(x509.MarshalPKCS8PrivateKey(key)).Or(t)
	account := must.Do(json.Marshal(map[string]string{
		"type": "service_account", "client_email": "collab@project.iam.gserviceaccount.com", "token_uri": "http://127.0.0.1:1/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	})).Or(t)
	file := filepath.Join(t.TempDir(), "account.json")
	must.NoError(t, os.WriteFile(file, account, 0o600))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	store := objectstore.Start(t, "")
	store.Bucket("collab")
	b := openBucket(t, "gs://collab/prefix")
	own, err := signedBy(t, b, "").SignGet(t.Context(), "org/x@1-x", "text/plain", "attachment", time.Minute)
	if err != nil || !strings.HasPrefix(own, "https://storage.googleapis.com/collab/prefix/org/x%401-x?") {
		t.Errorf("%s, %v", own, err)
	}
	s := signedBy(t, b, "http://"+store.Host)
	for _, name := range []string{"org/x@1-x", hashedName} {
		to := must.Do(s.SignPut(t.Context(), "text/plain", object.Content{Blob: name, Size: 7}, time.Minute)).Or(t)
		u := must.Do(url.Parse(to.URL)).Or(t)
		signed := strings.Split(u.Query().Get("X-Goog-SignedHeaders"), ";")
		if len(signed) != len(to.Headers)+1 || u.Query().Get("X-Goog-Expires") != "59" && u.Query().Get("X-Goog-Expires") != "60" {
			t.Errorf("%v are signed of %v in %s", signed, to.Headers, to.URL)
		}
		if to.Headers["X-Goog-If-Generation-Match"] != "0" || to.Headers["X-Goog-Content-Length-Range"] != "7,7" {
			t.Errorf("the headers are %v", to.Headers)
		}
		must.Is(t, http.StatusOK, send(t, http.DefaultClient, to.URL, "content", to.Headers))
		address, err := s.SignGet(t.Context(), name, "text/html", `attachment; filename="x"`, time.Minute)
		must.NoError(t, err)
		u = must.Do(url.Parse(address)).Or(t)
		must.Is(t, `[text/html] [attachment; filename="x"]`, fmt.Sprint(u.Query()["response-content-type"], u.Query()["response-content-disposition"]))
		response := must.Do(http.Get(address)).Or(t)
		got, err := io.ReadAll(response.Body)
		if err != nil || response.Body.Close() != nil || string(got) != "content" {
			t.Errorf("%d %.200q, %v", response.StatusCode, got, err)
		}
	}
	encoded := object.Content{Blob: "org/encoded@1-x", Size: int64(len(gzipped))}
	to := must.Do(s.SignPut(t.Context(), "text/plain", encoded, time.Minute)).Or(t)
	// The emulator decompresses what it is sent once, which Google does not.
	must.Is(t, http.StatusOK, send(t, http.DefaultClient, to.URL, compress(gzipped), to.Headers, "Content-Encoding", "gzip"))
	t.Setenv(objectstore.EnvHost, store.Host)
	emulated := openBucket(t, "gs://collab/prefix")
	if got := list(t, emulated); len(got) != 3 {
		t.Errorf("the list is %q", got)
	}
	if size, _, err := bucket.StatOnly(emulated).Stat(t.Context(), hashedName); size != 7 || err != nil {
		t.Errorf("it has %d bytes, %v", size, err)
	}
	if got, err := read(emulated, encoded.Blob); got != gzipped || err != nil {
		t.Errorf("with a Content-Encoding it reads %q, %v", got, err)
	}
	if _, _, err := bucket.StatOnly(emulated).Stat(t.Context(), encoded.Blob); !fault.Is(err, fault.Invalid) {
		t.Errorf("with a Content-Encoding it is %v", err)
	}
}

// hashedName is a name whose key is hashed.
var hashedName = "org/" + strings.Repeat(strings.Repeat("%", 200)+"/", 3) + "x@1-x"

var gzipped = compress("content")

// compress returns the content in the format of gzip.
func compress(content string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(content)) // a buffer takes everything
	_ = w.Close()
	return b.String()
}

// send sends content to an address, with the headers and more, which are names and values; an
// empty value removes a header. It returns the status.
func send(t *testing.T, client *http.Client, address, content string, headers map[string]string, more ...string) int {
	t.Helper()
	r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodPut, address, strings.NewReader(content))).Or(t)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	for i := 0; i < len(more); i += 2 {
		if r.Header.Del(more[i]); more[i+1] != "" {
			r.Header.Set(more[i], more[i+1])
		}
	}
	response, err := client.Do(r)
	if err != nil || response.Body.Close() != nil {
		t.Fatal(response, err)
	}
	return response.StatusCode
}

// delegations gives out keys that sign in the name of its token, unless it is down.
type delegations struct {
	down  bool
	asked int
}

func (d *delegations) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func (d *delegations) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if d.asked++; d.down {
		w.WriteHeader(http.StatusForbidden)
	} else {
		_, _ = io.WriteString(w, "<UserDelegationKey><SignedOid>o</SignedOid><SignedTid>t</SignedTid><SignedStart>2026-01-01T00:00:00Z</SignedStart>"+
			"<SignedExpiry>2026-01-02T00:00:00Z</SignedExpiry><SignedService>b</SignedService><SignedVersion>2020-02-10</SignedVersion><Value>a2V5</Value></UserDelegationKey>")
	}
	response := w.Result()
	response.Request = r
	return response, nil
}

func TestADelegationKeySignsUntilItExpiresWhileNoOtherIsGivenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &delegations{}
		sign := bucket.SignWithDelegation("https://account.blob.core.windows.net/", d, azcore.ClientOptions{Transport: d})
		signed := func(after time.Duration) error {
			time.Sleep(after)
			expires := time.Now().Add(15 * time.Minute)
			return must.ErrorOf(sign(t.Context(), sas.BlobSignatureValues{ContainerName: "c", BlobName: "b", Permissions: "r", ExpiryTime: expires}))
		}
		must.NoError(t, errors.Join(signed(0), signed(time.Hour)))
		must.Is(t, 1, d.asked)
		d.down = true
		must.NoError(t, errors.Join(signed(22*time.Hour), signed(time.Second), signed(time.Minute)))
		must.Is(t, 3, d.asked) // again after a minute
		if err := signed(50 * time.Minute); bucket.Status(err) != http.StatusForbidden {
			t.Errorf("the key that expires before the address gives %v", err)
		}
		d.down = false
		must.NoError(t, signed(0))
	})
}

func TestGoogleHasAddressesOnlyWithAKey(t *testing.T) {
	for kind, credentials := range map[string]string{
		"a user": `{"type":"authorized_user","client_id":"x","client_secret":"x","refresh_token":"x"}`,
		"an account of another provider": `{"type":"external_account","audience":"x","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token",
			"service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/x@y.iam.gserviceaccount.com:generateAccessToken",
			"credential_source":{"file":"/nonexistent"}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "credentials.json")
			must.NoError(t, os.WriteFile(file, []byte(credentials), 0o600))
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
			if s, err := openBucket(t, "gs://bucket").Signed(""); s != nil || err != nil {
				t.Errorf("%v, %v", s, err)
			}
		})
	}
}

func testEncodedContent(t *testing.T, running *objectstore.Store) {
	content := object.Content{Blob: "org/x@1-x", Size: int64(len(gzipped)), Checksum: must.Sum(gzipped)}
	b := openBucket(t, withPrefix("encoded", running.Address))
	s := signedBy(t, b, "")
	to := must.Do(s.SignPut(t.Context(), "text/plain", content, time.Minute)).Or(t)
	// Azurite has the encoding of x-ms-blob-content-encoding only, Azure that of both.
	if got := send(t, http.DefaultClient, to.URL, gzipped, to.Headers, "Content-Encoding", "gzip", "x-ms-blob-content-encoding", "gzip"); got/100 != 2 {
		t.Fatalf("it is %d", got)
	}
	if _, _, err := s.Stat(t.Context(), content.Blob); !fault.Is(err, fault.Invalid) {
		t.Errorf("the error is %v", err)
	}
	if got, err := read(b, content.Blob); got != gzipped || err != nil {
		t.Errorf("it reads %q, %v", got, err)
	}
}

// TestRequestsThatAnAddressOfAzureAlsoPermits sends those that the permission to create includes,
// beside the one that the address is for.
func TestRequestsThatAnAddressOfAzureAlsoPermits(t *testing.T) {
	running := objectstore.StartAzure(t)
	running.Setenv(t)
	b := openBucket(t, running.Address)
	s := signedBy(t, b, "")
	put(t, b, "org/source@1-x", "content")
	signedSource := must.Do(s.SignGet(t.Context(), "org/source@1-x", "text/plain", "attachment", time.Minute)).Or(t)
	source, _, _ := strings.Cut(signedSource, "?") // Azurite needs no signature within an account
	for name, row := range map[string]struct {
		blob, content string
		more          []string
	}{
		"a copy":                         {"org/copy@1-x", "", []string{"x-ms-copy-source", source, "x-ms-blob-type", ""}},
		"a blob to append to":            {"org/append@1-x", "", []string{"x-ms-blob-type", "AppendBlob"}},
		"a hashed key with another name": {hashedName, "content", []string{"x-ms-meta-name", "b3RoZXI"}},
		"a hashed key without a name":    {hashedName + "2", "content", []string{"x-ms-meta-name", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			to := must.Do(s.SignPut(t.Context(), "text/plain", object.Content{Blob: row.blob, Size: 7}, time.Minute)).Or(t)
			if got := send(t, http.DefaultClient, to.URL, row.content, to.Headers, row.more...); got/100 != 2 {
				t.Fatalf("it is %d", got)
			}
			if _, _, err := s.Stat(t.Context(), row.blob); !fault.Is(err, fault.Invalid) {
				t.Errorf("the error is %v", err)
			}
			must.NoError(t, b.Remove(t.Context(), row.blob))
		})
	}
	t.Run("a snapshot", func(t *testing.T) {
		const name = "org/snapshot@1-x"
		to := must.Do(s.SignPut(t.Context(), "text/plain", object.Content{Blob: name, Size: 7}, time.Minute)).Or(t)
		must.Is(t, http.StatusCreated, send(t, http.DefaultClient, to.URL, "content", to.Headers))
		must.Is(t, http.StatusCreated, send(t, http.DefaultClient, to.URL+"&comp=snapshot", "", nil))
		must.NoError(t, b.Remove(t.Context(), name))
		if _, _, err := s.Stat(t.Context(), name); !fault.Is(err, fault.NotFound) {
			t.Errorf("it is still there: %v", err)
		}
	})
}
