package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"collab/test/must"
	"collab/test/pages"
)

// root is the root of the project; files are given by their paths from it.
const root = ".."

func TestPagesHaveNoConflictMarkers(t *testing.T) {
	for _, file := range append(pages.Markdown(t), "docs/openapi.yaml") {
		if strings.Contains(pages.Read(t, file), "\n<<<<<<< ") {
			t.Errorf("%s has an unresolved conflict", file)
		}
	}
}

func TestTargetsOfMakeExist(t *testing.T) {
	makefile := pages.Read(t, "Makefile")
	for _, file := range pages.Markdown(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`make ([a-z-]+)`|^make ([a-z-]+) +#)").FindAllStringSubmatch(pages.Read(t, file), -1) {
			if target := m[1] + m[2]; !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s has make %s, which does not exist", file, target)
			}
		}
	}
}

func TestLinksHaveTargets(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, file := range pages.Markdown(t) {
		for _, m := range link.FindAllStringSubmatch(pages.Read(t, file), -1) {
			target, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
				continue
			}
			if section != "" && !slices.Contains(sections(pages.Read(t, path)), section) {
				t.Errorf("%s links to %s, a section that does not exist", file, m[1])
			}
		}
	}
}

// sections returns the anchors of a document's headings.
func sections(text string) (names []string) {
	other := regexp.MustCompile(`[^\w\- ]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(other.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

func TestDecisionsHaveUniqueIds(t *testing.T) {
	begins := regexp.MustCompile(`(?m)^\*\*(\S+)`)
	id := regexp.MustCompile(`^[A-Z]+-[1-9][0-9]*$`)
	seen := map[string]string{}
	for _, file := range pages.Markdown(t) {
		if !strings.HasPrefix(file, "docs/decisions/") {
			continue
		}
		for _, m := range begins.FindAllStringSubmatch(pages.Read(t, file), -1) {
			if !id.MatchString(m[1]) || seen[m[1]] != "" {
				t.Errorf("%s: the decision %q has no id, or that of one in %s", file, m[1], seen[m[1]])
			}
			seen[m[1]] = file
		}
	}
}

func TestTheAlertOnSlowRequestsLeavesOutTransfers(t *testing.T) {
	m := regexp.MustCompile(`alert: CollabSlow\n.*\n.*http_route!~"([^"]+)"`).FindStringSubmatch(pages.Read(t, "docs/deploy/alerts.yaml"))
	if m == nil {
		t.Fatal("the alert leaves out no routes")
	}
	leftOut, routes := regexp.MustCompile("^(?:"+m[1]+")$"), pages.Read(t, "docs/routes.md")
	for route, want := range map[string]bool{
		"/api/v1/chat": true, "/api/v1/sync/changes": true, "/api/v1/sync/files/{id}/versions/{version}": true, "/api/v1/sync/batch": true, "/api/v1/sync/batch/read": true,
		"/api/v1/sync/resumable-uploads/{id}": true, "/api/v1/sync/memory/{scope}": true, "/api/v1/org/exports/{id}/archive": true, "/api/v1/admin/doctor": true,
		"/api/v1/org/exports/{id}": false, "/api/v1/tasks/{id}": false, "/api/v1/auth/me": false,
	} {
		if got := leftOut.MatchString(route); got != want || !strings.Contains(routes, "`"+route+"`") {
			t.Errorf("%s is left out: %v, or is no route", route, got)
		}
	}
}

// TestNginxRedirectsNoRoute checks the locations with a slash at the end: nginx redirects the path without it.
func TestNginxRedirectsNoRoute(t *testing.T) {
	routes := pages.Read(t, "docs/routes.md")
	for _, m := range regexp.MustCompile(`(?m)^ +location (/\S+)/ \{$`).FindAllStringSubmatch(pages.Read(t, "docs/deployment.md"), -1) {
		if strings.Contains(routes, "`"+m[1]+"`") {
			t.Errorf("nginx redirects %s, which is a route, to %[1]s/", m[1])
		}
	}
}

func TestReleasesAreInThePageOnUpgrades(t *testing.T) {
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+\.\d+\.\d+ \| \d+) \| \d+\.\d+\.\d+ \|$`).FindAllStringSubmatch(pages.Read(t, "docs/operations.md"), -1) {
		rows = append(rows, m[1])
	}
	var releases []string
	for _, m := range regexp.MustCompile(`(?m)^## (\S+) \(schema (\d+)`).FindAllStringSubmatch(pages.Read(t, "CHANGELOG.md"), -1) {
		releases = append(releases, m[1]+" | "+m[2])
	}
	if !slices.Equal(rows, releases) {
		t.Errorf("docs/operations.md has the releases and schemas %q, CHANGELOG.md %q", rows, releases)
	}
}

func TestFilesAndTestsOfThePageOnSecurityExist(t *testing.T) {
	all := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	must.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		for _, m := range declared.FindAllSubmatch(text, -1) {
			all[filepath.Dir(path)+" "+string(m[1])] = true
		}
		return err
	}))
	directory, named := "", 0
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(pages.Read(t, "docs/security.md"), -1) {
		switch name := m[1]; {
		case strings.HasPrefix(name, "test/script/testdata/"):
			pages.Read(t, name)
			named++
		case regexp.MustCompile(`^(adapters|app|cmd|domain|test)/[\w/]+$`).MatchString(name):
			directory = name
			if _, err := os.Stat(filepath.Join(root, directory)); err != nil {
				t.Errorf("%s does not exist", name)
			}
		case regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w+$`).MatchString(name):
			named++
			if !all[directory+" "+name] {
				t.Errorf("%s has no %s", directory, name)
			}
		}
	}
	if named < 40 {
		t.Errorf("the page names %d tests, want at least 40", named)
	}
}

func TestFilesOfTheWalksExist(t *testing.T) {
	_, text, _ := strings.Cut(pages.Read(t, "docs/architecture.md"), "\n## Three walks\n")
	text, _, _ = strings.Cut(text, "\n## ")
	directory, named := "", 0
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		name := m[1]
		if regexp.MustCompile(`^(adapters|app|domain|ports|test)/[\w/]+$`).MatchString(name) {
			directory = name
		}
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		named++
		path := name
		if strings.Contains(name, "/") {
			directory = filepath.Dir(name)
		} else {
			path = filepath.Join(directory, name)
		}
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Errorf("%s does not exist", path)
		}
	}
	if named < 12 {
		t.Errorf("the walks name %d files, want at least 12", named)
	}
}
