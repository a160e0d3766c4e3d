package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/text/unicode/norm"

	"collab/adapters/apiclient"
	"collab/adapters/atomicfile"
)

// place is the place of files that flags name.
type place struct {
	personal  bool
	workspace string
}

// addFlags adds the flags to a command.
func (p *place) addFlags(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&p.personal, "personal", false, "one's own files")
	c.Flags().StringVar(&p.workspace, "workspace", "", "files of the workspace with this id or `name`")
	return c
}

// folder is a place of an organisation.
type folder struct {
	client           *apiclient.Client
	me               apiclient.Me // with an organisation
	scope, workspace string
	prefix           string // of the storage keys
	deleted          bool   // those that can be restored in place of those that are there
}

// folderOf asks the server for the place.
func folderOf(ctx context.Context, client *apiclient.Client, p place) (*folder, error) {
	if p.personal && p.workspace != "" {
		return nil, usage("--personal and --workspace exclude each other")
	}
	me, err := client.GetMe(ctx)
	if err != nil {
		return nil, err
	}
	if me.Org == nil {
		return nil, exitError{exitSignIn, errors.New("the token is for no organisation")}
	}
	f := &folder{client: client, me: me, scope: "SHARED", prefix: me.Org.ID + "/shared/artifacts/"}
	switch {
	case p.personal:
		f.scope, f.prefix = "PERSONAL", me.Org.ID+"/personal/"+me.User.ID+"/"
	case p.workspace != "":
		w, err := workspaceOf(ctx, client, p.workspace)
		if err != nil {
			return nil, err
		}
		f.workspace, f.prefix = w.ID, me.Org.ID+"/workspaces/"+w.ID+"/artifacts/"
	}
	return f, nil
}

// list returns the files whose paths begin with prefix.
func (f *folder) list(ctx context.Context, prefix string) (*apiclient.List[apiclient.StoredObject], error) {
	params := apiclient.ListFilesParams{Kind: "ARTIFACT", Scope: f.scope, Prefix: f.prefix + prefix}
	if f.deleted {
		params.Deleted = "true"
	}
	return f.client.ListFiles(ctx, params)
}

// find returns the file at a path, of several that are deleted the one that was deleted last.
func (f *folder) find(ctx context.Context, name string) (apiclient.StoredObject, error) {
	name = norm.NFC.String(name) // as the server has it; terminals of macOS complete names in another form
	list, err := f.list(ctx, name)
	if err != nil {
		return apiclient.StoredObject{}, err
	}
	var found apiclient.StoredObject
	for o, err := range list.All() {
		if err != nil || o.Path == name && !f.deleted {
			return o, err
		}
		if o.Path == name && (found.ID == "" || valueOr(o.DeletedAt, time.Time{}).After(valueOr(found.DeletedAt, time.Time{}))) {
			found = o
		}
	}
	if found.ID == "" {
		return found, fmt.Errorf("%w %s", errNoFile, name)
	}
	return found, nil
}

func fileColumns(o apiclient.StoredObject) []column {
	return []column{
		{"path", o.Path}, {"size", formatSize(o.Size)}, {"version", strconv.FormatInt(o.Version, 10)}, {"updated", formatTime(o.UpdatedAt)}, {"id", o.ID},
	}
}

// errNoFile is wrapped by errors about files that are not there.
var errNoFile = errors.New("there is no file")

func (a *app) filesCommand() *cobra.Command {
	rm := a.folderCommand("rm PATH...", "Delete files", 1, -1, removeFiles)
	versions := a.folderCommand("versions PATH", "List the versions of a file", 1, 1, a.printVersions)
	put := a.folderCommand("put FILE [PATH]", "Upload a file", 1, 2, a.putFile)
	put.Long = "put stores a new file, or a file's new content, at PATH or at FILE's name; FILE may be - for\nstandard input. Large files continue after interruptions."
	mv := a.folderCommand("mv PATH TO", "Move a file or a folder", 2, 2, a.moveFiles)
	mv.Long = "mv gives a file another path, or all files below a folder, whose name ends in a slash."
	uploads := listCommand(a, "uploads", "List uploads that are not complete", uploadColumns, (*apiclient.Client).ListResumableUploads)
	uploads.Long = "uploads lists one's uploads of large files that are not complete. Their sizes count against the limit of\nthe plan until they are completed, which put of the same file does within a day, or cancelled, or expire."
	cancel := command("cancel UPLOAD...", "Cancel uploads that are not complete", 1, -1, a.withClient(cancelUploads))
	cancel.Long = "cancel cancels uploads by their ids, which uploads prints."
	return group("files", "Work with stored files", a.listFilesCommand(), a.getFileCommand(), put, mv, rm, versions, a.restoreFileCommand(), uploads, cancel)
}

