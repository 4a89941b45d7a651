//go:build !unix

package wire

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// feeds maps keys to feeds, so that callers handle a plain number on every system.
var (
	feeds   sync.Map // of uintptr to *feed
	feedKey atomic.Uintptr
)

// feed holds what was read ahead from one pipe, at most one buffer of 64 KiB.
type feed struct {
	mu    sync.Mutex
	wake  sync.Cond
	data  []byte      // guarded by mu
	err   error       // guarded by mu
	late  bool        // the deadline has passed; guarded by mu
	timer *time.Timer // guarded by mu
}

func newFeed(file *os.File) *feed {
	f := &feed{}
	f.wake.L = &f.mu
	// Started by the reader's owner. It ends at the end of the pipe, caused by the death
	// of the worker or by Close; no goroutine waits for it.
	go f.fill(file)
	return f
}

func (f *feed) fill(file *os.File) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := file.Read(buffer)
		f.mu.Lock()
		for len(f.data) > 0 {
			f.wake.Wait()
		}
		f.data = buffer[:n]
		f.err = err
		f.wake.Broadcast()
		for len(f.data) > 0 {
			f.wake.Wait()
		}
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (f *feed) open() uintptr {
	key := feedKey.Add(1)
	feeds.Store(key, f)
	return key
}

func (f *feed) shut(key uintptr) { feeds.Delete(key) }

func (f *feed) read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.data) > 0 {
		n := copy(b, f.data)
		f.data = f.data[n:]
		if len(f.data) == 0 {
			f.wake.Broadcast()
		}
		return n, nil
	}
	if f.err != nil {
		return 0, io.EOF
	}
	return 0, ErrAgain
}

func (f *feed) wait() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.data) == 0 && f.err == nil && !f.late {
		f.wake.Wait()
	}
	if f.late && len(f.data) == 0 {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (f *feed) setDeadline(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
	f.late = false
	if !t.IsZero() {
		f.timer = time.AfterFunc(time.Until(t), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.late = true
			f.wake.Broadcast()
		})
	}
}
