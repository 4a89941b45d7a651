package wasmcode

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// wazeroFolder returns where the go command keeps the source of wazero, and with it the
// WebAssembly files of its tests.
func wazeroFolder(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("asking the go command for wazero's folder: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestCorpus checks with every WebAssembly file in wazero's source, among them the
// specification's test suite and damaged modules, that what wazero accepts is accepted,
// and that the result is valid if, and only if, the original is.
func TestCorpus(t *testing.T) {
	t.Parallel()
	rt := interpreter(t)
	folder := wazeroFolder(t)
	var files, instrumented, refused int
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".wasm") {
			return err
		}
		if files++; testing.Short() && files%16 != 0 {
			return nil
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		valid, err := sameValidity(t, rt, strings.TrimPrefix(path, folder), code)
		var unsupported *UnsupportedError
		switch {
		case err == nil:
			instrumented++
		case valid && errors.As(err, &unsupported) && unsupported.Feature == "typed function references":
			refused++ // wazero takes their types without being asked to
		case valid:
			t.Errorf("%s is valid, and refused: %v", path, err)
		default:
			refused++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d instrumented, %d refused", files, instrumented, refused)
	if files < 7000 {
		t.Errorf("there are %d files only: has wazero moved them?", files)
	}
}

// sameValidity compiles code before and after Instrument. It reports whether code is valid,
// and the error of Instrument. wazero reads the sections in turn, so what is wrong with a
// custom section hides what is wrong behind it.
func sameValidity(t testing.TB, rt wazero.Runtime, name string, code []byte) (bool, error) {
	t.Helper()
	before := validity(rt, code)
	m, err := Instrument(code)
	if err != nil {
		return before == nil, err
	}
	if before != nil && customFault.MatchString(before.Error()) {
		return false, nil // it is dropped
	}
	if after := validity(rt, m.Code); (before == nil) != (after == nil) {
		t.Errorf("%s: compiling gives %v, and after Instrument %v", name, before, after)
	}
	return before == nil, nil
}

// customFault matches what wazero says of a custom section.
var customFault = regexp.MustCompile("section custom|custom section")

func validity(rt wazero.Runtime, code []byte) error {
	c, err := rt.CompileModule(context.Background(), code)
	if err != nil {
		return err
	}
	return c.Close(context.Background())
}
