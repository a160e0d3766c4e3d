package tour

import (
	"debug/buildinfo"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"collab/app/assembly/config"
	"collab/test/must"
	"collab/test/pages"
)

// settings are the lines NAME=value of a file, as systemd reads them.
func settings(t *testing.T, file string) (all []string) {
	t.Helper()
	for line := range strings.Lines(pages.Read(t, file)) {
		line = strings.TrimSpace(line)
		if name, value, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") {
			all = append(all, name+"="+strings.Trim(value, `"`))
		}
	}
	return all
}

func TestTheExampleOfTheSettingsIsComplete(t *testing.T) {
	must.Do(config.Read(settings(t, "docs/deploy/collabd.env"))).Or(t)
}

// composeFile is what is looked at of a compose file.
type composeFile struct {
	Services map[string]struct {
		Image       string
		Command     []string
		EnvFile     string            `yaml:"env_file"`
		Environment map[string]string `yaml:"environment"`
		Secrets     []string
		Volumes     []string
		Ports       []string
		Networks    map[string]struct {
			Address string `yaml:"ipv4_address"`
		}
		DependsOn yaml.Node `yaml:"depends_on"`
		Grace     string    `yaml:"stop_grace_period"`
	}
	Secrets map[string]struct{ File string }
	Volumes map[string]any
}

func TestTheComposeFileIsComplete(t *testing.T) {
	text := pages.Read(t, "docs/deploy/compose.yaml")
	given := map[string]string{"VERSION": "1.0.0", "HOST": "collab.example.com", "POSTGRES_PASSWORD": "secret"}
	for _, m := range regexp.MustCompile(`\$\{(\w+)`).FindAllStringSubmatch(text, -1) {
		if given[m[1]] == "" {
			t.Errorf("nothing gives a value to %s", m[1])
		}
	}
	text = regexp.MustCompile(`\$\{(\w+)[^}]*\}`).ReplaceAllStringFunc(text, func(v string) string {
		return given[regexp.MustCompile(`\w+`).FindString(v)]
	})
	var file composeFile
	must.NoError(t, yaml.Unmarshal([]byte(text), &file))
	if got, want := slices.Sorted(maps.Keys(file.Services)), []string{"bus", "collabd", "database", "migrate", "proxy"}; !slices.Equal(got, want) {
		t.Fatalf("the services are %v", got)
	}
	for name, s := range file.Services {
		var needs []string
		switch s.DependsOn.Kind {
		case yaml.MappingNode:
			for i := 0; i < len(s.DependsOn.Content); i += 2 {
				needs = append(needs, s.DependsOn.Content[i].Value)
			}
		case yaml.SequenceNode:
			for _, n := range s.DependsOn.Content {
				needs = append(needs, n.Value)
			}
		}
		for _, other := range needs {
			if _, ok := file.Services[other]; !ok {
				t.Errorf("%s needs %s, which there is not", name, other)
			}
		}
		for _, v := range s.Volumes {
			if volume, _, _ := strings.Cut(v, ":"); !slices.Contains(slices.Collect(maps.Keys(file.Volumes)), volume) {
				t.Errorf("%s has the volume %s, which there is not", name, volume)
			}
		}
		if name != "proxy" && len(s.Ports) > 0 {
			t.Errorf("%s can be reached past the proxy", name)
		}
	}
	commands := ""
	for _, b := range blocks(t, "docs/deployment.md") {
		commands += b.text
	}
	for name, s := range file.Secrets {
		if !strings.Contains(commands, "> "+s.File+"\n") {
			t.Errorf("nothing in docs/deployment.md makes %s of the secret %s", s.File, name)
		}
	}
	server := file.Services["collabd"]
	for name := range server.Environment {
		if secret, found := strings.CutPrefix(server.Environment[name], "/run/secrets/"); found && !slices.Contains(server.Secrets, secret) {
			t.Errorf("%s names the secret %s, which the service does not have", name, secret)
		}
	}
	if got := file.Services["migrate"].Command; !slices.Equal(got, []string{"migrate"}) {
		t.Errorf("the schema is made by %v", got)
	}
	if got, want := server.Environment["COLLAB_TRUSTED_PROXIES"], file.Services["proxy"].Networks["default"].Address; got == "" || got != want {
		t.Errorf("the proxy at %q is trusted, and it is at %q", got, want)
	}
	environ := settings(t, filepath.Join("docs/deploy", server.EnvFile))
	for name, value := range server.Environment {
		environ = append(slices.DeleteFunc(environ, func(s string) bool { return strings.HasPrefix(s, name+"=") }), name+"="+value)
	}
	must.Do(config.Read(environ)).Or(t) // the service's settings
}

// instructions are those of a container file, each with its argument.
func instructions(t *testing.T, file string) (all [][2]string) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(pages.Read(t, file), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, argument, _ := strings.Cut(line, " ")
		all = append(all, [2]string{name, argument})
	}
	return all
}

