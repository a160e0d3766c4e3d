package arch

import (
	"path"
	"slices"
	"strings"
)

const ruleImports = "who may import whom"

// pureLibraries are the libraries that domain may import: functions of their
// arguments and nothing else.
var pureLibraries = []string{
	"github.com/Masterminds/semver/v3",
	"golang.org/x/text/unicode/norm",
}

// impure are the parts of the standard library that reach the outside or carry
// requests, with everything below them; domain stays away from all of them.
var impure = []string{
	"context", "net", "os", "database", "log", "encoding/json", "syscall", "testing", "embed", "expvar",
	"html/template", "io/fs", "io/ioutil", "plugin", "runtime", "sync", "text/template", "unsafe",
}

// impureExcept are those that domain may import: fault has the stack of a panic in its error.
var impureExcept = []string{"runtime/debug"}

// outside are the parts of the standard library that app leaves to adapters.
// net/url is text, and log/slog is how upkeep and webhooks say what they did.
var outside = []string{"net", "os", "database", "log", "syscall", "testing", "embed", "expvar", "io/ioutil", "plugin", "runtime", "unsafe"}

var outsideExcept = []string{"net/url", "log/slog"}

// owners has the directory that a library belongs to. A library that is not listed
// must be added with its owner before it is imported. An owner is a directory
// and what is below it.
var owners = []struct {
	library string // a path and everything below it
	owners  []string
}{
	{"cloud.google.com/go", []string{"adapters/bucket", "test"}},
	{"code.dny.dev/ssrf", []string{"adapters/outbound"}},
	{"github.com/Azure/azure-sdk-for-go", []string{"adapters/bucket", "test"}},
	{"github.com/DataDog/datadog-agent/pkg/template", []string{"adapters/devidp", "adapters/devkit", "adapters/devpay", "adapters/httpapi"}},
	{"github.com/Shopify/toxiproxy", nil}, // tests only
	{"github.com/anishathalye/porcupine", []string{"test/storm"}},
	{"github.com/chromedp", []string{"test/bench", "test/chromium"}},
	{"github.com/coreos/go-oidc", []string{"adapters/oidc"}},
	{"github.com/evanw/esbuild", nil}, // tests only
	{"github.com/fsnotify/fsnotify", []string{"adapters/localdisk"}},
	{"github.com/fsouza/fake-gcs-server", []string{"test"}},
	{"github.com/getkin/kin-openapi", nil}, // tests only
	{"github.com/git-pkgs/gitignore", []string{"adapters/localdisk"}},
	{"github.com/go-jose/go-jose", []string{"adapters/devidp", "adapters/oidc"}},
	{"github.com/go-oauth2/oauth2", []string{"test"}},
	{"github.com/golang-jwt/jwt", []string{"adapters/servicetoken"}},
	{"github.com/google/go-cmp", []string{"test"}},
	{"github.com/google/uuid", []string{"adapters/system"}},
	{"github.com/gorilla/mux", []string{"adapters/httpapi"}},
	{"github.com/hashicorp/golang-lru", []string{"adapters/oidc", "adapters/httpapi"}},
	{"github.com/jackc/pgx", []string{"adapters/gormdb", "test"}},
	{"github.com/itchyny/gojq", []string{"cmd/collab"}},
	{"github.com/klauspost/compress", []string{"app/assembly"}},
	{"github.com/minio/minio-go", []string{"adapters/bucket"}},
	{"github.com/modelcontextprotocol/go-sdk", []string{"adapters/mcp", "test"}},
	{"github.com/pressly/goose", []string{"adapters/gormdb"}},
	{"github.com/prometheus", nil},           // tests only
	{"github.com/rogpeppe/go-internal", nil}, // tests only
	{"github.com/rs/cors", []string{"adapters/httpapi"}},
	{"github.com/rs/zerolog", nil}, // tests only
	{"github.com/spf13/cobra", []string{"cmd/collab"}},
	{"github.com/stripe/stripe-go", []string{"adapters/stripepay"}},
	{"github.com/stripe/stripe-mock", []string{"test"}},
	{"github.com/tink-crypto/tink-go", []string{"adapters/vault"}},
	{"github.com/wneessen/go-mail", []string{"adapters/mail"}},
	{"github.com/yuin/goldmark", []string{"cmd/collab"}},
	{"github.com/zalando/go-keyring", []string{"cmd/collab"}},
	{"github.com/nats-io/nats.go", []string{"adapters/natsbus", "test"}},
	{"github.com/nats-io/nats-server", []string{"test"}},
	{"google.golang.org/api", []string{"adapters/bucket"}},
	{"go.opentelemetry.io", []string{"adapters/analytics", "adapters/httpapi", "adapters/otlp", "adapters/prometheus", "app/assembly", "test/harness"}},
	{"google.golang.org/protobuf", []string{"adapters/otlp"}},
	{"go.uber.org/dig", []string{"app/assembly"}}, // for fx's errors
	{"go.uber.org/fx", []string{"app/assembly", "cmd/collabd"}},
	{"go.uber.org/goleak", nil}, // tests only
	{"go.yaml.in/yaml", []string{"adapters/httpapi", "docs"}},
	{"golang.org/x/net", []string{"adapters/httpapi", "adapters/mcp", "adapters/otlp"}},
	{"golang.org/x/oauth2", []string{"adapters/mcp", "adapters/oidc"}},
	{"golang.org/x/sync", []string{"adapters", "test/bench"}},
	{"golang.org/x/sys", []string{"adapters/bucket", "adapters/filelock", "adapters/gormdb", "adapters/localdisk", "adapters/syncfs", "app/assembly", "cmd/collab"}},
	{"golang.org/x/term", []string{"cmd/collab"}},
	{"golang.org/x/text", []string{"adapters", "cmd/collab", "domain"}},
	{"golang.org/x/time", []string{"adapters/httpapi", "adapters/oidc"}},
	{"gorm.io", []string{"adapters/gormdb"}},
	{"modernc.org/sqlite", []string{"adapters/gormdb", "adapters/mirrorstate", "test"}},
	{"modernc.org/libc", []string{"adapters/gormdb"}},
	{"pgregory.net/rapid", []string{"test"}},
}

