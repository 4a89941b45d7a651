// Command floor-cell measures the floors: bare length-prefixed frames over two
// pipes to each of two workers, without a pool, and the load in this process
// without any worker.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"github.com/bullpen-run/bullpen/bench/internal/cell"
)

func main() {
	o := cell.Parse()
	cell.Print(measure(o))
}

func measure(o cell.Options) (cell.Result, error) {
	if o.Worker == "none" {
		return inProcess(o)
	}
	if o.Experiment == "rtt" || o.Experiment == "rtt-one-core" {
		w, err := open(o.Worker, "null")
		if err != nil {
			return cell.Result{}, err
		}
		return cell.RoundTrip(o.Span, func() error { return w.exchange([]byte("ping"), 1, nil) })
	}
	work, err := cell.NewWork(o.Experiment)
	if err != nil {
		return cell.Result{}, err
	}
	window, err := o.Callers()
	if err != nil {
		return cell.Result{}, err
	}
	workers := make(chan *worker, 2)
	for range cap(workers) {
		w, err := open(o.Worker, work.Handler)
		if err != nil {
			return cell.Result{}, err
		}
		workers <- w
	}
	rate, err := cell.Rate(o.Span, cap(workers), window, func() error {
		w := <-workers
		defer func() { workers <- w }()
		return w.exchange(work.Payload, window, work.Check)
	})
	return cell.Result{
		Metrics:  map[string]float64{"rate_per_s": rate},
		InFlight: strconv.Itoa(window) + " per worker, one write",
	}, err
}

// inProcess runs the load in goroutines of this process.
func inProcess(o cell.Options) (cell.Result, error) {
	work, err := cell.NewWork(o.Experiment)
	if err != nil {
		return cell.Result{}, err
	}
	n, err := o.Callers()
	if err != nil {
		return cell.Result{}, err
	}
	rate, err := cell.Rate(o.Span, n, 1, func() error { return work.Check(cell.Hash(work.Payload)) })
	return cell.Result{
		Metrics:  map[string]float64{"rate_per_s": rate},
		InFlight: o.Load + " goroutines",
	}, err
}

// worker is a process behind two pipes. One goroutine at a time may use it.
type worker struct {
	in   io.Writer
	out  io.Reader
	send []byte
	got  []byte
}

func open(language, handler string) (*worker, error) {
	var command []string
	switch language {
	case "go":
		path, err := cell.Bin("pipeworker")
		if err != nil {
			return nil, err
		}
		command = []string{path}
	case "python":
		script, err := cell.Python("pypipe.py")
		if err != nil {
			return nil, err
		}
		command = script
	default:
		return nil, fmt.Errorf("worker %q: use go or python", language)
	}
	cmd := exec.Command(command[0], append(command[1:], handler)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &worker{in: in, out: out}, cmd.Start()
}

// exchange sends n frames in one write and reads n answers. Sending and reading
// take turns, so the answers must fit into the pipe: those of the loads do.
func (w *worker) exchange(payload []byte, n int, check func([]byte) error) error {
	w.send = w.send[:0]
	for range n {
		w.send = binary.LittleEndian.AppendUint32(w.send, uint32(len(payload)))
		w.send = append(w.send, payload...)
	}
	if _, err := w.in.Write(w.send); err != nil {
		return err
	}
	if cap(w.got) == 0 {
		w.got = make([]byte, 0, 64<<10)
	}
	w.got = w.got[:0]
	for start := 0; n > 0; {
		got, err := w.out.Read(w.got[len(w.got):cap(w.got)])
		if err != nil {
			return err
		}
		w.got = w.got[:len(w.got)+got]
		for ; n > 0 && len(w.got)-start >= 4; n-- {
			size := int(binary.LittleEndian.Uint32(w.got[start:]))
			if len(w.got)-start < 4+size {
				break
			}
			if check != nil {
				if err := check(w.got[start+4 : start+4+size]); err != nil {
					return err
				}
			}
			start += 4 + size
		}
	}
	return nil
}
