//go:build unix

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
)

// enveloped lets the contract's suite run where workers know neither the names of tasks nor
// outcomes other than ok and failed: a task travels with its name and metadata in its
// payload, and what else its handler says in the type of an error.
type enveloped struct{ bullpen.Executor }

// envelope is the payload of an enveloped task.
type envelope struct {
	Name    string            `json:"name,omitempty"`
	Payload []byte            `json:"payload"`
	Meta    map[string][]byte `json:"meta,omitempty"`
}

const (
	envelopedFinal   = "Final"
	envelopedPanic   = "Panic"
	envelopedUnknown = "Unknown"
)

func (e enveloped) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	in := envelope{Name: t.Name, Payload: t.Payload}
	for k, v := range t.Meta {
		if in.Meta == nil {
			in.Meta = map[string][]byte{}
		}
		in.Meta[k] = []byte(v)
	}
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	t.Payload = text
	return e.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
		var te *bullpen.TaskError
		if errors.As(err, &te) {
			switch te.Type {
			case envelopedFinal:
				te.Retryable = false
			case envelopedPanic:
				te.Outcome = bullpen.Panic
			case envelopedUnknown:
				err = bullpen.ErrUnknownTask
			}
		}
		done(r, err)
	})
}

// Room is [bullpen.RoomNotifier].
func (e enveloped) Room() <-chan struct{} { return e.Executor.(bullpen.RoomNotifier).Room() }

// handled is what became of an enveloped task: text, or an error with its type.
type handled struct {
	text          []byte
	kind, message string
}

// handleEnveloped runs the handler of an enveloped task.
func handleEnveloped(ctx context.Context, text []byte) (h handled) {
	var in envelope
	if err := json.Unmarshal(text, &in); err != nil {
		return handled{kind: "Envelope", message: err.Error()}
	}
	handler := executortest.Handlers()[in.Name]
	if handler == nil {
		return handled{kind: envelopedUnknown, message: in.Name}
	}
	t := bullpen.Task{Name: in.Name, Payload: in.Payload}
	for k, v := range in.Meta {
		if t.Meta == nil {
			t.Meta = map[string]string{}
		}
		t.Meta[k] = string(v)
	}
	ended := make(chan handled, 1)
	go func() { // ends with the handler, also by Goexit
		over := handled{kind: envelopedPanic, message: "the handler ended its goroutine"}
		defer func() {
			if p := recover(); p != nil {
				over.message = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			ended <- over
		}()
		over = outcomeOf(ctx, handler, t)
	}()
	return <-ended
}

func outcomeOf(ctx context.Context, handler bullpen.Handler, t bullpen.Task) handled {
	out, err := handler(ctx, t)
	if err != nil {
		kind := "Error"
		if !bullpen.Retryable(err) {
			kind = envelopedFinal
		}
		return handled{kind: kind, message: err.Error()}
	}
	return handled{text: out}
}
