//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestRun runs the program twice against a daemon.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command: run it without -short")
	}
	url := startDaemon(t)
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), &out, url); err != nil {
			t.Fatal(err)
		}
		if want := "DURABLE\nONE\nTWO\nTHREE <nil>\nFOUR <nil>\n"; out.String() != want {
			t.Errorf("the program prints %q, want %q", out.String(), want)
		}
	}
}

// startDaemon builds and starts a daemon, which ends with the test.
func startDaemon(t *testing.T) (url string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "bullpen")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/bullpen").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	config := filepath.Join(dir, "bullpen.yaml")
	if err := os.WriteFile(config, []byte("pools:\n  upper: {command: tr a-z A-Z, protocol: exec, ephemeral: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // it was to find a port that is free
	var said bytes.Buffer
	daemon := exec.Command(program, "serve", "--config", config, "--dir", filepath.Join(dir, "jobs"), "--listen", address)
	daemon.Stderr = &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := daemon.Wait(); err != nil || t.Failed() {
			t.Errorf("the daemon ended with %v and said:\n%s", err, said.String())
		}
	})
	url = "http://" + address
	c, err := client.New(client.Config{URL: url, Retries: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-look.C {
		if s, err := c.Status(t.Context()); err == nil && s.Ready {
			return url
		} else if time.Now().After(end) {
			t.Fatalf("the daemon is not ready: %+v, %v", s, err)
		}
	}
}
