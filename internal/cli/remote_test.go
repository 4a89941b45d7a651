//go:build unix

package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bullpen-run/bullpen/internal/natstest"
)

// TestRemoteScripts runs the commands that ask a daemon, each script with a
// daemon of its own.
func TestRemoteScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/remote",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			d := newFakeDaemon()
			server := httptest.NewServer(d.handler())
			locked := newFakeDaemon()
			locked.token = "sesame"
			lockedServer := httptest.NewServer(locked.handler())
			e.Defer(func() {
				server.CloseClientConnections()
				server.Close()
				lockedServer.Close()
			})
			e.Setenv("BULLPEN_URL", server.URL)
			e.Setenv("LOCKED_URL", lockedServer.URL)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Setenv("NO_COLOR", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"waitlines": waitLines},
	})
}

// TestDaemonScripts runs the commands against bullpen serve itself.
func TestDaemonScripts(t *testing.T) {
	t.Parallel()
	nats := natstest.Start(t, natstest.Config{})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/daemon",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Setenv("NATS_URL", nats.URL())
			return documented(e.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"address": address},
	})
}

// documented writes the example of docs/operations.md to a file.
func documented(folder string) error {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		return err
	}
	_, example, _ := strings.Cut(string(page), "# Backup and restore\n")
	_, example, _ = strings.Cut(example, "```sh\n")
	example, _, found := strings.Cut(example, "```\n")
	if !found {
		return errors.New("docs/operations.md has no example of a backup")
	}
	return os.WriteFile(filepath.Join(folder, "documented.sh"), []byte(example), 0o600)
}

var apiAddress = regexp.MustCompile(`API at (http://[0-9.:]+)`)

// address waits until a daemon has written to a file where it listens, and is ready, and
// makes the commands ask it.
func address(ts *testscript.TestScript, _ bool, args []string) {
	awaitFile(ts, args[0], "the address of a daemon", func(content []byte) bool {
		found := apiAddress.FindSubmatch(content)
		if found != nil {
			ts.Setenv("BULLPEN_URL", string(found[1]))
		}
		return found != nil
	})
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		answer, err := http.Get(ts.Getenv("BULLPEN_URL") + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			ts.Fatalf("the daemon is not ready: %v", err)
		}
	}
}
