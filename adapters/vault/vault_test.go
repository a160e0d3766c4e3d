package vault_test

import (
	"bytes"
	"strings"
	"testing"

	"collab/adapters/vault"
	"collab/domain/fault"
	"collab/test/contract"
	"collab/test/must"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/signature"
)

var plain, context = []byte("hunter2"), []byte("org-1/instance-1")

func seal(t *testing.T, v *vault.Vault, plain, context []byte) []byte {
	t.Helper()
	return must.Do(v.Seal(plain, context)).Or(t)
}

func mac(t *testing.T, v *vault.Vault, data, context []byte) []byte {
	t.Helper()
	return must.Do(v.MAC(data, context)).Or(t)
}

func mustOpen(t *testing.T, v *vault.Vault, sealed []byte) []byte {
	t.Helper()
	return must.Do(v.Open(sealed, context)).Or(t)
}

func generate(t *testing.T) (*vault.Vault, []byte) {
	t.Helper()
	text := must.Do(vault.Generate()).Or(t)
	return newVault(t, text), text
}

func newVault(t *testing.T, text []byte) *vault.Vault {
	t.Helper()
	return must.Do(vault.New(text)).Or(t)
}

func TestSealer(t *testing.T) {
	v, _ := generate(t)
	contract.Sealer(t, v)
}

func TestKeysOutliveTheProcess(t *testing.T) {
	v, text := generate(t)
	sealed := seal(t, v, plain, context)
	if got, err := newVault(t, text).Open(sealed, context); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("got %q, %v", got, err)
	}
	if !bytes.Equal(mac(t, v, plain, context), mac(t, newVault(t, text), plain, context)) {
		t.Error("the same keyset makes another code")
	}
	other, _ := generate(t)
	if bytes.Equal(mac(t, v, plain, context)[4:], mac(t, other, plain, context)[4:]) {
		t.Error("another keyset makes the same code")
	}
	must.Fail(t, must.ErrorOf(other.Open(sealed, context)), fault.Invalid) // another keyset
}

// rewrite changes a keyset with fn, as an operator does with Tinkey.
func rewrite(t *testing.T, text []byte, change func(*keyset.Manager) error) (*vault.Vault, []byte) {
	t.Helper()
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	must.NoError(t, err)
	m := keyset.NewManagerFromHandle(handle)
	must.NoError(t, change(m))
	handle = must.Do(m.Handle()).Or(t)
	var out bytes.Buffer
	must.NoError(t, insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&out)))
	return newVault(t, out.Bytes()), out.Bytes()
}

func TestKeysCanBeRotated(t *testing.T) {
	before, text := generate(t)
	older := seal(t, before, plain, context)
	during, text := rewrite(t, text, func(m *keyset.Manager) error {
		added, err := m.Add(aead.AES256GCMKeyTemplate())
		if err != nil {
			return err
		}
		return m.SetPrimary(added)
	})
	newer := seal(t, during, plain, context)
	if verified, err := during.Verify(mac(t, before, plain, context), plain, context); !verified || err != nil {
		t.Errorf("a code of the first key, under the second: %t, %v", verified, err)
	}
	for _, sealed := range [][]byte{older, newer} {
		if got, err := during.Open(sealed, context); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	for name, c := range map[string]struct {
		vault  *vault.Vault
		sealed []byte
		old    bool
	}{
		"the first key's, before":              {before, older, false},
		"the first key's, under the second":    {during, older, true},
		"the second key's":                     {during, newer, false},
		"the first key's, opened and sealed":   {during, seal(t, during, mustOpen(t, during, older), context), false},
		"the second key's, under the first":    {before, newer, true},
		"the first key's, cut within its name": {during, older[:4], true},
	} {
		if got := c.vault.OldKey(c.sealed); got != c.old {
			t.Errorf("%s: old is %t", name, got)
		}
	}
	must.Fail(t, must.ErrorOf(before.Open(newer, context)), fault.Invalid) // a newer key sealed it
	after, _ := rewrite(t, text, func(m *keyset.Manager) error {
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
	must.Fail(t, must.ErrorOf(after.Open(older, context)), fault.Invalid) // its key is retired
	if verified, err := after.Verify(mac(t, before, plain, context), plain, context); verified || !fault.Is(err, fault.Invalid) {
		t.Errorf("a code of a retired key: %t, %v", verified, err)
	}
	if verified, err := after.Verify(mac(t, during, plain, context), plain, context); !verified || err != nil {
		t.Errorf("a code of the second key, alone: %t, %v", verified, err)
	}
	if got, err := after.Open(newer, context); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("got %q, %v", got, err)
	}
}

// withNewPrimary returns a vault with a key of the first template, and one with another primary key
// of the second.
func withNewPrimary(t *testing.T, first, second *tinkpb.KeyTemplate) (before, after *vault.Vault) {
	t.Helper()
	handle := must.Do(keyset.NewHandle(first)).Or(t)
	var text bytes.Buffer
	must.NoError(t, insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&text)))
	after, _ = rewrite(t, text.Bytes(), func(m *keyset.Manager) error {
		added, err := m.Add(second)
		if err != nil {
			return err
		}
		return m.SetPrimary(added)
	})
	return newVault(t, text.Bytes()), after
}

func TestOldComparesKeyPrefixes(t *testing.T) {
	with := func(prefix tinkpb.OutputPrefixType) *tinkpb.KeyTemplate {
		template := aead.AES256GCMKeyTemplate()
		template.OutputPrefixType = prefix
		return template
	}
	tink, crunchy, raw := with(tinkpb.OutputPrefixType_TINK), with(tinkpb.OutputPrefixType_CRUNCHY), with(tinkpb.OutputPrefixType_RAW)
	for name, c := range map[string]struct {
		first, second *tinkpb.KeyTemplate
		old           bool // of data sealed with the first, in the second vault
	}{
		"TINK to TINK":       {tink, tink, true},
		"TINK to CRUNCHY":    {tink, crunchy, true},
		"CRUNCHY to CRUNCHY": {crunchy, crunchy, true},
		"RAW to TINK":        {raw, tink, true},
		"TINK to RAW":        {tink, raw, true},
		"CRUNCHY to RAW":     {crunchy, raw, true},
		"RAW to RAW":         {raw, raw, false}, // without prefixes the keys cannot be distinguished
	} {
		before, after := withNewPrimary(t, c.first, c.second)
		older, newer := seal(t, before, plain, context), seal(t, after, plain, context)
		if before.OldKey(older) || after.OldKey(newer) {
			t.Errorf("%s: what was sealed with the primary key is old", name)
		}
		if got := after.OldKey(older); got != c.old {
			t.Errorf("%s: old is %t", name, got)
		}
		if got := mustOpen(t, after, older); !bytes.Equal(got, plain) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestErrorsOfInvalidKeysetsDoNotContainThem(t *testing.T) {
	handle := must.Do(keyset.NewHandle(signature.ED25519KeyTemplate())).Or(t)
	var signing bytes.Buffer
	must.NoError(t, insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&signing)))
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "hunter2", "no keys": "{}", "other JSON": `{"hunter2":1}`, "signing keys": signing.String(),
	} {
		if _, err := vault.New([]byte(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a file with %s gives %v", name, err)
		}
	}
}
