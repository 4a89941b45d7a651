package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/pebble"
	"github.com/bullpen-run/bullpen/internal/engine/transfer"
	"github.com/bullpen-run/bullpen/queue"
)

// aboutStores explains how a command names a store.
const aboutStores = "STORE is a folder, the URL of a NATS server (nats://…), or the configuration file of a daemon,\n" +
	"which names one of them and may hold credentials. No daemon may use the store meanwhile: a\n" +
	"folder that is open is refused; use of a server is detected at the end."

// namedStore is a store that a command reads or fills.
type namedStore struct {
	name      string
	dir       string // for a store in a folder
	store     queue.Store
	namespace string
}

// storeOf returns the store that text names.
func storeOf(text, namespace string, replicas int) (namedStore, error) {
	source := settings.Source{Flags: map[string]string{"queue.namespace": namespace}}
	switch info, err := os.Stat(text); {
	case text == "":
		return namedStore{}, usageError{errors.New("the name of a store is empty: give a folder, the URL of a NATS server, or the configuration file of a daemon")}
	case strings.Contains(text, "://"):
		source.Flags["queue.url"] = text
	case err == nil && info.Mode().IsRegular():
		source.Path, source.Env = text, os.Environ()
	default:
		source.Flags["queue.dir"] = text
	}
	if replicas != 0 {
		source.Flags["queue.replicas"] = fmt.Sprint(replicas)
	}
	s, err := settings.Load(source)
	if err != nil {
		return namedStore{}, usageError{err}
	}
	if s.Store.Memory {
		return namedStore{}, usageError{fmt.Errorf("%s keeps jobs in memory: there is nothing to copy", text)}
	}
	return namedStore{name: text, dir: s.Store.Dir, store: s.Queue.Store, namespace: s.Queue.Namespace}, nil
}

// options returns the options of an engine that does not drop records by itself.
func (p namedStore) options() engine.Options {
	return engine.Options{Namespace: p.namespace, Lease: 30 * time.Second, Logger: slog.New(slog.DiscardHandler)}
}

// read opens an existing store for do.
func (p namedStore) read(ctx context.Context, do func(engine.Engine) (transfer.Summary, error)) (s transfer.Summary, err error) {
	if p.dir != "" {
		if _, err := os.Stat(filepath.Join(p.dir, "format")); errors.Is(err, fs.ErrNotExist) {
			return s, usageError{fmt.Errorf("%s is not a folder with jobs of a daemon: it has no file %q", p.dir, "format")}
		}
	}
	e, err := p.store.Open(ctx, p.options())
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	return do(e)
}

// fill opens the store for do, which fills it. A folder must not exist yet.
func (p namedStore) fill(ctx context.Context, do func(engine.Engine) (transfer.Summary, error)) (s transfer.Summary, err error) {
	if p.dir != "" {
		err := pebble.Create(ctx, pebble.Config{Dir: p.dir, Options: p.options()}, func(e engine.Engine) (err error) {
			s, err = do(e)
			return err
		})
		return s, err
	}
	e, err := p.store.Open(ctx, p.options())
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	if s, err = do(e); err != nil && !errors.Is(err, transfer.ErrNotEmpty) {
		err = fmt.Errorf("%w; %s now holds a part of the jobs: remove its streams before you copy again (nats stream rm)", err, p.name)
	}
	return s, err
}
