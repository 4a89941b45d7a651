//go:build unix

package worker

import (
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

func TestSeveralAtATime(t *testing.T) {
	t.Parallel()
	for _, withMemory := range []bool{false, true} {
		h := start(t, "several", withMemory)
		h.greet()
		h.send(task(1, "meet"), task(2, "meet"), task(3, "meet"), task(4, "meet"))
		seen := map[uint32]bool{}
		for range 4 {
			head, _ := h.next()
			seen[head.ID] = head.Kind == protocol.Result
		}
		if len(seen) != 4 {
			t.Errorf("answers are %v", seen)
		}
		h.send(task(5, "first"), task(6, "second"))
		for range 2 {
			if head, body := h.next(); head.ID == 5 && string(body) != "met" {
				t.Errorf("got %q", body)
			}
		}
		h.finish()
	}
}

func TestSlotsOfThePage(t *testing.T) {
	t.Parallel()
	h := start(t, "several", true)
	h.greet()
	h.send(task(1, "block"), task(2, "block"))
	h.next()
	h.next()
	places := map[uint32]int{}
	for k := range protocol.MaxConcurrency {
		places[h.page.RunningAt(k)]++
	}
	if places[1] != 1 || places[2] != 1 || places[0] != protocol.MaxConcurrency-2 || h.page.Started() != 2 {
		t.Errorf("places are %v, started %d", places, h.page.Started())
	}
	h.send(cancel(1, protocol.ReasonTimeout))
	h.failure(1, protocol.OutcomeTimeout)
	h.send(cancel(99, protocol.ReasonCanceled), cancel(2, protocol.ReasonCanceled))
	h.failure(2, protocol.OutcomeCanceled)
	h.finish()
	for k := range protocol.MaxConcurrency {
		if id := h.page.RunningAt(k); id != 0 {
			t.Errorf("place %d holds task %d at the end", k, id)
		}
	}
}

func cancel(id uint32, reason uint16) []byte {
	return protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Cancel, Code: reason, ID: id}, nil)
}

// TestDrainGivesBack drains while all slots are taken: what waits comes back,
// what runs is finished.
func TestDrainGivesBack(t *testing.T) {
	t.Parallel()
	h := start(t, "several", true)
	h.greet()
	h.send(task(1, "block"), task(2, "block"), task(3, "block"), task(4, "block"))
	for range 4 {
		h.next() // progress: it runs
	}
	// One write, so that DRAIN is read before a slot is free.
	h.send(task(5, "exit"), task(6, "exit"), protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Drain}, nil))
	h.expect(protocol.Returned, 5)
	h.expect(protocol.Returned, 6)
	for id := uint32(1); id <= 4; id++ {
		h.send(cancel(id, protocol.ReasonCanceled)) // still read
		h.failure(id, protocol.OutcomeCanceled)
	}
	if status := h.exit(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestCancelOfAWaitingTask cancels a task that has no slot yet.
func TestCancelOfAWaitingTask(t *testing.T) {
	t.Parallel()
	h := start(t, "several", false)
	h.greet()
	h.send(task(1, "block"), task(2, "block"), task(3, "block"), task(4, "block"))
	for range 4 {
		h.next()
	}
	h.send(task(5, "block"), cancel(5, protocol.ReasonCanceled), cancel(1, protocol.ReasonCanceled))
	h.failure(1, protocol.OutcomeCanceled)
	h.expect(protocol.Progress, 5)
	h.failure(5, protocol.OutcomeCanceled)
	h.send(cancel(2, 4), cancel(3, 4), cancel(4, 4))
	h.finishAfter(3)
}

// finishAfter ends the session once n answers have come, in any order.
func (h *host) finishAfter(n int) {
	h.t.Helper()
	for range n {
		h.next()
	}
	h.finish()
}

// TestManyAtATime sends many small tasks and gets each answer once.
func TestManyAtATime(t *testing.T) {
	t.Parallel()
	h := start(t, "several", true)
	h.greet()
	const many = 20000
	go func() { // ends when all is written; the answers prove that it is
		var b []byte
		for id := uint32(1); id <= many; id++ {
			b = append(b, task(id, "echo", "payload")...)
		}
		_, _ = h.in.Write(b)
	}()
	seen := make(map[uint32]bool, many)
	for range many {
		head, body := h.next()
		if head.Kind != protocol.Result || seen[head.ID] || string(body) != "payload" {
			t.Fatalf("got %v %q", head, body)
		}
		seen[head.ID] = true
	}
	h.finish()
}
