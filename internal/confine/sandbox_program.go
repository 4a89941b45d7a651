package confine

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ProgramPaths lists what a program needs under [Strict] besides [SystemFolders]: the
// program itself, its installation (PREFIX of PREFIX/bin/program, if a PREFIX/lib or the
// like exists), the same for everything it is a symbolic link to, and for the interpreter
// that a script names. A home folder, or a folder directly below the root, does not count
// as an installation: of it only the program and the lib folder are listed. Only existing
// paths are listed. It costs a few dozen system calls.
func ProgramPaths(path string) []string {
	var found []string
	addProgram(&found, path, 4) // an interpreter may be a script too
	slices.Sort(found)
	return slices.Compact(found)
}

// addProgram adds what path needs, and what up to depth interpreters need.
func addProgram(found *[]string, path string, depth int) {
	path, err := filepath.Abs(path)
	if err != nil || depth == 0 {
		return
	}
	for range 40 { // as many links as the kernel follows
		info, err := os.Lstat(path)
		if err != nil {
			return
		}
		addInstallation(found, path)
		if info.Mode()&os.ModeSymlink == 0 {
			break
		}
		target, err := os.Readlink(path)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			// Resolve the folder too, as it may be a link.
			folder, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return
			}
			target = filepath.Join(folder, target)
		}
		path = target
	}
	if interpreter := interpreterOf(path); interpreter != "" {
		addProgram(found, interpreter, depth-1)
	}
}

// addInstallation adds path and what is installed with it.
func addInstallation(found *[]string, path string) {
	add := func(path string) {
		if _, err := os.Stat(path); err == nil && !slices.ContainsFunc(SystemFolders(), func(f string) bool { return inside(path, f) }) {
			*found = append(*found, path)
		}
	}
	add(path)
	folder := filepath.Dir(path)
	prefix := filepath.Dir(folder)
	if base := filepath.Base(folder); base != "bin" && base != "sbin" {
		return
	}
	switch {
	case private(prefix):
		add(filepath.Join(prefix, "lib"))
	case exists(prefix, "lib", "lib64", "libexec", "jmods", "pyvenv.cfg"):
		add(prefix)
	}
}

// private reports whether folder contains more than an installation.
func private(folder string) bool {
	home, err := os.UserHomeDir()
	return err == nil && inside(filepath.Clean(home), folder) || // including the folders that contain the home
		filepath.Dir(filepath.Dir(folder)) == filepath.Dir(folder) || // directly below the root
		filepath.Dir(folder) == "/home" || filepath.Base(folder) == ".local"
}

func exists(folder string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	})
}

// interpreterOf returns the interpreter that the first line of a script names, or "".
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	line := make([]byte, 256) // as much as the kernel reads
	n, err := io.ReadFull(file, line)
	if err != nil && n == 0 {
		return ""
	}
	first, _, _ := bytes.Cut(line[:n], []byte("\n"))
	text, ok := strings.CutPrefix(string(first), "#!")
	if !ok {
		return ""
	}
	words := strings.Fields(text)
	if len(words) == 0 || filepath.Base(words[0]) != "env" {
		return strings.Join(words[:min(1, len(words))], "")
	}
	for _, word := range words[1:] { // env searches PATH; options and settings come first
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			if found, err := exec.LookPath(word); err == nil {
				return found
			}
			return ""
		}
	}
	return ""
}

// inside reports whether path is folder or in it.
func inside(path, folder string) bool {
	rest, ok := strings.CutPrefix(path, folder)
	return ok && (rest == "" || rest[0] == '/')
}
