package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// samples are values other than the defaults, for each key.
var samples = map[string]string{
	"node": "n", "grace": "7s", "http.listen": "127.0.0.1:1", "http.tls.cert": "cert.pem", "http.tls.key": "key.pem", "http.tokens": "tokens",
	"http.hosts": "[a, 'b:1']", "http.max_body": "1K", "http.max_inflight": "1G", "http.max_connections": "5", "http.max_streams": "3", "http.max_client_streams": "2", "http.rate": "0.5", "http.max_wait": "1m",
	"dashboard": "false", "probes.listen": ":1", "lambda.listen": "127.0.0.1:2", "lambda.keys": "keys", "lambda.account": "123456789012", "lambda.region": "us-gov-east-1",
	"log.level": "debug", "log.format": "json", "budget.memory": "1T", "budget.workers": "1000", "budget.starts": "3",
	"queue.dir": "q", "queue.url": "nats://u:p@a:1,b:1", "queue.memory": "true", "queue.replicas": "3", "queue.credentials": "creds",
	"queue.tls.ca": "ca.pem", "queue.tls.cert": "cert.pem", "queue.tls.key": "key.pem", "queue.reserve": "1G",
	"queue.namespace": "other", "queue.lease": "5s", "queue.key_window": "1h", "queue.max_payload": "1M", "queue.max_result": "2M",
	"queue.keep.jobs": "1G", "queue.keep.outcomes": "2G", "queue.keep.outcome_count": "5", "queue.keep.outcome_age": "1h", "queue.keep.dead": "2G",
	"queue.keep.dead_age": "1h", "queue.keep.lines": "0", "queue.keep.line_bytes": "1K", "queue.keep.payloads": "4KiB",
	"traces.endpoint": "http://localhost:4318", "traces.sample": "0.5", "traces.headers": "{A: b}", "traces.headers_file": "headers", "traces.timeout": "1s", "traces.service": "jobs",
}

var poolSamples = map[string]string{
	"command": "./worker 'a b'", "protocol": "lines", "task": "t", "ephemeral": "true", "lambda.event_age": "1m", "jobs": "3", "strict_priority": "true", "helpers": "3", "queue": "9",
	"workers.min": "2", "workers.max": "20", "workers.spare": "1", "workers.idle": "never", "workers.window": "3", "workers.start_timeout": "1s", "workers.ping": "1s",
	"workers.need": "1M", "limits.timeout": "1s", "limits.memory": "1M", "limits.cpu": "0.5", "limits.output": "1K", "limits.pids": "7", "limits.weight": "9",
	"retry.attempts": "1", "retry.backoff": "2s..3s", "retry.crashes": "1", "retry.nodes": "1", "retry.bury": "tell", "retry.on": "[timeout]",
	"groups.concurrency": "2", "groups.rate": "0.5", "groups.burst": "3", "groups.meta": "tenant",
	"recycle.tasks": "5", "recycle.age": "1h", "recycle.memory": "1G", "recycle.jitter": "0", "sandbox": "strict", "sandbox.profile": "strict",
	"sandbox.allow": "[., '/usr:ro']", "sandbox.network": "true", "sandbox.temp": "1M", "sandbox.best_effort": "true", "env": "{A: b, C: null}", "dir": "sub",
	"preload": "[json]", "nice": "host", "cpus": "[0, 1]", "io": "idle", "oom_score": "0", "grace": "1s", "close_grace": "1s", "null": "true", "log_rate": "1MiB", "arena": "0",
	"workers.concurrency": "4", "http.path": "/tasks/{name}", "http.ready": "/healthz", "lambda.handler": "app.handler",
	"batch.max": "10", "batch.wait": "20ms", "batch.shape": "sqs",
}

// sampleValue reads a sample as it would stand in a file.
func sampleValue(t *testing.T, text string) value {
	t.Helper()
	j := &journal{file: "sample"}
	v, ok := (&reader{journal: j, folder: "/folder"}).read([]byte("x-it: " + text + "\n"))
	if !ok || j.err() != nil {
		t.Fatalf("%s: %v", text, j.err())
	}
	return v.pairs[0].value
}

