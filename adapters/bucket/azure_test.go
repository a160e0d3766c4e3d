package bucket_test

import (
	"context"
	"encoding/base64"
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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"collab/adapters/bucket"
	"collab/test/must"
	"collab/test/objectstore"
)

// clearAzureEnv clears Azure's environment variables.
func clearAzureEnv(t *testing.T) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "AZURE_") || strings.HasPrefix(name, "IDENTITY_") || name == "IMDS_ENDPOINT" {
			t.Setenv(name, "")
		}
	}
}

func TestAzureAddresses(t *testing.T) {
	for name, environment := range map[string]map[string]string{
		"account and key":          {"AZURE_STORAGE_ACCOUNT": "x", "AZURE_STORAGE_KEY": "eA=="},
		"account and SAS token":    {"AZURE_STORAGE_ACCOUNT": "x", "AZURE_STORAGE_SAS_TOKEN": "?sig=hunter2"},
		"secret of an application": {"AZURE_STORAGE_ACCOUNT": "x", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "hunter2"},
		"identity of the machine":  {"AZURE_STORAGE_ACCOUNT": "x"},
	} {
		t.Run("valid with "+name, func(t *testing.T) {
			clearAzureEnv(t)
			for variable, value := range environment {
				t.Setenv(variable, value)
			}
			for _, parameters := range []string{
				"", "?storage_account=y", "?domain=blob.core.chinacloudapi.cn", "?protocol=http&localemu=true&domain=azurite:10000", "?localemu=0",
			} {
				openBucket(t, "azblob://container/some/prefix"+parameters)
			}
		})
	}
	for parameters, want := range map[string]string{
		"cdn=true": `"cdn"`, "nonsense=1": `"nonsense"`, "domain=a&domain=b": `"domain"`, "protocol=ftp": "protocol", "localemu=yes": "localemu",
		"domain=user:hunter2@x": "domain", "domain=x/path": "domain", "domain=x%3Fa=hunter2": "domain",
	} {
		t.Run("invalid: "+parameters, func(t *testing.T) {
			clearAzureEnv(t)
			t.Setenv("AZURE_STORAGE_ACCOUNT", "x")
			expectRefused(t, "azblob://container?"+parameters, want)
		})
	}
	for variable, want := range map[string]string{
		"AZURE_CLIENT_CERTIFICATE_PATH=/x": "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_USERNAME=x": "AZURE_USERNAME", "IMDS_ENDPOINT=http://x": "IMDS_ENDPOINT",
		"MSI_ENDPOINT=http://x": "MSI_ENDPOINT", "AZURE_STORAGE_IS_CDN=1": "AZURE_STORAGE_IS_CDN",
		"IDENTITY_SERVER_THUMBPRINT=x": "IDENTITY_SERVER_THUMBPRINT", "AZURE_STORAGE_ACCOUNT=": "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY=hunter2!": "",
		"AZURE_CLIENT_SECRET=hunter2": "AZURE_TENANT_ID", "AZURE_STORAGE_PROTOCOL=ftp": "protocol", "AZURE_STORAGE_CONNECTION_STRING=hunter2": "",
	} {
		t.Run("are refused with "+variable, func(t *testing.T) {
			clearAzureEnv(t)
			name, value, _ := strings.Cut(variable, "=")
			if name != "AZURE_STORAGE_CONNECTION_STRING" {
				t.Setenv("AZURE_STORAGE_ACCOUNT", "x")
			}
			t.Setenv(name, value)
			expectRefused(t, "azblob://container", want)
		})
	}
	t.Run("invalid with special characters in the prefix", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_ACCOUNT", "x")
		expectRefused(t, "azblob://container/a%3Fb", "prefix")
		expectRefused(t, "azblob://container/a../b", "prefix")
	})
}

// expectRefused checks that Open fails for the address, with want in its error.
func expectRefused(t *testing.T, address, want string) {
	t.Helper()
	b, err := bucket.Open(t.Context(), address)
	if err == nil {
		t.Fatal("it was opened", b.Close())
	}
	if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v", err)
	}
}

