package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// pulseFile is what a pulse writes.
const pulseFile = "pulse"

// pulse finds out whether the disk still takes what is written. The server does not
// always say so when it does not, and a sync of a file system with nothing to write
// may succeed.
type pulse struct {
	dir     string
	failure *failure

	mu      sync.Mutex
	closed  bool           // guarded by mu
	beating bool           // guarded by mu
	beats   sync.WaitGroup // of the goroutine that writes
}

// beat writes and syncs a file in a goroutine that ends with that; close waits for
// it. There is one at a time.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.beating {
		return
	}
	p.beating = true
	p.beats.Go(func() {
		if err := p.write(); err != nil && !errors.Is(err, syscall.ENOSPC) {
			_ = p.failure.set(fmt.Errorf("the server does not answer, and the disk cannot be written: %w; look after the disk, then start the program again", err))
		}
		p.mu.Lock()
		p.beating = false
		p.mu.Unlock()
	})
}

func (p *pulse) write() error {
	f, err := os.OpenFile(filepath.Join(p.dir, pulseFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("the disk was tried because the server did not answer\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// close waits for the last beat; there are none after it.
func (p *pulse) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.beats.Wait()
}
