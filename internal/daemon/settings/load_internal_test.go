package settings

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// load reads a text as bullpen.yaml of a folder.
func load(t *testing.T, folder, text string) (*Settings, error) {
	t.Helper()
	return Load(Source{Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte(text)})
}

// good is load of a text that must have no fault.
func good(t *testing.T, folder, text string) *Settings {
	t.Helper()
	s, err := load(t, folder, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantFaults compares faults with lines that they must begin with, without the
// folder.
func wantFaults(t *testing.T, err error, folder string, want ...string) {
	t.Helper()
	if err == nil {
		if len(want) > 0 {
			t.Errorf("no fault is reported of\n%s", strings.Join(want, "\n"))
		}
		return
	}
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%T is no Faults", err)
	}
	got := strings.Split(strings.ReplaceAll(err.Error(), folder+string(filepath.Separator), ""), "\n")
	for i, line := range got {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Errorf("fault %d is\n%s\nwant\n%s", i, line, strings.Join(append(want, ""), "\n"))
			return
		}
	}
	if len(got) < len(want) {
		t.Errorf("%d faults are reported of %d:\n%v", len(got), len(want), err)
	}
}

func TestNothingIsConfigured(t *testing.T) {
	t.Parallel()
	s, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if s.Node != host || s.Grace != 30*time.Second || s.HTTP.Listen != "127.0.0.1:8650" || s.HTTP.MaxBody != 64<<20 || s.Probes.Listen != "" ||
		s.Budget != nil || len(s.Pools) != 0 || s.Log.JSON || s.HTTP.MaxWait != 10*time.Minute || s.HTTP.MaxConnections != 4096 {
		t.Errorf("%#v", s)
	}
	if s.Queue.Store != (embedded.Store{Dir: "bullpen-data"}) || s.Queue.MaxPayload != 8<<20 || s.Queue.MaxResult != 8<<20 || s.Queue.Node != host {
		t.Errorf("%+v", s.Queue)
	}
	for name, text := range map[string]string{"empty": "", "a comment": "# nothing\n", "null": "~", "a document": "---\n"} {
		if _, err := load(t, t.TempDir(), text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s, err := Load(Source{
		Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte("node: file\ngrace: 1m\nlog: {level: warn}\nhttp: {rate: 3, hosts: [a, b]}\nqueue: {dir: here}\n"),
		Env: []string{"BULLPEN_NODE=env", "BULLPEN_GRACE=2m", "BULLPEN_HTTP_HOSTS=c, d", "BULLPEN_LOG_LEVEL=", "BULLPEN_HTTP_MAX_BODY=1K",
			"BULLPEN_LONG=1", "BULLPEN_URL=x", "BULLPEN_TOKEN=x", "BULLPEN_CONFIG=x", "BULLPEN_REQUIRE=x", "HOME=/"},
		Flags: map[string]string{"node": "flag", "http.rate": ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Node != "flag" || s.Grace != 2*time.Minute || s.Log.Level.String() != "WARN" || s.HTTP.Rate != 3 || s.HTTP.MaxBody != 1024 {
		t.Errorf("%v: %+v", s, s.HTTP)
	}
	if diff := cmp.Diff([]string{"c", "d"}, s.HTTP.Hosts); diff != "" {
		t.Error(diff)
	}
	if want := filepath.Join(folder, "here"); s.Store.Dir != want {
		t.Errorf("queue.dir is %s, want %s", s.Store.Dir, want)
	}
}

func TestStoreFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	state := []string{"STATE_DIRECTORY=" + filepath.Join(folder, "state") + ":/other"}
	for name, c := range map[string]struct {
		source Source
		want   string
	}{
		"beside the file":      {Source{Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte{}}, filepath.Join(folder, "bullpen-data")},
		"of the service":       {Source{Env: state}, filepath.Join(folder, "state", "queue")},
		"said in the file":     {Source{Path: filepath.Join(folder, "c.yaml"), Text: []byte("queue: {dir: a/b}"), Env: state}, filepath.Join(folder, "a", "b")},
		"said by the variable": {Source{Path: filepath.Join(folder, "c.yaml"), Text: []byte{}, Env: []string{"BULLPEN_QUEUE_DIR=a/b"}}, "a/b"},
	} {
		s, err := Load(c.source)
		if err != nil {
			t.Fatal(err)
		}
		if s.Store.Dir != c.want {
			t.Errorf("%s: %s, want %s", name, s.Store.Dir, c.want)
		}
	}
}

func TestPoolsAreComplete(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := good(t, folder, `
pools:
  one: {command: go version, workers: {min: 2}, env: {B: 1, A: x=y, HOSTVAR: null}}
  two: {command: [go, version], task: t, workers: {max: 3}, helpers: 0, retry: {backoff: 10m}}
  far:
`)
	one, two, far := s.Pools["one"], s.Pools["two"], s.Pools["far"]
	most := max(runtime.GOMAXPROCS(0), 2)
	if one.Task != "one" || one.Process.Dir != folder || one.Process.Max != most || one.Helpers != most || one.Process.Overflow != process.Reject {
		t.Errorf("%+v", one)
	}
	if diff := cmp.Diff([]string{"A=x=y", "B=1", "HOSTVAR"}, one.Process.Env); diff != "" {
		t.Error(diff)
	}
	if two.Task != "t" || two.Helpers != 0 || two.Process.Max != 3 || two.Retry.Backoff != 10*time.Minute || two.Retry.MaxBackoff != 10*time.Minute {
		t.Errorf("%+v", two)
	}
	if len(far.Process.Command) != 0 || far.Retry.Attempts != 5 || far.Task != "far" {
		t.Errorf("%+v", far)
	}
	if diff := cmp.Diff([]bullpen.Outcome{bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Protocol}, far.Retry.On); diff != "" {
		t.Error(diff)
	}
}

// TestPoolsGiven tells a file that means to have no pools from an empty one.
func TestPoolsGiven(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "node: a": false, "pools:": false, "pools: {}": true, "pools: {far: }": true} {
		if got := good(t, t.TempDir(), text).PoolsGiven; got != want {
			t.Errorf("%q: PoolsGiven is %v, want %v", text, got, want)
		}
	}
	if _, err := Load(Source{Path: filepath.Join(t.TempDir(), "bullpen.yaml")}); err == nil || !strings.Contains(err.Error(), "it cannot be read") {
		t.Errorf("a missing file: %v, want a fault", err)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	t.Parallel()
	s := good(t, t.TempDir(), `
x-base: &base
  command: &go [go, version]
  workers: &few {min: 1, max: 2}
  grace: 2s
pools:
  a: *base
  b: {<<: *base, grace: 3s}
  c: {<<: [{grace: 4s}, *base], workers: {<<: *few, max: 7}}
  d: {command: *go}
`)
	for name, want := range map[string]time.Duration{"a": 2 * time.Second, "b": 3 * time.Second, "c": 4 * time.Second, "d": process.DefaultGrace} {
		if p := s.Pools[name].Process; p.Grace != want || len(p.Command) != 2 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := s.Pools["c"].Process; p.Min != 1 || p.Max != 7 {
		t.Errorf("c has %d..%d workers", p.Min, p.Max)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := good(t, t.TempDir(), "queue: {url: 'nats://u:hidden@a:4222,b:4222', replicas: 3}\n")
	if s.Store.URL != "nats://a:4222,nats://b:4222" || s.Store.Replicas != 3 || s.Queue.MaxPayload != 0 || s.Store.Dir != "" {
		t.Errorf("%+v", s.Store)
	}
	if len(s.Store.options()) != 1 {
		t.Error("name and password are no option of the connection")
	}
}

// A start of the daemon waits for this.
func BenchmarkLoad(b *testing.B) {
	source := Source{Path: filepath.Join(b.TempDir(), "bullpen.yaml"), Env: os.Environ(), Text: []byte(
		"pools:\n  greet:\n    command: [go, version]\n    protocol: lines\n    workers: {max: 4, idle: 1m}\n    limits: {timeout: 10s, memory: 256MiB}\n    retry: {attempts: 3, backoff: 1s..1m}\n")}
	for b.Loop() {
		if _, err := Load(source); err != nil {
			b.Fatal(err)
		}
	}
}