// leaves are the packages under adapters that adapters may import, each for its
// reason. A leaf imports the standard library and the technology that it owns: no
// ports, no domain, no other package of ours.
var leaves = []struct{ dir, reason string }{
	{"adapters/accept", "the interface, the console and the metrics read what clients accept in one way"},
	{"adapters/apiclient", "the command line and its synchroniser speak to a server in one way"},
	{"adapters/atomicfile", "the development providers, the keys of a deployment, backups and the client's state of directories are files that must survive a crash"},
	{"adapters/devkit", "the development providers are pages, forms and errors of one kind under a prefix"},
	{"adapters/encode", "the interface and the development providers write the same error, the interface its strings and times, and the database its lists of texts"},
	{"adapters/eventstream", "two protocols of models are JSON in server-sent events, with the same client, bounds and errors; clients of the interface read its own"},
	{"adapters/filelock", "servers, backups and synchronisers lock files between processes, on each platform in one way"},
	{"adapters/fileowner", "the database, the files and the locks of a data directory are its owner's, also if root creates them"},
	{"adapters/inspect", "each adapter reports on the system that it is configured for in one form"},
	{"adapters/levenshtein", "configuration suggests the nearest name"},
	{"adapters/loopback", "configuration, catalog and development providers must agree on what is this machine"},
	{"adapters/outbound", "every call to the outside has a client with limits, and foreign addresses are guarded in one place"},
	{"adapters/retryqueue", "e-mail, analytics and events of the development payments are delivered in the background and retried in one way"},
	{"adapters/style", "the pages of the service, of the console and of the development providers look alike"},
	{"adapters/strictjson", "registry and catalog are files that people write, and refuse the same mistakes"},
	{"adapters/syncfs", "the server's files and a synchroniser's downloads become durable many at a time, on the same file systems"},
}

func isLeaf(dir string) bool {
	return slices.ContainsFunc(leaves, func(l struct{ dir, reason string }) bool { return within(dir, l.dir) })
}

