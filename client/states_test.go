package client

import "testing"

func TestStates(t *testing.T) {
	t.Parallel()
	if err := executorStates.Check(executorOpen); err != nil {
		t.Error(err)
	}
	if err := runStates.Check(runNew); err != nil {
		t.Error(err)
	}
}
