//go:build unix

package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is the real program, built once.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "bullpen-daemon")
	if err != nil {
		return "", err
	}
	leftovers = append(leftovers, folder)
	path := filepath.Join(folder, "bullpen")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/bullpen").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// served is the real program, serving.
type served struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	lambda string // URL of the Lambda front; empty for none
	ended  chan error
}

// rounds is how often a test repeats what it does.
func rounds(short, long int) int {
	if os.Getenv("BULLPEN_LONG") != "" {
		return long
	}
	return short
}

// serveIn starts the program in a folder with a bullpen.yaml, and waits until it
// says where it listens. env is added to its environment.
func serveIn(t *testing.T, folder string, env ...string) *served {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, cmd: exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--log-level", "warn"), ended: make(chan error, 1)}
	s.cmd.Dir, s.cmd.Env = folder, append(os.Environ(), env...)
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() }) // of a test that has failed
	said := make(chan [2]string, 1)
	go func() { // ends with the program; end waits for it
		in := bufio.NewReader(errs)
		all := &strings.Builder{}
		for {
			line, err := in.ReadString('\n')
			all.WriteString(line)
			if url := wordAfter(line, "API at "); url != "" {
				said <- [2]string{url, wordAfter(line, "Lambda functions at ")}
			}
			if err != nil {
				break
			}
		}
		close(said)
		err := s.cmd.Wait()
		if all.Len() > 0 && err != nil && !strings.Contains(err.Error(), "killed") {
			err = fmt.Errorf("%w\n%s", err, all)
		}
		s.ended <- err
	}()
	select {
	case urls, ok := <-said:
		if !ok {
			t.Fatalf("it did not start: %v", <-s.ended)
		}
		s.url, s.lambda = urls[0], urls[1]
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		t.Fatal("it has not started after a minute")
	}
	return s
}

// wordAfter returns the word that follows a text in a line; empty if it is not there.
func wordAfter(line, text string) string {
	_, rest, _ := strings.Cut(line, text)
	word, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return strings.TrimSuffix(word, ",")
}

// end sends a signal and waits for the end.
func (s *served) end(with syscall.Signal) error {
	s.t.Helper()
	if err := s.cmd.Process.Signal(with); err != nil {
		s.t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		return err
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		s.t.Fatalf("it has not ended a minute after %v", with)
		return nil
	}
}

// load is jobs that are handed in without pause.
type load struct {
	events bool // they are events of the Lambda front

	mu       sync.Mutex
	accepted []string // ids of the jobs that were confirmed; guarded by mu
	waited   int      // of them, answered with a result; guarded by mu
}

func (l *load) took(id string, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted = append(l.accepted, id)
	if ended {
		l.waited++
	}
}

// submit hands in jobs until ctx ends or the daemon takes no more. Every other one
// is waited for.
func (l *load) submit(ctx context.Context, t *testing.T, client *http.Client, s *served, payload string) {
	t.Helper()
	for n := 0; ctx.Err() == nil; n++ {
		path := s.url + "/v1/pools/work/jobs?task=mark"
		if n%2 == 0 {
			path += "&wait=1m"
		}
		if l.events {
			path = s.lambda + "/2015-03-31/functions/work/invocations"
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(payload))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Amz-Invocation-Type", "Event")
		a, err := client.Do(r)
		if err != nil {
			return // it has ended
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		switch a.StatusCode {
		case http.StatusOK:
			l.took(a.Header.Get("Bullpen-Job"), true)
		case http.StatusAccepted:
			if id := a.Header.Get("Bullpen-Job"); id != "" {
				l.took(id, false)
			} else if err == nil {
				var ref struct{ ID string }
				if err := json.Unmarshal(body, &ref); err != nil {
					t.Error(err)
				}
				l.took(ref.ID, false)
			}
		case http.StatusServiceUnavailable:
			return // it stops
		default:
			t.Errorf("%d: %s", a.StatusCode, body)
			return
		}
	}
}

// during runs some time of load and ends the daemon in its midst.
func (l *load) during(t *testing.T, s *served, payload string, end func()) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { l.submit(ctx, t, client, s, payload) })
	}
	l.atLeast(t, 10)
	timer := time.NewTimer(time.Duration(rand.IntN(200)) * time.Millisecond)
	<-timer.C
	end()
	all.Wait()
}

// atLeast waits until so many more jobs were accepted.
func (l *load) atLeast(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.accepted)
	}
	target := count() + more
	eventually(t, "jobs are accepted", func() bool { return count() >= target })
}

