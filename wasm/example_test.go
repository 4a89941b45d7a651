package wasm_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/wasm"
)

// The module counts lines, words and bytes; it is a program in Rust, built for WASI.
func Example() {
	p, err := wasm.New(wasm.Config{
		Path:   "../examples/wasm/testdata/words-rust.wasm",
		Limits: bullpen.Limits{Timeout: time.Second, Memory: 16 << 20},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := bullpen.Execute(context.Background(), p, bullpen.Task{Name: "words", Payload: []byte("to be\nor not to be\n")})
	fmt.Printf("%s%v\n", r.Payload, err)
	fmt.Println(p.Close())
	// Output:
	// 2 6 19
	// <nil>
	// <nil>
}
