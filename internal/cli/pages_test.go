//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPages runs the commands of pages of the documentation, in a folder with the files that
// they show.
func TestPages(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: apt-get install python3")
	}
	for _, page := range []string{"http.md"} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
			if err != nil {
				t.Fatal(err)
			}
			runPage(t, string(text))
		})
	}
}

func runPage(t *testing.T, page string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(exe, filepath.Join(bin, "bullpen")); err != nil {
		t.Fatal(err)
	}
	ran := 0
	parts := strings.Split(page, "\n```")
	for i := 1; i < len(parts); i += 2 {
		language, body, _ := strings.Cut(parts[i], "\n")
		if name := strings.Trim(parts[i-1][strings.LastIndexByte(strings.TrimSpace(parts[i-1]), ' ')+1:], "`:\n"); language == "python" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(body+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if language != "console" {
			continue
		}
		for block := range strings.SplitSeq(strings.TrimPrefix(body, "$ "), "\n$ ") {
			command, want, _ := strings.Cut(block+"\n", "\n")
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%s\nprinted\n%swant\n%s%v", command, out, want, err)
			}
			ran++
		}
	}
	if ran == 0 {
		t.Error("the page shows no command")
	}
}
