//go:build unix

package daemon

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var lambdaBlock = regexp.MustCompile("(?s)<!-- (file|try): (\\S+) -->\n```\\w+\n(.*?)```")

// lambdaPage writes the files of docs/lambda.md to a folder, serves them, and returns its
// programs by language.
func lambdaPage(t *testing.T) (s *served, folder string, programs map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/lambda.md")
	if err != nil {
		t.Fatal(err)
	}
	folder, programs = t.TempDir(), map[string]string{}
	for _, b := range lambdaBlock.FindAllStringSubmatch(string(page), -1) {
		if b[1] == "try" {
			programs[b[2]] = b[3]
		} else if err := os.WriteFile(filepath.Join(folder, b[2]), []byte(b[3]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if len(programs) != 2 {
		t.Fatalf("docs/lambda.md has %d programs", len(programs))
	}
	return serveIn(t, folder, "BULLPEN_LAMBDA_LISTEN=127.0.0.1:0"), folder, programs
}

// withBoto returns a Python interpreter that has boto3, new enough to take its endpoint from
// the environment: that of the Python SDK's tests, or that of the system.
func withBoto(t *testing.T) string {
	t.Helper()
	const has = "import boto3; assert [int(n) for n in boto3.__version__.split('.')] >= [1, 28]"
	own, err := filepath.Abs("../../.cache/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{own, "python3"} {
		if exec.CommandContext(t.Context(), path, "-c", has).Run() == nil {
			return path
		}
	}
	t.Skip("needs python3 with boto3 1.28 or newer: run tools/python.sh, which installs it")
	return ""
}

// run runs a program in a folder, with the environment of the page, and returns what it
// prints.
func (s *served) run(folder string, command ...string) string {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), command[0], command[1:]...)
	c.Dir = folder
	c.Env = append(os.Environ(), "AWS_ENDPOINT_URL_LAMBDA="+s.lambda, "AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", "AWS_EC2_METADATA_DISABLED=true", "BULLPEN_URL="+s.url)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		s.t.Fatalf("%v: %v\n%s%s", command[0], err, &out, &errs)
	}
	return out.String()
}

