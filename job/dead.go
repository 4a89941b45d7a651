package job

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// Bulk is the result of an operation on many jobs.
type Bulk struct {
	// Count is how many jobs it was done to.
	Count int `json:"count"`
	// Failed has the jobs that it was not done to, with the reason.
	Failed []Failure `json:"failed,omitempty"`
	// More reports whether there may be more jobs: then Next is Filter.After for another
	// call.
	More bool   `json:"more,omitempty"`
	Next string `json:"next,omitempty"`
}

// Failure is a job for which an operation failed.
type Failure struct {
	ID  string
	Err error
}

// failureJSON is a Failure.
type failureJSON struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// MarshalJSON encodes f.
func (f Failure) MarshalJSON() ([]byte, error) {
	return jsonvalue.Marshal(failureJSON{f.ID, f.Err.Error()})
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (f *Failure) UnmarshalJSON(text []byte) error {
	var w failureJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("this is no failure: %w", err)
	}
	*f = Failure{w.ID, errors.New(w.Error)}
	return nil
}
