package collabd

import (
	"debug/buildinfo"
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

func TestTheServerIsBuiltWithoutC(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/mattn/go-sqlite3" {
			t.Errorf("the server has a second SQLite, %s", module.Path)
		}
	}
	for _, setting := range info.Settings {
		if setting.Key == "CGO_ENABLED" && setting.Value != "0" && !race {
			t.Errorf("the server is built with CGO_ENABLED=%s", setting.Value)
		}
	}
}
