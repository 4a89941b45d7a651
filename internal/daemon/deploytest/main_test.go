package deploytest

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bullpen-run/bullpen/internal/leak"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

func TestMain(m *testing.M) { leak.Main(m) }

// root is the checkout.
var root = filepath.Join("..", "..", "..")

// read returns a file of the checkout.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// strict reads a YAML file of the checkout, in which there must be nothing that
// to has no place for.
func strict(t *testing.T, path string, to any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewBufferString(read(t, path)))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Fatalf("%s has more than one document", path)
	}
}
