package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// ofPool runs empty tasks in a pool with one worker.
func ofPool(c process.Config) (*target, error) {
	c.Min, c.Max = 1, 1
	p, err := process.New(c)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := p.Ready(ctx, 1); err != nil {
		return nil, err
	}
	return &target{do: func() error {
		_, err := p.Execute(ctx, bullpen.Task{Payload: []byte("{}")})
		return err
	}, close: p.Close}, nil
}

func webOfBullpen(exe string) func(int) (*target, error) {
	return func(callers int) (*target, error) {
		return ofPool(process.Config{Command: []string{exe, "web"}, Protocol: process.HTTP, Concurrency: callers})
	}
}

// webBare calls the same server by a plain client, at the priority that workers have.
func webBare(exe string) func(int) (*target, error) {
	return func(callers int) (*target, error) {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		end, err := start([]string{"nice", "-n", strconv.Itoa(process.DefaultNice), exe, "web"}, "", "PORT="+port)
		if err != nil {
			return nil, err
		}
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
		do := func() error {
			r, err := client.Post("http://127.0.0.1:"+port+"/", "application/octet-stream", bytes.NewReader([]byte("{}")))
			if err != nil {
				return err
			}
			_, err = io.ReadAll(r.Body)
			_ = r.Body.Close()
			return err
		}
		look := time.NewTicker(5 * time.Millisecond)
		defer look.Stop()
		for tries := 0; do() != nil; tries++ { // until it listens
			if tries == 1000 {
				return nil, fmt.Errorf("the server does not answer: %w", do())
			}
			<-look.C
		}
		return &target{do: do, close: func() error { client.CloseIdleConnections(); return end() }}, nil
	}
}

func functionOfBullpen(f function) func(int) (*target, error) {
	return func(callers int) (*target, error) {
		return ofPool(process.Config{Command: f.command, Dir: f.dir, Protocol: process.Lambda, Concurrency: callers})
	}
}

// batchesOfBullpen gives a function n tasks a call, as an SQS event.
func batchesOfBullpen(f function, n int) func(int) (*target, error) {
	return func(int) (*target, error) {
		batch := process.Batch{Max: n, Wait: time.Millisecond, Shape: process.ShapeSQS}
		return ofPool(process.Config{Command: f.command, Dir: f.dir, Protocol: process.Lambda, Batch: batch})
	}
}

// functionBare invokes the same function by the least that its client accepts.
func functionBare(f function) func(int) (*target, error) {
	return func(int) (*target, error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		give, took := make(chan struct{}), make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/next") {
				select {
				case <-give:
				case <-r.Context().Done():
					return
				}
				h := w.Header()
				h.Set("Lambda-Runtime-Aws-Request-Id", "00000000-0000-4000-8000-000000000000")
				h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
				h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:null")
				_, _ = io.WriteString(w, "{}")
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusAccepted)
			took <- struct{}{}
		})}
		go func() { _ = server.Serve(listener) }() // ends with the server
		env := []string{
			"AWS_LAMBDA_RUNTIME_API=" + listener.Addr().String(), "AWS_LAMBDA_FUNCTION_NAME=null", "AWS_LAMBDA_FUNCTION_VERSION=1",
			"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128", "_HANDLER=null.handler", "LAMBDA_TASK_ROOT=" + f.dir,
		}
		end, err := start(append([]string{"nice", "-n", strconv.Itoa(process.DefaultNice)}, f.command...), f.dir, env...)
		if err != nil {
			return nil, err
		}
		return &target{do: func() error {
			give <- struct{}{}
			<-took
			return nil
		}, close: func() error { return errors.Join(server.Close(), end()) }}, nil
	}
}

// start starts a process, and returns what ends it.
func start(command []string, dir string, env ...string) (func() error, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return err
	}, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
