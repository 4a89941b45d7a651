package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// The memory of a store: what is waiting lies on the disk, so little is enough.
const (
	cacheSize    = 8 << 20
	memTableSize = 8 << 20 // and a part of a small disk, as logs are as large
	smallTable   = 1 << 20
	diskPart     = 64
	// memTables may wait to be flushed before writers have to.
	memTables = 4
	openFiles = 500
	// logFormat is a version that commits in its log to what was synced before, so
	// that damage is told from a log that a crash has cut off, and has checksums in
	// the footers of tables.
	logFormat = pebble.FormatTableFormatV6
)

// pebble gives Pebble's options.
func (e *Engine) pebble() *pebble.Options {
	size := int64(memTableSize)
	if usage, err := e.folder.fs.GetDiskUsage(e.folder.dir); err == nil {
		size = min(size, max(clamp(usage.TotalBytes)/diskPart, smallTable))
	}
	o := &pebble.Options{
		FS: aside{guard{e.folder.fs, e, &e.files}, &e.aside}, FormatMajorVersion: logFormat,
		CacheSize: cacheSize, MemTableSize: uint64(size), LBaseMaxBytes: baseSize, MemTableStopWritesThreshold: memTables, MaxOpenFiles: openFiles,
		Logger:        &logger{log: e.log, halt: e.halt},
		EventListener: events(e.log, e.fail, e.halt),
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	o.EnsureDefaults()
	return o
}

// logger hands Pebble's lines on. Fatalf, by which it would end the program, ends
// the engine.
type logger struct {
	log  *slog.Logger
	halt func(error)
}

func (l *logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("message of Pebble", "text", fmt.Sprintf(format, args...))
	}
}

func (l *logger) Errorf(format string, args ...any) {
	l.log.Error("message of Pebble", "text", fmt.Sprintf(format, args...))
}

func (l *logger) Fatalf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			l.halt(err)
			return
		}
	}
	l.halt(fmt.Errorf(format, args...))
}

// events listens to what matters. fail is called when there is damage, halt when
// Pebble can go on no more.
func events(log *slog.Logger, fail, halt func(error)) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, pebble.ErrCancelledCompaction) && !errors.Is(err, pebble.ErrClosed) {
				halt(err)
			}
		},
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			if compacting() {
				halt(damaged(i.Path, i.Details))
			}
			fail(damaged(i.Path, i.Details))
		},
		DiskSlow: func(i pebble.DiskSlowInfo) {
			log.Warn("the disk of the store is slow", "file", i.Path, "for", i.Duration)
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			log.Warn("writes wait for the store to sort itself out", "reason", i.Reason)
		},
		WriteStallEnd: func() { log.Info("writes go on") },
	}
}

// compacting reports whether the caller is called by a compaction or a flush of Pebble.
// Most errors of a read are panics there.
func compacting() bool {
	var callers [128]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "pebble/v2.(*DB).runCompaction") {
			return true
		}
		if !more {
			return false
		}
	}
}
