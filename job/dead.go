package job

// Bulk is what became of something that was done to many dead jobs.
type Bulk struct {
	// Count is how many it was done to.
	Count int
	// Failed has those that it was not done to, with the reason; they stay among the
	// dead.
	Failed []Failure
	// Next is for Filter.After of another call: there may be more. 0 says that all
	// were looked at.
	Next uint64
}

// Failure is a job to which something could not be done.
type Failure struct {
	ID  string
	Err error
}
