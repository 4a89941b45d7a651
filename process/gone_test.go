//go:build unix

package process

import "testing"

// TestGoneWorkerIsNotCounted looks at a pool whose workers all fail to start, again and
// again: none is ever ready or busy, also not in the moment in which it is buried.
func TestGoneWorkerIsNotCounted(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := open(t, Config{Command: script("exit 7"), Min: 4, Max: 4, Logger: j.logger()})
	poll(t, "some failed starts", func() bool {
		for range 2000 {
			if s := p.Stats(); s.Busy != 0 || s.Idle != 0 {
				t.Fatalf("%d workers are busy and %d idle of those that never started", s.Busy, s.Idle)
			}
		}
		return len(j.events(StartFailed)) >= 5
	})
}
