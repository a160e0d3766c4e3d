package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// manualCommand writes manual pages and shell completions for packages.
func (a *app) manualCommand() *cobra.Command {
	c := command("manual DIR", "Write manual pages and completions below a directory", 1, 1, func(c *cobra.Command, args []string) error {
		root := c.Root()
		pages, completions := filepath.Join(args[0], "man", "man1"), filepath.Join(args[0], "completions")
		for _, directory := range []string{pages, completions} {
			if err := os.MkdirAll(directory, 0o755); err != nil {
				return err
			}
		}
		for name, write := range map[string]func(string) error{
			"collab.bash": func(file string) error { return root.GenBashCompletionFileV2(file, true) },
			"_collab":     root.GenZshCompletionFile,
			"collab.fish": func(file string) error { return root.GenFishCompletionFile(file, true) },
			"collab.ps1":  root.GenPowerShellCompletionFileWithDesc,
		} {
			if err := write(filepath.Join(completions, name)); err != nil {
				return err
			}
		}
		return writeManual(pages, root)
	})
	c.Hidden = true
	return c
}

// writeManual writes the page of a command and those of its commands.
func writeManual(directory string, c *cobra.Command) error {
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	for _, sub := range c.Commands() {
		if err := writeManual(directory, sub); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(directory, manualPageName(c)+".1"), []byte(manualPage(c)), 0o644)
}

func manualPageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manualPage returns a command's page in the language of man(7).
func manualPage(c *cobra.Command) string {
	var b strings.Builder
	section := func(name, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", name, roff(text))
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"collab %s\" \"Collab\"\n", roff(strings.ToUpper(manualPageName(c))), roff(version))
	section("NAME", manualPageName(c)+" - "+c.Short)
	if c.Runnable() {
		section("SYNOPSIS", c.UseLine())
	}
	section("DESCRIPTION", c.Long)
	var commands strings.Builder
	also := []string{}
	if c.HasParent() {
		also = append(also, manualPageName(c.Parent())+"(1)")
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			fmt.Fprintf(&commands, "%-14s  %s\n", sub.Name(), sub.Short)
			also = append(also, manualPageName(sub)+"(1)")
		}
	}
	section("COMMANDS", commands.String())
	section("OPTIONS", c.LocalFlags().FlagUsages())
	section("EXAMPLES", c.Example)
	if !c.HasParent() {
		section("ENVIRONMENT", environment)
		section("EXIT STATUS", exitCodes)
	}
	section("SEE ALSO", strings.Join(also, "\n"))
	return b.String()
}

// roff returns text that roff prints as it is.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
