package vault_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"collab/adapters/vault"
	"collab/domain/fault"
	"collab/test/contract"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/signature"
)

var plain, context = []byte("hunter2"), []byte("org-1/instance-1")

func seal(t *testing.T, v *vault.Vault, plain, context []byte) []byte {
	t.Helper()
	sealed, err := v.Seal(plain, context)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func fresh(t *testing.T) (*vault.Vault, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys", "secrets.json")
	v, err := vault.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	return v, path
}

func TestSealer(t *testing.T) {
	v, _ := fresh(t)
	contract.Sealer(t, v)
}

func TestKeysOutliveTheProcess(t *testing.T) {
	v, path := fresh(t)
	sealed := seal(t, v, plain, context)
	for _, load := range []func(string) (*vault.Vault, error){vault.Load, vault.LoadOrCreate} {
		again, err := load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Open(sealed, context); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	stranger, _ := fresh(t)
	if _, err := stranger.Open(sealed, context); !fault.Is(err, fault.Invalid) {
		t.Errorf("another keyset gives %v", err)
	}
}

// rewrite has fn change the keyset of the file, as an operator would with
// Tink's own tool.
func rewrite(t *testing.T, path string, fn func(*keyset.Manager) error) *vault.Vault {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	m := keyset.NewManagerFromHandle(handle)
	if err := fn(m); err != nil {
		t.Fatal(err)
	}
	if handle, err = m.Handle(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&out)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := vault.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestKeysCanBeRotated(t *testing.T) {
	before, path := fresh(t)
	older := seal(t, before, plain, context)
	during := rewrite(t, path, func(m *keyset.Manager) error {
		added, err := m.Add(aead.AES256GCMKeyTemplate())
		if err != nil {
			return err
		}
		return m.SetPrimary(added)
	})
	newer := seal(t, during, plain, context)
	for _, sealed := range [][]byte{older, newer} {
		if got, err := during.Open(sealed, context); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if _, err := before.Open(newer, context); !fault.Is(err, fault.Invalid) {
		t.Errorf("the old key opens what the new one sealed: %v", err)
	}
	after := rewrite(t, path, func(m *keyset.Manager) error {
		handle, err := m.Handle()
		if err != nil {
			return err
		}
		for _, k := range handle.KeysetInfo().KeyInfo {
			if k.KeyId != handle.KeysetInfo().PrimaryKeyId {
				return m.Delete(k.KeyId)
			}
		}
		return nil
	})
	if _, err := after.Open(older, context); !fault.Is(err, fault.Invalid) {
		t.Errorf("a retired key still opens: %v", err)
	}
	if got, err := after.Open(newer, context); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTheFileIsMadeOnceAndForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "secrets.json")
	vaults := make([]*vault.Vault, 16)
	var wg sync.WaitGroup
	for i := range vaults {
		wg.Go(func() {
			v, err := vault.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
			}
			vaults[i] = v
		})
	}
	wg.Wait()
	for _, v := range vaults {
		for _, other := range vaults {
			if got, err := other.Open(seal(t, v, plain, context), context); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("processes that started at once have different keys: %v", err)
			}
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", p, info.Mode(), err)
		}
	}
}

func TestAFileWithoutAKeysetIsAnErrorAndIsKept(t *testing.T) {
	handle, err := keyset.NewHandle(signature.ED25519KeyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	var signing bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&signing)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "secrets.json")
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "hunter2", "no keys": "{}", "other JSON": `{"hunter2":1}`, "signing keys": signing.String(),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := vault.LoadOrCreate(path)
		if err == nil || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a file with %s gives %v", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("a file with %s was replaced", name)
		}
	}
	if _, err := vault.Load(path + "-gone"); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}