// TestLambdaPagePython runs what docs/lambda.md shows for boto3.
func TestLambdaPagePython(t *testing.T) {
	t.Parallel()
	with := withBoto(t)
	s, folder, programs := lambdaPage(t)
	out := s.run(folder, with, "-c", programs["python"])
	want := "{'hello': 'you'}\nRuntime.ExitError\nAn error occurred (ResourceNotFoundException) when calling the Invoke operation: Function not found: arn:aws:lambda:us-east-1:000000000000:function:goodbye\n"
	if out != want {
		t.Errorf("it prints\n%swant\n%s", out, want)
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestLambdaPageShell runs what docs/lambda.md shows for the AWS CLI.
func TestLambdaPageShell(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "aws", "--version").Run(); err != nil {
		t.Skip("needs the AWS CLI: ", err)
	}
	s, folder, programs := lambdaPage(t)
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(programs["sh"], "http://127.0.0.1:8652", s.lambda, 1)
	out := s.run(folder, "sh", "-e", "-c", "PATH="+filepath.Dir(path)+":$PATH\n"+text)
	for _, want := range []string{`"StatusCode": 200`, `{"hello": "you"}`, `"StatusCode": 202`, `{"hello": "me"}`} {
		_, rest, found := strings.Cut(out, want)
		if !found {
			t.Errorf("%s is missing, or comes too early:\n%s", want, out)
		}
		out = rest
	}
	if err := s.end(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// TestLambdaClients has AWS SDKs call all that the front can do, with signatures.
func TestLambdaClients(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(t *testing.T) []string{
		"boto3": func(t *testing.T) []string {
			t.Helper()
			return []string{withBoto(t), "testdata/invoke.py"}
		},
		"javascript": func(t *testing.T) []string {
			t.Helper()
			modules := installed(t, "node/node_modules")
			return []string{"env", "NODE_PATH=" + modules, "node", "testdata/invoke.cjs"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := command(t)
			script, err := filepath.Abs(program[len(program)-1])
			if err != nil {
				t.Fatal(err)
			}
			program[len(program)-1] = script
			folder := t.TempDir()
			for name, text := range map[string]string{
				"keys": "AKIDTEST secret-of-the-test",
				"bullpen.yaml": "lambda: {listen: '127.0.0.1:0', keys: keys, region: eu-west-1}\nqueue: {memory: true}\npools:\n" +
					function(t, "f", "ephemeral: true") + function(t, "brief", "ephemeral: true, limits: {timeout: 50ms}") + function(t, "quiet", "") +
					function(t, "narrow", "ephemeral: true, queue: 1, workers: {max: 1}"),
			} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := serveIn(t, folder)
			if out := s.run(folder, program...); out != "all is well\n" {
				t.Error(out)
			}
			if err := s.end(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
	}
}

// installed returns the path of a file below .cache/clients.
func installed(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".cache", "clients", file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("it is not installed: tools/clients.sh installs it (%v)", err)
	}
	return path
}

// TestKillUnderEvents kills the real program while events come in: none that was
// acknowledged is lost.
func TestKillUnderEvents(t *testing.T) {
	t.Parallel()
	folder, file, payload := proving(t, "20s")
	config := filepath.Join(folder, "bullpen.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("workers: {min: 2"), []byte("task: mark, workers: {min: 2"), 1)
	if err := os.WriteFile(config, append(text, "lambda: {listen: '127.0.0.1:0'}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	l := load{events: true}
	n := rounds(3, 20)
	for range n {
		s := serveIn(t, folder)
		l.during(t, s, payload, func() {
			if err := s.end(syscall.SIGKILL); err == nil {
				t.Error("it was killed and ended well")
			}
		})
	}
	l.finish(t, folder)
	runs := readMarks(t, file)
	for _, id := range l.accepted {
		if len(runs[id]) == 0 {
			t.Errorf("event %s has not run", id)
		}
	}
	t.Logf("%d events accepted, %d kills", len(l.accepted), n)
}

// TestLambdaFunctions invokes a function on the runtime client of AWS by boto3.
func TestLambdaFunctions(t *testing.T) {
	t.Parallel()
	python := installed(t, "python/bin/python")
	folder := t.TempDir()
	for name, text := range map[string]string{
		"app.py": `
import sys
def handler(event, context):
    print("seen", event["n"])
    if event["n"] == 2:
        raise KeyError("no such thumb")
    if event["n"] == 3:
        sys.exit(3)
    return {"n": event["n"], "id": context.aws_request_id, "arn": context.invoked_function_arn, "app": context.client_context and context.client_context.client.app_title}
`,
		"bullpen.yaml": "lambda: {listen: \"127.0.0.1:0\"}\npools:\n  thumbs:\n    command: [" + python + ", -m, awslambdaric, app.handler]\n    protocol: lambda\n    ephemeral: true\n    env: {PYTHONDONTWRITEBYTECODE: \"1\"}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serveIn(t, folder)
	out := s.run(folder, python, "-c", `
import base64, json, boto3
c = boto3.client("lambda")
for n in 1, 2, 3, 4:
    context = base64.b64encode(b'{"client": {"app_title": "shop"}}').decode()
    a = c.invoke(FunctionName="thumbs", Payload=json.dumps({"n": n}), LogType="Tail", ClientContext=context)
    p = json.load(a["Payload"])
    if "FunctionError" in a:
        print(a["FunctionError"], p["errorType"], p["errorMessage"].split("Error: ")[-1])
    else:
        print(p["n"], p["arn"], p["app"], p["id"] == a["ResponseMetadata"]["RequestId"])
    assert f"seen {n}" in base64.b64decode(a["LogResult"]).decode(), a
`)
	const arn = "arn:aws:lambda:us-east-1:000000000000:function:thumbs"
	want := "1 " + arn + " shop True\nUnhandled KeyError 'no such thumb'\nUnhandled Runtime.ExitError Runtime exited with error: exit status 3\n4 " + arn + " shop True\n"
	if out != want {
		t.Errorf("it printed\n%swant\n%s", out, want)
	}
}
