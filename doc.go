// Package bullpen holds the words that every isolation level of Bullpen
// shares: a [Task] and its [Limits], the [Result] and the [Outcome] with which
// it ends, the [Executor] that runs it, and the [Handler] that is its code.
//
// A task enters at a caller, waits in exactly one bounded place, is handed to
// exactly one worker at a time, and leaves with exactly one outcome. Every
// executor keeps that contract, whatever stands behind it: a goroutine pool,
// worker processes (package process) or a daemon (package client). So a kind of
// task moves to a stronger isolation level by configuration, not by code.
//
// There are three ways to hand work to an [Executor]:
//
//   - [Execute] hands over one task and waits;
//   - [Start] hands it over and returns a [Handle] to wait on;
//   - [Map] and [ExecuteAll] hand over many.
//
// # Errors
//
// A [*TaskError] says that the task started and how it ended. Any other error
// says that it never started, so that it may be given elsewhere without fear:
//
//	res, err := bullpen.Execute(ctx, pool, task)
//	var te *bullpen.TaskError
//	switch {
//	case errors.As(err, &te): // it ran, and te.Outcome says how it ended
//	case err != nil:          // it never started
//	}
//
// The package imports the standard library only.
package bullpen
