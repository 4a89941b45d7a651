package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// cell is one thing that is measured.
type cell struct {
	id      string
	title   string
	bare    bool
	path    string // of the request; empty measures a server that idles
	headers string // more lines of the request
	lambda  bool   // the request goes to the Lambda front
	keys    bool   // the Lambda front checks signatures
	callers int
	library func(*server) (caller, error) // nil for bytes on a connection
}

const (
	ephemeral = "/v1/pools/noop/run?task=noop"
	durable   = "/v1/pools/noop/jobs?task=noop&wait=30s"
	accepted  = "/v1/pools/noop/jobs?task=noop"
	function  = "/2015-03-31/functions/noop/invocations"
	isEvent   = "X-Amz-Invocation-Type: Event\r\n"
)

// plan is what is measured.
func plan(o options) []cell {
	cells := []cell{{id: "idle", title: "start, and one pool that idles"}}
	for _, n := range []int{1, o.callers} {
		who := strconv.Itoa(n)
		cells = append(cells,
			cell{id: "bare/" + who, title: "bare net/http, nothing done", bare: true, path: ephemeral, callers: n},
			cell{id: "ephemeral/" + who, title: "ephemeral, to the result", path: ephemeral, callers: n},
			cell{id: "durable/" + who, title: "durable, to the durable result", path: durable, callers: n},
			cell{id: "client/" + who, title: "durable, to the durable result, by package client", path: durable, callers: n, library: newLibrary},
			cell{id: "accepted/" + who, title: "durable, to the confirmation, while they are worked off", path: accepted, callers: n},
			cell{id: "invoke/" + who, title: "Lambda Invoke, RequestResponse", path: function, lambda: true, callers: n},
			cell{id: "event/" + who, title: "Lambda Invoke, Event, while they are worked off", path: function, headers: isEvent, lambda: true, callers: n},
			cell{id: "sdk/" + who, title: "Lambda Invoke, RequestResponse, signed, by the AWS SDK for Go", path: function, keys: true, callers: n, library: newSDK},
		)
	}
	return cells
}

// take measures c on a server of its own.
func (s *site) take(ctx context.Context, o options, c cell) (m map[string]float64, err error) {
	v, err := s.start(ctx, c.bare, c.keys)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.stop()) }()
	if c.path == "" {
		return v.idle(ctx)
	}
	open := func() (caller, error) { return newConnection(v, c) }
	if c.library != nil {
		open = func() (caller, error) { return c.library(v) }
	}
	all, took, err := drive(ctx, o, c.callers, open)
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))]) / float64(time.Millisecond) }
	return map[string]float64{"rate": float64(len(all)) / took.Seconds(), "p50_ms": at(.5), "p99_ms": at(.99)}, nil
}

// idle tells how the server is after some seconds without work.
func (v *server) idle(ctx context.Context) (map[string]float64, error) {
	m := map[string]float64{"ready_ms": float64(v.ready) / float64(time.Millisecond)}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(5 * time.Second):
	}
	resident, err := v.resident()
	m["resident_mib"] = resident / (1 << 20)
	return m, err
}

// caller makes one request after the other on one connection.
type caller interface {
	call(ctx context.Context) error
	close()
}

// drive lets callers work, and returns how long each request took after the warm-up.
func drive(ctx context.Context, o options, callers int, open func() (caller, error)) ([]time.Duration, time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration // guarded by mu
	var errs []error        // guarded by mu
	begin := time.Now()
	from, to := begin.Add(o.span/4), begin.Add(o.span/4+o.span)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() { // ends at to; waited for below
			mine, err := work(ctx, open, from, to)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	if len(all) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no request ended in time"))
	}
	if len(errs) > 0 {
		return nil, 0, errs[0]
	}
	return all, to.Sub(from), nil
}

func work(ctx context.Context, open func() (caller, error), from, to time.Time) ([]time.Duration, error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	defer c.close()
	all := make([]time.Duration, 0, 1<<14)
	for {
		begin := time.Now()
		if begin.After(to) || ctx.Err() != nil {
			return all, nil
		}
		if err := c.call(ctx); err != nil {
			return nil, err
		}
		if begin.After(from) {
			all = append(all, time.Since(begin))
		}
	}
}

// connection is the leanest client: bytes on a kept connection.
type connection struct {
	net.Conn
	request []byte
	in      *bufio.Reader
}

const patience = 30 * time.Second

func newConnection(v *server, c cell) (caller, error) {
	address := v.address
	if c.lambda {
		address = v.lambda
	}
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n%s\r\n", c.path, address, c.headers)
	return &connection{conn, request, bufio.NewReader(conn)}, nil
}

func (c *connection) close() { _ = c.Close() }

// call sends the request and reads its answer, which has no body in chunks.
func (c *connection) call(context.Context) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	good := bytes.HasPrefix(status, []byte("HTTP/1.1 200")) || bytes.HasPrefix(status, []byte("HTTP/1.1 202"))
	first := string(status)
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	body := make([]byte, length)
	for read := 0; read < length; {
		n, err := c.in.Read(body[read:])
		if err != nil {
			return err
		}
		read += n
	}
	if !good {
		return fmt.Errorf("the answer is %s%s", first, body)
	}
	return nil
}

// library is a caller by package client.
type library struct{ client *client.Client }

func newLibrary(v *server) (caller, error) {
	c, err := client.New(client.Config{URL: "http://" + v.address})
	return library{c}, err
}

func (l library) call(ctx context.Context) error {
	_, _, err := l.client.Run(ctx, job.Job{Queue: "noop", Name: "noop"})
	return err
}

func (l library) close() { l.client.Close() }
