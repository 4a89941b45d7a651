//go:build unix

package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// clients returns the path of a file below .cache/clients, which tools/clients.sh makes.
func clients(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", ".cache", "clients", file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("it is not installed: make clients installs it (%v)", err)
	}
	return path
}

func event(t *testing.T, do, arg string) bullpen.Task {
	t.Helper()
	text, err := json.Marshal(map[string]string{"Do": do, "Arg": arg})
	if err != nil {
		t.Fatal(err)
	}
	return bullpen.Task{Payload: text}
}

// invoke runs a task that a worker must end, with a result or an error.
func invoke(t *testing.T, p *Pool, task bullpen.Task) (string, *bullpen.TaskError) {
	t.Helper()
	r, err := p.Execute(within(t, 2*time.Minute), task)
	var te *bullpen.TaskError
	if err != nil && !errors.As(err, &te) {
		t.Fatal(err)
	}
	return string(r.Payload), te
}

// TestPreloadedFunctions are forked from a process that has imported what they need.
func TestPreloadedFunctions(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this system cannot fork workers from a warm process")
	}
	p := functionOn(t, "python", "function", func(c *Config) { c.Preload = []string{"decimal"}; c.Min, c.Max = 2, 2 })
	for i := range 20 {
		if got, te := invoke(t, p, event(t, "ok", strconv.Itoa(i))); te != nil || got != strconv.Quote(strconv.Itoa(i)) {
			t.Fatalf("%s, %v", got, te)
		}
	}
}

// TestFunctionsOfFrameworks run handlers that other libraries make.
func TestFunctionsOfFrameworks(t *testing.T) {
	t.Parallel()
	gateway := `"version":"2.0","routeKey":"$default","rawPath":"/upper","rawQueryString":"","headers":{"content-type":"text/plain","host":"x"},` +
		`"requestContext":{"http":{"method":"POST","path":"/upper","sourceIp":"127.0.0.1","protocol":"HTTP/1.1"},"stage":"$default"},"body":"straw","isBase64Encoded":false`
	upper := func(t *testing.T, p *Pool, framework string) {
		t.Helper()
		got, te := invoke(t, p, bullpen.Task{Payload: []byte(`{"framework":"` + framework + `",` + gateway + `}`)})
		if te != nil || !strings.Contains(got, `"STRAW"`) && !strings.Contains(got, `"U1RSQVc="`) { // base64
			t.Errorf("%s: %s, %v", framework, got, te)
		}
	}
	for _, runtime := range []string{"node 3", "node 4"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			upper(t, functionOn(t, runtime, "serverless", nil), "express")
		})
	}
	p := functionOn(t, "python", "frameworks", nil)
	upper(t, p, "flask")
	upper(t, p, "starlette")
	records := `{"Records":[{"messageId":"a","body":"good","eventSource":"aws:sqs"},{"messageId":"b","body":"bad","eventSource":"aws:sqs"}]}`
	if got, te := invoke(t, p, bullpen.Task{Payload: []byte(records)}); te != nil || got != `{"batchItemFailures": [{"itemIdentifier": "b"}]}` {
		t.Errorf("a batch: %s, %v", got, te)
	}
}

// TestEventsOfLambda echoes every event of the test data of the client in Go.
func TestEventsOfLambda(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-lambda-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "events", "testdata", "*.json"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d events, %v", len(files), err)
	}
	p := functionPool(t, nil, "echo")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) {
			continue // two are malformed, as a test of the client
		}
		got, te := invoke(t, p, bullpen.Task{Payload: text})
		var a, b any
		if err := errors.Join(json.Unmarshal(text, &a), json.Unmarshal([]byte(got), &b)); te != nil || err != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %v, %v", filepath.Base(file), te, err)
		}
	}
}

// TestShellFunction is a function in shell, with curl.
func TestShellFunction(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed: apt-get install curl")
	}
	p := open(t, Config{Command: []string{"sh", "bootstrap.sh"}, Dir: filepath.Join("testdata", "clients"), Protocol: Lambda, Max: 1})
	for range 3 {
		if got, te := invoke(t, p, bullpen.Task{Payload: []byte(`"shell"`)}); te != nil || got != `{"hello":"shell"}` {
			t.Fatalf("%s, %v", got, te)
		}
	}
}

// TestWebPrograms run unmodified.
func TestWebPrograms(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "clients")
	for name, c := range map[string]struct {
		install string
		command []string
		env     string
	}{
		"flask":               {"python/bin/python", []string{"", "web_flask.py"}, ""},
		"fastapi":             {"python/bin/uvicorn", []string{"sh", "-c", `exec "$0" --log-level warning --port "$PORT" web_fastapi:app`, ""}, ""},
		"functions-framework": {"python/bin/functions-framework", []string{"", "--source", "web_functions.py", "--target", "upper"}, ""},
		"express":             {"node/node_modules", []string{"node", "web_express.js"}, "NODE_PATH="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := clients(t, c.install)
			for i, arg := range c.command {
				if arg == "" {
					c.command[i] = path
				}
			}
			config := Config{Command: c.command, Dir: dir, Protocol: HTTP, Max: 1, Concurrency: 4, Env: []string{"PYTHONDONTWRITEBYTECODE=1"}}
			if c.env != "" {
				config.Env = append(config.Env, c.env+path)
			}
			p := open(t, config)
			var all []bullpen.Task
			for i := range 20 {
				all = append(all, bullpen.Task{Payload: fmt.Append(nil, "straw ", i), Meta: map[string]string{"content-type": "text/plain"}})
			}
			for i, e := range p.ExecuteAll(within(t, 2*time.Minute), all) {
				r := e.Result
				if e.Err != nil || string(r.Payload) != fmt.Sprint("STRAW ", i) || !strings.HasPrefix(r.Meta["content-type"], "text/") {
					t.Fatalf("%d: %q %v, %v", i, r.Payload, r.Meta, e.Err)
				}
			}
			if s := p.Stats(); s.Started != 1 {
				t.Errorf("%d workers were started", s.Started)
			}
		})
	}
}

