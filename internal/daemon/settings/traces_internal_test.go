package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTraces(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeFiles(t, folder, map[string]string{"headers": "x-scope:  hidden a \r\n\nX-Other: hidden: b"})
	s, err := Load(Source{
		Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte("traces: {endpoint: 'https://a/otel', sample: 0.25, headers_file: headers, timeout: 3s}\n"),
		Env: []string{"BULLPEN_TRACES_HEADERS=authorization=Basic hidden==, b = c", "OTEL_EXPORTER_OTLP_ENDPOINT=http://elsewhere"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Traces{
		Endpoint: "https://a/otel", Sample: 0.25, Timeout: 3 * time.Second, Service: "bullpen", HeadersFile: filepath.Join(folder, "headers"),
		Headers: Headers{"Authorization": "Basic hidden==", "B": "c", "X-Scope": "hidden a", "X-Other": "hidden: b"},
	}
	if diff := cmp.Diff(want, s.Traces); diff != "" {
		t.Error(diff)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{s.Traces, s.Traces.Headers, s} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "hidden") {
				t.Errorf("%s shows a secret: %s", format, text)
			}
		}
	}
	if s := good(t, folder, ""); s.Traces.Endpoint != "" || s.Traces.Sample != 1 || s.Traces.Timeout != 10*time.Second {
		t.Errorf("nothing configured gives %+v", s.Traces)
	}
}

// TestTracesSecret refuses a file of headers that others may read, as one of tokens.
func TestTracesSecret(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("its files have no such rights")
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o604: true, 0o660: true} {
		folder := t.TempDir()
		writeFiles(t, folder, map[string]string{"headers": "a: hidden"})
		if err := os.Chmod(filepath.Join(folder, "headers"), mode); err != nil {
			t.Fatal(err)
		}
		_, err := load(t, folder, "traces: {headers_file: headers}\n")
		if refused && (err == nil || !strings.Contains(err.Error(), "run chmod 600") || strings.Contains(err.Error(), "hidden")) || !refused && err != nil {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestTracesCheck(t *testing.T) {
	t.Parallel()
	if err := (Traces{}).Check(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	err := Traces{Endpoint: "hidden", Sample: 2, Timeout: -1, Headers: Headers{"": "hidden", "Host": "hidden"}}.Check()
	if err == nil || strings.Count(err.Error(), "\n") != 4 || strings.Contains(err.Error(), "hidden") {
		t.Errorf("five faults are reported as %v", err)
	}
}
