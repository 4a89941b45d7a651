// Command watch measures what it costs to watch a daemon at work: the throughput of
// tasks that do nothing, with nobody watching and with Prometheus, the dashboard and
// `bullpen top` asking at the same time, in turns of a few seconds on one daemon.
//
//	go run ./cmd/watch                  # 10 turns of 3 s each way, ephemeral and durable: two minutes
//	go run ./cmd/watch -turns 3 -span 1s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

type options struct {
	turns, callers int
	span           time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.turns, "turns", 10, "how often it is measured each way")
	flag.IntVar(&o.callers, "callers", 32, "how many callers there are")
	flag.DurationVar(&o.span, "span", 3*time.Second, "how long each turn is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) (err error) {
	d, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	c, err := client.New(client.Config{URL: d.url, Connections: o.callers})
	if err != nil {
		return err
	}
	defer c.Close()
	kinds := map[string]func(context.Context) error{
		"ephemeral": func(ctx context.Context) error {
			_, err := c.RunEphemeral(ctx, "noop", bullpen.Task{Name: "noop"})
			return err
		},
		"durable": func(ctx context.Context) error {
			_, _, err := c.Run(ctx, job.Job{Queue: "noop", Name: "noop"})
			return err
		},
	}
	for _, kind := range []string{"ephemeral", "durable"} {
		if _, err := turn(ctx, o, kinds[kind]); err != nil { // it warms up
			return err
		}
		if err := d.compare(ctx, o, kind, kinds[kind]); err != nil {
			return err
		}
	}
	return nil
}

// compare takes turns with and without watchers, each pair the other way round than
// the one before.
func (d *daemon) compare(ctx context.Context, o options, kind string, task func(context.Context) error) error {
	var plain, watched, ratios []float64
	for n := range o.turns {
		var rates [2]float64
		for k := range 2 {
			which := (n + k) % 2
			stop := func() error { return nil }
			if which == 1 {
				stop = d.watch(ctx)
			}
			rate, err := turn(ctx, o, task)
			if err = errors.Join(err, stop()); err != nil {
				return err
			}
			rates[which] = rate
		}
		plain, watched = append(plain, rates[0]), append(watched, rates[1])
		ratios = append(ratios, rates[1]/rates[0])
	}
	fmt.Printf("%s: %.0f tasks a second with nobody watching, %.0f while watched; the median of %d ratios is %.3f, so that watching costs %.1f %%\n",
		kind, median(plain), median(watched), len(ratios), median(ratios), 100*(1-median(ratios)))
	return nil
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// turn gives how many tasks end a second.
func turn(ctx context.Context, o options, task func(context.Context) error) (float64, error) {
	over := make(chan struct{})
	var count atomic.Int64
	var first atomic.Pointer[error]
	var callers sync.WaitGroup
	begin := time.Now()
	for range o.callers {
		callers.Go(func() { // ends by over
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := task(ctx); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				count.Add(1)
			}
		})
	}
	select {
	case <-time.After(o.span):
	case <-ctx.Done():
	}
	n, took := count.Load(), time.Since(begin)
	close(over)
	callers.Wait()
	if err := first.Load(); err != nil {
		return 0, *err
	}
	return float64(n) / took.Seconds(), context.Cause(ctx)
}

// watch asks what Prometheus, a dashboard that shows the list of jobs, and top ask,
// until stop is called.
func (d *daemon) watch(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	var first atomic.Pointer[error]
	every := func(pause time.Duration, paths ...string) {
		all.Go(func() { // ends with ctx
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for ctx.Err() == nil {
				for _, path := range paths {
					if err := d.read(ctx, path); err != nil && ctx.Err() == nil {
						first.CompareAndSwap(nil, &err)
						return
					}
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	every(time.Second, "/metrics")
	every(time.Second, "/v1/status", "/v1/pools")
	every(time.Second, "/v1/overview/events") // which goes on until the end
	every(10*time.Second, "/v1/history")
	every(2500*time.Millisecond, "/v1/jobs?limit=50&order=newest")
	return func() error {
		cancel()
		all.Wait()
		if err := first.Load(); err != nil {
			return *err
		}
		return nil
	}
}

func (d *daemon) read(ctx context.Context, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, http.NoBody)
	if err != nil {
		return err
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, got.Status)
	}
	_, err = io.Copy(io.Discard, got.Body)
	return err
}

// daemon is the program under measurement.
type daemon struct {
	url, folder string
	command     *exec.Cmd
}

// start builds and starts a daemon in a folder of its own.
func start(ctx context.Context) (*daemon, error) {
	folder, err := os.MkdirTemp("", "watch-")
	if err != nil {
		return nil, err
	}
	d := &daemon{folder: folder}
	for name, from := range map[string]string{"bullpen": "../cmd/bullpen", "noop": "./cmd/queue/noop"} {
		c := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(folder, name), from)
		if filepath.Dir(from) == "../cmd" {
			c = exec.CommandContext(ctx, "go", "-C", "..", "build", "-o", filepath.Join(folder, name), "./cmd/bullpen")
		}
		if out, err := c.CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("building %s, from the folder bench: %w\n%s", name, err, out), os.RemoveAll(folder))
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	address := l.Addr().String()
	_ = l.Close() // it is the daemon's now
	d.url = "http://" + address
	file := filepath.Join(folder, "bullpen.yaml")
	text := fmt.Sprintf("http: {listen: %q}\npools:\n  noop: {command: [%q], workers: {min: 2, max: 2}, ephemeral: true}\n", address, filepath.Join(folder, "noop"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	d.command = exec.Command(filepath.Join(folder, "bullpen"), "serve", "--config", file)
	d.command.Dir = folder
	if err := d.command.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	for range 500 {
		if d.read(ctx, "/readyz") == nil {
			return d, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil, errors.Join(errors.New("the daemon is not ready in time"), d.end())
}

func (d *daemon) end() error {
	err := errors.Join(d.command.Process.Signal(syscall.SIGTERM), d.command.Wait())
	return errors.Join(err, os.RemoveAll(d.folder))
}