// A row of the table. The first row whose directory holds the importing package
// counts. Importing itself, that is the package's own directory and those below
// it, is always allowed where own is set.
type row struct {
	who       string
	own       bool
	local     []string // directories of this module, with everything below them
	except    []string // of those, the directories that are not allowed
	anything  bool     // every directory of this module but test
	leaves    bool     // every leaf
	standard  func(importPath string) bool
	libraries func(importPath, dir string) bool
}

var table = []row{
	{who: "domain", own: true, local: []string{"domain"}, standard: isPure, libraries: isPureLibrary},
	{who: "ports", local: []string{"domain"}, standard: oneOf("context", "io", "time"), libraries: none},
	{who: "app/assembly", own: true, anything: true, standard: all, libraries: isOwned},
	{who: "app/webhooks", local: []string{"domain", "ports", "app"}, except: []string{"app/assembly", "app/upkeep"}, standard: isInside, libraries: none},
	{who: "app/upkeep", local: []string{"domain", "ports", "app"}, except: []string{"app/assembly", "app/webhooks"}, standard: isInside, libraries: none},
	{who: "app", own: true, local: []string{"domain", "ports", "app/cache"}, standard: isInside, libraries: none},
	{who: "adapters/httpapi", own: true, local: []string{"domain", "app", "adapters/accept", "adapters/encode", "adapters/style"}, except: []string{"app/assembly"}, standard: all, libraries: isOwned},
	{who: "adapters/console", own: true, local: []string{"domain", "app", "adapters/accept"}, except: []string{"app/assembly"}, standard: all, libraries: none},
	{who: "adapters", own: true, local: []string{"domain", "ports"}, leaves: true, standard: all, libraries: isOwned},
	{who: "cmd/harness", own: true, local: []string{"test/harness"}, standard: all, libraries: none},
	{who: "cmd", own: true, anything: true, standard: all, libraries: isOwned},
	{who: "docs", standard: all, libraries: isOwned}, // the document that the server serves
	{who: "test/contract", own: true, local: []string{"domain", "ports", "test/must"}, standard: all, libraries: isOwned},
	{who: "test", own: true, local: []string{"domain", "ports", "app", "adapters", "test"}, standard: all, libraries: isOwned},
}

// tests has the imports that test files may have beside their package's and
// test/must: the other half of the conversation, and libraries for testing.
//
//   - domain is tested with domain alone, ports have no tests;
//   - app is tested over the adapters that need nothing outside (memory,
//     system) and what stands under test;
//   - an adapter is tested by the suites under test, and against adapters, so
//     that both ends of a protocol meet; app stays out of it except in httpapi,
//     which is tested over the whole;
//   - docs print the tables of domain, and are read as test/pages does;
//   - cmd and test are free.
var tests = []row{
	{who: "domain"},
	{who: "ports"},
	{who: "app/assembly", local: []string{"test"}},
	{who: "app", local: []string{"app", "adapters/memory", "adapters/system", "test"}, except: []string{"app/assembly"}},
	{who: "adapters/httpapi", anything: true, local: []string{"test"}},
	{who: "adapters/console", local: []string{"adapters", "app", "docs", "test"}, except: []string{"app/assembly"}},
	{who: "adapters", local: []string{"adapters", "test"}, except: []string{"adapters/httpapi"}},
	{who: "cmd", anything: true, local: []string{"test"}},
	{who: "docs", local: []string{"domain", "test/pages"}},
	{who: "test", anything: true, local: []string{"test"}},
}

func all(string) bool          { return true }
func none(string, string) bool { return false }
func oneOf(paths ...string) func(string) bool {
	return func(p string) bool { return slices.Contains(paths, p) }
}

func isPure(p string) bool {
	return slices.Contains(impureExcept, p) || !anyWithin(p, impure) && !slices.Contains(randoms, p)
}
func isInside(p string) bool { return slices.Contains(outsideExcept, p) || !anyWithin(p, outside) }

func isPureLibrary(p, _ string) bool { return slices.Contains(pureLibraries, p) }

