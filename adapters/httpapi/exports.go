package httpapi

import (
	"log/slog"
	"net/http"
	"strconv"

	"collab/app/archives"
	"collab/domain/export"
	"collab/domain/id"
	"collab/domain/org"
)

const exportsPath = prefix + "/org/exports"

type exportView struct {
	ID         id.Export     `json:"id"`
	Status     export.Status `json:"status"`
	CreatedAt  jsonTime      `json:"createdAt"`
	FinishedAt *jsonTime     `json:"finishedAt"`
	ExpiresAt  *jsonTime     `json:"expiresAt"`
	Records    int64         `json:"records"`
	Files      int64         `json:"files"`
	FilesDone  int64         `json:"filesDone"`
	FileBytes  int64         `json:"fileBytes"`
	Size       *int64        `json:"size"`
	Error      *string       `json:"error"`

	// The address of the archive, and the end of the time in which a download can begin.
	DownloadURL     *string   `json:"downloadUrl"`
	DownloadExpires *jsonTime `json:"downloadExpiresAt"`
}

// viewExport returns the view of an export, with the address of a ready archive at the object store, or at this server
// if that gives none.
func (a *api) viewExport(c *call, e export.Export) exportView {
	v := exportView{
		ID: e.ID, Status: e.Status(a.Access.Now()), CreatedAt: jsonTime(e.CreatedAt), FinishedAt: timeOrNull(e.FinishedAt), ExpiresAt: timeOrNull(e.ExpiresAt),
		Records: e.Records, Files: e.Files, FilesDone: e.Done, FileBytes: e.Bytes,
	}
	if v.Status == export.Failed {
		v.Error = textOrNull(e.Error)
	}
	if v.Status != export.Ready {
		return v
	}
	v.Size = &e.Size
	to, expires, err := a.Archives.Link(c.r.Context(), e)
	if err != nil {
		a.Log.LogAttrs(c.r.Context(), slog.LevelWarn, "archive address not signed", slog.String("request", c.id), slog.String("error", err.Error()))
	}
	if err != nil || to == "" {
		to, expires = a.PublicURL+exportsPath+"/"+string(e.ID)+"/archive", *e.ExpiresAt
	}
	v.DownloadURL, v.DownloadExpires = &to, new(jsonTime(expires))
	return v
}

func (a *api) replyExport(c *call, status int, e export.Export, err error) error {
	if err != nil {
		return err
	}
	c.Header()["Cache-Control"] = noStore
	return c.reply(status, a.viewExport(c, e))
}

// startExport starts an export and replies before its end.
func (a *api) startExport(c *call, actor org.Actor) error {
	e, err := a.Archives.Start(c.r.Context(), actor)
	if err == nil {
		c.Set("Location", exportsPath+"/"+string(e.ID))
	}
	return a.replyExport(c, http.StatusAccepted, e, err)
}

func (a *api) listExports(c *call, actor org.Actor) error {
	all, err := a.Archives.Exports(c.r.Context(), actor)
	if err != nil {
		return err
	}
	views := make([]exportView, len(all))
	for i, e := range all {
		views[i] = a.viewExport(c, e)
	}
	c.Header()["Cache-Control"] = noStore
	return c.reply(http.StatusOK, views)
}

func (a *api) getExport(c *call, actor org.Actor, export id.Export) error {
	e, err := a.Archives.ExportOf(c.r.Context(), actor, export)
	return a.replyExport(c, http.StatusOK, e, err)
}

// downloadExport replies with the archive or with one requested range of it.
func (a *api) downloadExport(c *call, actor org.Actor, export id.Export) error {
	e, err := a.Archives.ExportOf(c.r.Context(), actor, export)
	if err != nil {
		return err
	}
	c.releasePermit()
	tag := `"` + string(e.ID) + `"`
	part, status := byteRange{0, e.Size}, http.StatusOK
	ranges, err := parseRanges(c.r, tag, e.Size)
	if err != nil {
		c.refuseRange(err, e.Size)
		return nil
	}
	if len(ranges) == 1 {
		part, status = ranges[0], http.StatusPartialContent
	}
	r, err := a.Archives.Archive(c.r.Context(), e, part.start, part.length)
	if err != nil {
		return err
	}
	defer r.Close()
	writeHead := func() error {
		c.Header()["Cache-Control"] = noStore
		c.Header()["Accept-Ranges"] = byteRanges
		c.Set("Etag", tag)
		c.Set("Content-Type", archives.MimeType)
		c.Set("Content-Disposition", archives.Disposition(e))
		c.Set("Content-Length", strconv.FormatInt(part.length, 10))
		if status == http.StatusPartialContent {
			c.Set("Content-Range", part.contentRange(e.Size))
		}
		c.WriteHeader(status)
		return nil
	}
	if c.r.Method == http.MethodHead {
		return writeHead()
	}
	return a.copyContent(c, c, r, part.length, string(e.ID), func(org.Actor) bool { return true }, writeHead)
}
