// Command bullpen-cell measures Bullpen's process pool in its default
// configuration, with a Go worker (examples/goworker) or a Python worker
// (workers/pyworker.py).
package main

import (
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"

	"github.com/bullpen-run/bullpen/bench/internal/cell"
)

func main() {
	o := cell.Parse()
	cell.Print(cell.Run(o, func(least, most int) (cell.Pool, error) { return open(o.Worker, least, most) }))
}

type pool struct {
	pool *process.Pool
	mark string // part of the command line of a worker
}

func open(worker string, least, most int) (cell.Pool, error) {
	p := &pool{}
	var command []string
	switch worker {
	case "go":
		path, err := cell.Bin("goworker")
		if err != nil {
			return nil, err
		}
		command, p.mark = []string{path}, "goworker"
	case "python":
		script, err := cell.Python("pyworker.py")
		if err != nil {
			return nil, err
		}
		command, p.mark = script, "pyworker.py"
	default:
		return nil, fmt.Errorf("worker %q: use go or python", worker)
	}
	var err error
	p.pool, err = process.New(process.Config{Command: command, Min: least, Max: most})
	return p, err
}

func (p *pool) Call(handler string, payload []byte) ([]byte, error) {
	r, err := p.pool.Execute(context.Background(), bullpen.Task{Name: handler, Payload: payload})
	return r.Payload, err
}

func (p *pool) CallAll(handler string, payload []byte, n int, check func([]byte) error) error {
	tasks := make([]bullpen.Task, n)
	for i := range tasks {
		tasks[i] = bullpen.Task{Name: handler, Payload: payload}
	}
	for _, ended := range p.pool.ExecuteAll(context.Background(), tasks) {
		if ended.Err != nil {
			return ended.Err
		}
		if err := check(ended.Result.Payload); err != nil {
			return err
		}
	}
	return nil
}

func (p *pool) Pids() []int { return cell.Children(p.mark) }

func (p *pool) Close() { _ = p.pool.Close() }