// TestCloudEvents pass in both modes.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	p := open(t, Config{
		Command: []string{clients(t, "python/bin/functions-framework"), "--source", "web_functions.py", "--target", "event", "--signature-type", "cloudevent"},
		Dir:     filepath.Join("testdata", "clients"), Protocol: HTTP, Max: 1, Env: []string{"PYTHONDONTWRITEBYTECODE=1"},
	})
	for mode, task := range map[string]bullpen.Task{
		"binary": {Payload: []byte(`{"n":3}`), Meta: map[string]string{
			"ce-specversion": "1.0", "ce-type": "order", "ce-source": "/shop", "ce-id": "77", "content-type": "application/json",
		}},
		"structured": {
			Payload: []byte(`{"specversion":"1.0","type":"order","source":"/shop","id":"77","datacontenttype":"application/json","data":{"n":3}}`),
			Meta:    map[string]string{"content-type": "application/cloudevents+json"},
		},
	} {
		seen := &notes{}
		task.Observer = seen
		_, te := invoke(t, p, task)
		if got := printedBy(seen); te != nil || !strings.Contains(got, "stdout: order 77 3\n") {
			t.Errorf("%s: %q, %v", mode, got, te)
		}
	}
}

// TestStrictWorkersOfTheNetwork: under the strict profile a worker has a network with its
// host and nobody else.
func TestStrictWorkersOfTheNetwork(t *testing.T) {
	t.Parallel()
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	strict := Sandbox{Profile: ProfileStrict}
	function := Config{Command: []string{self(), "function", "matrix"}, Protocol: Lambda, Min: 2, Max: 2, Sandbox: strict}
	if p, err := New(function); err != nil {
		t.Skip("this machine cannot keep the profile: ", err)
	} else if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p := open(t, function)
	if !p.Guarantees().NoNetwork {
		t.Errorf("it is not promised: %v", p.Guarantees().Notes)
	}
	if got, te := invoke(t, p, event(t, "ok", "a")); te != nil || got != `"a"` {
		t.Errorf("%s, %v", got, te)
	}
	if _, te := invoke(t, p, event(t, "dial", outside.Addr().String())); te == nil || !strings.Contains(te.Message, "refused") {
		t.Errorf("a connection to the host ended with %v", te)
	}
	web := open(t, Config{Command: []string{self(), "web", "paths"}, Protocol: HTTP, Min: 2, Max: 2, Sandbox: strict, HTTP: HTTPWorker{Path: "/{name}"}})
	for range 10 {
		do(t, web, "pid", "")
	}
}

// TestFunctionThatPollsNoMore is replaced, and its next task runs elsewhere.
func TestFunctionThatPollsNoMore(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed: apt-get install curl")
	}
	const once = `api=http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/invocation
id=$(curl -sS -D - -o /dev/null $api/next | tr -d '\r' | sed -n 's/^[Ll]ambda-[Rr]untime-[Aa]ws-[Rr]equest-[Ii]d: //p')
curl -sS -o /dev/null -d $$ $api/$id/response
exec sleep 60`
	p := open(t, Config{Command: []string{"sh", "-c", once}, Protocol: Lambda, Max: 1, StartTimeout: 2 * time.Second})
	seen := map[string]bool{}
	for range 3 {
		got, te := invoke(t, p, bullpen.Task{})
		if te != nil || seen[got] {
			t.Fatalf("%s, %v; before %v", got, te, seen)
		}
		seen[got] = true
	}
}

// TestBatchesOfPowertools: the processor of powertools reads the events of shared calls, and
// its answers are heeded.
func TestBatchesOfPowertools(t *testing.T) {
	t.Parallel()
	p := functionOn(t, "python", "frameworks.handler", func(c *Config) {
		c.Batch = Batch{Max: 3, Wait: time.Hour, Shape: ShapeSQS}
	})
	tasks := []bullpen.Task{{Payload: []byte("good")}, {ID: "b", Payload: []byte("bad")}, {ID: "c", Payload: []byte("güt"), Meta: map[string]string{"tenant": "x"}}}
	for range 3 {
		if got := endsOf(p.ExecuteAll(within(t, 2*time.Minute), tasks)); got != "ok, failed, ok" {
			t.Fatal(got)
		}
	}
	all := p.ExecuteAll(within(t, 2*time.Minute), []bullpen.Task{tasks[1], tasks[1], tasks[1]}) // then powertools raises
	if got := endsOf(all); got != "failed, failed, failed" || !strings.Contains(all[0].Err.Error(), "bad record") {
		t.Errorf("%s: %v", got, all[0].Err)
	}
}
