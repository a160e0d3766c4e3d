package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"collab/test/must"
)

// bareCommand runs this program as the bare server instead of the benchmark: net/http, pgx and
// encoding/json without authentication.
const bareCommand = "bare"

// bareConnections is the size of the bare server's pool, which is that of Collab on two processors.
const bareConnections = 16

// startBare launches a bare server and waits until it is ready.
func (b *bench) startBare(ctx context.Context, database string) *process {
	p := b.launchBare(database)
	must.Do(p.ready(ctx)).Or(b)
	return p
}

func (b *bench) launchBare(database string) *process {
	address := must.Do(freeAddress()).Or(b)
	program := must.Do(os.Executable()).Or(b)
	folder := must.Do(os.MkdirTemp(b.folder, "bare-")).Or(b)
	p := b.launch("bare", b.folder, address, program, os.Environ(), bareCommand, address, database, folder)
	p.folder = folder
	return p
}

// bareTable has the columns and the indexes of the table of tasks, and bareTags its index of tags.
const (
	bareTable = "bare_tasks"
	bareTags  = "bare_tags"
)

// bareTask is a task in JSON.
type bareTask struct {
	ID          string          `json:"id"`
	Title       string          `json:"title"`
	Description *string         `json:"description"`
	Status      string          `json:"status"`
	Priority    string          `json:"priority"`
	AssigneeID  *string         `json:"assigneeId"`
	WorkspaceID *string         `json:"workspaceId"`
	DueDate     *string         `json:"dueDate"`
	Tags        json.RawMessage `json:"tags"`
	Metadata    json.RawMessage `json:"metadata"`
	SortOrder   int64           `json:"sortOrder"`
	CompletedAt *unixMillis     `json:"completedAt"`
	CreatedBy   string          `json:"createdBy"`
	CreatedAt   unixMillis      `json:"createdAt"`
	UpdatedAt   unixMillis      `json:"updatedAt"`
}

// unixMillis is a time in milliseconds since 1970, and in the format of RFC 3339 in JSON.
type unixMillis int64

func (s unixMillis) MarshalJSON() ([]byte, error) {
	return time.UnixMilli(int64(s)).UTC().AppendFormat(make([]byte, 0, 26), `"2006-01-02T15:04:05.000Z"`), nil
}

// serveBare runs the bare server. Its arguments are its address, that of the database, which may be empty, and
// the folder for its files.
func serveBare(args []string) error {
	if len(args) != 3 {
		return errors.New("bare needs an address, a database and a folder")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	s := &http.Server{Addr: args[0], ReadHeaderTimeout: 10 * time.Second}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	feed := &bareFeed{clients: map[chan []byte]<-chan struct{}{}}
	mux.HandleFunc("GET /api/v1/sync/changes", feed.subscribe)
	mux.HandleFunc("POST "+barePublish, feed.publish)
	files := bareFiles{folder: args[2]}
	mux.HandleFunc("POST "+bareUploads, handlerOf(files.upload))
	mux.HandleFunc("GET "+bareUploads+"/{id}", files.download)
	chat := newBareRelay()
	mux.HandleFunc("POST "+bareChat, chat.relay)
	mux.HandleFunc("POST "+bareCopies, chat.copied)
	updates := &bareUpdates{}
	mux.HandleFunc("POST "+bareResponses, handlerOf(updates.publish))
	mux.HandleFunc("GET "+checkPath, updates.check)
	if args[1] != "" {
		config, err := pgxpool.ParseConfig(args[1])
		if err != nil {
			return err
		}
		config.MaxConns = bareConnections
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer pool.Close()
		served := bare{pool: pool}
		if err := pool.QueryRow(ctx, "SELECT org_id, created_by FROM "+bareTable+" LIMIT 1").Scan(&served.org, &served.user); err != nil {
			return err
		}
		mux.HandleFunc("GET /api/v1/tasks/{id}", handlerOf(served.get))
		mux.HandleFunc("GET /api/v1/tasks", handlerOf(served.list))
		mux.HandleFunc("POST /api/v1/tasks", handlerOf(served.create))
	}
	s.Handler = mux
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bare serves the tasks of the one organisation and the one user in its table.
type bare struct {
	pool      *pgxpool.Pool
	org, user string
}

const (
	bareColumns = "id, title, description, status, priority, assignee_id, workspace_id, due_text, tags, metadata, sort_order, completed_at, created_by, created_at, updated_at"

	bareGet  = "SELECT " + bareColumns + " FROM " + bareTable + " WHERE org_id = $1 AND id = $2"
	bareList = "SELECT " + bareColumns + " FROM " + bareTable + " WHERE org_id = $1 AND status = $2 ORDER BY sort_order, created_at, id LIMIT $3"

	bareInsert = "INSERT INTO " + bareTable + ` (org_id, id, title, description, status, priority, due_text, due_start, due_end, tags, metadata, created_by, created_at, updated_at, version, sort_order)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, 1, (SELECT COALESCE(MAX(sort_order), -1) + 1 FROM ` + bareTable + ` WHERE org_id = $1))
RETURNING sort_order`
)

func (t *bareTask) scan(row pgx.Row) error {
	return row.Scan(&t.ID, &t.Title, &t.Description, &t.Status, &t.Priority, &t.AssigneeID, &t.WorkspaceID, &t.DueDate,
		(*[]byte)(&t.Tags), (*[]byte)(&t.Metadata), &t.SortOrder, &t.CompletedAt, &t.CreatedBy, &t.CreatedAt, &t.UpdatedAt)
}

func (b bare) get(w http.ResponseWriter, r *http.Request) error {
	var t bareTask
	if err := t.scan(b.pool.QueryRow(r.Context(), bareGet, b.org, r.PathValue("id"))); err != nil {
		return err
	}
	return reply(w, http.StatusOK, &t)
}

func (b bare) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		return err
	}
	rows, err := b.pool.Query(r.Context(), bareList, b.org, q.Get("status"), limit)
	if err != nil {
		return err
	}
	defer rows.Close()
	found := make([]bareTask, 0, limit)
	for rows.Next() {
		found = append(found, bareTask{})
		if err := found[len(found)-1].scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return reply(w, http.StatusOK, found)
}

func (b bare) create(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	now := time.Now()
	t := bareTask{
		ID: taskID(now.UnixMilli(), rand.New(rand.NewPCG(rand.Uint64(), 0))), Status: statuses[0],
		CreatedBy: b.user, CreatedAt: unixMillis(now.UnixMilli()), UpdatedAt: unixMillis(now.UnixMilli()),
	}
	if err := json.Unmarshal(body, &t); err != nil {
		return err
	}
	var start, end *int64
	if t.DueDate != nil {
		day, err := time.Parse(time.DateOnly, *t.DueDate)
		if err != nil {
			return err
		}
		first, last := day.UnixMilli(), day.AddDate(0, 0, 1).UnixMilli()-1
		start, end = &first, &last
	}
	err = b.pool.QueryRow(r.Context(), bareInsert, b.org, t.ID, t.Title, t.Description, t.Status, t.Priority,
		t.DueDate, start, end, string(t.Tags), string(t.Metadata), t.CreatedBy, int64(t.CreatedAt)).Scan(&t.SortOrder)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, &t)
}

// handlerOf returns a handler that replies with the text of an error of fn.
func handlerOf(fn func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := fn(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func reply(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}
