package daemon

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const readerToken = "reader-0123456789abcdef"

// tight is a configuration with tokens and probes, whose pool prints secrets and does
// not start.
func tight(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("admin me "+readerToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("http: {listen: '127.0.0.1:0', tokens: %q}\nprobes: {listen: '127.0.0.1:0'}\nqueue: {memory: true}\n"+
		"pools:\n  hush: {command: [sh, -c, 'echo broken by nats://me:pass-word@host/x >&2; exit 3', --key=arg-word], ephemeral: true, workers: {min: 1, max: 1}}\n", file)
}

// TestNothingIsDisclosed shows what callers learn of workers that do not start: who
// has no token no names, and nobody the command line or a password.
func TestNothingIsDisclosed(t *testing.T) {
	t.Parallel()
	n := openText(t, tight(t))
	n.begin()
	inside := &node{t: t, url: n.url, token: readerToken}
	eventually(t, "the error is shown", func() bool { return strings.Contains(inside.shown("hush").Error, "exit code 3") })
	eventually(t, "the schedules are stored", func() bool {
		return !strings.Contains(n.ask(http.MethodGet, "/readyz", "").body, "schedules")
	})
	probes := &node{t: t, url: "http://" + n.ProbesAddr().String()}
	for name, c := range map[string]struct {
		by    *node
		names bool
	}{"without a token": {n, false}, "on the address of the probes": {probes, false}, "with a token": {inside, true}} {
		a := c.by.want(http.StatusServiceUnavailable, http.MethodGet, "/readyz", "")
		if !c.names && a.body != "ok daemon\nok queue\nFAIL pools: no worker starts (see the log)\n" {
			t.Errorf("%s /readyz says %s", name, a.body)
		}
		if c.names && (!strings.Contains(a.body, "FAIL pool hush: its workers do not start") || !strings.Contains(a.body, "broken by nats://me:[hidden]@host/x")) {
			t.Errorf("%s /readyz says %s", name, a.body)
		}
		wantHushed(t, name+" /readyz", a.body)
		wantHushed(t, name+" /livez", c.by.want(http.StatusOK, http.MethodGet, "/livez", "").body)
	}
	wantHushed(t, "the pool", inside.want(http.StatusOK, http.MethodGet, "/v1/pools/hush", "").body)
	wantHushed(t, "a reload of the workers", inside.ask(http.MethodPost, "/v1/pools/hush/reload", "").body)
	a := inside.want(http.StatusServiceUnavailable, http.MethodPost, "/v1/pools/hush/run", "x")
	if !strings.Contains(a.body, "start-failed") || !strings.Contains(a.body, "worker did not start") {
		t.Errorf("a task that was not started: %s", a.body)
	}
	wantHushed(t, "a task that was not started", a.body)
	if log := n.journal.String(); !strings.Contains(log, "arg-word") {
		t.Error("the log does not say which command does not start")
	}
}

// wantHushed looks for what nobody may read.
func wantHushed(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{"arg-word", "pass-word", "-c"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows %q: %s", what, secret, text)
		}
	}
}
