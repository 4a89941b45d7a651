package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/process"
)

// node is a daemon under test.
type node struct {
	*Daemon

	t       *testing.T
	url     string
	ended   chan struct{} // closed when Run has returned
	runErr  error         // of Run; written before ended is closed
	folder  string
	journal *journal

	fresh bool          // each request has a connection of its own
	token string        // sent with requests; empty for none
	hang  chan struct{} // until it is closed, the configuration cannot be read; nil for always
	tries chan struct{} // gets one for each reading; nil for nothing

	workers func(process.Config) (level.Pool, error) // Config.Workers

	mu   sync.Mutex
	text string // of the configuration; guarded by mu
}

// journal collects what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// base is what all configurations of these tests begin with.
const base = "http: {listen: '127.0.0.1:0'}\nqueue: {memory: true}\ngrace: 20s\n"

// mine is a pool of this test binary; more are further settings of it.
func mine(t testing.TB, name, more string) string {
	t.Helper()
	return fmt.Sprintf("  %s: {command: [%q], task: echo, ephemeral: true, grace: 100ms, nice: host, %s}\n", name, self(t), more)
}

// load reads the configuration as it is now.
func (n *node) load() (*settings.Settings, error) {
	if n.tries != nil {
		n.tries <- struct{}{}
	}
	if n.hang != nil {
		<-n.hang
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return settings.Load(settings.Source{Path: filepath.Join(n.folder, "bullpen.yaml"), Text: []byte(n.text)})
}

// write changes the configuration.
func (n *node) write(pools ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = base
	if len(pools) > 0 {
		n.text += "pools:\n" + strings.Join(pools, "")
	}
}

// open makes a daemon with pools that does not run yet.
func open(t *testing.T, pools ...string) *node {
	t.Helper()
	n := newNode(t)
	n.write(pools...)
	return n.open()
}

func newNode(t *testing.T) *node {
	t.Helper()
	return &node{t: t, folder: t.TempDir(), journal: &journal{}, ended: make(chan struct{})}
}

// openText is open with a whole configuration.
func openText(t *testing.T, text string) *node {
	t.Helper()
	n := newNode(t)
	n.text = text
	return n.open()
}

func (n *node) open() *node {
	t := n.t
	t.Helper()
	s, err := n.load()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(n.journal, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n.Daemon, err = New(t.Context(), Config{Settings: s, Load: n.load, Workers: n.workers, Logger: log, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	n.url = "http://" + n.Addr().String()
	return n
}

// start runs a daemon with pools until the test ends.
func start(t *testing.T, pools ...string) *node {
	t.Helper()
	n := open(t, pools...)
	n.begin()
	n.awaitReady()
	return n
}

// awaitReady waits until n is ready.
func (n *node) awaitReady() {
	n.t.Helper()
	select {
	case <-n.Ready():
	case <-time.After(time.Minute):
		n.t.Fatalf("not ready after a minute\n%s", n.journal)
	}
}

// begin runs n.
func (n *node) begin() {
	go func() { // ends with the daemon; the cleanup waits for it
		defer close(n.ended)
		n.runErr = n.Run(context.Background())
	}()
	n.t.Cleanup(func() {
		n.Stop()
		_ = n.wait() // a test that expects an error has asked for it
		http.DefaultClient.CloseIdleConnections()
		if n.t.Failed() {
			n.t.Logf("the log of the daemon:\n%s", n.journal)
		}
	})
}

// wait waits for the end of n and returns what Run returned.
func (n *node) wait() error {
	n.t.Helper()
	select {
	case <-n.ended:
		return n.runErr
	case <-time.After(time.Minute):
		n.t.Fatalf("the daemon has not ended after a minute\n%s", n.journal)
		return nil
	}
}

// answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request.
func (n *node) ask(method, path, body string) answer {
	n.t.Helper()
	a, err := n.send(n.t.Context(), method, path, body)
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

func (n *node) send(ctx context.Context, method, path, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, n.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Close = n.fresh
	if n.token != "" {
		r.Header.Set("Authorization", "Bearer "+n.token)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return answer{got.StatusCode, got.Header, string(text)}, err
}

// want sends a request and wants its status.
func (n *node) want(status int, method, path, body string) answer {
	n.t.Helper()
	a := n.ask(method, path, body)
	if a.status != status {
		n.t.Errorf("%s %s: %d %s, want %d", method, path, a.status, a.body, status)
	}
	return a
}

// shown reads a pool as the API shows it.
func (n *node) shown(name string) (p struct {
	State             string
	Min, Max, Helpers int
	Workers           struct{ Starting, Idle, Busy, Leaving int }
	Error             string
}) {
	n.t.Helper()
	a := n.want(http.StatusOK, http.MethodGet, "/v1/pools/"+name, "")
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		n.t.Fatal(err)
	}
	return p
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after a minute not: %s", what)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
