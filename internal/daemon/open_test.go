package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/natstest"
)

// freeAddress is an address of this machine that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestWaitsForQueue shows what is shown while the queue is not open: here one server of
// three runs. It ends when it is stopped.
func TestWaitsForQueue(t *testing.T) {
	t.Parallel()
	k := natstest.Start(t, natstest.Config{Servers: 3, Lazy: true})
	k.Kill(1)
	k.Kill(2)
	probes, api := freeAddress(t), freeAddress(t)
	text := fmt.Sprintf("http: {listen: %q}\nprobes: {listen: %q}\nqueue: {url: %q, replicas: 3}\npools:\n%s",
		api, probes, k.URL(), mine(t, "one", "workers: {min: 1}"))
	s, err := settings.Load(settings.Source{Path: filepath.Join(t.TempDir(), "bullpen.yaml"), Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { // ends by cancel; waited for below
		d, err := New(ctx, Config{Settings: s, Logger: slog.New(slog.NewTextHandler(j, nil))})
		if err == nil {
			d.abandon()
		}
		ended <- err
	}()
	for _, address := range []string{probes, api} {
		n := &node{t: t, url: "http://" + address}
		eventually(t, "the probes answer", func() bool {
			_, err := n.send(t.Context(), http.MethodGet, "/livez", "")
			return err == nil
		})
		eventually(t, "it says what it waits for", func() bool { return strings.Contains(j.String(), "the daemon waits for the queue") })
		n.want(http.StatusOK, http.MethodGet, "/livez", "")
		if a := n.want(http.StatusServiceUnavailable, http.MethodGet, "/readyz", ""); !strings.Contains(a.body, "FAIL queue: the daemon waits for the queue") {
			t.Errorf("readyz says %s", a.body)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("New = %v, want that it was canceled", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestFolderIsTaken shows that a folder which another daemon has is reported before
// workers are started. A machine that is busy may be later once in a while.
func TestFolderIsTaken(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := fmt.Sprintf("http: {listen: '127.0.0.1:0'}\nqueue: {dir: %q}\npools:\n%s", filepath.Join(folder, "jobs"), mine(t, "one", "workers: {min: 1}"))
	first := openText(t, text)
	defer first.abandon()
	s, err := settings.Load(settings.Source{Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	const tries = 20
	started := 0
	for range tries {
		j := &journal{}
		d, err := New(t.Context(), Config{Settings: s, Logger: slog.New(slog.NewTextHandler(j, nil))})
		if err == nil {
			d.abandon()
		}
		if err == nil || !strings.Contains(err.Error(), "in use") {
			t.Fatalf("New = %v, want that the folder is in use", err)
		}
		if strings.Contains(j.String(), "pool=one") {
			started++
		}
	}
	if started > tries/2 {
		t.Errorf("in %d of %d tries workers were started first", started, tries)
	}
}
