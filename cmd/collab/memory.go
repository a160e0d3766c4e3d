package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
)

// memoryRef is a memory: the caller's (user), the organisation's (org), or a file of a workspace.
type memoryRef struct {
	client                 *apiclient.Client
	scope, workspace, file string
}

func (m memoryRef) get(ctx context.Context) (*apiclient.StoredFile, error) {
	if m.workspace != "" {
		return m.client.GetWorkspaceMemory(ctx, m.workspace, m.file)
	}
	return m.client.GetMemory(ctx, m.scope)
}

func (m memoryRef) put(ctx context.Context, draft apiclient.MemoryDraft) (apiclient.StoredObject, error) {
	if m.workspace != "" {
		return m.client.PutWorkspaceMemory(ctx, m.workspace, m.file, apiclient.PutWorkspaceMemoryParams{}, draft)
	}
	return m.client.PutMemory(ctx, m.scope, apiclient.PutMemoryParams{}, draft)
}

func (a *app) memoryCommand() *cobra.Command {
	var workspace, file string
	find := func(c *cobra.Command, args []string) (m memoryRef, err error) {
		m = memoryRef{scope: "user", file: file}
		if m.client, err = a.newClient(); err != nil {
			return m, err
		}
		if len(args) > 0 {
			m.scope = args[0]
		}
		if m.scope != "user" && m.scope != "org" {
			return m, usage("%q is neither user nor org", m.scope)
		}
		m.workspace, err = workspaceID(c.Context(), m.client, workspace)
		return m, err
	}
	show := command("show [user|org]", "Print a memory", 0, 1, func(c *cobra.Command, args []string) error {
		m, err := find(c, args)
		if err != nil {
			return err
		}
		stored, err := m.get(c.Context())
		if err != nil || stored == nil {
			return err
		}
		if a.wantsJSON() {
			return a.printJSON(*stored)
		}
		return a.printMarkdown(stored.Content)
	})
	edit := command("edit [user|org]", "Change a memory in an editor", 0, 1, func(c *cobra.Command, args []string) error {
		m, err := find(c, args)
		if err != nil {
			return err
		}
		return a.editMemory(c.Context(), m)
	})
	edit.Long = "edit opens a memory in $VISUAL or $EDITOR and stores the result. If that fails, as when\nsomebody else has changed it meanwhile, the text is kept in a file."
	memory := group("memory", "Work with the memories that chats share")
	for _, c := range []*cobra.Command{show, edit} {
		c.Flags().StringVar(&workspace, "workspace", "", "a memory of the workspace with this id or `name`")
		c.Flags().StringVar(&file, "file", "memory.md", "the `name` of the workspace's memory")
		memory.AddCommand(c)
	}
	return memory
}

func (a *app) editMemory(ctx context.Context, m memoryRef) (err error) {
	editor := strings.Fields(cmp.Or(a.env("VISUAL"), a.env("EDITOR")))
	if len(editor) == 0 {
		if !a.interactive(a.inTerminal, a.outTerminal) {
			return usage("there is nobody to edit: set EDITOR to a program that changes the file")
		}
		editor = []string{"vi"}
	}
	stored, err := m.get(ctx)
	if err != nil {
		return err
	}
	content, version := "", int64(0)
	if stored != nil {
		content, version = stored.Content, stored.Version
	}
	file, err := os.CreateTemp("", "collab-*.md")
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err = cmp.Or(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	defer func() {
		if edited, readErr := os.ReadFile(file.Name()); err != nil && readErr == nil && string(edited) != content {
			a.printWarning("your text is in %s", file.Name())
		} else {
			_ = os.Remove(file.Name())
		}
	}()
	command := exec.Command(editor[0], append(editor[1:], file.Name())...) // which nothing ends but itself
	command.Stdin, command.Stdout, command.Stderr = a.in, a.out, a.err
	a.inEditor.Store(true)
	stopNotice := context.AfterFunc(ctx, func() { a.printWarning("collab waits for %s; your text is in %s", editor[0], file.Name()) })
	err = command.Run()
	stopNotice()
	a.inEditor.Store(false)
	if err != nil {
		return fmt.Errorf("%s: %w", editor[0], err)
	}
	edited, err := os.ReadFile(file.Name())
	if err != nil {
		return err
	}
	if string(edited) == content {
		a.printErrf("nothing was changed")
		return nil
	}
	o, err := m.put(ctx, apiclient.MemoryDraft{Content: string(edited), ExpectedVersion: &version})
	if err != nil {
		return err
	}
	a.printSuccess("stored version %d of %s", o.Version, o.Path)
	return nil
}
