// Command rrworker is a RoadRunner worker in Go: it speaks goridge frames over
// standard input and output, one task at a time, as RoadRunner's pool expects.
// The handler's name is the first argument, or the context of the task.
package main

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/roadrunner-server/goridge/v3/pkg/frame"
	"github.com/roadrunner-server/goridge/v3/pkg/pipe"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rrworker HANDLER")
		os.Exit(2)
	}
	relay := pipe.NewPipeRelay(os.Stdin, os.Stdout)
	for {
		in := frame.NewFrame()
		if err := relay.Receive(in); err != nil {
			os.Exit(0) // the pool has closed the pipe
		}
		out, stop, err := reply(in, os.Args[1])
		if err == nil && out != nil {
			err = relay.Send(out)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "rrworker:", err)
			os.Exit(1)
		}
		if stop {
			os.Exit(0)
		}
	}
}

// reply makes the answer to a frame; nil and true ask the worker to end.
func reply(in *frame.Frame, handler string) (out *frame.Frame, stop bool, err error) {
	if in.ReadFlags()&frame.CONTROL != 0 {
		var command struct {
			Stop bool `json:"stop"`
		}
		if err := json.Unmarshal(in.Payload(), &command); err != nil {
			return nil, false, err
		}
		if command.Stop {
			return nil, true, nil
		}
		return compose(frame.CONTROL|frame.CodecJSON, fmt.Appendf(nil, `{"pid":%d}`, os.Getpid()), false), false, nil
	}
	offset := in.ReadOptions(in.Header())
	if len(offset) != 1 || int(offset[0]) > len(in.Payload()) {
		return nil, false, fmt.Errorf("task without the length of its context")
	}
	if offset[0] > 0 {
		handler = string(in.Payload()[:offset[0]])
	}
	body, err := run(handler, in.Payload()[offset[0]:])
	if err != nil {
		return compose(frame.ERROR|frame.CodecRaw, []byte(err.Error()), true), false, nil
	}
	return compose(frame.CodecRaw, body, true), false, nil
}

func compose(flags byte, payload []byte, context bool) *frame.Frame {
	f := frame.NewFrame()
	f.WriteVersion(f.Header(), frame.Version1)
	f.WriteFlags(f.Header(), flags)
	if context {
		f.WriteOptions(f.HeaderPtr(), 0)
	}
	f.WritePayloadLen(f.Header(), uint32(len(payload)))
	f.WritePayload(payload)
	f.WriteCRC(f.Header())
	return f
}

func run(handler string, payload []byte) ([]byte, error) {
	switch handler {
	case "null":
		return nil, nil
	case "hash":
		sum := sha512.Sum512(payload)
		return base64.StdEncoding.AppendEncode(nil, sum[:]), nil
	case "sleep":
		d, err := time.ParseDuration(string(payload))
		if err != nil {
			return nil, err
		}
		<-time.After(d)
		return nil, nil
	default:
		return nil, fmt.Errorf("unknown handler %q", handler)
	}
}
