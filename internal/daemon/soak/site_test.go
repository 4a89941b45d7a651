//go:build linux

package soak

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
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// site is a daemon in a folder, which is started and ended again and again.
type site struct {
	dir, program, address, mark string
	client                      *client.Client

	mu      sync.Mutex
	command *exec.Cmd     // guarded by mu
	ended   chan error    // of command; guarded by mu
	said    *bytes.Buffer // by command; read after its end
}

// newSite builds the program as it is released.
func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{dir: dir, program: filepath.Join(dir, "bullpen"), mark: fmt.Sprint("soak-", os.Getpid(), "-", time.Now().UnixNano())}
	race := os.Getenv("BULLPEN_SOAK_RACE") != ""
	build := exec.CommandContext(t.Context(), "go", "build", "-o", s.program, fmt.Sprint("-race=", race), "../../../cmd/bullpen")
	if !race {
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if s.client, err = client.New(client.Config{URL: "http://" + s.address}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.command != nil {
			_ = s.command.Process.Kill()
			<-s.ended
		}
	})
	s.configure(t, 2)
	return s
}

// configure writes the daemon's file. most is how many workers the second pool has,
// which is what a reload changes.
func (s *site) configure(t *testing.T, most int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`http: {listen: %q}
grace: 5s
queue: {dir: %q, lease: 2s, keep: {outcome_count: 20000, dead: 8MiB}}
pools:
  one:
    command: [%q, %q]
    workers: {min: 1, max: 2, idle: 1s}
    ephemeral: true
    recycle: {tasks: 500}
  two:
    command: [%q, %q]
    workers: {max: 2, idle: 1s}
    ephemeral: true
    env: {VERSION: "%d"}
    limits: {timeout: 5s}
`, s.address, filepath.Join(s.dir, "queue"), self, s.mark, self, s.mark, most)
	if err := os.WriteFile(filepath.Join(s.dir, "bullpen.yaml.new"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(s.dir, "bullpen.yaml.new"), filepath.Join(s.dir, "bullpen.yaml")); err != nil {
		t.Fatal(err)
	}
}

// start starts the daemon and waits until it is ready.
func (s *site) start(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = &bytes.Buffer{}
	s.command = exec.CommandContext(context.WithoutCancel(t.Context()), s.program, "serve", "--config", filepath.Join(s.dir, "bullpen.yaml"))
	s.command.Stdout, s.command.Stderr = s.said, s.said
	if err := s.command.Start(); err != nil {
		t.Error(err)
		s.command = nil
		return
	}
	command, ended := s.command, make(chan error, 1)
	s.ended = ended
	go func() { ended <- command.Wait() }() // ends with the daemon; whoever ends that waits
	for end := time.Now().Add(time.Minute); ; {
		if status, _ := s.get(t, "/readyz"); status == http.StatusOK {
			return
		}
		select {
		case err := <-ended:
			s.command = nil
			t.Errorf("the daemon ended: %v\n%s", err, s.said)
			return
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			t.Error("the daemon is not ready after a minute")
			return
		}
	}
}

// get asks for a page.
func (s *site) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return 0, ""
	}
	return answer.StatusCode, string(body)
}

// stop ends the daemon in order, which must succeed.
func (s *site) stop(t *testing.T) {
	t.Helper()
	s.end(t, syscall.SIGTERM, time.Minute)
}

// kill ends the daemon by force.
func (s *site) kill(t *testing.T) {
	t.Helper()
	s.end(t, syscall.SIGKILL, time.Minute)
}

func (s *site) end(t *testing.T, signal syscall.Signal, patience time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.command == nil {
		return
	}
	if err := s.command.Process.Signal(signal); err != nil {
		t.Errorf("the daemon ended before: %v", err)
	}
	select {
	case err := <-s.ended:
		if err != nil && signal == syscall.SIGTERM {
			t.Errorf("the end of the daemon: %v\n%s", err, tail(s.said.String()))
		}
	case <-time.After(patience):
		t.Errorf("the daemon does not end within %v of %v", patience, signal)
		_ = s.command.Process.Kill()
		<-s.ended
	}
	s.command = nil
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// workers lists the worker processes, by the mark among their arguments.
func (s *site) workers() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), "\x00"+s.mark+"\x00") {
			all = append(all, pid)
		}
	}
	return all
}

// orphans fails when a worker lives although the daemon has ended.
func (s *site) orphans(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		left := s.workers()
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("workers live on after the daemon: %v", left)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// tell says what the daemon knows of a job that does not end, and of itself.
func (s *site) tell(t *testing.T, id string) string {
	t.Helper()
	var text strings.Builder
	for _, path := range []string{"/v1/jobs/" + id, "/v1/pools", "/v1/status", "/livez", "/readyz"} {
		status, page := s.get(t, path)
		fmt.Fprintf(&text, "%s: %d %s\n", path, status, page)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.command != nil {
		// The runtime writes all goroutines, and ends.
		_ = s.command.Process.Signal(syscall.SIGQUIT)
		<-s.ended
		s.command = nil
	}
	fmt.Fprintf(&text, "the daemon said:\n%s", s.said)
	return text.String()
}

// removeDead forgets the dead jobs, so that their number does not count as growth.
func (s *site) removeDead(t *testing.T) {
	t.Helper()
	for {
		swept, err := s.client.RemoveDeadAll(t.Context(), job.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if !swept.More {
			return
		}
	}
}

// sample tells what the daemon uses after a restart and a moment of rest.
func (s *site) sample(t *testing.T) sample {
	t.Helper()
	s.client.Close()
	// Each worker has descriptors and goroutines of the daemon: those that idle leave
	// first, but for one where scaling has left a minimum.
	for end := time.Now().Add(20 * time.Second); len(s.workers()) > 1 && time.Now().Before(end); {
		<-time.After(20 * time.Millisecond)
	}
	s.mu.Lock()
	pid := s.command.Process.Pid
	s.mu.Unlock()
	var now sample
	// What was in use is given back within seconds.
	for range 30 {
		memory, err := readInt(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
		if err != nil {
			t.Fatal(err)
		}
		descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, page := s.get(t, "/metrics")
		goroutines := 0
		for line := range strings.Lines(page) {
			if rest, found := strings.CutPrefix(line, "go_goroutines "); found {
				goroutines, _ = strconv.Atoi(strings.TrimSpace(rest))
			}
		}
		if goroutines == 0 {
			t.Fatalf("/metrics has no go_goroutines:\n%s", page)
		}
		next := sample{memory << 10, len(descriptors), goroutines}
		if next == now {
			break
		}
		now = next
		<-time.After(100 * time.Millisecond)
	}
	return now
}

// flat fails when the daemon needs more in the end than after the first round.
func flat(t *testing.T, samples []sample) {
	t.Helper()
	first, last := samples[0], samples[len(samples)-1]
	if last.memory > first.memory*3/2+(32<<20) {
		t.Errorf("the daemon holds %v in the end, and held %v", last, first)
	}
	if last.descriptors > first.descriptors+16 { // a worker more or less
		t.Errorf("the daemon has %v in the end, and had %v", last, first)
	}
	if last.goroutines > first.goroutines+20 {
		t.Errorf("the daemon has %v in the end, and had %v", last, first)
	}
}