func TestAzureKeys(t *testing.T) {
	store := objectstore.StartAzure(t)
	account, key := strings.TrimPrefix(store.Credentials[0], "AZURE_STORAGE_ACCOUNT="), strings.TrimPrefix(store.Credentials[1], "AZURE_STORAGE_KEY=")
	t.Run("a SAS token opens the container, and is in no error", func(t *testing.T) {
		clearAzureEnv(t)
		credential := must.Do(azblob.NewSharedKeyCredential(account, key)).Or(t)
		signed, err := sas.BlobSignatureValues{
			Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour).UTC(), ContainerName: "collab",
			Permissions: (&sas.ContainerPermissions{Read: true, Add: true, Create: true, Write: true, Delete: true, List: true}).String(),
		}.SignWithSharedKey(credential)
		must.NoError(t, err)
		t.Setenv("AZURE_STORAGE_ACCOUNT", account)
		t.Setenv("AZURE_STORAGE_SAS_TOKEN", signed.Encode())
		b := openBucket(t, store.Address)
		put(t, b, "org/sas@1-x", "content")
		must.Is(t, "content", must.Do(read(b, "org/sas@1-x")).Or(t))
		away := openWithTimeout(t, "azblob://collab?protocol=http&domain=127.0.0.1:1", 50*time.Millisecond)
		err = away.Ready(t.Context())
		unavailable(t, err)
		if strings.Contains(fmt.Sprint(err), url.QueryEscape(signed.Signature())) {
			t.Errorf("the error tells: %v", err)
		}
	})
	t.Run("a connection string opens the account that it names, and takes no parameters", func(t *testing.T) {
		clearAzureEnv(t)
		t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "DefaultEndpointsProtocol=http;AccountName="+account+";AccountKey="+key+
			";BlobEndpoint=http://"+store.Host+"/"+account+";")
		must.NoError(t, openBucket(t, "azblob://collab").Ready(t.Context()))
		expectRefused(t, "azblob://collab?domain=x", "connection string")
	})
}

// authority issues tokens for a store, like Microsoft Entra and managed identity endpoints.
type authority struct {
	*httptest.Server
	response  atomic.Value // of type func(http.ResponseWriter, *http.Request)
	responses atomic.Int64
}