// everyKey sets all keys of a table to their samples, each of which must be seen.
func everyKey[D any](t *testing.T, table *table[D], fresh func() D, samples map[string]string) D {
	t.Helper()
	all := fresh()
	if len(samples) != len(table.keys) {
		t.Errorf("%d samples for %d keys", len(samples), len(table.keys))
	}
	for _, k := range table.keys {
		text, ok := samples[k.path]
		if !ok {
			t.Errorf("%s has no sample", k.path)
			continue
		}
		before, after := fresh(), fresh()
		if !k.same(&before, &after) {
			t.Errorf("%s: a fresh value differs from another", k.path)
		}
		if err := k.set(&after, sampleValue(t, text)); err != nil {
			t.Errorf("%s: %s: %v", k.path, text, err)
		}
		if k.same(&before, &after) {
			t.Errorf("%s: %s changes nothing", k.path, text)
		}
		if err := k.set(&all, sampleValue(t, text)); err != nil {
			t.Errorf("%s: %v", k.path, err)
		}
		if err := k.set(&after, value{shape: isNull}); err == nil {
			t.Errorf("%s takes nothing for a value", k.path)
		}
		if k.does == "" || k.kind == "" || k.byDefault == "" || !strings.HasPrefix(k.use, "use ") || strings.HasSuffix(k.does, ".") {
			t.Errorf("%s is not described: %+v", k.path, k)
		}
	}
	return all
}

func freshSettings() Settings { return Settings{Budget: new(process.BudgetConfig)} }

