package broker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// A pulse on a disk that works leaves no trace of a failure; one that cannot write is
// the failure of the disk.
func TestPulse(t *testing.T) {
	t.Parallel()
	p := &pulse{dir: t.TempDir(), failure: newFailure()}
	p.beat()
	p.beats.Wait()
	if err := p.failure.get(); err != nil {
		t.Errorf("a disk that works has failed: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, pulseFile)); err != nil {
		t.Errorf("nothing was written: %v", err)
	}
	p.dir = filepath.Join(p.dir, "gone")
	p.beat()
	<-p.failure.failed
	if err := p.failure.get(); !errors.Is(err, engine.ErrFailed) {
		t.Errorf("a disk that cannot be written: %v", err)
	}
	p.close()
	p.dir = t.TempDir()
	p.beat()
	p.beats.Wait()
	if _, err := os.Stat(filepath.Join(p.dir, pulseFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it beats when it is closed: %v", err)
	}
}
