package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen/bench/internal/cell"
)

// filter gives the command for the experiment "lines", and what it does.
func filter(name string) (command []string, how string, err error) {
	mapping := func(flags ...string) ([]string, string, error) {
		bullpen, err := cell.Bin("bullpen")
		command := append([]string{bullpen, "map", "--protocol", "lines", "--min", "2", "--max", "2"}, flags...)
		return append(command, "--", "cat"), "one task a line, 2 workers", err
	}
	switch name {
	case "bullpen":
		return mapping()
	case "bullpen-keep":
		return mapping("-k")
	case "parallel":
		return []string{"parallel", "--will-cite", "-j", "2", "--pipe", "cat"}, "blocks of 1 MB, 2 processes", nil
	case "xargs":
		// 400 lines stay below the 4096 bytes that a pipe takes in one piece; with
		// more, the outputs of two processes run into each other.
		return []string{"xargs", "-P", "2", "-n", "400", "echo"}, "400 lines a process, joined", nil
	default:
		return nil, "", fmt.Errorf("no program %q", name)
	}
}

// lines sends o.Lines numbers through a filter and counts what comes back. Where
// lines stay lines, the sum of the numbers must be right.
func lines(o cell.Options) (cell.Result, error) {
	command, how, err := filter(o.Worker)
	if err != nil {
		return cell.Result{}, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return cell.Result{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return cell.Result{}, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return cell.Result{}, err
	}
	done, peak := make(chan struct{}), make(chan int64, 1)
	go func() { peak <- watchPeak(cmd.Process.Pid, done) }() // ends with done; received below
	go func() { generate(in, o.Lines) }()                    // ends with the input, or when the program ends
	n, sum, err := count(out)
	took := time.Since(begin)
	close(done)
	high := <-peak
	if err != nil {
		return cell.Result{}, err
	}
	if err := cmd.Wait(); err != nil {
		return cell.Result{}, err
	}
	if want := o.Lines * (o.Lines - 1) / 2; n != o.Lines || sum != want {
		return cell.Result{}, fmt.Errorf("%d numbers with the sum %d came back: want %d with %d", n, sum, o.Lines, want)
	}
	return cell.Result{
		Metrics: map[string]float64{
			"lines_per_s": float64(n) / took.Seconds(), "peak_mb": float64(high) / 1024, "lines": float64(n),
		},
		InFlight: how,
	}, nil
}

// generate writes the numbers from 0 to n-1, one a line, and closes the pipe.
func generate(in io.WriteCloser, n int) {
	defer func() { _ = in.Close() }()
	w := bufio.NewWriterSize(in, 64<<10)
	line := make([]byte, 0, 24)
	for i := range n {
		line = append(strconv.AppendInt(line[:0], int64(i), 10), '\n')
		if _, err := w.Write(line); err != nil {
			return
		}
	}
	_ = w.Flush()
}

// count reads numbers divided by blanks or line feeds, without splitting them
// into strings: it must cost less than what it measures.
func count(out io.Reader) (n, sum int, err error) {
	buf := make([]byte, 256<<10)
	number, digits := 0, false
	for {
		got, err := out.Read(buf)
		for _, c := range buf[:got] {
			switch {
			case c >= '0' && c <= '9':
				number, digits = number*10+int(c-'0'), true
			case digits:
				n, sum, number, digits = n+1, sum+number, 0, false
			}
		}
		if err == io.EOF {
			return n, sum, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

// watchPeak returns the highest resident memory of a process in KiB. It reads
// VmHWM and not the usage that wait tells, which begins at the memory of the
// parent that started the process.
func watchPeak(pid int, done <-chan struct{}) (peak int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil {
			if _, rest, ok := bytes.Cut(b, []byte("VmHWM:")); ok {
				fields := bytes.Fields(rest[:bytes.IndexByte(rest, '\n')])
				if kb, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
					peak = max(peak, kb)
				}
			}
		}
		select {
		case <-done:
			return peak
		case <-tick.C:
		}
	}
}
