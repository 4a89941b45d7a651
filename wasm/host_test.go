package wasm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// Functions of the module bullpen, and of WASI, for modules made by hand.
var (
	importTask     = imported{bullpenModule, "task", []byte{0x7f, 0x7f, 0x7f}, vI32}
	importResult   = imported{bullpenModule, "result", []byte{0x7f, 0x7f}, none}
	importFail     = imported{bullpenModule, "fail", []byte{0x7f, 0x7f, 0x7f, 0x7f}, none}
	importLog      = imported{bullpenModule, "log", []byte{0x7f, 0x7f, 0x7f}, none}
	importProgress = imported{bullpenModule, "progress", []byte{0x7c, 0x7f, 0x7f}, none}
	importExit     = imported{"wasi_snapshot_preview1", "proc_exit", vI32, none}
	importWrite    = imported{"wasi_snapshot_preview1", "fd_write", []byte{0x7f, 0x7f, 0x7f, 0x7f}, vI32}
	importPoll     = imported{"wasi_snapshot_preview1", "poll_oneoff", []byte{0x7f, 0x7f, 0x7f, 0x7f}, vI32}
	importRandom   = imported{"wasi_snapshot_preview1", "random_get", []byte{0x7f, 0x7f}, vI32}
)

// command makes a command of WASI that calls imported functions, by their index.
func command(body []byte, data map[uint32]string, imports ...imported) *builder {
	return &builder{pages: 2, imports: imports, data: data, funcs: []function{{export: "_start", body: body}}}
}

func calling(n uint32, args ...[]byte) []byte { return code(slices.Concat(args...), opCall, n) }

// print writes a text that lies at 1024, whose vector is at 16.
func print(n uint32, descriptor int32) []byte {
	return code(calling(n, num(descriptor), num(16), num(1), num(8)), opDrop)
}

