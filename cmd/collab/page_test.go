package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"collab/test/must"
	"collab/test/pages"
)

var update = flag.Bool("update", false, "write docs/cli.md")

func TestThePageOfCommandsIsTrue(t *testing.T) {
	var b strings.Builder
	root := (&app{}).rootCommand()
	fmt.Fprintf(&b, "# The command line\n\nPrinted from the commands of `cmd/collab` by their test, without `collab completion SHELL`. Every command has:\n\n```\n%s```\n", root.PersistentFlags().FlagUsages())
	describe(&b, root)
	if *update {
		must.NoError(t, os.WriteFile(pages.Root(t)+"/docs/cli.md", []byte(b.String()), 0o644))
	}
	if pages.Read(t, "docs/cli.md") != b.String() {
		t.Error("docs/cli.md is not that of the commands: run go test ./cmd/collab -update")
	}
}

func TestEveryOperationOfTheClientIsUsed(t *testing.T) {
	var users strings.Builder
	for _, pattern := range []string{"cmd/collab/*.go", "adapters/remote/remote.go", "adapters/apiclient/client.go", "adapters/apiclient/upload.go"} {
		files, err := fs.Glob(os.DirFS(pages.Root(t)), pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			users.WriteString(pages.Read(t, file))
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^func \(c \*Client\) (\w+)\(`).FindAllStringSubmatch(pages.Read(t, "adapters/apiclient/api.go"), -1) {
		if !regexp.MustCompile(`[.)]` + m[1] + `\b`).MatchString(users.String()) {
			t.Errorf("nothing uses %s", m[1])
		}
	}
}

// describe writes a section for each command below c.
func describe(b *strings.Builder, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		if !sub.HasSubCommands() || sub.Use != sub.Name() {
			fmt.Fprintf(b, "\n## %s\n\n%s.\n", strings.TrimSuffix(sub.UseLine(), " [flags]"), sub.Short)
			var block []string
			for _, part := range []string{sub.Example, sub.LocalNonPersistentFlags().FlagUsages()} {
				if part = strings.Trim(part, "\n"); part != "" {
					block = append(block, part)
				}
			}
			if sub.Long != "" && !sub.Runnable() {
				block = append(block, sub.Long)
			} else if sub.Long != "" {
				fmt.Fprintf(b, "%s\n", sub.Long)
			}
			if len(block) > 0 {
				fmt.Fprintf(b, "\n```\n%s\n```\n", strings.Join(block, "\n\n"))
			}
		}
		describe(b, sub)
	}
}
