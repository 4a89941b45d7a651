package job

// Bulk is the result of an operation on many dead jobs.
type Bulk struct {
	// Count is how many jobs it was done to.
	Count int
	// Failed has the jobs that it was not done to, with the reason. They stay dead.
	Failed []Failure
	// Next is Filter.After for another call, if there may be more jobs; 0 if all were
	// examined.
	Next uint64
}

// Failure is a job for which an operation failed.
type Failure struct {
	ID  string
	Err error
}
