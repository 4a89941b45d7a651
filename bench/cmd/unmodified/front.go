package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// function is a function of Lambda.
type function struct {
	command []string
	dir     string
}

const frontConfiguration = `http: {listen: %q}
lambda: {listen: %q}
queue: {memory: true}
pools:
  function:
    command: [%s]
    dir: %q
    protocol: lambda
    ephemeral: true
    workers: {min: %d, max: %d}
    nice: host
`

// buildDaemon builds the bullpen command as it is released, into a folder. The working
// directory is bench.
func buildDaemon(dir string) (string, error) {
	path := filepath.Join(dir, "bullpen")
	build := exec.Command("go", "-C", "..", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/bullpen")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the daemon: %w\n%s", err, out)
	}
	return path, nil
}

// front starts the daemon with a pool for a function, and invokes it over HTTP: one caller has
// one worker, more callers have two. Workers have the priority that those of the emulator have.
func front(daemon string, f function) func(int) (*target, error) {
	return func(callers int) (*target, error) {
		dir, err := os.MkdirTemp("", "bench-front-")
		if err != nil {
			return nil, err
		}
		api, err := freePort()
		if err != nil {
			return nil, err
		}
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		quoted := make([]string, len(f.command))
		for i, arg := range f.command {
			quoted[i] = fmt.Sprintf("%q", arg)
		}
		file := filepath.Join(dir, "bullpen.yaml")
		workers := min(callers, 2)
		text := fmt.Appendf(nil, frontConfiguration, "127.0.0.1:"+api, "127.0.0.1:"+port, strings.Join(quoted, ", "), f.dir, workers, workers)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, err
		}
		var said strings.Builder
		cmd := exec.Command(daemon, "serve", "--config", file)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		end := func() error {
			err := cmd.Process.Signal(syscall.SIGTERM)
			if waited := cmd.Wait(); waited != nil {
				err = fmt.Errorf("the end of the daemon: %w; it said: %s", waited, &said)
			}
			return errors.Join(err, os.RemoveAll(dir))
		}
		return invoker("http://127.0.0.1:"+port+"/2015-03-31/functions/function/invocations", callers, end)
	}
}

// emulator starts the emulator of AWS with a function, and invokes it over HTTP. Its callers
// take turns: it serves one call at a time.
func emulator(path string, f function) func(int) (*target, error) {
	return func(int) (*target, error) {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		api, err := freePort()
		if err != nil {
			return nil, err
		}
		command := []string{path, "--runtime-interface-emulator-address", "127.0.0.1:" + port, "--runtime-api-address", "127.0.0.1:" + api, "--log-level", "error"}
		end, err := start(append(command, f.command...), f.dir)
		if err != nil {
			return nil, err
		}
		t, err := invoker("http://127.0.0.1:"+port+"/2015-03-31/functions/function/invocations", 1, end)
		if err != nil {
			return nil, err
		}
		var turn sync.Mutex
		call := t.call
		t.call = func(event string) (string, error) {
			turn.Lock()
			defer turn.Unlock()
			return call(event)
		}
		return t, nil
	}
}

// invoker invokes the function at a URL on connections that are kept, once it answers.
func invoker(url string, callers int, end func() error) (*target, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}, Timeout: time.Minute}
	t := &target{close: func() error { client.CloseIdleConnections(); return end() }}
	t.call = func(event string) (string, error) {
		r, err := client.Post(url, "application/json", strings.NewReader(event))
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		result, err := io.ReadAll(r.Body)
		if err == nil && (r.StatusCode != http.StatusOK || r.Header.Get("X-Amz-Function-Error") != "") {
			err = fmt.Errorf("status %d %s: %s", r.StatusCode, r.Header.Get("X-Amz-Function-Error"), result)
		}
		return string(result), err
	}
	t.do = func() error {
		_, err := t.call("{}")
		return err
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	err := errors.New("it was not tried")
	for range 1000 { // until it listens
		if _, err = t.call(`{"Do":"ok"}`); err == nil {
			return t, nil
		}
		<-look.C
	}
	return nil, errors.Join(fmt.Errorf("the function does not answer: %w", err), t.close())
}
