//go:build unix

package worker

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/protocol"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

const (
	memorySize = 4 << 20
	partSize   = 1 << 20
)

var (
	requestPart = protocol.Part{Offset: protocol.PageSize, Length: partSize}
	replyPart   = protocol.Part{Offset: protocol.PageSize + partSize, Length: partSize}
)

// host is the other end of a worker, for one test.
type host struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     *os.File // to the worker
	out    *os.File // from the worker
	buf    []byte   // read and not taken
	stderr bytes.Buffer
	memory []byte
	page   *protocol.Page
}

// start starts the test binary as a worker; it is waited for by exit or at the
// end of the test.
func start(t testing.TB, name string, withMemory bool) *host {
	t.Helper()
	return startWith(t, name, withMemory, nil)
}

// startWith is start with something to do before the worker runs.
func startWith(t testing.TB, name string, withMemory bool, before func(*host)) *host {
	t.Helper()
	h := &host{t: t, cmd: exec.Command(os.Args[0])}
	childIn, in, err := os.Pipe()
	check(t, err)
	out, childOut, err := os.Pipe()
	check(t, err)
	h.in, h.out = in, out
	h.cmd.ExtraFiles = []*os.File{childIn, childOut}
	address := "v1,future=x,in=3,out=4"
	if withMemory {
		h.cmd.ExtraFiles = append(h.cmd.ExtraFiles, h.share())
		address += ",mem=5"
	}
	// A process with the race detector sleeps a second at its end by default.
	h.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childVariable+"="+name, variable+"="+address)
	h.cmd.Stderr = &h.stderr
	if before != nil {
		before(h)
	}
	check(t, h.cmd.Start())
	for _, f := range h.cmd.ExtraFiles {
		check(t, f.Close())
	}
	t.Cleanup(h.end)
	return h
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// share makes the shared memory and returns its file.
func (h *host) share() *os.File {
	f, err := os.Create(filepath.Join(h.t.TempDir(), "mem"))
	check(h.t, err)
	check(h.t, f.Truncate(memorySize))
	h.memory, err = syscall.Mmap(int(f.Fd()), 0, memorySize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	check(h.t, err)
	h.page, err = protocol.NewPage(h.memory)
	check(h.t, err)
	h.page.Init()
	return f
}

// end kills a worker that is still there.
func (h *host) end() {
	_ = h.in.Close()
	_ = h.out.Close()
	if h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
	if h.memory != nil {
		check(h.t, syscall.Munmap(h.memory))
	}
	if h.t.Failed() && h.stderr.Len() > 0 {
		h.t.Logf("standard error of the worker:\n%s", &h.stderr)
	}
}

// greet exchanges HELLO.
func (h *host) greet() protocol.WorkerHello {
	h.t.Helper()
	hello := protocol.HostHello{Worker: "w1", PID: h.cmd.Process.Pid}
	if h.memory != nil {
		hello.Request, hello.Reply = requestPart, replyPart
	}
	h.send(hello.Append(nil))
	head, body := h.next()
	theirs, err := protocol.ParseWorkerHello(head, body)
	check(h.t, err)
	return theirs
}

func (h *host) send(frames ...[]byte) {
	h.t.Helper()
	_, err := h.in.Write(bytes.Join(frames, nil))
	check(h.t, err)
}

// read reads once, and gives io.EOF at the end of the worker.
func (h *host) read() error {
	check(h.t, h.out.SetReadDeadline(time.Now().Add(patience)))
	more := make([]byte, 256<<10)
	n, err := h.out.Read(more)
	h.buf = append(h.buf, more[:n]...)
	return err
}

// next takes the next frame.
func (h *host) next() (protocol.Header, []byte) {
	h.t.Helper()
	for {
		head, body, n, _, err := protocol.Split(h.buf, protocol.DefaultFrame)
		check(h.t, err)
		if n > 0 {
			h.buf = h.buf[n:]
			return head, body
		}
		check(h.t, h.read())
	}
}

// result takes a RESULT for a task, in its frame or in the arena.
func (h *host) result(id uint32) string {
	h.t.Helper()
	head, body := h.next()
	if head.Kind != protocol.Result || head.ID != id {
		h.t.Fatalf("got %v %q, want RESULT of task %d", head, body, id)
	}
	if head.Flags&protocol.Arena == 0 {
		return string(body)
	}
	r, err := protocol.ParseReply(body)
	check(h.t, err)
	view, err := replyPart.Slice(h.memory, r)
	check(h.t, err)
	payload := string(view)
	h.page.Free(r.Taken)
	return payload
}

// failure takes an ERROR for a task and returns its pairs.
func (h *host) failure(id uint32, code uint16) map[string]string {
	h.t.Helper()
	head, body := h.next()
	if head.Kind != protocol.Error || head.ID != id || head.Code != code {
		h.t.Fatalf("got %v %q, want ERROR %d of task %d", head, body, code, id)
	}
	pairs, err := protocol.ParseAllPairs(body)
	check(h.t, err)
	all := map[string]string{"final": map[bool]string{true: "yes"}[head.Flags&protocol.Final != 0]}
	for _, p := range pairs {
		all[p.Key] = string(p.Value)
	}
	return all
}

// expect takes a frame of a kind for a task.
func (h *host) expect(kind protocol.Kind, id uint32) (protocol.Header, string) {
	h.t.Helper()
	head, body := h.next()
	if head.Kind != kind || head.ID != id {
		h.t.Fatalf("got %v %q, want %v of task %d", head, body, kind, id)
	}
	return head, string(body)
}

// exit waits until the worker has ended, and returns its status; nothing may
// come from it before.
func (h *host) exit() int {
	h.t.Helper()
	for {
		err := h.read()
		if errors.Is(err, io.EOF) {
			break
		}
		check(h.t, err)
	}
	if err := h.cmd.Wait(); err != nil && h.cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return h.cmd.ProcessState.ExitCode()
}

// finish ends the session and expects a good end.
func (h *host) finish() {
	h.t.Helper()
	check(h.t, h.in.Close())
	if status := h.exit(); status != 0 || len(h.buf) > 0 {
		h.t.Fatalf("the worker ended with status %d and %d bytes; its words: %s", status, len(h.buf), &h.stderr)
	}
}

// task is a TASK frame for a handler of the zoo.
func task(id uint32, name string, payload ...string) []byte {
	return taskWith(protocol.Header{ID: id}, name, strings.Join(payload, ""))
}

func taskWith(h protocol.Header, name, body string) []byte {
	h.Kind, h.Code = protocol.Task, handlerNumber(name)
	return protocol.AppendFrame(nil, h, []byte(body))
}