func startAuthority(t *testing.T) *authority {
	a := &authority{}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.responses.Add(1)
		a.response.Load().(func(http.ResponseWriter, *http.Request))(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// token returns a token for Azure's storage without a valid signature.
func token() string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	now := time.Now().Unix()
	return part(`{"alg":"RS256","typ":"JWT"}`) + "." + part(fmt.Sprintf(
		`{"aud":"https://storage.azure.com","oid":"object","tid":"tenant","iss":"https://sts.windows.net/tenant/","iat":%d,"nbf":%d,"exp":%d}`, now-60, now-60, now+3600)) + "." + part("none")
}

func TestAzureIdentities(t *testing.T) {
	entra := startAuthority(t)
	store := objectstore.StartAzureWithTokens(t, entra.Server)
	trusted := entra.Client().Transport.(*http.Transport)
	open := func(t *testing.T, through *http.Transport) *bucket.Bucket {
		t.Helper()
		t.Setenv("AZURE_STORAGE_ACCOUNT", "devstoreaccount1")
		b := must.Do(bucket.OpenAzure("collab", url.Values{"domain": {store.Host}}, through.Clone())).Or(t)
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	// application sets the environment of an application and the authority's response. The
	// authority checks the request first.
	application := func(t *testing.T, proof func() url.Values, response string) {
		clearAzureEnv(t)
		t.Setenv("AZURE_TENANT_ID", "tenant")
		t.Setenv("AZURE_CLIENT_ID", "client")
		t.Setenv("AZURE_AUTHORITY_HOST", entra.URL+"/")
		entra.response.Store(func(w http.ResponseWriter, r *http.Request) {
			want := proof()
			want.Set("client_id", "client")
			want.Set("scope", "https://storage.azure.com/.default")
			want.Set("grant_type", "client_credentials")
			if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != "/tenant/oauth2/v2.0/token" || r.PostForm.Encode() != want.Encode() {
				t.Errorf("%s %s has %v, %v", r.Method, r.URL, r.PostForm, err)
			}
			_, _ = io.WriteString(w, strings.Replace(response, "TOKEN", token(), 1))
		})
	}
	hunter2 := func() url.Values { return url.Values{"client_secret": {"hunter2"}} }

	t.Run("an application with a secret reads and writes with one token", func(t *testing.T) {
		application(t, hunter2, `{"token_type":"Bearer","expires_in":3599,"access_token":"TOKEN"}`)
		t.Setenv("AZURE_CLIENT_SECRET", "hunter2")
		before := entra.responses.Load()
		b := open(t, trusted)
		put(t, b, "org/x@1-x", "content")
		must.Is(t, "content", must.Do(read(b, "org/x@1-x")).Or(t))
		must.Is(t, 1, entra.responses.Load()-before)
	})
	t.Run("a pod's assertion is read again for each token", func(t *testing.T) {
		file, assertion := filepath.Join(t.TempDir(), "token"), ""
		write := func(content string) {
			assertion = content
			must.NoError(t, os.WriteFile(file, []byte(content+"\n"), 0o600))
		}
		application(t, func() url.Values {
			return url.Values{"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {assertion}}
		}, `{"expires_in":0,"access_token":"TOKEN"}`)
		t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
		b := open(t, trusted)
		for _, content := range []string{"first", "second"} {
			write(content)
			must.NoError(t, b.Ready(t.Context()))
		}
	})
	t.Run("two clients request tokens at the same time", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		must.NoError(t, os.WriteFile(file, []byte("assertion"), 0o600))
		application(t, func() url.Values {
			return url.Values{"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {"assertion"}}
		}, `{"expires_in":0,"access_token":"TOKEN"}`)
		t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
		credential := must.Do(bucket.NewEntra(*entra.Client())).Or(t)
		var clients sync.WaitGroup
		for range 2 {
			clients.Go(func() {
				for range 200 {
					must.Succeed(t, must.ErrorOf(credential.GetToken(t.Context(), policy.TokenRequestOptions{})))
				}
			})
		}
		clients.Wait()
	})
	t.Run("the managed identity is requested without a proxy and retried", func(t *testing.T) {
		clearAzureEnv(t)
		t.Setenv("AZURE_CLIENT_ID", "client")
		asked := 0
		machine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked == 1 {
				w.WriteHeader(http.StatusGone)
				return
			}
			want := "/metadata/identity/oauth2/token?api-version=2018-02-01&client_id=client&resource=https%3A%2F%2Fstorage.azure.com"
			if r.URL.String() != want || r.Header.Get("Metadata") != "true" || r.Host != "169.254.169.254" {
				t.Errorf("%s %s has %v", r.Host, r.URL, r.Header)
			}
			_, _ = io.WriteString(w, `{"expires_in":"3599","expires_on":"`+fmt.Sprint(time.Now().Unix()+3599)+`","access_token":"`+token()+`"}`)
		}))
		defer machine.Close()
		transport := trusted.Clone()
		transport.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme == "http" {
				return nil, errors.New("a proxy was asked for")
			}
			return nil, nil
		}
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "169.254.169.254:80" {
				address = machine.Listener.Addr().String()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		if err := open(t, transport).Ready(t.Context()); err != nil || asked != 2 {
			t.Errorf("%v, asked %d times", err, asked)
		}
	})
	t.Run("a service's identity is requested with its header", func(t *testing.T) {
		clearAzureEnv(t)
		t.Setenv("IDENTITY_ENDPOINT", entra.URL+"/identity")
		t.Setenv("IDENTITY_HEADER", "hunter2")
		entra.response.Store(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != "/identity?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com" || r.Header.Get("X-IDENTITY-HEADER") != "hunter2" {
				t.Errorf("%s has %v", r.URL, r.Header)
			}
			_, _ = io.WriteString(w, `{"expires_on":"`+fmt.Sprint(time.Now().Unix()+3599)+`","access_token":"`+token()+`"}`)
		})
		must.NoError(t, open(t, trusted).Ready(t.Context()))
	})
	for name, response := range map[string]func(http.ResponseWriter, *http.Request){
		"status 401": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided."}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"no token":            func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"expires_in":3599}`) },
		"no expiry":           func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"access_token":"x"}`) },
		"no JSON":             func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"a closed connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run("the store is unavailable after "+name, func(t *testing.T) {
			application(t, hunter2, "")
			t.Setenv("AZURE_CLIENT_SECRET", "hunter2")
			entra.response.Store(response)
			limit := time.Minute
			if name == "a closed connection" {
				limit = time.Second // of all retries
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := open(t, trusted).Ready(ctx)
			if name != "a closed connection" {
				unavailable(t, err)
			}
			if err == nil || bucket.Status(err) != 0 || strings.Contains(err.Error(), "hunter2") || name == "status 401" && !strings.Contains(err.Error(), "Invalid client secret") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
