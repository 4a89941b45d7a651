//go:build unix

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
)

// serveFunction is a function of Lambda in Go, on the runtime client of AWS.
func serveFunction(args []string) {
	switch {
	case len(args) == 0:
		lambda.Start(suiteFunction{})
	case args[0] == "stream":
		lambda.Start(streamFunction)
	case args[0] == "echo":
		lambda.Start(func(event json.RawMessage) (json.RawMessage, error) { return event, nil })
	}
	lambda.Start(matrixFunction)
}

// streamFunction streams its event, or fails in the middle.
func streamFunction(event string) (io.Reader, error) {
	if event != "fail" {
		return strings.NewReader(event), nil
	}
	r, w := io.Pipe()
	go func() { // ends with the response
		_, _ = io.WriteString(w, "begun ")
		_ = w.CloseWithError(errors.New("in the middle"))
	}()
	return r, nil
}

// suiteFunction serves the contract's suite.
type suiteFunction struct{}

func (suiteFunction) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) > noDeadline/2 {
		ctx = context.WithoutCancel(ctx) // the client makes a deadline of everything
	}
	h := handleEnveloped(ctx, event)
	if h.kind != "" {
		return nil, messages.InvokeResponse_Error{Type: h.kind, Message: h.message}
	}
	return h.text, nil
}

// matrixFunction does what its event says.
func matrixFunction(ctx context.Context, event struct{ Do, Arg string }) (any, error) {
	switch event.Do {
	case "ok":
		return event.Arg, nil
	case "log":
		fmt.Println(event.Arg)
		fmt.Fprint(os.Stderr, "no line feed")
		return nil, nil
	case "deadline":
		at, _ := ctx.Deadline()
		return time.Until(at).Milliseconds(), nil
	case "context":
		c, _ := lambdacontext.FromContext(ctx)
		return map[string]any{
			"arn": c.InvokedFunctionArn, "client": c.ClientContext.Client.AppTitle, "id": c.AwsRequestID,
			"name": lambdacontext.FunctionName, "trace": ctx.Value("x-amzn-trace-id"),
		}, nil
	case "error":
		return nil, errors.New(event.Arg)
	case "panic":
		panic(event.Arg)
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	case "sleep":
		<-time.After(time.Hour)
	case "big":
		n, err := strconv.Atoi(event.Arg)
		return strings.Repeat("x", n), err
	case "pid":
		return os.Getpid(), nil
	case "dial":
		conn, err := net.Dial("tcp", event.Arg)
		if err == nil {
			_ = conn.Close()
		}
		return nil, err
	}
	return nil, fmt.Errorf("no such deed: %s", event.Do)
}

func functionPool(t *testing.T, change func(*Config), args ...string) *Pool {
	t.Helper()
	c := Config{Command: append([]string{self(), "function"}, args...), Protocol: Lambda, Max: 1, Name: "thumbs"}
	if change != nil {
		change(&c)
	}
	return open(t, c)
}

func TestContractOfLambda(t *testing.T) {
	executortest.Run(t, executortest.Factory{Unasked: true, New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		return enveloped{open(t, Config{
			Command: []string{self(), "function"}, Protocol: Lambda, Min: o.Workers, Max: o.Workers, Queue: o.Queue,
			Overflow: Overflow(o.Overflow), Grace: o.Grace,
		})}
	}, KillWorker: killOne})
}