func isOwned(p, dir string) bool {
	for _, o := range owners {
		if within(p, o.library) {
			return anyWithin(dir, o.owners)
		}
	}
	return false
}

func anyWithin(p string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return within(p, root) })
}

// leaf is the row of each leaf.
var leaf = row{own: true, standard: all, libraries: isOwned}

func rowFor(rows []row, dir string) (row, bool) {
	for _, r := range rows {
		if within(dir, r.who) {
			return r, true
		}
	}
	return row{}, false
}

func (r row) allows(dir string) bool {
	switch {
	case anyWithin(dir, r.except):
		return false
	case anyWithin(dir, r.local):
		return true
	}
	return r.anything && !within(dir, "test")
}

func checkImports(t *tree) []finding {
	var found []finding
	report := t.reporter(ruleImports, &found)
	for _, f := range t.files {
		r, ok := rowFor(table, f.dir)
		if isLeaf(f.dir) {
			r = leaf
		}
		if !ok {
			report(f.ast.Name.Pos(), "%s is in no row of the table", f.dir)
			continue
		}
		more, _ := rowFor(tests, f.dir)
		for _, i := range f.imports() {
			dir, isLocal := t.isLocal(i.path)
			var allowed bool
			switch {
			case isLocal:
				own := r.own && sameOwn(dir, f.dir)
				if f.test {
					own = own || dir == f.dir || dir == "test/must" // package x_test imports x
				}
				allowed = own || r.allows(dir) || r.leaves && isLeaf(dir) || f.test && more.allows(dir)
			case isStandard(i.path):
				allowed = r.standard(i.path) || f.test
			default:
				allowed = r.libraries(i.path, f.dir) || f.test && isNamed(i.path)
			}
			if !allowed {
				report(i.spec.Pos(), "%s imports %s", f.dir, i.path)
			}
		}
	}
	return found
}

// sameOwn reports whether both directories are parts of one package's own tree:
// adapters/x with all below it, app/x likewise.
func sameOwn(a, b string) bool {
	own := func(dir string) string {
		parts := strings.SplitN(dir, "/", 3)
		return path.Join(parts[:min(2, len(parts))]...)
	}
	return own(a) == own(b)
}

// isNamed reports whether the library is in the list of owners at all. Tests
// may use any of them, to look at an adapter from the other side.
func isNamed(p string) bool {
	return isPureLibrary(p, "") || slices.ContainsFunc(owners, func(o struct {
		library string
		owners  []string
	}) bool {
		return within(p, o.library)
	})
}

// forbidden finds the imports that break a rule.
func (t *tree) forbidden(rule string, breaks func(f *file, i imported) bool) []finding {
	var found []finding
	report := t.reporter(rule, &found)
	for _, f := range t.files {
		for _, i := range f.imports() {
			if breaks(f, i) {
				report(i.spec.Pos(), "%s imports %s", f.dir, i.path)
			}
		}
	}
	return found
}

const ruleFx = "fx is imported by app/assembly itself and cmd/collabd alone"

func checkFx(t *tree) []finding {
	return t.forbidden(ruleFx, func(f *file, i imported) bool {
		return (within(i.path, "go.uber.org/fx") || within(i.path, "go.uber.org/dig")) && f.dir != "app/assembly" && !f.under("cmd/collabd")
	})
}

const ruleTemplates = "templates of the server call no methods"

// checkTemplates finds the template engines of the standard library: they look methods
// up by name, and the linker then keeps the methods of every type.
func checkTemplates(t *tree) []finding {
	return t.forbidden(ruleTemplates, func(f *file, i imported) bool {
		return (i.path == "html/template" || i.path == "text/template") && !f.test && !f.under("test")
	})
}

// roots are packages that import those beneath them and never the other way round.
var roots = []string{"app/assembly", "adapters/httpapi"}

const ruleDownward = "packages beneath app/assembly and adapters/httpapi do not import those"

func checkDownward(t *tree) []finding {
	return t.forbidden(ruleDownward, func(f *file, i imported) bool {
		dir, isLocal := t.isLocal(i.path)
		return isLocal && dir != f.dir && within(f.dir, dir) && slices.Contains(roots, dir)
	})
}