func TestEveryKeyIsReached(t *testing.T) {
	t.Parallel()
	s := freshSettings
	all := everyKey(t, daemonTable, func() Settings {
		d := s()
		if err := daemonTable.defaults(&d); err != nil {
			t.Fatal(err)
		}
		return d
	}, samples)
	wantNoZero(t, reflect.ValueOf(all), "Settings", "Dashboard", "Path", "Pools", "PoolsGiven", "Schedules", "SchedulesGiven", "Queue.Store", "Queue.Node", "Queue.Logger", "Queue.Ended", "Queue.Refuse", "Queue.Retry", "Budget.Logger", "Store.clustered")
	pool := everyKey(t, poolTable, func() (p Pool) {
		if err := poolTable.defaults(&p); err != nil {
			t.Fatal(err)
		}
		return p
	}, poolSamples)
	schedule := everyKey(t, scheduleTable, func() (s job.Schedule) {
		if err := scheduleTable.defaults(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}, scheduleSamples)
	// Jobs that follow are left out: a configuration says what begins, and a handler
	// that begins a chain says what follows.
	wantNoZero(t, reflect.ValueOf(schedule), "Schedule", "Name", "Paused", "Origin", "Job.Key", "Job.Then", "Job.Delay", "Job.At", "Job.Deadline",
		"Job.Limits.Memory", "Job.Limits.CPU", "Job.Limits.Output", "Job.Retry.Backoff", "Job.Retry.MaxBackoff", "Job.Retry.Crashes", "Job.Retry.Nodes", "Job.Retry.On")
	// The overflow is that of the daemon, which answers that it is overloaded.
	wantNoZero(t, reflect.ValueOf(pool), "Pool", "Process.Name", "Process.Arguments", "Process.Overflow", "Process.Budget", "Process.Logger")
}

// wantNoZero finds fields that no key has set.
func wantNoZero(t *testing.T, v reflect.Value, of string, but ...string) {
	t.Helper()
	var look func(v reflect.Value, path string)
	look = func(v reflect.Value, path string) {
		if slices.Contains(but, path) {
			return
		}
		if v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct && v.Type() != reflect.TypeFor[*process.Budget]() {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct && v.Type().PkgPath() != "net/url" {
			for i := range v.NumField() {
				look(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."))
			}
			return
		}
		if v.IsZero() {
			t.Errorf("no key sets %s.%s", of, path)
		}
	}
	look(v, "")
}

// What is made of the settings must have a key for all that can be set.
func TestEveryStoreSettingIsReached(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := good(t, folder, `queue: {dir: d, reserve: 1M}`)
	store, ok := s.Queue.Store.(embedded.Store)
	if !ok {
		t.Fatalf("the store is %T", s.Queue.Store)
	}
	wantNoZero(t, reflect.ValueOf(store), "Store")
	server, ok := good(t, folder, "queue: {url: 'u:p@a', replicas: 3}").Queue.Store.(queue.Server)
	if !ok || server.URL != "nats://a" || server.Replicas != 3 || len(server.Options) != 1 {
		t.Errorf("%+v", server)
	}
	if s := good(t, folder, "queue: {memory: true}"); s.Queue.Store == nil || s.Store.Dir != "" {
		t.Errorf("%+v", s.Store)
	}
}

// The largest payloads that a file may ask for are taken by a queue in a folder.
func TestEmbeddedServerTakesLargest(t *testing.T) {
	t.Parallel()
	s := good(t, t.TempDir(), "queue: {max_payload: 31M, max_result: 31M, keep: {lines: 1000, line_bytes: 256K}}")
	q, err := queue.Open(t.Context(), s.Queue)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// Defaults that are written in the table are those of the library.
func TestDefaultsOfProcess(t *testing.T) {
	t.Parallel()
	var p Pool
	if err := poolTable.defaults(&p); err != nil {
		t.Fatal(err)
	}
	p.Process.Command = []string{"go"}
	var got, want process.Config
	for _, c := range []struct {
		config process.Config
		to     *process.Config
	}{{p.Process, &got}, {process.Config{Command: []string{"go"}}, &want}} {
		pool, err := process.New(c.config)
		if err != nil {
			t.Fatal(err)
		}
		*c.to = pool.Config()
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
	want.LogRate = 256 << 10 // a library logs all unless it is asked not to
	if got.Logger, want.Logger = nil, nil; !reflect.DeepEqual(got, want) {
		t.Errorf("with the defaults of the table\n%+v\nwithout\n%+v", got, want)
	}
}

// A configuration of a queue that says nothing becomes what the table says: a
// queue tells how, for values out of bounds.
func TestDefaultsOfQueue(t *testing.T) {
	t.Parallel()
	s := good(t, t.TempDir(), "pools: {a: }")
	want := job.Retry{
		Attempts: 5, Backoff: time.Second, MaxBackoff: 5 * time.Minute, Crashes: 3, Nodes: 10, On: s.Pools["a"].Retry.On,
	}
	if got := s.Pools["a"].Retry; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	keep := job.Keep{
		Jobs: 4 << 30, Outcomes: 1 << 30, OutcomeCount: 1_000_000, OutcomeAge: 24 * time.Hour, Dead: 1 << 30, DeadAge: 30 * 24 * time.Hour, Lines: 50, LineBytes: 8 << 10, Payloads: 8 << 10,
	}
	if s.Queue.Keep != keep || s.Queue.Lease != 30*time.Second || s.Queue.KeyWindow != 24*time.Hour || s.Queue.Namespace != "main" {
		t.Errorf("%+v", s.Queue)
	}
}

func TestVariablesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, k := range daemonTable.keys {
		name := variable(k.path)
		if other, twice := seen[name]; twice {
			t.Errorf("%s stands for %s and %s", name, other, k.path)
		}
		if seen[name] = k.path; ofService(name) {
			t.Errorf("%s is taken for a variable of Kubernetes", name)
		}
		if text := samples[k.path]; !strings.ContainsAny(text, "[{") {
			if _, err := Load(Source{Env: []string{name + "="}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	q, err := queue.Open(t.Context(), queue.Config{Store: queue.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, name := range []string{"a", "", "A", "a.b", "a-b_c", "0", strings.Repeat("a", 64), strings.Repeat("a", 65), "ä", "a b"} {
		if name == "" {
			continue // which stands for the default in a job
		}
		_, err := q.Enqueue(t.Context(), job.Job{Queue: name})
		if isToken(name) != (err == nil) {
			t.Errorf("%q is a name: %t, for a queue: %v", name, isToken(name), err)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const pools = "pools: {a: {command: go}, b: {command: go, env: {X: '1'}}, c: }"
	before := good(t, folder, pools)
	if d := before.Diff(good(t, folder, pools)); len(d) > 0 {
		t.Errorf("a configuration differs from itself in %q", d)
	}
	after := good(t, folder, "grace: 1s\nhttp: {listen: '127.0.0.1:1'}\nbudget: {workers: 9}\nqueue: {url: 'nats://u:p@a'}\n"+
		"pools: {a: {command: go, sandbox: {profile: none}, workers: {max: 77}}, b: {command: go, env: {X: '2'}}, d: }")
	want := []string{"grace", "http.listen", "budget.workers", "queue.dir", "queue.url", "queue.replicas", "queue.max_payload", "queue.max_result",
		"pools.a.helpers", "pools.a.workers.max", "pools.a.sandbox.profile", "pools.b.env", "pools.c", "pools.d"}
	if got := after.Diff(before); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := after.Restart(before); !reflect.DeepEqual(got, want[1:8]) {
		t.Errorf("%q", got)
	}
	other := good(t, folder, "queue: {url: 'nats://u:q@a'}")
	if got := other.Restart(good(t, folder, "queue: {url: 'nats://u:p@a'}")); !reflect.DeepEqual(got, []string{"queue.url"}) {
		t.Errorf("another password: %q", got)
	}
	p, q := before.Pools["a"], before.Pools["a"]
	q.Process.Name = "x"
	if got := p.diff(&q, "pools.a"); !reflect.DeepEqual(got, []string{"pools.a"}) {
		t.Errorf("what no key sets: %q", got)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"server": "queue: {url: 'nats://user:hidden@a'}\n",
		"token":  "queue: {url: 'nats://hidden@a'}\n",
		"env":    "pools: {a: {command: [go, hidden], env: {KEY: hidden}}}\n",
	} {
		s := good(t, folder, text)
		for _, shown := range []string{
			fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, *s), fmt.Sprintf("%v %+v %#v", s.Store, s.Store, s.Store), s.LogValue().String(), s.Store.LogValue().String(),
		} {
			if strings.Contains(shown, "hidden") || shown == "" {
				t.Errorf("%s: %s", name, shown)
			}
		}
	}
}

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a b  c":                   {"a", "b", "c"},
		` a 'b c' "d e" f\ g `:     {"a", "b c", "d e", "f g"},
		`a "b\"c" 'd\e' x"y z"'!'`: {"a", `b"c`, `d\e`, "xy z!"},
		`C:\bin\x.exe C:\a\\b`:     {`C:\bin\x.exe`, `C:\a\b`},
		`sh -c 'a | b' '|' \"`:     {"sh", "-c", "a | b", "|", `"`},
		`a ""`:                     {"a", ""},
		"a\n b\t":                  {"a", "b"},
		"":                         nil, " ": nil, `""`: nil, "a 'b": nil, "a | b": nil, "a && b": nil, "a > b": nil, "a\x00": nil,
	} {
		got, err := splitCommand(text)
		if (err == nil) != (want != nil) || !reflect.DeepEqual(got, want) && err == nil {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	text := Reference()
	for _, k := range daemonTable.keys {
		if !strings.Contains(text, "\n"+k.path+"\n") || !strings.Contains(text, variable(k.path)) {
			t.Errorf("%s is missing", k.path)
		}
	}
	for _, k := range poolTable.keys {
		if !strings.Contains(text, "\npools.NAME."+k.path+"\n") {
			t.Errorf("%s is missing", k.path)
		}
	}
	for _, k := range scheduleTable.keys {
		if !strings.Contains(text, "\nschedules.NAME."+k.path+"\n") {
			t.Errorf("%s is missing", k.path)
		}
	}
	for line := range strings.Lines(text) {
		if len([]rune(line)) > lineWidth+1 {
			t.Errorf("a long line: %s", line)
		}
	}
}