// folderCommand returns a command with the flags of a place, whose folder run is given.
func (a *app) folderCommand(use, short string, minArgs, maxArgs int, run func(ctx context.Context, f *folder, args []string) error) *cobra.Command {
	var target place
	return target.addFlags(command(use, short, minArgs, maxArgs, a.withClient(func(ctx context.Context, client *apiclient.Client, args []string) error {
		f, err := folderOf(ctx, client, target)
		if err != nil {
			return err
		}
		return run(ctx, f, args)
	})))
}

// addVersionFlag adds the flag --version to a command, which is a version of a file if it is given.
func addVersionFlag(c *cobra.Command, version *int64, about string) {
	c.Flags().Int64Var(version, "version", 0, about)
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("version") && *version < 1 {
			return usage("--version must be at least 1")
		}
		return nil
	}
}

func (a *app) listFilesCommand() *cobra.Command {
	var deleted bool
	c := a.folderCommand("ls [PREFIX]", "List files", 0, 1, func(ctx context.Context, f *folder, args []string) error {
		f.deleted = deleted
		return printList(a, fileColumns)(f.list(ctx, strings.Join(args, "")))
	})
	c.Flags().BoolVar(&deleted, "deleted", false, "the deleted files that can be restored")
	return c
}

func (a *app) getFileCommand() *cobra.Command {
	var version int64
	c := a.folderCommand("get PATH [FILE]", "Download a file", 1, 2, func(ctx context.Context, f *folder, args []string) error {
		o, err := f.find(ctx, args[0])
		if err != nil {
			return err
		}
		fetch := func(params apiclient.DownloadFileParams) (*http.Response, error) {
			return f.client.DownloadFile(ctx, o.ID, params)
		}
		if version > 0 {
			if o, err = f.findVersion(ctx, o, version); err != nil {
				return err
			}
			fetch = func(params apiclient.DownloadFileParams) (*http.Response, error) {
				return f.client.DownloadVersion(ctx, o.ID, strconv.FormatInt(version, 10), apiclient.DownloadVersionParams(params))
			}
		}
		to := path.Base(o.Path)
		if len(args) == 2 {
			to = args[1]
		}
		if to == "-" {
			return a.download(ctx, o, a.out, fetch)
		}
		if info, err := os.Stat(to); err == nil && info.IsDir() {
			to = filepath.Join(to, path.Base(o.Path))
		}
		return a.downloadTo(ctx, o, to, fetch)
	})
	c.Long = "get downloads a file to FILE, or to its name in the working directory; - is standard output.\nWhere a connection breaks it continues; after the command has ended, the next one begins anew."
	addVersionFlag(c, &version, "an earlier `version`")
	return c
}

func (a *app) putFile(ctx context.Context, f *folder, args []string) error {
	to := filepath.Base(args[0])
	if len(args) == 2 {
		to = args[1]
	} else if args[0] == "-" {
		return usage("name the path for standard input")
	}
	return printOne(a, fileColumns, func() (apiclient.StoredObject, error) { return a.upload(ctx, f, args[0], to) })
}

func (a *app) moveFiles(ctx context.Context, f *folder, args []string) error {
	if strings.HasSuffix(args[0], "/") {
		return printOne(a, movedColumns, func() (apiclient.FolderMoved, error) {
			moved, err := f.client.MoveFolder(ctx, apiclient.FolderMove{
				From: strings.TrimSuffix(args[0], "/"), To: strings.TrimSuffix(args[1], "/"),
				Scope: &f.scope, WorkspaceID: optionalText(f.workspace),
			})
			if err == nil && moved.Moved == 0 {
				err = fmt.Errorf("%w below %s", errNoFile, args[0])
			}
			return moved, err
		})
	}
	o, err := f.find(ctx, args[0])
	if err != nil {
		return err
	}
	return printOne(a, fileColumns, func() (apiclient.StoredObject, error) {
		return f.client.MoveFile(ctx, o.ID, apiclient.MoveFileParams{ExpectedVersion: &o.Version}, apiclient.FileMove{Path: args[1]})
	})
}