// finish starts the daemon once more and waits for the outcome of each job.
func (l *load) finish(t *testing.T, folder string) {
	t.Helper()
	s := serveIn(t, folder)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	for _, id := range l.accepted {
		a, err := client.Get(s.url + "/v1/jobs/" + id + "?wait=1m")
		if err != nil {
			t.Fatal(err)
		}
		var job struct{ State, Outcome string }
		err = json.NewDecoder(a.Body).Decode(&job)
		a.Body.Close()
		if err != nil || job.State != "done" || job.Outcome != "ok" {
			t.Errorf("job %s: %d, %v, state %q, outcome %q", id, a.StatusCode, err, job.State, job.Outcome)
		}
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Errorf("the last daemon: %v", err)
	}
}

// proving makes a folder with a configuration, and the payload of its jobs.
func proving(t *testing.T, grace string) (folder, file, payload string) {
	t.Helper()
	folder = t.TempDir()
	file = filepath.Join(folder, "marks")
	text := fmt.Sprintf("grace: %s\nqueue: {lease: 5s, key_window: 1m}\npools:\n  work: {command: [%q], workers: {min: 2, max: 4}}\n", grace, self(t))
	if err := os.WriteFile(filepath.Join(folder, "bullpen.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(marked{File: file, Run: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return folder, file, string(b)
}

// TestTermUnderLoad stops the real program under load again and again, with jobs
// that are shorter than the grace: no job is lost, none runs twice, and who waits
// is answered.
func TestTermUnderLoad(t *testing.T) {
	t.Parallel()
	folder, file, payload := proving(t, "20s")
	var l load
	for range rounds(3, 50) {
		s := serveIn(t, folder)
		l.during(t, s, payload, func() {
			if err := s.end(syscall.SIGTERM); err != nil {
				t.Errorf("after SIGTERM: %v, want exit status 0", err)
			}
		})
	}
	l.finish(t, folder)
	runs := readMarks(t, file)
	for _, id := range l.accepted {
		if len(runs[id]) != 1 {
			t.Errorf("job %s has run %d times, want once", id, len(runs[id]))
		}
	}
	for id, pids := range runs { // also those whose answer was lost
		if len(pids) > 1 {
			t.Errorf("job %s, which was not confirmed, has run %d times", id, len(pids))
		}
	}
	t.Logf("%d jobs accepted, %d of them answered with a result", len(l.accepted), l.waited)
}

// TestKillUnderLoad kills the real program under load: no confirmed job is lost,
// only those that were in hand run again, and no worker lives on.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	folder, file, payload := proving(t, "20s")
	var l load
	n := rounds(3, 20)
	for range n {
		s := serveIn(t, folder)
		workers := children(t, s.cmd.Process.Pid)
		l.during(t, s, payload, func() {
			workers = append(workers, children(t, s.cmd.Process.Pid)...)
			if err := s.end(syscall.SIGKILL); err == nil {
				t.Error("it was killed and ended well")
			}
		})
		eventually(t, "all workers are gone", func() bool {
			return !slices.ContainsFunc(workers, func(pid int) bool { return alive(pid) })
		})
	}
	l.finish(t, folder)
	runs := readMarks(t, file)
	again := 0
	for _, id := range l.accepted {
		switch n := len(runs[id]); {
		case n == 0:
			t.Errorf("job %s has not run", id)
		case n > 1:
			again += n - 1
		}
	}
	// Four workers, each with up to two tasks in hand of which one runs, and those
	// that had ended and whose outcome was not on the disk yet.
	if most := n * 4 * 4; again > most {
		t.Errorf("%d runs too many after %d kills, want %d at most", again, n, most)
	}
	t.Logf("%d jobs accepted, %d runs too many after %d kills", len(l.accepted), again, n)
}

// TestSecondSignal shows that a second signal aborts what runs, and that it runs
// again after the next start.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	folder, file, _ := proving(t, "1h")
	s := serveIn(t, folder)
	payload, err := json.Marshal(marked{File: file, Run: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.Post(s.url+"/v1/pools/work/jobs?task=mark", "application/json", strings.NewReader(string(payload)))
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	ran := func() (n int) {
		for _, pids := range readMarks(t, file) {
			n += len(pids)
		}
		return n
	}
	eventually(t, "the job runs", func() bool { return ran() == 1 })
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it stops", func() bool {
		a, err := http.Get(s.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode == http.StatusServiceUnavailable
	})
	http.DefaultClient.CloseIdleConnections()
	var exit *exec.ExitError
	if err := s.end(syscall.SIGINT); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("after a second signal: %v, want exit status 130", err)
	}
	s = serveIn(t, folder)
	eventually(t, "the job runs again", func() bool { return ran() == 2 })
	if err := s.end(syscall.SIGKILL); err == nil {
		t.Error("it was killed and ended well")
	}
}
