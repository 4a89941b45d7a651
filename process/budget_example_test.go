//go:build unix

package process_test

import (
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

// Three kinds of tasks share two processes: an idle worker leaves when another kind
// needs its room.
func ExampleBudget() {
	budget, err := process.NewBudget(process.BudgetConfig{Workers: 2, Memory: 512 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, kind := range []string{"s/red/RED/", "s/green/GREEN/", "s/blue/BLUE/"} {
		pool, err := process.New(process.Config{
			Command: []string{"sed", "-u", kind}, Protocol: process.Lines, Max: 1, Idle: -1,
			Budget: budget, Need: 10 << 20,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer pool.Close()
		r, err := pool.Execute(context.Background(), bullpen.Task{Payload: []byte("red green blue")})
		fmt.Printf("%s %v\n", r.Payload, err)
	}
	fmt.Println(budget.Stats().Workers, "workers,", budget.Stats().Reclaimed, "has left for another kind")
	// Output:
	// RED green blue <nil>
	// red GREEN blue <nil>
	// red green BLUE <nil>
	// 2 workers, 1 has left for another kind
}