// vector is a vector of one text, and the text.
func vector(text string) map[uint32]string {
	n := len(text)
	return map[uint32]string{16: string([]byte{0, 4, 0, 0, byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}), 1024: text}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Code: command(code(print(0, 1), print(0, 2)), vector("a line\nlast"), importWrite).build()})
	l := &lines{}
	r, err := p.Execute(t.Context(), bullpen.Task{Name: "any", Observer: l})
	if err != nil || string(r.Payload) != "a line\nlast" {
		t.Errorf("the output is %q, %v", r.Payload, err)
	}
	if want := []string{"stderr: a line", "stderr: last"}; !slices.Equal(l.texts, want) {
		t.Errorf("the lines are %q, want %q", l.texts, want)
	}
	if r.Stats.Worker != "wasm-1" || r.Stats.Ran <= 0 || r.Stats.PeakMemory != 2*page {
		t.Errorf("the statistics are %+v", r.Stats)
	}
	k := bullpen.Task{Name: "any"}
	k.Limits.Output = 10
	_, err = p.Execute(t.Context(), k)
	_ = wantOutcome(t, err, bullpen.Output)
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	exit := func(status int32, imports ...imported) *Pool {
		return open(t, Config{Code: command(code(print(0, 2), calling(1, num(status))), vector("why\nlast line\n"), append([]imported{importWrite, importExit}, imports...)...).build()})
	}
	_, err := exit(3).Execute(t.Context(), bullpen.Task{Name: "any"})
	te := wantOutcome(t, err, bullpen.Failed)
	if te.ExitCode != 3 || te.Message != "exit status 3: last line" || te.Detail != "why\nlast line" {
		t.Errorf("the error is %#v", te)
	}
	if _, err := exit(0).Execute(t.Context(), bullpen.Task{Name: "any"}); err != nil {
		t.Errorf("exit status 0 gave %v", err)
	}
	for _, status := range []int32{0, 3} { // it could have answered
		_, err := exit(status, importResult).Execute(t.Context(), bullpen.Task{Name: "any"})
		if te := wantOutcome(t, err, bullpen.Crashed); te.ExitCode != int(status) {
			t.Errorf("exit status %d gave %#v", status, te)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	failure := protocol.BeginPairs(nil, 3)
	for key, value := range map[string]string{"type": "ValueError", "message": "no such user", "stack": "at line 7"} {
		failure = protocol.AppendPair(failure, key, value)
	}
	fail := func(outcome, flags int32) *Pool {
		return open(t, Config{Code: command(calling(0, num(outcome), num(flags), num(1024), num(int32(len(failure)))),
			map[uint32]string{1024: string(failure)}, importFail).build()})
	}
	for flags, retry := range map[int32]bool{0: true, 1: false} {
		_, err := fail(1, flags).Execute(t.Context(), bullpen.Task{Name: "any"})
		te := wantOutcome(t, err, bullpen.Failed)
		if te.Type != "ValueError" || te.Message != "no such user" || te.Stack != "at line 7" || te.Retryable != retry {
			t.Errorf("the failure is %#v", te)
		}
	}
	_, err := fail(2, 0).Execute(t.Context(), bullpen.Task{Name: "any"})
	_ = wantOutcome(t, err, bullpen.Panic)
	_, err = fail(7, 0).Execute(t.Context(), bullpen.Task{Name: "any"})
	if te := wantOutcome(t, err, bullpen.Output); te.Retryable {
		t.Error("a result that is too large is retryable")
	}
	_, err = fail(9, 0).Execute(t.Context(), bullpen.Task{Name: "any"})
	_ = wantOutcome(t, err, bullpen.Protocol)

	// The name of the task, as a result.
	p := open(t, Config{Code: command(code(calling(0, num(1), num(64), num(100)), opDrop, calling(1, num(64), num(4))), nil, importTask, importResult).build()})
	r, err := p.Execute(t.Context(), bullpen.Task{Name: "name"})
	if err != nil || string(r.Payload) != "name" {
		t.Errorf("the name is %q, %v", r.Payload, err)
	}
	half := []byte{0x44, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f} // f64.const 0.5
	p = open(t, Config{Code: command(code(calling(0, half, num(1024), num(4)), calling(1, num(4), num(1024), num(4)), calling(2, num(0), num(0))),
		map[uint32]string{1024: "note"}, importProgress, importLog, importResult).build()})
	l := &lines{}
	if _, err := p.Execute(t.Context(), bullpen.Task{Name: "any", Observer: l}); err != nil {
		t.Error(err)
	}
	if !slices.Equal(l.texts, []string{"note", "log: note"}) || !slices.Equal(l.progress, []float64{0.5}) {
		t.Errorf("the observer has %q, %v", l.texts, l.progress)
	}
}

// TestGuestsThatLie gives the host pointers and sizes that lead out of the memory.
func TestGuestsThatLie(t *testing.T) {
	t.Parallel()
	for _, i := range []imported{importTask, importResult, importFail, importLog} {
		for _, at := range []int32{-1, 2*page - 1, 2 * page, 1 << 30} {
			var args [][]byte
			for n := range i.params {
				args = append(args, num([]int32{1, at, at, at}[n+4-len(i.params)]))
			}
			body := calling(0, args...)
			if len(i.results) > 0 {
				body = code(body, opDrop)
			}
			p := open(t, Config{Code: command(body, nil, i).build()})
			_, err := p.Execute(t.Context(), bullpen.Task{Name: "any"})
			o, started := bullpen.OutcomeOf(err)
			if !started || o != bullpen.Protocol && o != bullpen.Output {
				t.Errorf("%s with %d gave %v", i.name, at, err)
			}
		}
	}
}

// TestGuestsInHostFunctions stops guests that are in a host function for long, or again and
// again.
func TestGuestsInHostFunctions(t *testing.T) {
	t.Parallel()
	hour := make([]byte, 48)
	copy(hour[24:], []byte{0, 0, 0, 0, 0, 1, 0, 0}) // relative, some 2^40 ns
	forever := func(body []byte) []byte { return code(opLoop, void, body, opBr, 0, opEnd) }
	for what, b := range map[string]*builder{
		"sleep":  command(code(calling(0, num(64), num(512), num(1), num(8)), opDrop), map[uint32]string{64: string(hour)}, importPoll),
		"print":  command(forever(print(0, 2)), vector(strings.Repeat("a line\n", 1000)), importWrite),
		"random": command(forever(code(calling(0, num(0), num(2*page)), opDrop)), nil, importRandom),
		"log":    command(forever(calling(0, num(0), num(0), num(2*page))), nil, importLog),
	} {
		p := open(t, Config{Code: b.build()})
		k := bullpen.Task{Name: "any"}
		k.Limits.Timeout = 20 * time.Millisecond
		_, err := p.Execute(t.Context(), k)
		te := wantOutcome(t, err, bullpen.Timeout)
		if what == "print" && !strings.HasSuffix(te.Detail, "a line") {
			t.Errorf("the last lines are %q", te.Detail)
		}
	}
}

// TestStartFunction has a module whose start function never ends.
func TestStartFunction(t *testing.T) {
	t.Parallel()
	b := echo()
	b.funcs = append(b.funcs, function{body: code(opLoop, void, opBr, 0, opEnd)})
	b.start = 2
	p := open(t, Config{Code: b.build()})
	k := bullpen.Task{Name: "any"}
	k.Limits.Timeout = 20 * time.Millisecond
	_, err := p.Execute(t.Context(), k)
	_ = wantOutcome(t, err, bullpen.Timeout)
}
