//go:build unix

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	case args[0] == "list" || args[0] == "sqs" || args[0] == "suite-list":
		sharedFunction(args[0])
	case args[0] == "stream":
		lambda.Start(streamFunction)
	case args[0] == "broken":
		fmt.Fprintln(os.Stderr, "no table")
		os.Exit(1)
	case args[0] == "greedy":
		serveGreedily()
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

// TestLambdaARN: an invocation says by which name the function was called.
func TestLambdaARN(t *testing.T) {
	t.Parallel()
	p := functionPool(t, nil, "matrix")
	const arn = "arn:aws:lambda:eu-west-1:1:function:thumbs:live"
	task := bullpen.Task{Payload: []byte(`{"Do":"context"}`), Meta: map[string]string{MetaLambdaARN: arn, MetaLambdaClient: "{}"}}
	if got, te := invoke(t, p, task); te != nil || !strings.Contains(got, `"arn":"`+arn+`"`) {
		t.Errorf("%s, %v", got, te)
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

// serveGreedily polls for eight events at a time, whatever it was asked for. Each answer is
// how many events the process had at most.
func serveGreedily() {
	var mu sync.Mutex
	var has, most int // guarded by mu
	work := func() {
		for {
			api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
			r, err := http.Get(api + "next")
			if err != nil {
				os.Exit(1)
			}
			_ = r.Body.Close()
			mu.Lock()
			has++
			most = max(most, has)
			mu.Unlock()
			<-time.After(50 * time.Millisecond) // for more events to come
			mu.Lock()
			has--
			text := strconv.Itoa(most)
			mu.Unlock()
			if r, err = http.Post(api+r.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response", "", strings.NewReader(text)); err != nil {
				os.Exit(1)
			}
			_ = r.Body.Close()
		}
	}
	for range 7 {
		go work() // ends with the process
	}
	work()
}

// TestGreedyFunctions get as many tasks at a time as they should, however often they poll.
func TestGreedyFunctions(t *testing.T) {
	t.Parallel()
	const n = 3
	p := functionPool(t, func(c *Config) { c.Concurrency = n }, "greedy")
	for _, e := range p.ExecuteAll(within(t, time.Minute), slices.Repeat([]bullpen.Task{{}}, 20)) {
		if most, err := strconv.Atoi(string(e.Result.Payload)); e.Err != nil || err != nil || most > n {
			t.Errorf("%s tasks at a time instead of %d, %v", e.Result.Payload, n, e.Err)
		}
	}
}
