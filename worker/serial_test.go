//go:build unix

package worker

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

func TestHelloSaysWhatTheWorkerCan(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	hello := h.greet()
	if !hello.Page || !hello.Arena || hello.Ask != int(syscall.SIGWINCH) || hello.Concurrency != 1 || hello.SDK != sdk ||
		hello.Tasks[handlerNumber("echo")-1] != "echo" {
		t.Errorf("HELLO says %+v", hello)
	}
	h.finish()
	h = start(t, "several", false)
	if hello := h.greet(); hello.Page || hello.Arena || hello.Ask != 0 || hello.Concurrency != 4 {
		t.Errorf("HELLO without shared memory says %+v", hello)
	}
	h.finish()
}

// TestBrokenHandlers ends handlers in every way and finds the worker alive.
func TestBrokenHandlers(t *testing.T) {
	t.Parallel()
	for _, worker := range []string{"zoo", "several"} {
		h := start(t, worker, true)
		h.greet()
		for i, c := range []struct {
			payload, kind, message string
			code                   uint16
			final, stack           string
		}{
			{"words", "string", "words", protocol.OutcomePanic, "", "worker.broken"},
			{"index", "runtime.boundsError", "slice bounds out of range", protocol.OutcomePanic, "", "worker.broken"},
			{"nil", "*runtime.PanicNilError", "panic called with nil", protocol.OutcomePanic, "", "worker.broken"},
			{"error", "*errors.errorString", "thrown", protocol.OutcomePanic, "", "worker.broken"},
			{"rude", "string", "no words", protocol.OutcomePanic, "", "rude"},
			{"goexit", "runtime.Goexit", "the handler ended its goroutine", protocol.OutcomePanic, "", "worker.broken"},
			{"type", "*fs.PathError", "open x: file does not exist", protocol.OutcomeFailed, "", ""},
			{"wrapped", "", "wrapped: inside", protocol.OutcomeFailed, "yes", ""},
			{"canceled", "", "context canceled", protocol.OutcomeFailed, "", ""},
		} {
			id := uint32(2*i + 1)
			h.send(task(id, "break", c.payload))
			e := h.failure(id, c.code)
			if e["type"] != c.kind || !strings.Contains(e["message"], c.message) || e["final"] != c.final ||
				!strings.Contains(e["stack"], c.stack) || (c.stack == "") != (e["stack"] == "") {
				t.Errorf("%s, %s: %q", worker, c.payload, e)
			}
			h.send(task(id+1, "echo", "alive"))
			h.result(id + 1)
		}
		h.send(task(99, "break", "long"))
		if e := h.failure(99, protocol.OutcomePanic); len(e["message"]) > maxMessage || len(e["message"]) < maxMessage-3 ||
			strings.Trim(e["message"], "€") != "" || len(e["stack"]) > maxStack {
			t.Errorf("a long message has %d bytes, its stack %d", len(e["message"]), len(e["stack"]))
		}
		h.finish()
	}
}

// TestGoexitInABatch ends goroutines while more frames wait in the buffer.
func TestGoexitInABatch(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	var batch []byte
	for id := uint32(1); id <= 20; id += 2 {
		batch = append(append(batch, task(id, "break", "goexit")...), task(id+1, "echo", "x")...)
	}
	h.send(batch)
	for id := uint32(1); id <= 20; id += 2 {
		h.failure(id, protocol.OutcomePanic)
		h.result(id + 1)
	}
	h.finish()
}

func TestTaskFields(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", false)
	h.greet()
	body := protocol.BeginPairs(nil, 4)
	for _, kv := range [][2]string{{"bullpen.id", "01J"}, {"bullpen.output", "100"}, {"k", "v"}, {"bullpen.parent", "01H"}} {
		body = protocol.AppendPair(body, kv[0], kv[1])
	}
	h.send(taskWith(protocol.Header{ID: 1, Flags: protocol.Meta | protocol.Timeout, Aux: 90e6}, "task", string(body)))
	if have, want := h.result(1), "01J|task|map[bullpen.parent:01H k:v]|1m30s|100|true"; have != want {
		t.Errorf("the handler got %q, want %q", have, want)
	}
	h.send(task(2, "task"))
	if have, want := h.result(2), "|task|map[]|0s|0|false"; have != want {
		t.Errorf("the handler got %q, want %q", have, want)
	}
	h.finish()
}

func TestLimitEndsTheContext(t *testing.T) {
	t.Parallel()
	for _, worker := range []string{"zoo", "several"} {
		h := start(t, worker, false)
		h.greet()
		for i, name := range []string{"block", "spin"} {
			id := uint32(i + 1)
			h.send(taskWith(protocol.Header{ID: id, Flags: protocol.Timeout, Aux: 2000}, name, ""))
			h.expect(protocol.Progress, id)
			e := h.failure(id, protocol.OutcomeTimeout)
			if !strings.Contains(e["message"], "context deadline exceeded") || e["final"] != "" {
				t.Errorf("%s: %q", name, e)
			}
		}
		h.finish()
	}
}

