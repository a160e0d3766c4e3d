package tour

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"collab/app/assembly/config"
	"collab/test/must"
	"collab/test/nats"
	"collab/test/pages"
	"collab/test/postgres"
)

// page is the document that the tests read.
const page = "docs/operations.md"

// section returns the text under a heading of docs/operations.md, such as "### request", up to
// the next heading of its level or a higher one.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(pages.Read(t, page), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", page, heading)
	}
	level := strings.Index(heading, " ")
	if end := regexp.MustCompile(fmt.Sprintf(`(?m)^#{2,%d} `, level)).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

var quoted = regexp.MustCompile("`([^`]+)`")

// names returns the texts between backquotes.
func names(text string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// rows returns the cells of the tables in a text without their headers.
func rows(text string) (all [][]string) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "|---"):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	return all
}

// family is a metric of a server.
type family struct {
	kind   string
	labels map[string]bool
}

// scrape reads the metrics of a server except those of every Go program.
func scrape(t *testing.T, url string) map[string]family {
	t.Helper()
	all := map[string]family{}
	sample := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`(\w+)="`)
	for line := range strings.Lines(call(t, "GET", url+"/metrics", "").body) {
		if fields := strings.Fields(line); fields[0] == "#" {
			if fields[1] == "TYPE" {
				all[fields[2]] = family{fields[3], map[string]bool{}}
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		f, known := all[m[1]]
		if !known {
			f = all[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")]
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			f.labels[l[1]] = true
		}
	}
	maps.DeleteFunc(all, func(name string, _ family) bool {
		return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
	})
	return all
}

// observed runs a server with every metric and kind of log line, and returns both.
func observed(t *testing.T) (map[string]family, string) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // PostHog and a collector
	}))
	t.Cleanup(elsewhere.Close)
	database := postgres.URL(t)
	s := development(t, "COLLAB_DATABASE_URL="+database, "COLLAB_DATABASE_REPLICA_URLS="+database,
		"COLLAB_BUS_URL="+nats.Start(t).URL, "COLLAB_POSTHOG_KEY=phc_tour", "COLLAB_POSTHOG_URL="+elsewhere.URL,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+elsewhere.URL, "COLLAB_HEARTBEAT=100ms") // detects disconnected clients
	token := signIn(t, s.url, s.url)
	api := s.url + "/api/v1"
	call(t, "POST", api+"/billing/trial", "", bearer(token)...)
	talk := call(t, "POST", api+"/chat", `{"message": "Good morning", "maxTokens": 5}`, append(bearer(token), "X-Request-Id", "tour-request-1")...)
	if !strings.Contains(talk.body, `"type":"done"`) {
		t.Fatalf("the chat ends with %s", talk.body)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := must.Do(http.NewRequestWithContext(ctx, "GET", api+"/sync/changes", nil)).Or(t)
	r.Header.Set("Authorization", "Bearer "+token)
	stream := must.Do(http.DefaultClient.Do(r)).Or(t)
	defer stream.Body.Close()
	must.Do(bufio.NewReader(stream.Body).ReadString('\n')).Or(t)
	leave()
	must.Wait(t, "the end of the stream is logged", func() bool { return strings.Contains(s.log.String(), `"msg":"stream ended"`) })
	metrics := scrape(t, s.url)
	s.stop(t)
	return metrics, s.log.String()
}

