package bullpen_test

import (
	"context"
	"fmt"
	"io"

	"github.com/bullpen-run/bullpen"
)

// count streams its result: it writes a line at a time.
func count(_ context.Context, t bullpen.Task, w io.Writer) error {
	for i := range len(t.Payload) {
		if _, err := fmt.Fprintf(w, "%c is letter %d\n", t.Payload[i], i+1); err != nil {
			return err // the task must end
		}
	}
	return nil
}

// live prints each piece of a result as it comes.
type live struct{}

func (live) Progress(float64, string) {}
func (live) Log(bullpen.LogLine)      {}
func (live) Chunk(piece []byte)       { fmt.Printf("piece: %s", piece) }

// One handler serves callers that take a result in pieces, and those that want the whole. It
// works in every executor that runs Go code, also in a worker process.
func ExampleStream() {
	pool := newInline()
	pool.handlers["count"] = bullpen.Stream(count)
	defer pool.Close()

	whole, err := bullpen.Execute(context.Background(), pool, bullpen.Task{Name: "count", Payload: []byte("ab")})
	fmt.Printf("%q %v\n", whole.Payload, err)

	rest, err := bullpen.Execute(context.Background(), pool, bullpen.Task{Name: "count", Payload: []byte("ab"), Observer: live{}})
	fmt.Printf("%q %v\n", rest.Payload, err)
	// Output:
	// "a is letter 1\nb is letter 2\n" <nil>
	// piece: a is letter 1
	// piece: b is letter 2
	// "" <nil>
}