func TestLargePayloads(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", false)
	h.greet()
	payload := strings.Repeat("0123456789abcdef", 5<<20/16)
	for id := uint32(1); id <= 3; id++ {
		go func() { // two full pipes would wait for each other; ends when the worker has read all
			_, _ = h.in.Write(append(task(id, "echo", payload), task(id+100, "echo", "small")...))
		}()
		if h.result(id) != payload || h.result(id+100) != "small" {
			t.Fatal("a payload of 5 MiB comes back otherwise")
		}
	}
	h.finish()
}

func TestChildrenGetNothing(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	h.send(task(1, "children"))
	if have := h.result(1); have != "nothing\n" {
		t.Errorf("a program that a handler starts sees %q", have)
	}
	h.finish()
}

func TestLogAndProgress(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", false)
	h.greet()
	h.send(task(1, "report"))
	for _, p := range []struct {
		aux  uint32
		note string
	}{{250000, "a quarter"}, {1000000, strings.Repeat("€", 8192/3)}, {0, ""}, {500000, "by the observer"}} {
		if head, note := h.expect(protocol.Progress, 1); head.Aux != p.aux || note != p.note {
			t.Errorf("got %v %.30q, want %d %.30q", head, note, p.aux, p.note)
		}
	}
	for _, l := range []struct {
		code   uint16
		stream uint32
		text   string
	}{
		{32772, protocol.StreamStdout, "by the observer"},
		{32772, protocol.StreamLog, `two words a=1 g.b="x y" g.msg=kept g.empty=""`},
		{32776, protocol.StreamLog, "first"}, {32776, protocol.StreamLog, "second"},
	} {
		if head, text := h.expect(protocol.Log, 1); head.Code != l.code || head.Aux != l.stream || text != l.text {
			t.Errorf("got %v %q, want %+v", head, text, l)
		}
	}
	h.result(1)
	h.finish()
}

func TestKeptContextIsHarmless(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	h.send(task(1, "keep"), task(2, "kept"))
	h.result(1)
	if _, text := h.expect(protocol.Log, 1); text != "late" {
		t.Errorf("the log line is %q", text)
	}
	if have := h.result(2); have != "context canceled <nil>" {
		t.Errorf("the contexts of the task before and of this one: %s", have)
	}
	h.finish()
}

func TestExitOfAHandler(t *testing.T) {
	t.Parallel()
	h := start(t, "zoo", true)
	h.greet()
	h.send(task(1, "echo", "x"), task(2, "exit"), task(3, "echo"))
	if status := h.exit(); status != 7 {
		t.Errorf("status %d", status)
	}
	if h.page.Started() != 2 || h.page.Finished() != 1 {
		t.Errorf("started %d, finished %d", h.page.Started(), h.page.Finished())
	}
}

func TestHostStopsReading(t *testing.T) {
	t.Parallel()
	for _, worker := range []string{"zoo", "several"} {
		h := start(t, worker, false)
		h.greet()
		check(t, h.out.Close())
		h.send(task(1, "echo"))
		if err := h.cmd.Wait(); h.cmd.ProcessState.ExitCode() != statusWrite {
			t.Errorf("%s: %v", worker, err)
		}
	}
}

func TestBadMemory(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(h *host){
		"no page": func(h *host) { binary.NativeEndian.PutUint32(h.memory, 1) },
		"part over the page": func(h *host) {
			h.send(protocol.HostHello{Request: protocol.Part{Offset: 4095, Length: 100}, Reply: replyPart}.Append(nil))
		},
		"part behind the end": func(h *host) {
			h.send(protocol.HostHello{Request: requestPart, Reply: protocol.Part{Offset: 1 << 62, Length: 1 << 62}}.Append(nil))
		},
	} {
		h := startStopped(t, damage)
		if status := h.exit(); status != statusProtocol {
			t.Errorf("%s: status %d", name, status)
		}
	}
}

func TestStartedWrongly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		worker, address, says string
	}{
		{"zoo", "", "bullpen map --protocol frames"},
		{"zoo", "v2,in=3,out=4", `version "v2"`},
		{"zoo", "v1,in=3", "both in and out"},
		{"zoo", "v1,in=x,out=4", "not a descriptor"},
		{"zoo", "v1,in=3,out=4,mem=77", "map the shared memory"},
		{"wrong", "v1,in=3,out=4", "use 1 to 960"},
		{"wrong", "v1,in=3,out=4", `the handler "echo" is nil`},
		{"wrong", "v1,in=3,out=4", "Order is"},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childVariable+"="+c.worker, variable+"="+c.address)
		said, _ := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != statusStart || !strings.Contains(string(said), c.says) {
			t.Errorf("%s: status %d, %s", c.address, status, said)
		}
	}
}

// TestStandardStreams serves where descriptors cannot be inherited.
func TestStandardStreams(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childVariable+"=zoo", variable+"=v1,in=0,out=1")
	cmd.Stdin = strings.NewReader(string(protocol.HostHello{}.Append(nil)) + string(task(1, "children")) + string(task(2, "echo", "x")))
	said, err := cmd.Output()
	check(t, err)
	var kinds []string
	for len(said) > 0 {
		head, _, n, _, err := protocol.Split(said, protocol.DefaultFrame)
		check(t, err)
		said = said[n:]
		kinds = append(kinds, fmt.Sprint(head.Kind, " ", strconv.Itoa(int(head.ID))))
	}
	if have := strings.Join(kinds, ", "); have != "HELLO 0, RESULT 1, RESULT 2" {
		t.Error(have)
	}
}