func movedColumns(m apiclient.FolderMoved) []column {
	return []column{{"moved", strconv.FormatInt(m.Moved, 10)}}
}

func removeFiles(ctx context.Context, f *folder, args []string) error {
	for _, name := range args {
		o, err := f.find(ctx, name)
		if err != nil {
			return err
		}
		if _, err := f.client.DeleteFile(ctx, o.ID, apiclient.DeleteFileParams{ExpectedVersion: &o.Version}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (a *app) printVersions(ctx context.Context, f *folder, args []string) error {
	o, err := f.find(ctx, args[0])
	if err != nil {
		return err
	}
	return printList(a, func(v apiclient.StoredVersion) []column {
		return []column{{"version", strconv.FormatInt(v.Version, 10)}, {"size", formatSize(v.Size)}, {"written", formatTime(v.UpdatedAt)}, {"path", v.Path}}
	})(f.client.ListVersions(ctx, o.ID))
}

func (a *app) restoreFileCommand() *cobra.Command {
	var version int64
	var to string
	c := a.folderCommand("restore PATH", "Restore an earlier version of a file, or a deleted file", 1, 1, func(ctx context.Context, f *folder, args []string) error {
		f.deleted = version == 0
		o, err := f.find(ctx, args[0])
		if f.deleted && errors.Is(err, errNoFile) {
			err = fmt.Errorf("%s is not deleted: --version restores an earlier version of a file that is there", args[0])
		}
		if err != nil {
			return err
		}
		body := apiclient.Restoration{Path: optionalText(to)}
		if version > 0 {
			body.Version, body.ExpectedVersion = &version, &o.Version
		}
		return printOne(a, fileColumns, func() (apiclient.StoredObject, error) { return f.client.RestoreFile(ctx, o.ID, body) })
	})
	c.Long = "restore returns a deleted file, or makes an earlier version the next one with --version."
	addVersionFlag(c, &version, "the `version` of a file that is there")
	c.Flags().StringVar(&to, "to", "", "another `path` for a deleted file")
	return c
}

func uploadColumns(u apiclient.ResumableUpload) []column {
	return []column{
		{"path", valueOr(u.Path, "file "+u.FileID)}, {"sent", formatSize(u.Offset)}, {"size", formatSize(u.Size)},
		{"expires", formatTime(u.ExpiresAt)}, {"id", u.ID},
	}
}

func cancelUploads(ctx context.Context, client *apiclient.Client, uploads []string) error {
	for _, upload := range uploads {
		if _, err := client.CancelResumableUpload(ctx, upload); err != nil {
			return fmt.Errorf("%s: %w", upload, err)
		}
	}
	return nil
}

// findVersion returns the record of a file's earlier version.
func (f *folder) findVersion(ctx context.Context, o apiclient.StoredObject, version int64) (apiclient.StoredObject, error) {
	list, err := f.client.ListVersions(ctx, o.ID)
	if err != nil {
		return o, err
	}
	for v, err := range list.All() {
		if err != nil {
			return o, err
		}
		if v.Version == version {
			o.Version, o.Size, o.Checksum = v.Version, v.Size, v.Checksum
			return o, nil
		}
	}
	return o, fmt.Errorf("%s has no version %d", o.Path, version)
}

// download writes the content that fetch requests, and continues where a connection broke.
func (a *app) download(ctx context.Context, o apiclient.StoredObject, w io.Writer, fetch func(apiclient.DownloadFileParams) (*http.Response, error)) error {
	digest := sha256.New()
	progress := a.newProgress(o.Path, o.Size)
	defer progress.end()
	to := &errWriter{Writer: w}
	tag := `"` + strconv.FormatInt(o.Version, 10) + `"`
	for failures := 0; ; {
		params := apiclient.DownloadFileParams{Raw: "1"}
		if progress.done > 0 {
			params.Range, params.IfRange = fmt.Sprintf("bytes=%d-", progress.done), tag
		}
		response, err := fetch(params)
		if err != nil {
			return err
		}
		if response.Header.Get("X-Collab-Checksum") != o.Checksum || progress.done > 0 && response.StatusCode != http.StatusPartialContent {
			response.Body.Close()
			return exitError{exitConflict, fmt.Errorf("%s was changed meanwhile", o.Path)}
		}
		before := progress.done
		_, err = io.Copy(io.MultiWriter(to, digest), counted{response.Body, progress})
		response.Body.Close()
		if err == nil {
			break
		}
		if to.err != nil {
			return to.err
		}
		if failures++; progress.done > before {
			failures = 0
		}
		if failures == apiclient.Resumptions || ctx.Err() != nil || progress.done == o.Size {
			return err
		}
	}
	if hex.EncodeToString(digest.Sum(nil)) != o.Checksum {
		return fmt.Errorf("%s: the content does not have the checksum %s", o.Path, o.Checksum)
	}
	return nil
}

// errWriter is a writer that keeps its first error.
type errWriter struct {
	io.Writer
	err error
}

func (o *errWriter) Write(p []byte) (n int, err error) {
	n, err = o.Writer.Write(p)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// downloadTo makes a file with the content, which gets its name when it is whole. It has the mode of the
// file that it replaces. What is no file, such as a pipe or a device, is written to.
func (a *app) downloadTo(ctx context.Context, o apiclient.StoredObject, to string, fetch func(apiclient.DownloadFileParams) (*http.Response, error)) (err error) {
	mode := fs.FileMode(0o666) // less what the umask has
	existing, statErr := os.Stat(to)
	if statErr == nil {
		if !existing.Mode().IsRegular() {
			f, err := os.OpenFile(to, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(a.download(ctx, o, f, fetch), f.Close())
		}
		mode = existing.Mode().Perm()
		if to, err = filepath.EvalSymlinks(to); err != nil {
			return err
		}
	}
	return atomicfile.ReplaceMode(to, mode, func(part *os.File) error {
		err := a.download(ctx, o, part, fetch)
		if err == nil && statErr == nil {
			err = part.Chmod(mode)
		}
		return err
	})
}

// upload stores a file's content at a path.
func (a *app) upload(ctx context.Context, f *folder, file, to string) (apiclient.StoredObject, error) {
	content, closer, err := a.openContent(ctx, file)
	if err != nil {
		return apiclient.StoredObject{}, err
	}
	defer closer()
	old, err := f.find(ctx, to)
	if err != nil && !errors.Is(err, errNoFile) {
		return old, err
	}
	if seeker, isFile := content.Reader.(io.ReadSeeker); isFile && content.Size >= apiclient.ResumableSize {
		return a.uploadResumably(ctx, f, old, seeker, content.Size, to)
	}
	if old.ID == "" {
		return f.client.UploadFile(ctx, apiclient.UploadFileParams{Path: to, Scope: f.scope, WorkspaceID: f.workspace}, content)
	}
	return f.client.ReplaceFile(ctx, old.ID, apiclient.ReplaceFileParams{ExpectedVersion: &old.Version}, content)
}

// uploadResumably sends a file in requests that continue where the last one broke, also one of an earlier run.
func (a *app) uploadResumably(ctx context.Context, f *folder, old apiclient.StoredObject, file io.ReadSeeker, size int64, to string) (apiclient.StoredObject, error) {
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return apiclient.StoredObject{}, err
	}
	params := apiclient.CreateResumableUploadParams{Checksum: hex.EncodeToString(digest.Sum(nil))}
	if old.ID != "" {
		params.FileID, params.ExpectedVersion = old.ID, &old.Version
	} else {
		params.Path, params.Scope, params.WorkspaceID = to, f.scope, f.workspace
	}
	u, err := f.client.OpenUpload(ctx, params, size)
	if err != nil {
		return apiclient.StoredObject{}, err
	}
	progress := a.newProgress(to, size)
	defer progress.end()
	return f.client.SendUpload(ctx, u, countedFile{counted{file, progress}, file}, size)
}

// countedFile counts what is read of a file from the place that was sought last.
type countedFile struct {
	counted
	io.Seeker
}

func (c countedFile) Seek(offset int64, whence int) (int64, error) {
	position, err := c.Seeker.Seek(offset, whence)
	c.done, c.samples = position, []sample{{c.app.now(), position}}
	return position, err
}
