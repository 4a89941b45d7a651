// Command roadrunner-cell measures RoadRunner's pool with a Go worker on pipes.
package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"

	"github.com/roadrunner-server/goridge/v3/pkg/frame"
	"github.com/roadrunner-server/pool/ipc/pipe"
	"github.com/roadrunner-server/pool/payload"
	config "github.com/roadrunner-server/pool/pool"
	"github.com/roadrunner-server/pool/pool/static_pool"
	"go.uber.org/zap"

	"github.com/bullpen-run/bullpen/bench/internal/cell"
)

func main() {
	o := cell.Parse()
	handler := "null" // the handler whose name does not travel
	if w, err := cell.NewWork(o.Experiment); err == nil {
		handler = w.Handler
	}
	cell.Print(cell.Run(o, func(least, most int) (cell.Pool, error) { return open(handler, least, most) }))
}

type pool struct {
	pool    *static_pool.Pool
	handler string
}

// open starts a pool with the default configuration and a silent logger. The
// name of the worker's own handler is not sent, which spares RoadRunner bytes.
func open(handler string, least, most int) (cell.Pool, error) {
	worker, err := cell.Bin("rrworker")
	if err != nil {
		return nil, err
	}
	cfg := &config.Config{NumWorkers: uint64(least)}
	if most > least {
		cfg.DynamicAllocatorOpts = &config.DynamicAllocationOpts{MaxWorkers: uint64(most - least)}
	}
	command := func([]string) *exec.Cmd { return exec.Command(worker, handler) }
	log := zap.NewNop()
	p, err := static_pool.NewPool(context.Background(), command, pipe.NewPipeFactory(log), cfg, log)
	if err != nil {
		return nil, err
	}
	return &pool{p, handler}, nil
}

func (p *pool) Call(handler string, body []byte) ([]byte, error) {
	task := &payload.Payload{Body: body, Codec: frame.CodecRaw}
	if handler != p.handler {
		task.Context = []byte(handler)
	}
	replies, err := p.pool.Exec(context.Background(), task, nil)
	if err != nil {
		return nil, err
	}
	reply, ok := <-replies
	if !ok {
		return nil, fmt.Errorf("no reply")
	}
	if reply.Error() != nil {
		return nil, reply.Error()
	}
	return reply.Body(), nil
}

func (p *pool) Pids() []int {
	var pids []int
	for _, w := range p.pool.Workers() {
		pids = append(pids, int(w.Pid()))
	}
	slices.Sort(pids)
	return pids
}

func (p *pool) Close() { p.pool.Destroy(context.Background()) }
