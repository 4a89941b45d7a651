// Package daemon holds the README's section on the daemon to what it says: its
// commands are run as they stand there, in an empty folder.
package daemon

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The section's first block makes the files and starts the daemon, which its last
// line does; the second one uses it.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command: run it without -short")
	}
	for _, program := range []string{"bash", "curl", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the README's commands use %s, which is not installed", program)
		}
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t)
	start, found := strings.CutSuffix(strings.TrimSpace(block(t, string(text), "daemon: start")), "bullpen serve                               # Ctrl-C ends it: what runs is finished")
	if !found {
		t.Fatal("the first block does not end by starting the daemon")
	}
	t.Log(s.shell(t, start))
	s.serve(t)
	commands := steps(block(t, string(text), "daemon: use"))
	if len(commands) < 5 {
		t.Fatalf("there are only %d commands", len(commands))
	}
	for _, c := range commands {
		got := s.shell(t, c.command)
		t.Logf("$ %s\n%s", c.command, got)
		if c.prints != "" && strings.TrimRight(got, "\n") != strings.TrimRight(c.prints, "\n") {
			t.Errorf("$ %s\nprints\n%s\nthe README says\n%s", c.command, got, c.prints)
		}
	}
}

// block returns the fenced block behind a mark in the README.
func block(t *testing.T, text, mark string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "<!-- "+mark+" -->\n```")
	if found {
		_, rest, found = strings.Cut(rest, "\n")
	}
	inside, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		t.Fatalf("the README has no block behind the mark %q", mark)
	}
	return inside
}

// step is a command of a session, and what stands below it.
type step struct{ command, prints string }

func steps(session string) []step {
	var all []step
	for line := range strings.Lines(session) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			all = append(all, step{command: strings.TrimSpace(command)})
		} else if len(all) > 0 {
			all[len(all)-1].prints += line
		}
	}
	return all
}

// site is the empty folder, and what the commands find there.
type site struct {
	dir, address string
	env          []string
}

func open(t *testing.T) *site {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "bullpen"), "../../cmd/bullpen")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return &site{dir: t.TempDir(), address: address, env: append(os.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		// The README's port may be in use here.
		"BULLPEN_HTTP_LISTEN="+address, "BULLPEN_URL=http://"+address,
	)}
}

// shell runs commands as the README has them, and returns what they print.
func (s *site) shell(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(text, "localhost:8650", s.address))
	c.Dir, c.Env = s.dir, s.env
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s\n%v\n%s%s", text, err, out, said.String())
	}
	return string(out)
}

// serve starts the daemon and waits until it is ready. At the end of the test it is
// ended as by Ctrl-C, which must be a good end.
func (s *site) serve(t *testing.T) {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", "exec bullpen serve")
	c.Dir, c.Env = s.dir, s.env
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }() // ends with the daemon; waited for below
	t.Cleanup(func() {
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the end of the daemon: %v\n%s", err, said.String())
			}
		case <-time.After(time.Minute):
			_ = c.Process.Kill()
			t.Errorf("the daemon does not end:\n%s", said.String())
		}
	})
	for end := time.Now().Add(time.Minute); ; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := http.DefaultClient.Do(req); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				http.DefaultClient.CloseIdleConnections()
				return
			}
		}
		if time.Now().After(end) {
			t.Fatal("the daemon is not ready")
		}
		<-time.After(20 * time.Millisecond)
	}
}
