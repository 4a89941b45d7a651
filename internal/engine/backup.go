package engine

import (
	"context"
	"errors"
)

// ErrBackup means that no backup was made; the store keeps working.
var ErrBackup = errors.New("no backup was made")

// Backuper is an engine that can copy its store while it works.
type Backuper interface {
	// Backup copies the store to dir, which must not exist. The copy holds everything
	// that was confirmed before the call, and can be opened like the store itself. dir
	// appears under its name only when it is complete and survives a loss of power. The
	// error is ErrBackup if the folder is the cause.
	Backup(ctx context.Context, dir string) error
}
