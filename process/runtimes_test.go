//go:build unix

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// runtimes are the runtime clients of AWS, by language. Each returns the settings that run a
// function: "function" does what its event says, "stream" streams its event, "broken" cannot
// start; others do not exist. What is not installed skips the test.
var runtimes = map[string]func(t *testing.T, function string) Config{
	"go": func(_ *testing.T, function string) Config {
		return Config{Command: []string{self(), "function", function}}
	},
	"python": func(t *testing.T, function string) Config {
		t.Helper()
		return Config{
			Command: []string{clients(t, "python/bin/python"), "-m", "awslambdaric", handler(function)},
			Env:     []string{"PYTHONDONTWRITEBYTECODE=1"},
		}
	},
	"node 3": func(t *testing.T, function string) Config {
		t.Helper()
		return node(t, "ric3/node_modules/aws-lambda-ric/bin/index.mjs", function)
	},
	"node 4": func(t *testing.T, function string) Config {
		t.Helper()
		return node(t, "ric4/node_modules/aws-lambda-ric/index.mjs", function)
	},
	"java": func(t *testing.T, function string) Config {
		t.Helper()
		libs, classes := clients(t, "java/libs"), t.TempDir()
		compile := []string{"-cp", libs + "/*", "-d", classes}
		for _, file := range []string{"Function.java", "Broken.java"} {
			compile = append(compile, filepath.Join("testdata", "clients", file))
		}
		if out, err := exec.Command("javac", compile...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return Config{Command: []string{
			"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes + ":" + libs + "/*",
			"com.amazonaws.services.lambda.runtime.api.client.AWSLambda", strings.ToUpper(function[:1]) + function[1:] + "::handle",
		}}
	},
	"rust": func(t *testing.T, function string) Config {
		t.Helper()
		build := exec.Command("cargo", "build", "--quiet", "--release", "--offline", "--manifest-path", clients(t, "rust/Cargo.toml"))
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return Config{Command: []string{clients(t, "rust/target/release/function"), function}}
	},
}

// handler returns the name of a function in Python or JavaScript.
func handler(function string) string {
	switch {
	case function == "stream":
		return "function.stream"
	case strings.Contains(function, "."):
		return function
	}
	return function + ".handler"
}

func node(t *testing.T, client, function string) Config {
	t.Helper()
	return Config{Command: []string{"node", clients(t, client), handler(function)}, Env: []string{"NODE_PATH=" + clients(t, "node/node_modules")}}
}

// functionOn opens a pool of one function on a runtime client.
func functionOn(t *testing.T, runtime, function string, change func(*Config)) *Pool {
	t.Helper()
	c := runtimes[runtime](t, function)
	c.Protocol, c.Max, c.Name, c.Dir = Lambda, 1, "thumbs", filepath.Join("testdata", "clients")
	if change != nil {
		change(&c)
	}
	return open(t, c)
}

// each runs a test for every runtime client, or for those that are named.
func each(t *testing.T, test func(t *testing.T, runtime string), names ...string) {
	t.Helper()
	if len(names) == 0 {
		for name := range runtimes {
			names = append(names, name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name)
		})
	}
}

// deed is what a function may do.
type deed struct {
	do, arg string
	want    map[string]string // by client, how the outcome begins; "" for those not named; without one the client is left out
	stack   map[string]string // by client, a part of the error's stack
	exits   string            // the clients whose process is another one afterwards
}

// deeds are what comes of each deed with each client, as observed.
var deeds = []deed{
	{do: "ok", arg: "a \"text\"", want: map[string]string{"": `ok "a \"text\""`}},
	{do: "context", want: map[string]string{
		"": `ok {"arn":"arn:aws:lambda:us-east-1:000000000000:function:thumbs","client":"shop","id":"8a5c1d2e-0000-4000-8000-0123456789ab",` +
			`"name":"thumbs","trace":"Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1"}`,
	}},
	{do: "deadline", want: map[string]string{"": "ok in time"}},
	{do: "error", arg: "no such user", want: map[string]string{
		"go": "failed errorString: no such user", "python": "failed ValueError: no such user", "node 3": "failed RangeError: no such user",
		"node 4": "failed RangeError: no such user", "java": "failed java.lang.IllegalStateException: no such user", "rust": "failed &alloc::boxed::Box<dyn core::error::Error + core::marker::Send + core::marker::Sync>: no such user",
	}, stack: map[string]string{"python": "function.py", "node 3": "function.js", "node 4": "function.js", "java": "Function.handle"}},
	{do: "no JSON", want: map[string]string{
		"go": "failed SyntaxError: invalid character", "python": "failed Runtime.UnmarshalError: ", "node 3": "failed ", "node 4": "crashed by exit 1: ",
		"java": "failed ", "rust": "failed ",
	}, exits: "node 4"},
	{do: "odd", want: map[string]string{"python": "failed Runtime.MarshalError: ", "node 3": "failed ", "node 4": "failed ", "java": "failed "}},
	{do: "panic", arg: "out of cheese", want: map[string]string{
		"go": "failed string: out of cheese", "python": "crashed by aborted: ", "node 3": "failed RangeError: out of cheese",
		"node 4": "crashed by exit 1: ", "java": "failed java.lang.AssertionError: out of cheese", "rust": "failed ",
	}, stack: map[string]string{"go": "matrixFunction"}, exits: "go, python, node 3, node 4"},
	{do: "exit", want: map[string]string{"": "crashed by exit 3: last words"}, exits: "all"},
	{do: "sleep", want: map[string]string{"": "timeout"}, exits: "all"},
	{do: "big", arg: strconv.Itoa(6<<20 - 2), want: map[string]string{"": "ok 6291456 bytes"}},
	{do: "big", arg: strconv.Itoa(6<<20 - 1), want: map[string]string{"": "output"}, exits: "go, python, java"},
	{do: "ok", arg: "again", want: map[string]string{"": `ok "again"`}},
}

// TestRuntimeClients is what functions on the clients of AWS do.
func TestRuntimeClients(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, runtime string) {
		t.Helper()
		p := functionOn(t, runtime, "function", func(c *Config) { c.Limits.Timeout = time.Minute })
		before, _ := invoke(t, p, event(t, "pid", ""))
		for _, d := range deeds {
			want, ok := d.want[runtime]
			if !ok {
				if want, ok = d.want[""]; !ok {
					continue
				}
			}
			got, te := invoke(t, p, d.task(t))
			if got := described(got, te); !strings.HasPrefix(got, want) {
				t.Errorf("%s %s: %s, want %s", d.do, d.arg, got, want)
			}
			if frame := d.stack[runtime]; frame != "" && (te == nil || !strings.Contains(te.Stack, frame)) {
				t.Errorf("%s: the stack of %+v lacks %s", d.do, te, frame)
			}
			now, te := invoke(t, p, event(t, "pid", ""))
			exits := d.exits == "all" || strings.Contains(d.exits, runtime)
			if te != nil || (now != before) != exits {
				t.Errorf("%s: process %s, then %s, %v", d.do, before, now, te)
			}
			before = now
		}
	})
}

// task returns the task that has a function do d.
func (d deed) task(t *testing.T) bullpen.Task {
	t.Helper()
	task := event(t, d.do, d.arg)
	if d.do == "no JSON" {
		task.Payload = []byte(d.do)
	}
	if d.do == "sleep" {
		task.Limits.Timeout = 100 * time.Millisecond
	}
	task.Meta = map[string]string{
		MetaLambdaClient:  `{"client":{"installation_id":"1","app_title":"shop","app_version_name":"1","app_version_code":"1","app_package_name":"s"},"custom":{},"env":{}}`,
		MetaLambdaRequest: "8a5c1d2e-0000-4000-8000-0123456789ab",
		"traceparent":     "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	return task
}

// described returns an outcome as a text.
func described(got string, te *bullpen.TaskError) string {
	const most = 1000
	var object map[string]string
	switch ms, err := strconv.Atoi(got); {
	case te == nil && len(got) > most:
		return fmt.Sprintf("ok %d bytes", len(got))
	case te == nil && err == nil && 30_000 < ms && ms <= 60_000:
		return "ok in time"
	case te == nil && json.Unmarshal([]byte(got), &object) == nil && object != nil:
		sorted, _ := json.Marshal(object) // strings always can be
		return "ok " + string(sorted)
	case te == nil:
		return "ok " + got
	case te.Outcome == bullpen.Crashed:
		end := te.Signal
		if end == "" {
			end = fmt.Sprintf("exit %d", te.ExitCode)
		}
		return fmt.Sprintf("crashed by %s: %s", end, te.Detail[strings.LastIndexByte(te.Detail, '\n')+1:])
	case te.Outcome == bullpen.Failed:
		return fmt.Sprintf("failed %s: %s", te.Type, te.Message)
	}
	return te.Outcome.String()
}

// TestOutputOfFunctions: what a function has printed when it answers belongs to its task.
func TestOutputOfFunctions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, runtime string) {
		t.Helper()
		p := functionOn(t, runtime, "function", nil)
		for i := range 20 {
			seen := &notes{}
			log := event(t, "log", "line "+strconv.Itoa(i))
			log.Observer = seen
			_, te := invoke(t, p, log)
			if got, want := printedBy(seen), fmt.Sprintf("stderr: no line feed\nstdout: line %d\n", i); te != nil || !strings.Contains(got, want) {
				t.Fatalf("%s, want %s, %v", got, want, te)
			}
		}
	})
}

// TestFunctionsThatDoNotStart report why, in the words of the client if it has any.
func TestFunctionsThatDoNotStart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, runtime string) {
		t.Helper()
		for function, want := range map[string]map[string]string{
			"broken": {"": "no table"},
			"nowhere": {
				"python": "Runtime.ImportModuleError: Unable to import module 'nowhere'", "node 3": "Runtime.ImportModuleError: ",
				"node 4": "Runtime.ImportModuleError: ",
			},
			"function.nothing": {
				"python": "Runtime.HandlerNotFound: Handler 'nothing' missing", "node 3": "Runtime.HandlerNotFound: ", "node 4": "Runtime.HandlerNotFound: ",
			},
		} {
			text := want[""] + want[runtime]
			if text == "" {
				continue
			}
			p := functionOn(t, runtime, function, nil)
			_, err := p.Execute(within(t, 2*time.Minute), bullpen.Task{Payload: []byte("{}")})
			if !errors.Is(err, bullpen.ErrStart) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %s", function, err, text)
			}
		}
	})
}

// TestConcurrentFunctions run several tasks in one worker: Python forks for them, the others
// have threads. The client 3 of Node.js runs one task at a time.
func TestConcurrentFunctions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, runtime string) {
		t.Helper()
		p := functionOn(t, runtime, "function", func(c *Config) {
			c.Concurrency = 4
			c.Env = append(c.Env, "AWS_LAMBDA_NODEJS_WORKER_COUNT=4")
		})
		all := make([]bullpen.Task, 100)
		for i := range all {
			all[i] = event(t, "ok", strconv.Itoa(i))
		}
		for i, e := range p.ExecuteAll(within(t, 2*time.Minute), all) {
			if e.Err != nil || string(e.Result.Payload) != strconv.Quote(strconv.Itoa(i)) {
				t.Fatalf("%d: %s, %v", i, e.Result.Payload, e.Err)
			}
		}
		if s := p.Stats(); s.Started != 1 {
			t.Errorf("%d workers were started", s.Started)
		}
	}, "go", "python", "node 4", "java", "rust")
}

// TestForkThatDies ends its task at once, and no other one.
func TestForkThatDies(t *testing.T) {
	t.Parallel()
	p := functionOn(t, "python", "function", func(c *Config) { c.Concurrency = 4 })
	other := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := p.Submit(ctx, event(t, "sleep", ""), func(_ bullpen.Result, err error) { other <- err }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, te := invoke(t, p, event(t, "exit", "")); te == nil || te.Outcome != bullpen.Crashed || !strings.Contains(te.Error(), "died") {
			t.Fatalf("a fork that died: %+v", te)
		}
	}
	if got, te := invoke(t, p, event(t, "ok", "a")); te != nil || got != `"a"` {
		t.Errorf("afterwards: %s, %v", got, te)
	}
	select {
	case err := <-other:
		t.Errorf("the task of another fork ended with %v", err)
	default:
	}
	if s := p.Stats(); s.Started != 1 {
		t.Errorf("%d workers were started", s.Started)
	}
	cancel()
	<-other
}
