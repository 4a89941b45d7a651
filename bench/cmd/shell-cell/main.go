// Command shell-cell measures programs of the shell: xargs -P and GNU parallel,
// which start a process for each task, and the filters of the experiment "lines",
// among them bullpen map.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/cell"
)

func main() {
	o := cell.Parse()
	if o.Experiment == "lines" {
		cell.Print(lines(o))
	}
	cell.Print(tasks(o))
}

// tasks feeds the program without end and counts its answers.
func tasks(o cell.Options) (cell.Result, error) {
	work, err := cell.NewWork(o.Experiment)
	if err != nil {
		return cell.Result{}, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return cell.Result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	argument := hex.EncodeToString(work.Payload)[:len(work.Payload)] // printable, of the same length
	want := ""
	if work.Handler == "hash" {
		argument, want = filepath.Join(dir, "payload"), string(work.Want)
		if err := os.WriteFile(argument, work.Payload, 0o600); err != nil {
			return cell.Result{}, err
		}
	}
	one, err := cell.Bin("onetask")
	if err != nil {
		return cell.Result{}, err
	}
	var command []string
	switch o.Worker {
	case "xargs":
		command = []string{"xargs", "-P", "2", "-n", "1", one, work.Handler}
	case "parallel":
		command = []string{"parallel", "--will-cite", "-j", "2", one, work.Handler, "{}"}
	default:
		return cell.Result{}, fmt.Errorf("no program %q", o.Worker)
	}
	rate, err := feed(command, argument, want, o.Span)
	return cell.Result{
		Metrics: map[string]float64{"rate_per_s": rate}, InFlight: "2 processes, one a task",
	}, err
}

func feed(command []string, argument, want string, span time.Duration) (float64, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() { // ends when the program does
		for {
			if _, err := io.WriteString(in, argument+"\n"); err != nil {
				return
			}
		}
	}()
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var begin time.Time
	n := 0
	warm := time.Now().Add(span / 4)
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() != want {
			return 0, fmt.Errorf("wrong answer %q", s.Text())
		}
		now := time.Now()
		switch {
		case now.Before(warm):
		case begin.IsZero():
			begin = now
		case now.Sub(begin) >= span:
			return float64(n+1) / now.Sub(begin).Seconds(), nil
		default:
			n++
		}
	}
	return 0, fmt.Errorf("%s ended early", command[0])
}