func TestThePageOnOperationsHasMetricsAlertsAndFields(t *testing.T) {
	metrics, log := observed(t)

	t.Run("metrics", func(t *testing.T) {
		text := section(t, "## Metrics")
		documented := map[string]string{}
		for _, cells := range rows(text) {
			name := names(cells[0])[0]
			documented[name] = strings.Fields(cells[1])[0]
			f, shown := metrics[name]
			if !shown {
				t.Errorf("the server has no metric %s", name)
				continue
			}
			if kind := strings.TrimSuffix(documented[name], ","); kind != f.kind {
				t.Errorf("%s is a %s and not a %s", name, f.kind, kind)
			}
			for label := range f.labels {
				if label != "le" && !strings.Contains(text, "`"+label+"`") {
					t.Errorf("%s has the label %s, which the page does not have", name, label)
				}
			}
		}
		for name := range metrics {
			if documented[name] == "" {
				t.Errorf("the page does not have %s", name)
			}
		}
	})

	t.Run("alerts", func(t *testing.T) {
		var rules struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr, For string
					Labels           map[string]string
					Annotations      map[string]string
				}
			}
		}
		must.NoError(t, yaml.Unmarshal([]byte(pages.Read(t, "docs/deploy/alerts.yaml")), &rules))
		text := pages.Read(t, page)
		known := map[string]bool{}
		selector := regexp.MustCompile(`(\w+)\{([^}]*)\}`)
		for _, r := range rules.Groups[0].Rules {
			known[r.Alert] = true
			if r.Annotations["summary"] == "" || r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" {
				t.Errorf("%s has no summary, or no severity", r.Alert)
			}
			if !strings.Contains(text, "`"+r.Alert+"`") {
				t.Errorf("the page does not have %s", r.Alert)
			}
			asked := selector.FindAllStringSubmatch(r.Expr, -1)
			if len(asked) == 0 {
				t.Errorf("%s queries no metric", r.Alert)
			}
			for _, m := range asked {
				name := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")
				f, shown := metrics[name]
				if !shown && name != "up" && !strings.HasPrefix(name, "process_") {
					t.Errorf("%s queries %s, which the server does not have", r.Alert, m[1])
				}
				for _, l := range regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`).FindAllStringSubmatch(m[2], -1) {
					// A label of failures is there only when there was one.
					if l[1] != "job" && l[1] != "error_type" && !f.labels[l[1]] {
						t.Errorf("%s queries the label %s, which %s does not have", r.Alert, l[1], name)
					}
				}
			}
		}
		for _, name := range names(text) {
			if regexp.MustCompile(`^Collab[A-Z]\w+$`).MatchString(name) && !known[name] {
				t.Errorf("the alert %s does not exist", name)
			}
		}
	})

	t.Run("fields of the log", func(t *testing.T) {
		fields := map[string]map[string]bool{}
		for line := range strings.Lines(log) {
			var entry map[string]any
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			message, _ := entry["msg"].(string)
			if fields[message] == nil {
				fields[message] = map[string]bool{}
			}
			for name := range entry {
				if name != "time" && name != "level" && name != "msg" {
					fields[message][name] = true
				}
			}
		}
		for _, message := range []string{"request", "generation"} {
			documented := map[string]bool{}
			for _, cells := range rows(section(t, "### "+message)) {
				for _, name := range names(cells[0]) {
					documented[name] = true
				}
			}
			if !maps.Equal(documented, fields[message]) {
				t.Errorf("%s: the page has %v, the log %v", message, slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(fields[message])))
			}
		}
	})

	t.Run("commands", func(t *testing.T) {
		dir := t.TempDir()
		must.NoError(t, os.WriteFile(filepath.Join(dir, "collabd.log"), []byte(log), 0o600))
		s := &machine{
			dir: dir, path: binaries(t) + ":" + os.Getenv("PATH"),
			environ: []string{"COLLAB_DATA_DIR=" + filepath.Join(dir, "data")},
			instead: strings.NewReplacer("collabd.log", filepath.Join(dir, "collabd.log")),
		}
		if out, err := s.shell(t, "collabd migrate"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, b := range blocks(t, page) {
			if b.notRun == "" && (b.language == "sh" || b.language == "console") {
				s.run(t, b)
			}
		}
	})
}

// line is a message of the log in the source.
type line struct {
	message string
	fields  []string
}

// lines returns the log lines in the server's source by message: calls such as
// log.Error("message", "field", value), LogAttrs with slog's attributes, and the helpers
// of app/assembly that log an error with their last argument as the message. Messages
// that are not constants are left out.
func lines(t *testing.T) map[string]line {
	t.Helper()
	all := map[string]line{}
	first := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "LogAttrs": 2}
	text := func(e ast.Expr) (string, bool) {
		l, ok := e.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(l.Value)
		return s, err == nil
	}
	for _, top := range []string{"adapters", "app"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && (d.Name() == "devidp" || d.Name() == "devpay") {
				return errOr(err, fs.SkipDir)
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if helper, ok := c.Fun.(*ast.Ident); ok && slices.Contains([]string{"drainHook", "repeat", "schedule"}, helper.Name) {
					if message, ok := text(c.Args[len(c.Args)-1]); ok {
						all[message] = line{message, []string{"error"}}
					}
					return true
				}
				of, ok := c.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				at, ok := first[of.Sel.Name]
				if !ok || len(c.Args) <= at {
					return true
				}
				if of, ok := c.Args[0].(*ast.Ident); ok && of.Name == "ctx" && at == 0 && len(c.Args) > 1 {
					at = 1 // GORM's logger
				}
				message, ok := text(c.Args[at])
				if !ok {
					return true
				}
				l := line{message: message}
				for i := at + 1; i < len(c.Args); i++ {
					if name, ok := text(c.Args[i]); ok {
						l.fields = append(l.fields, name)
						i++ // its value
					} else if attribute, ok := c.Args[i].(*ast.CallExpr); ok && len(attribute.Args) > 0 {
						if name, ok := text(attribute.Args[0]); ok {
							l.fields = append(l.fields, name)
						}
					}
				}
				if had, ok := all[message]; ok && len(had.fields) > len(l.fields) {
					return true
				}
				all[message] = l
				return true
			})
			return nil
		})
		must.NoError(t, err)
	}
	return all
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func TestThePageOnOperationsHasEveryLineOfTheLog(t *testing.T) {
	source := lines(t)
	// Put together, or described in tables of their own.
	documented := map[string]bool{"generation": true, "release read failed": true, "update check counts not stored": true}
	for _, cells := range rows(section(t, "### Other lines")) {
		message, fields := names(cells[1])[0], names(cells[2])
		written, ok := source[message]
		if !ok && !documented[message] {
			t.Errorf("the source has no message %q", message)
			continue
		}
		if ok && !documented[message] && !slices.Equal(written.fields, fields) {
			t.Errorf("%q has the fields %v, and on the page %v", message, written.fields, fields)
		}
		documented[message] = true
	}
	for message := range source {
		if !documented[message] {
			t.Errorf("the page does not have %q", message)
		}
	}
}

func TestVariablesOfDocumentsExist(t *testing.T) {
	var help bytes.Buffer
	config.Help(&help)
	variable := regexp.MustCompile(`\b(?:COLLAB|OTEL)_[A-Z0-9_]*[A-Z0-9]\b`)
	known := map[string]bool{
		// Not the server's own.
		"COLLAB_SKIP_NODE": true, "COLLAB_SKIP_S3": true, "COLLAB_SEED": true, "COLLAB_SERVER": true, "COLLAB_TOKEN": true, "COLLAB_ORG": true, "COLLAB_CONFIG_DIR": true, "COLLAB_DEVICE": true, "COLLAB_NO_UPDATE_CHECK": true, "COLLAB_TEST_POSTGRES_URL": true, "OTEL_EXPORTER_OTLP_HEADERS": true,
	}
	deployment := pages.Read(t, "docs/deployment.md")
	for line := range strings.Lines(help.String()) {
		name := strings.Fields(line)[0]
		known[name] = true
		if !strings.Contains(deployment, "`"+name+"`") && !strings.Contains(deployment, "`"+name+"=") {
			t.Errorf("docs/deployment.md does not have %s", name)
		}
	}
	files := append(pages.Markdown(t), "docs/deploy/Containerfile", "docs/deploy/compose.yaml", "docs/deploy/collabd.env", "docs/deploy/collabd.service")
	for _, file := range files {
		for _, name := range variable.FindAllString(pages.Read(t, file), -1) {
			if !known[name] {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}
