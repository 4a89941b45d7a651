package words

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/wasm"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestWords runs the same task in Go, which it builds, and in the languages whose modules are
// in testdata, with the commands that their sources name.
func TestWords(t *testing.T) {
	built := filepath.Join(t.TempDir(), "words-go.wasm")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", built, "./go")
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false") // not -race
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	modules, err := filepath.Glob(filepath.Join("testdata", "*.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(modules, built) {
		p, err := wasm.New(wasm.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]string{"to be\nor not to be\n": "2 6 19\n", "": "0 0 0\n"} {
			r, err := bullpen.Execute(t.Context(), p, bullpen.Task{Name: "words", Payload: []byte(text)})
			if err != nil || string(r.Payload) != want {
				t.Errorf("%s: %q gave %q, %v, want %q", path, text, r.Payload, err, want)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