func TestTheContainerFileBuilds(t *testing.T) {
	need(t, "wget", "wget")
	copied := t.TempDir()
	stage, user, from, entry, check := 0, "root", "", "", ""
	for _, i := range instructions(t, "docs/deploy/Containerfile") {
		words := strings.Fields(i[1])
		switch name := i[0]; {
		case name == "FROM":
			stage, user = stage+1, "root"
		case name == "COPY" && stage == 1:
			for _, source := range words[:len(words)-1] {
				to := filepath.Join(copied, words[len(words)-1])
				if len(words) > 2 {
					to = filepath.Join(to, source)
				}
				must.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
				if text, err := exec.CommandContext(t.Context(), "cp", "-R", filepath.Join(root, source), to).CombinedOutput(); err != nil {
					t.Fatalf("COPY %s: %v\n%s", i[1], err, text)
				}
			}
		case name == "COPY":
			from, entry = words[1], words[2]
		case name == "ENV" && !strings.Contains(i[1], "COLLAB_DATA_DIR=/var/lib/collab/"):
			t.Errorf("%s: a restore cannot replace a data directory that is the volume itself", i[1])
		case name == "USER":
			user = i[1]
		case name == "HEALTHCHECK":
			_, check, _ = strings.Cut(i[1], " CMD ")
		case name == "ENTRYPOINT" && i[1] != `["`+entry+`"]`:
			t.Errorf("what starts is %s, and %s is copied", i[1], entry)
		}
	}
	if stage != 2 || user == "root" || strings.HasPrefix(user, "0") {
		t.Errorf("the last of %d stages runs as %s", stage, user)
	}
	if from != "/out/collabd" {
		t.Errorf("%s is copied, which is not what was built", from)
	}

	// Everything that the server is made of was copied. It was built in the tree
	// itself, as every package of a copy would be compiled again.
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/collabd")
	list.Dir = copied
	if text, err := list.CombinedOutput(); err != nil {
		t.Errorf("what was copied does not build: %v\n%s", err, text)
	}
	program := filepath.Join(binaries(t), "collabd")
	if text, err := exec.CommandContext(t.Context(), program, "version").Output(); err != nil || !strings.HasPrefix(string(text), "collabd "+version+" (") {
		t.Errorf("the version is %q, %v", text, err)
	}
	info := must.Do(buildinfo.ReadFile(program)).Or(t)
	for _, module := range info.Deps {
		if strings.HasPrefix(module.Path, "github.com/envoyproxy/") || module.Path == "github.com/mattn/go-sqlite3" {
			t.Errorf("the server has %s, which gRPC or a second SQLite needs", module.Path)
		}
	}
	m := build.FindStringSubmatch(pages.Read(t, "docs/deploy/Containerfile"))
	for _, flags := range []string{" -trimpath -tags=" + tags(t) + " ", ` -ldflags "-s -w -X collab/app/assembly.built=`} {
		if !strings.Contains(m[1], flags) {
			t.Errorf("the container file does not build the server with%s, as the Makefile does", flags)
		}
	}
	if line := strings.Replace(m[1], "$VERSION", "1.0.0", 1) + " -o collabd " + m[2] + "\n"; !strings.Contains(pages.Read(t, "docs/deployment.md"), "\n"+line) {
		t.Errorf("docs/deployment.md does not build the server as the container file does: %s", line)
	}

	server := development(t)
	health := func() error {
		line := strings.Replace(check, "http://127.0.0.1:8080", server.url, 1)
		return exec.CommandContext(t.Context(), "bash", "-c", line+" --tries=1").Run()
	}
	if err := health(); err != nil {
		t.Errorf("%s: %v", check, err)
	}
	server.stop(t)
	if health() == nil {
		t.Errorf("%s finds a server healthy that is not there", check)
	}
}

// tags returns the build tags of the Makefile.
func tags(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^TAGS +:= (\S+)$`).FindStringSubmatch(pages.Read(t, "Makefile"))
	if m == nil {
		t.Fatal("the Makefile has no TAGS")
	}
	return m[1]
}

func TestTheUnitIsInstalledAsDescribed(t *testing.T) {
	const file = "docs/deploy/collabd.service"
	unit := map[string]string{}
	for line := range strings.Lines(pages.Read(t, file)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(name, "#") {
			unit[name] = value
		}
	}
	commands := ""
	for _, b := range blocks(t, "docs/deployment.md") {
		commands += b.text
	}
	for _, want := range []string{
		"install -m 0755 collabd " + unit["ExecStart"] + "\n",
		"install -m 0640 -o root -g " + unit["Group"] + " docs/deploy/collabd.env " + unit["EnvironmentFile"] + "\n",
		"useradd --system --home-dir /var/lib/" + unit["StateDirectory"] + " --shell /usr/sbin/nologin " + unit["User"] + "\n",
	} {
		if !strings.Contains(commands, want) {
			t.Errorf("docs/deployment.md does not say %q", want)
		}
	}
	if unit["TimeoutStopSec"] != "15" || unit["RestartPreventExitStatus"] != "2" {
		t.Error("a server ends within 10 seconds, and does not start with a configuration that makes no sense")
	}

	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	copied := filepath.Join(t.TempDir(), "collabd.service")
	text := strings.Replace(pages.Read(t, file), "ExecStart="+unit["ExecStart"], "ExecStart="+filepath.Join(binaries(t), "collabd"), 1)
	must.NoError(t, os.WriteFile(copied, []byte(text), 0o600))
	output, _ := exec.CommandContext(t.Context(), verify, "verify", copied).CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "collabd.service") {
			t.Error(line)
		}
	}
}
