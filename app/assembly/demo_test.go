package assembly

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"collab/app/assembly/config"
	"collab/test/must"
)

func TestADemoFillsNoDeployment(t *testing.T) {
	for variable, setting := range map[string]string{
		"COLLAB_DATABASE_URL":      "postgres://localhost/collab",
		"COLLAB_BLOB_URL":          "s3://bucket",
		"COLLAB_BUS_URL":           "nats://localhost",
		"COLLAB_IDENTITY_ISSUER":   "https://identity.example.com",
		"COLLAB_STRIPE_SECRET_KEY": "sk_live_1,COLLAB_STRIPE_PRICE_STANDARD=a,COLLAB_STRIPE_PRICE_PREMIUM=b",
		"COLLAB_ANTHROPIC_API_KEY": "key-of-somebody",
		"COLLAB_SMTP_URL":          "smtp://mail.example.com:25",
		"COLLAB_POSTHOG_KEY":       "phc_1",
	} {
		t.Run(variable, func(t *testing.T) { refusesDemo(t, variable, strings.Split(variable+"="+setting, ",")...) })
	}
	t.Run("another database of the same kind", func(t *testing.T) {
		refusesDemo(t, "COLLAB_DATABASE_URL", "COLLAB_DATABASE_URL=sqlite://"+filepath.Join(t.TempDir(), "collab.db"))
	})
	t.Run("another folder of files", func(t *testing.T) {
		refusesDemo(t, "COLLAB_BLOB_URL", "COLLAB_BLOB_URL=file://"+t.TempDir())
	})
}

// refusesDemo fails the test unless the setting is refused by the name of the variable, before
// anything is written.
func refusesDemo(t *testing.T, variable string, settings ...string) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "data")
	c, err := config.Read(append(settings, "COLLAB_DATA_DIR="+directory))
	must.NoError(t, err)
	err = Demo(t.Context(), c, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), variable) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(directory); !os.IsNotExist(err) {
		t.Errorf("the data directory: %v", err)
	}
}
