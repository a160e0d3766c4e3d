package gormdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm/logger"

	"collab/domain/org"
)

// logs writes GORM's reports to the process's log. Values of parameters are personal data
// and never logged.
type logs struct{ to *slog.Logger }

var _ logger.Interface = logs{}

func (l logs) LogMode(logger.LogLevel) logger.Interface { return l }

func (l logs) Info(ctx context.Context, text string, args ...any) {
	l.log(ctx, slog.LevelDebug, text, args)
}

func (l logs) Warn(ctx context.Context, text string, args ...any) {
	l.log(ctx, slog.LevelWarn, text, args)
}

func (l logs) Error(ctx context.Context, text string, args ...any) {
	l.log(ctx, slog.LevelError, text, args)
}

func (l logs) log(ctx context.Context, level slog.Level, text string, args []any) {
	l.to.Log(ctx, level, fmt.Sprintf(text, args...))
}

// Trace logs statements that failed, unless by a constraint of the schema, another epoch of the
// organisation or the end of the caller's context.
func (l logs) Trace(ctx context.Context, _ time.Time, statement func() (string, int64), err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, org.ErrEpochChanged) || cause(err) != causeOther || retryable(err) {
		return
	}
	text, _ := statement()
	l.to.LogAttrs(ctx, slog.LevelError, "database statement failed", slog.String("statement", text), slog.Any("error", err))
}
