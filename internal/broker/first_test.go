package broker

import "testing"

// TestFirstStreamOfANewStore makes streams at once after the start. The self
// test once ran in the store itself; there the server takes away the folder of
// all streams, some time after the last one was deleted, and the next stream may
// already be in the making.
func TestFirstStreamOfANewStore(t *testing.T) {
	for range 30 {
		b := open(t, Config{Dir: t.TempDir(), instead: grouped()})
		_, hangUp := connect(t, b) // makes a stream
		hangUp()
		shut(t, b)
	}
}