// TestLambdaMatrix is what a function in Go does, as observed with the client of AWS.
func TestLambdaMatrix(t *testing.T) {
	t.Parallel()
	p := functionPool(t, func(c *Config) { c.Limits.Timeout = time.Minute }, "matrix")
	if got, te := invoke(t, p, event(t, "ok", "a \"text\"")); te != nil || got != `"a \"text\""` {
		t.Errorf("ok: %s, %v", got, te)
	}
	if got, te := invoke(t, p, event(t, "deadline", "")); te != nil || !between(got, 50_000, 60_000) {
		t.Errorf("deadline: %s ms, %v", got, te)
	}
	if _, te := invoke(t, p, event(t, "error", "no such user")); te == nil || te.Outcome != bullpen.Failed || te.Type != "errorString" || te.Message != "no such user" || !te.Retryable {
		t.Errorf("error: %+v", te)
	}
	if _, te := invoke(t, p, bullpen.Task{Payload: []byte("no JSON")}); te == nil || te.Outcome != bullpen.Failed || !strings.Contains(te.Message, "invalid character") {
		t.Errorf("no JSON: %+v", te)
	}
	first, _ := invoke(t, p, event(t, "pid", ""))
	if _, te := invoke(t, p, event(t, "panic", "out of cheese")); te == nil || te.Outcome != bullpen.Failed || te.Message != "out of cheese" ||
		!strings.Contains(te.Stack, "matrixFunction") {
		t.Errorf("panic: %+v", te)
	}
	second, te := invoke(t, p, event(t, "pid", "")) // a client in Go exits after a panic
	if te != nil || first == second {
		t.Errorf("after a panic: process %s, before %s, %v", second, first, te)
	}
	if _, te := invoke(t, p, event(t, "exit", "")); te == nil || te.Outcome != bullpen.Crashed || te.ExitCode != 3 || !strings.Contains(te.Detail, "last words") {
		t.Errorf("exit: %+v", te)
	}
	task := event(t, "sleep", "")
	task.Limits.Timeout = 100 * time.Millisecond
	if _, te := invoke(t, p, task); te == nil || te.Outcome != bullpen.Timeout {
		t.Errorf("sleep: %+v", te)
	}
	if got, te := invoke(t, p, event(t, "big", strconv.Itoa(6<<20-2))); te != nil || len(got) != 6<<20 {
		t.Errorf("6 MiB: %d bytes, %v", len(got), te)
	}
	if _, te := invoke(t, p, event(t, "big", strconv.Itoa(6<<20-1))); te == nil || te.Outcome != bullpen.Output || !strings.Contains(te.Error(), "6291457 bytes") {
		t.Errorf("more than 6 MiB: %v", te)
	}
	if got, te := invoke(t, p, event(t, "ok", "again")); te != nil || got != `"again"` {
		t.Errorf("after a result that was too large: %s, %v", got, te)
	}
}

func between(text string, low, high int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && low <= n && n <= high
}

// TestLambdaContext is what an invocation says besides its event.
func TestLambdaContext(t *testing.T) {
	t.Parallel()
	p := functionPool(t, nil, "matrix")
	task := bullpen.Task{Payload: []byte(`{"Do":"context"}`), Meta: map[string]string{
		MetaLambdaClient: `{"client":{"app_title":"shop"}}`,
		"traceparent":    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}}
	r, err := p.Execute(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(r.Payload, &got); err != nil {
		t.Fatal(err)
	}
	if len(got["id"]) != 36 {
		t.Errorf("request ID %q", got["id"])
	}
	for name, want := range map[string]string{
		"arn": "arn:aws:lambda:us-east-1:000000000000:function:thumbs", "client": "shop", "name": "thumbs",
		"trace": "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	task.Meta = map[string]string{MetaLambdaARN: "arn:aws:lambda:eu-west-1:1:function:thumbs:live"}
	if r, err = p.Execute(t.Context(), task); err != nil || !strings.Contains(string(r.Payload), `"arn":"arn:aws:lambda:eu-west-1:1:function:thumbs:live"`) {
		t.Errorf("%s, %v", r.Payload, err)
	}
}

// TestLambdaOutput: what a function has printed when it answers belongs to its task.
func TestLambdaOutput(t *testing.T) {
	t.Parallel()
	p := functionPool(t, nil, "matrix")
	for i := range 20 {
		seen := &notes{}
		if _, err := p.Execute(t.Context(), bullpen.Task{Payload: []byte(`{"Do":"log","Arg":"line ` + strconv.Itoa(i) + `"}`), Observer: seen}); err != nil {
			t.Fatal(err)
		}
		if got, want := printedBy(seen), fmt.Sprintf("stderr: no line feed\nstdout: line %d\n", i); got != want {
			t.Fatalf("task %d:\n%swant\n%s", i, got, want)
		}
	}
}

func printedBy(n *notes) string {
	var all []string
	for _, line := range n.all() {
		all = append(all, line.Stream+": "+line.Text+"\n")
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// TestLambdaRequestID: an invocation keeps the ID of its request, and line feeds in metadata
// do not reach the headers.
func TestLambdaRequestID(t *testing.T) {
	t.Parallel()
	p := functionPool(t, nil, "matrix")
	const id = "8a5c1d2e-0000-4000-8000-0123456789ab"
	task := bullpen.Task{Payload: []byte(`{"Do":"context"}`), Meta: map[string]string{
		MetaLambdaRequest: id, MetaLambdaTrace: "Root=1-2-3\r\nX: y", MetaLambdaClient: `{}`,
	}}
	if got, te := invoke(t, p, task); te != nil || !strings.Contains(got, `"id":"`+id+`"`) || strings.Contains(got, "X:") && strings.Contains(got, `\n`) {
		t.Errorf("%s, %v", got, te)
	}
	task.Meta = map[string]string{MetaLambdaRequest: "../../next", MetaLambdaClient: `{}`}
	if got, te := invoke(t, p, task); te != nil || strings.Contains(got, "next") {
		t.Errorf("%s, %v", got, te)
	}
}
