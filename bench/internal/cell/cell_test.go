package cell

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake answers in this process, after a delay.
type fake struct {
	delay time.Duration
	err   error
}

func (f fake) Call(handler string, payload []byte) ([]byte, error) {
	<-time.After(f.delay)
	if handler == "hash" {
		return Hash(payload), f.err
	}
	return nil, f.err
}
func (f fake) Pids() []int { return []int{os.Getpid()} }
func (f fake) Close()      {}

func opener(f fake) Open { return func(int, int) (Pool, error) { return f, nil } }

func TestRun(t *testing.T) {
	t.Parallel()
	for experiment, metric := range map[string]string{
		"null4": "rate_per_s", "sha1m": "rate_per_s", "rtt": "p99_us", "cold": "again_ms", "memory": "uss_mb",
	} {
		r, err := Run(Options{Experiment: experiment, Load: "2", Span: 20 * time.Millisecond}, opener(fake{delay: time.Millisecond}))
		if err != nil {
			t.Errorf("%s: %v", experiment, err)
		}
		if r.Metrics[metric] <= 0 {
			t.Errorf("%s: %s is %v", experiment, metric, r.Metrics)
		}
	}
}

func TestRunTellsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, o := range []Options{
		{Experiment: "nonsense"}, {Experiment: "null4", Load: "many"}, {Experiment: "null4", Load: "batch"},
	} {
		if _, err := Run(o, opener(fake{})); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	for _, experiment := range []string{"sha1k", "rtt", "cold"} {
		_, err := Run(Options{Experiment: experiment, Load: "2", Span: time.Second}, opener(fake{err: broken}))
		if !errors.Is(err, broken) {
			t.Errorf("%s: error %v", experiment, err)
		}
	}
}

func TestCheckFindsAWrongAnswer(t *testing.T) {
	t.Parallel()
	w, err := NewWork("sha1k")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(Hash(w.Payload)); err != nil {
		t.Error(err)
	}
	if w.Check(Hash([]byte("other"))) == nil {
		t.Error("a wrong answer passes")
	}
}

func TestChildren(t *testing.T) {
	t.Parallel()
	const mark = "cell-children-mark"
	cmd := exec.Command("sh", "-c", "read line", mark)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("no shell: " + err.Error())
	}
	if pids := Children(mark); !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("children %v, want %d", pids, cmd.Process.Pid)
	}
	_ = in.Close()
	_ = cmd.Wait()
	if pids := Children(mark); len(pids) > 0 {
		t.Errorf("children %v after the end", pids)
	}
}

func TestBinTellsWhatIsMissing(t *testing.T) {
	t.Setenv("BENCH_BIN", t.TempDir())
	if _, err := Bin("nothing"); err == nil || !strings.Contains(err.Error(), "was not built") {
		t.Errorf("error %v", err)
	}
	t.Setenv("BENCH_BIN", "")
	if _, err := Bin("nothing"); !errors.Is(err, ErrNoFile) {
		t.Errorf("error %v", err)
	}
}
