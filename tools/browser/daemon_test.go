package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemon is a daemon under test.
type daemon struct {
	t       *testing.T
	url     string
	folder  string
	command *exec.Cmd
	token   string
	log     bytes.Buffer // read once command has ended
}

// token is the token of a role.
func token(role string) string { return "Sesame-0123456789-" + role }

// start runs a daemon with two pools of workers and one without, and further pools. more
// is further settings of http.
func start(t *testing.T, more string, pools ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, folder: t.TempDir()}
	address := freeAddress(t)
	d.url = "http://" + address
	worker, err := filepath.Abs("worker.py")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`http: {listen: %q, %s}
queue: {dir: %q}
node: host-a
grace: 2s
pools:
  mail: {command: [python3, %[4]q], workers: {min: 1, max: 2}, retry: {attempts: 1}, env: {PYTHONDONTWRITEBYTECODE: "1"}}
  thumbnails: {command: [python3, %[4]q], workers: {min: 1, max: 4}, retry: {attempts: 2, backoff: 50ms}, env: {PYTHONDONTWRITEBYTECODE: "1"}}
  reports: {}
`, address, more, filepath.Join(d.folder, "data"), worker)
	for _, p := range pools {
		text += "  " + p + "\n"
	}
	if err := os.WriteFile(filepath.Join(d.folder, "bullpen.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.begin()
	t.Cleanup(d.end)
	return d
}

// startProtected is start with tokens for each role.
func startProtected(t *testing.T) *daemon {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	var lines strings.Builder
	for _, role := range []string{"read", "submit", "admin"} {
		fmt.Fprintf(&lines, "%s %s-person %s\n", role, role, token(role))
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, fmt.Sprintf("tokens: %q", file))
}

// begin starts the program and waits until it is ready.
func (d *daemon) begin() {
	d.t.Helper()
	d.command = exec.Command(os.Getenv("BULLPEN"), "serve", "--config", filepath.Join(d.folder, "bullpen.yaml"))
	d.command.Stderr = &d.log
	if err := d.command.Start(); err != nil {
		d.t.Fatalf("%v: run tools/browser.sh, which builds the program and names it", err)
	}
	deadline := time.After(patience)
	for {
		r, err := http.Get(d.url + "/readyz")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			d.end()
			d.t.Fatalf("the daemon is not ready in time:\n%s", d.log.String())
		}
	}
}

// end stops the program and waits for its end.
func (d *daemon) end() {
	if d.command == nil {
		return
	}
	_ = d.command.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { _ = d.command.Process.Kill() })
	err := d.command.Wait()
	timer.Stop()
	d.command = nil
	if err != nil {
		d.t.Errorf("the daemon ended with %v:\n%s", err, d.log.String())
	}
}

// ask sends a request and gives the answer, which may be no error.
func (d *daemon) ask(method, path, body string) []byte {
	d.t.Helper()
	r, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") && !strings.Contains(path, "/jobs?") {
		r.Header.Set("Content-Type", "application/json")
	} else {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if d.token != "" {
		r.Header.Set("Authorization", "Bearer "+d.token)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer got.Body.Close()
	answer, err := io.ReadAll(got.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if got.StatusCode >= 300 {
		d.t.Fatalf("%s %s: %d %s", method, path, got.StatusCode, answer)
	}
	return answer
}

// submit hands in a job and returns its id.
func (d *daemon) submit(pool, query, payload string) string {
	d.t.Helper()
	var ref struct{ ID string }
	if err := json.Unmarshal(d.ask("POST", "/v1/pools/"+pool+"/jobs?"+query, payload), &ref); err != nil {
		d.t.Fatal(err)
	}
	return ref.ID
}

// bulk hands in many jobs, of which each is a line.
func (d *daemon) bulk(path, lines string) {
	d.t.Helper()
	r, err := http.Post(d.url+path, "application/x-ndjson", strings.NewReader(lines))
	if err != nil {
		d.t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || strings.Contains(string(answer), `"error"`) {
		d.t.Fatalf("%d %s: %v", r.StatusCode, answer, err)
	}
}

// job is what the daemon tells of a job.
type job struct {
	ID, State, Reason, Error string
	Attempts                 int
}

func (d *daemon) job(id string) (j job) {
	d.t.Helper()
	if err := json.Unmarshal(d.ask("GET", "/v1/jobs/"+id, ""), &j); err != nil {
		d.t.Fatal(err)
	}
	return j
}

// becomes waits until a job has a state.
func (d *daemon) becomes(id, state string) {
	d.t.Helper()
	deadline := time.After(patience)
	for d.job(id).State != state {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			d.t.Fatalf("job %s is not %s in time: %+v", id, state, d.job(id))
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
