//go:build unix

package worker

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/protocol"
)

// startStopped starts a worker, lets damage do its work, and closes the channel.
func startStopped(t *testing.T, damage func(*host)) *host {
	t.Helper()
	h := startWith(t, "zoo", true, damage)
	_ = h.in.Close()
	return h
}

func TestPageWords(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	h.send(task(1, "echo"), task(2, "block"))
	// The progress of a running task brings along the answers that are held.
	h.result(1)
	h.expect(protocol.Progress, 2)
	if h.page.Started() != 2 || h.page.Finished() != 1 {
		t.Errorf("while task 2 runs: started %d, finished %d", h.page.Started(), h.page.Finished())
	}
	h.ask(2, protocol.ReasonCanceled)
	h.failure(2, protocol.OutcomeCanceled)
	h.finish()
	if h.page.Started() != 2 || h.page.Finished() != 2 {
		t.Errorf("at the end: started %d, finished %d", h.page.Started(), h.page.Finished())
	}
}

// ask does what a host does to end the running task.
func (h *host) ask(id, reason uint32) {
	h.t.Helper()
	h.page.Ask(id, reason)
	check(h.t, h.cmd.Process.Signal(syscall.SIGWINCH))
}

func TestAsk(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	id := uint32(0)
	for _, name := range []string{"block", "spin"} {
		for _, c := range []struct {
			reason uint32
			says   string
		}{{protocol.ReasonTimeout, "context deadline exceeded"}, {protocol.ReasonCanceled, "context canceled"}} {
			id++
			h.send(task(id, name))
			h.expect(protocol.Progress, id)
			h.ask(id+1, c.reason) // another task: not this one
			h.ask(id, c.reason)
			// The CANCEL that goes with it is read when all is over.
			h.send(protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Cancel, Code: uint16(c.reason), ID: id}, nil))
			if e := h.failure(id, uint16(c.reason)); !strings.Contains(e["message"], c.says) {
				t.Errorf("%s: %q", name, e)
			}
		}
	}
	h.ask(id, protocol.ReasonTimeout) // too late, and no harm
	h.send(task(id+1, "echo", "x"))
	h.result(id + 1)
	h.finish()
}

// The host asks for the end of a task that the worker has not begun: the signal finds
// no task, and the task ends when it begins.
func TestAskBeforeTheTaskBegins(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	for id, reason := range []uint32{0, protocol.ReasonTimeout, protocol.ReasonCanceled} {
		if id == 0 {
			continue
		}
		h.ask(uint32(id), reason)
		h.send(task(uint32(id), "block"))
		h.expect(protocol.Progress, uint32(id))
		h.failure(uint32(id), uint16(reason))
	}
	h.send(task(3, "echo", "x"))
	h.result(3)
	h.finish()
}

// TestSignalBringsHeldAnswers fetches the answer of a task while the one behind
// it runs and says nothing.
func TestSignalBringsHeldAnswers(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	h.send(task(1, "echo", "held"), task(2, "first"))
	// As a host would, once a millisecond: a flood of signals leaves the worker
	// no time to do anything else.
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for h.page.Started() != 2 || h.page.Finished() != 1 {
		<-ticker.C
		check(t, h.cmd.Process.Signal(syscall.SIGWINCH))
	}
	check(t, h.cmd.Process.Signal(syscall.SIGWINCH))
	if have := h.result(1); have != "held" {
		t.Errorf("got %q", have)
	}
	h.ask(2, protocol.ReasonCanceled)
	h.failure(2, protocol.OutcomeCanceled)
	h.finish()
}

func TestContextsOfHandlers(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	h.send(task(1, "contexts"))
	h.expect(protocol.Progress, 1)
	h.ask(1, protocol.ReasonTimeout)
	have := h.result(1)
	if want := "context deadline exceeded context deadline exceeded true false 0"; have != want {
		t.Errorf("got %q, want %q", have, want)
	}
	h.finish()
}

