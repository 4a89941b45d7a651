//go:build unix

package process

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/bullpen-run/bullpen"
)

// errand is what a task of a shared call does: nothing, if its payload is no object.
type errand struct{ Do, Arg string }

// do does it.
func (d errand) do(ctx context.Context) error {
	switch d.Do {
	case "fail":
		return errors.New(d.Arg)
	case "print":
		fmt.Println(d.Arg)
	case "exit":
		os.Exit(3)
	case "sleep":
		pause, err := time.ParseDuration(d.Arg)
		if err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	case "gate":
		return waitForGate(d.Arg)
	}
	return nil
}

// waitForGate makes the file name.begun and waits until name exists.
func waitForGate(name string) error {
	if err := os.WriteFile(name+".begun", nil, 0o600); err != nil {
		return err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for _, err := os.Stat(name); err != nil; _, err = os.Stat(name) {
		<-look.C
	}
	return nil
}

// handleList serves calls with a list: each element is its own result, and "size" the number
// of elements.
func handleList(ctx context.Context, elements []json.RawMessage) ([]any, error) {
	results := make([]any, 0, len(elements))
	for _, e := range elements {
		var d errand
		_ = json.Unmarshal(e, &d) // else it does nothing
		switch err := d.do(ctx); {
		case d.Do == "size":
			results = append(results, len(elements))
		case d.Do == "whole":
			return nil, errors.New(d.Arg)
		case d.Do == "short":
			return nil, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			results = append(results, map[string]any{"error": err.Error(), "retry": false})
		default:
			results = append(results, e)
		}
	}
	return results, nil
}

// handleSQS serves events of SQS queues. A body {"Do": "answer"} is the answer itself.
func handleSQS(ctx context.Context, event events.SQSEvent) (any, error) {
	var r events.SQSEventResponse
	for _, m := range event.Records {
		var d errand
		_ = json.Unmarshal([]byte(m.Body), &d) // else it does nothing
		switch d.Do {
		case "answer":
			return json.RawMessage(d.Arg), nil
		case "whole":
			return nil, errors.New(d.Arg)
		case "attempt":
			d = errand{"print", m.MessageId + " " + m.Attributes["ApproximateReceiveCount"] + " of " + strconv.Itoa(len(event.Records))}
		}
		err := d.do(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r.BatchItemFailures = append(r.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
		}
	}
	return r, nil
}

// sharedFunction starts a function that serves shared calls.
func sharedFunction(shape string) {
	switch shape {
	case "sqs":
		lambda.Start(handleSQS)
	case "suite-list":
		lambda.Start(handleSuite)
	}
	lambda.Start(handleList)
}

// handleSuite serves the contract's suite. A result is a text in hexadecimal digits.
func handleSuite(ctx context.Context, events []json.RawMessage) ([]any, error) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) > noDeadline/2 {
		ctx = context.WithoutCancel(ctx) // the client makes a deadline of everything
	}
	results := make([]any, 0, len(events))
	for _, event := range events {
		h := handleEnveloped(ctx, event)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if h.kind != "" {
			results = append(results, map[string]any{"error": h.message, "type": h.kind})
		} else {
			results = append(results, hex.EncodeToString(h.text))
		}
	}
	return results, nil
}

// listed is enveloped for shared calls.
type listed struct{ enveloped }

func (l listed) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if t.Limits.Output > 0 {
		t.Limits.Output = 2*t.Limits.Output + len(`""`)
	}
	return l.enveloped.Submit(ctx, t, func(r bullpen.Result, err error) {
		if err == nil {
			r.Payload, err = hex.DecodeString(strings.Trim(string(r.Payload), `"`))
		}
		done(r, err)
	})
}

// sharedWeb answers requests with a list.
func sharedWeb(w http.ResponseWriter, r *http.Request) {
	in, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out, err := listOf(r.Context(), in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(out)
}

// sharedHandler is the handler of workers that speak frames.
func sharedHandler(ctx context.Context, t bullpen.Task) ([]byte, error) {
	return listOf(ctx, t.Payload)
}

func listOf(ctx context.Context, in []byte) ([]byte, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(in, &elements); err != nil {
		return nil, err
	}
	results, err := handleList(ctx, elements)
	if err != nil {
		return nil, err
	}
	return json.Marshal(results)
}
