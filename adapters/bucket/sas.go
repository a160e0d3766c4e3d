package bucket

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"collab/domain/object"
)

// sasSigner signs the address of a blob of Azure's.
type sasSigner func(context.Context, sas.BlobSignatureValues) (sas.QueryParameters, error)

// connectionField returns a field of a connection string, empty if it has none.
func connectionField(connection, name string) string {
	for field := range strings.SplitSeq(connection, ";") {
		if n, value, _ := strings.Cut(field, "="); n == name {
			return value
		}
	}
	return ""
}

func signWithKey(key *container.SharedKeyCredential) sasSigner {
	return func(_ context.Context, v sas.BlobSignatureValues) (sas.QueryParameters, error) {
		return v.SignWithSharedKey(key)
	}
}

// Times of a user delegation key, which Azure gives out for at most a week.
const (
	delegationLife  = 24 * time.Hour
	delegationRenew = 2 * time.Hour // before it expires; longer than any address is valid
	delegationRetry = time.Minute   // after a renewal that failed
	delegationSkew  = 5 * time.Minute
)

// signWithDelegation returns a signer without the account's key. It requests a key of a day that signs in
// the name of the credential. A key that could not be renewed signs the addresses that it outlives.
func signWithDelegation(account string, credential azcore.TokenCredential, options azcore.ClientOptions) sasSigner {
	request := func(ctx context.Context, now, until time.Time) (*service.UserDelegationCredential, error) {
		client, err := service.NewClient(account, credential, &service.ClientOptions{ClientOptions: options})
		if err != nil {
			return nil, err
		}
		return client.GetUserDelegationCredential(ctx, service.KeyInfo{
			Start: new(now.Add(-delegationSkew).Format(sas.TimeFormat)), Expiry: new(until.Format(sas.TimeFormat)),
		}, nil)
	}
	var mu sync.Mutex
	var key *service.UserDelegationCredential // guarded by mu, as are the times
	var expires, renew time.Time
	return func(ctx context.Context, v sas.BlobSignatureValues) (sas.QueryParameters, error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now().UTC(); !now.Before(renew) {
			until := now.Add(delegationLife)
			switch fresh, err := request(ctx, now, until); {
			case err == nil:
				key, expires, renew = fresh, until, until.Add(-delegationRenew)
			case expires.Before(v.ExpiryTime):
				return sas.QueryParameters{}, err
			default:
				renew = now.Add(delegationRetry)
			}
		}
		return v.SignWithUserDelegation(key)
	}
}

func (a *azure) signer(public *url.URL) (signer, error) {
	if a.sign == nil {
		return nil, nil
	}
	return &azureSigner{a, public}, nil
}

// azureSigner makes addresses with a shared access signature for one blob.
type azureSigner struct {
	*azure
	public *url.URL // nil: the account's own
}

func (a *azureSigner) address(ctx context.Context, key string, v sas.BlobSignatureValues, lifetime time.Duration) (string, error) {
	at, err := url.Parse(a.container.NewBlobClient(key).URL())
	if err != nil {
		return "", err
	}
	if a.public != nil {
		at.Scheme, at.Host = a.public.Scheme, a.public.Host
	}
	if at.Scheme == "https" {
		v.Protocol = sas.ProtocolHTTPS
	}
	v.ContainerName, v.BlobName, v.ExpiryTime = a.name, key, time.Now().UTC().Add(lifetime)
	signed, err := a.sign(ctx, v)
	at.RawQuery = signed.Encode()
	return at.String(), err
}

func (a *azureSigner) signGet(
	ctx context.Context, key string, h responseHeaders, lifetime time.Duration,
) (string, error) {
	return a.address(ctx, key, sas.BlobSignatureValues{
		Permissions:  (&sas.BlobPermissions{Read: true}).String(),
		CacheControl: h.cacheControl, ContentDisposition: h.disposition, ContentType: h.mimeType,
	}, lifetime)
}

// signPut permits creating the blob and not writing to one that exists. It binds neither size
// nor checksum, which a signature of Azure's cannot.
func (a *azureSigner) signPut(ctx context.Context, key string, u upload, _ object.Content, lifetime time.Duration) (object.Address, error) {
	address, err := a.address(ctx, key, sas.BlobSignatureValues{Permissions: (&sas.BlobPermissions{Create: true}).String()}, lifetime)
	headers := map[string]string{http.CanonicalHeaderKey("x-ms-blob-type"): "BlockBlob", "Content-Type": u.mimeType}
	u.addMetadata(headers, "X-Ms-Meta-")
	return object.Address{URL: address, Headers: headers}, err
}
