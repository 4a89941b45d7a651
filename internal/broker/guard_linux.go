package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// syncFlag is the attribute S of a file: each write to it is a sync.
const syncFlag = 0x8

const (
	// blockSuffix is how files end that messages are appended to.
	blockSuffix = ".blk"
	// consumersDir is the folder of what a stream's consumers have been given. It is
	// written ten times a second, and what is lost of it is delivered again.
	consumersDir = "obs"
)

// guard sees to it that a file of the server's is on the disk before it takes the
// place of another one. The server rewrites a block without the messages that are
// gone, and renames it over the old one, without a sync. A file system may make the
// new name durable before the bytes, and all messages of the block are lost.
//
// So the folders have the attribute S, which all that is made in them inherits. A
// block that messages are appended to is freed of it as soon as it appears; until
// then it is slow and just as safe.
//
// A name that goes is as fast, and some messages the server moves by itself: a job
// whose time has come, from one block to another. So what has just been written is
// synced as soon as a block goes or is replaced.
type guard struct {
	root  string
	log   *slog.Logger
	moved func()      // has all that was written synced
	fail  func(error) // gets the error when a new folder cannot be guarded
	watch *os.File
	ended chan struct{} // closed when run has returned

	folders map[int32]string // by the number of their watch; of run, after openGuard
}

// openGuard guards the folder dir, and all in it, until it is closed.
func openGuard(dir string, log *slog.Logger, moved func(), fail func(error)) (closeGuard func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w; let the user have more instances (fs.inotify.max_user_instances)", err)
	}
	g := &guard{
		root: dir, log: log, moved: moved, fail: fail, watch: os.NewFile(uintptr(fd), "inotify"),
		ended: make(chan struct{}), folders: map[int32]string{},
	}
	if err := errors.Join(g.take(dir)...); err != nil {
		return nil, errors.Join(err, g.watch.Close())
	}
	go g.run()
	return g.close, nil
}

func (g *guard) close() error {
	err := g.watch.Close()
	<-g.ended
	return err
}

// run is the goroutine that looks after what is new. openGuard starts it, close
// ends it and waits.
func (g *guard) run() {
	defer close(g.ended)
	b := make([]byte, 64<<10)
	for {
		n, err := g.watch.Read(b)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			g.log.Error("new files of the store are not watched any more, and each message will be synced by itself, which is safe and slow", "error", err)
			return
		}
		for e := range eventsIn(b[:n]) {
			g.see(e)
		}
	}
}

// event says that something has appeared in a folder, or gone.
type event struct {
	watch int32
	mask  uint32
	name  string
}

// eventsIn reads what the kernel has told.
func eventsIn(b []byte) func(yield func(event) bool) {
	return func(yield func(event) bool) {
		for len(b) >= unix.SizeofInotifyEvent {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			if size > len(b) {
				return
			}
			e := event{
				watch: int32(binary.NativeEndian.Uint32(b)), // it is a signed number there
				mask:  binary.NativeEndian.Uint32(b[4:]),
				name:  strings.TrimRight(string(b[unix.SizeofInotifyEvent:size]), "\x00"),
			}
			if !yield(e) {
				return
			}
			b = b[size:]
		}
	}
}

// see looks after what an event tells of.
func (g *guard) see(e event) {
	folder, known := g.folders[e.watch]
	path := filepath.Join(folder, e.name)
	var errs []error
	switch {
	case e.mask&unix.IN_Q_OVERFLOW != 0:
		errs = g.take(g.root)
		g.moved()
	case !known:
	case e.mask&unix.IN_IGNORED != 0: // the folder is gone
		delete(g.folders, e.watch)
	case e.mask&unix.IN_ISDIR != 0 && e.mask&unix.IN_DELETE == 0:
		errs = g.folder(path)
	case strings.HasSuffix(e.name, blockSuffix):
		errs = free(path)
		if e.mask&unix.IN_CREATE == 0 {
			g.moved()
		}
	}
	for _, err := range errs {
		if errors.Is(err, errOpen) {
			g.fail(err)
			continue
		}
		g.log.Warn("messages in one folder are synced one by one, which is safe and slow", "folder", folder, "error", err)
	}
}

// errOpen is the fault of a folder that is not guarded.
var errOpen = errors.New("new files in a folder of the store are not synced before they replace others")

// folder looks after a folder in one that is guarded.
func (g *guard) folder(path string) []error {
	if filepath.Base(path) == consumersDir {
		return free(path)
	}
	return g.take(path)
}

// take guards a folder and all in it.
func (g *guard) take(dir string) (errs []error) {
	if err := setFlag(dir, true); gone(err) {
		return nil
	} else if err != nil {
		return []error{fmt.Errorf("%w: %w", errOpen, err)}
	}
	watch, err := g.add(dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("inotify: %w; let the user have more watches (fs.inotify.max_user_watches)", err))
	} else {
		g.folders[watch] = dir
	}
	entries, err := os.ReadDir(dir) // after the watch, so that nothing is missed
	if err != nil && !gone(err) {
		errs = append(errs, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			errs = append(errs, g.folder(path)...)
		case strings.HasSuffix(e.Name(), blockSuffix):
			errs = append(errs, free(path)...)
		}
	}
	return errs
}

// add watches a folder.
func (g *guard) add(dir string) (watch int32, err error) {
	raw, err := g.watch.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var fault error
	err = raw.Control(func(fd uintptr) {
		n, fault = unix.InotifyAddWatch(int(fd), dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_DELETE|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	})
	return int32(n), errors.Join(err, fault)
}

// free lets a file, or what is in a folder, be written without a sync of each
// write. The folder comes before what is in it, so that nothing is missed.
func free(path string) (errs []error) {
	if err := setFlag(path, false); gone(err) {
		return nil
	} else if err != nil {
		return []error{err}
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return nil // it may have gone meanwhile
	}
	entries, err := os.ReadDir(path)
	if err != nil && !gone(err) {
		errs = append(errs, err)
	}
	for _, e := range entries {
		errs = append(errs, free(filepath.Join(path, e.Name()))...)
	}
	return errs
}

// gone says that what was found has been removed again.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// setFlag sets or clears the attribute S.
func setFlag(path string, on bool) error {
	return withFlags(path, func(fd int, flags uint32) error {
		want := flags &^ syncFlag
		if on {
			want |= syncFlag
		}
		if want == flags {
			return nil
		}
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(want))
	})
}

// hasFlag tells whether a file has the attribute S.
func hasFlag(path string) (on bool, err error) {
	err = withFlags(path, func(_ int, flags uint32) error {
		on = flags&syncFlag != 0
		return nil
	})
	return on, err
}

func withFlags(path string, use func(fd int, flags uint32) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = use(fd, flags)
	}
	if fault := unix.Close(fd); err == nil {
		err = fault
	}
	if err != nil {
		return &fs.PathError{Op: "set the attribute S of", Path: path, Err: err}
	}
	return nil
}

// inherits returns nil when what is made in a folder with the attribute S has
// that too, or why not. It makes the folder dir, and removes it.
func inherits(dir string) (err error) {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	inner := filepath.Join(dir, "inner")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := setFlag(dir, true); err != nil {
		return err
	}
	if err := os.Mkdir(inner, 0o700); err != nil {
		return err
	}
	file := filepath.Join(inner, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	on, err := hasFlag(file)
	if err == nil && !on {
		err = errors.New("new files do not inherit the attribute S of their folder (chattr +S), so that a file may be replaced before the new one is on the disk; ext4 and xfs do it")
	}
	return err
}