func TestRecall(t *testing.T) {
	t.Parallel()
	for _, worker := range []string{"zoo", "several"} {
		h := start(t, worker, true)
		h.greet()
		h.send(task(1, "echo", "x"))
		h.result(1)
		if started := h.page.Recall(2); started != 1 {
			t.Errorf("%s: started %d", worker, started)
		}
		h.send(task(2, "exit"), task(3, "exit"), task(4, "exit"))
		back := map[uint32]bool{}
		for range 3 {
			head, _ := h.next()
			back[head.ID] = head.Kind == protocol.Returned
		}
		if !back[2] || !back[3] || !back[4] {
			t.Errorf("%s: given back are %v", worker, back)
		}
		if worker == "zoo" && h.page.Finished() != 4 {
			t.Errorf("finished is %d", h.page.Finished())
		}
		h.page.EndRecall()
		h.send(task(5, "echo", "y"))
		h.result(5)
		h.finish()
	}
}

func TestArena(t *testing.T) {
	t.Parallel()
	for _, worker := range []string{"zoo", "several"} {
		h := start(t, worker, true)
		h.greet()
		for i, size := range []int{1, protocol.ArenaMin - 1, protocol.ArenaMin, 300001, 700000, 500000, partSize, partSize + 1} {
			id := uint32(i + 1)
			h.send(task(id, "big", strconv.Itoa(size)))
			head, body := h.next()
			inArena := head.Flags&protocol.Arena != 0
			if inArena != (size >= protocol.ArenaMin && size <= partSize) {
				t.Errorf("%s: a result of %d bytes, in the arena: %v", worker, size, inArena)
			}
			if inArena {
				r, err := protocol.ParseReply(body)
				check(t, err)
				view, err := replyPart.Slice(h.memory, r)
				check(t, err)
				if len(view) != size {
					t.Errorf("%s: %d bytes of %d", worker, len(view), size)
				}
				h.page.Free(r.Taken)
			} else if len(body) != size {
				t.Errorf("%s: %d bytes of %d", worker, len(body), size)
			}
		}
		h.finish()
	}
}

// TestArenaBothWays echoes what stands in the request part, with pairs before
// the reference, until the reply part has gone around several times.
func TestArenaBothWays(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	for id := uint32(1); id <= 50; id++ {
		payload := strings.Repeat(string(rune('a'+id%26)), 40000+int(id)*997)
		at := requestPart.Offset + uint64(id)*64
		copy(h.memory[at:], payload)
		body := protocol.AppendPair(protocol.BeginPairs(nil, 1), "k", "v")
		body = protocol.Reference{Offset: at, Length: uint64(len(payload))}.AppendRequest(body)
		h.send(taskWith(protocol.Header{ID: id, Flags: protocol.Arena | protocol.Meta}, "echo", string(body)))
		if have := h.result(id); have != payload {
			t.Fatalf("task %d: %d bytes of %d come back, or others", id, len(have), len(payload))
		}
	}
	h.finish()
}

// TestFullReplyPart lets the host free nothing: what has no place comes in its
// frame.
func TestFullReplyPart(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	var inArena []bool
	for id := uint32(1); id <= 4; id++ {
		h.send(task(id, "big", "400000"))
		head, _ := h.expect(protocol.Result, id)
		inArena = append(inArena, head.Flags&protocol.Arena != 0)
	}
	if !inArena[0] || !inArena[1] || inArena[2] || inArena[3] {
		t.Errorf("in the arena: %v", inArena)
	}
	h.finish()
}

func TestReferenceOutsideThePart(t *testing.T) {
	t.Parallel()
	for _, r := range []protocol.Reference{
		{Offset: 0, Length: 100}, {Offset: replyPart.Offset, Length: 1}, {Offset: requestPart.Offset, Length: partSize + 1},
		{Offset: 1 << 63, Length: 1 << 63},
	} {
		h := start(t, "zoo", true)
		h.greet()
		h.send(taskWith(protocol.Header{ID: 1, Flags: protocol.Arena}, "echo", string(r.AppendRequest(nil))))
		if status := h.exit(); status != statusProtocol || !strings.Contains(h.stderr.String(), "outside its part") {
			t.Errorf("%+v: status %d, %s", r, status, &h.stderr)
		}
	}
}
