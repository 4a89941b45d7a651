package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// legal are the names of files with licenses and what they demand to be passed on.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([.-]|$)`)

// thirdParty returns the licenses of Go and of all modules in a binary.
func thirdParty(b binary) ([]byte, error) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./cmd/bullpen")
	cmd.Env = environment(b.target)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	folders := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, folder, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			folders[path] = folder
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var all bytes.Buffer
	if err := addLegal(&all, "Go "+b.info.GoVersion, strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	for _, m := range b.info.Deps {
		if err := addLegal(&all, m.Path+" "+m.Version, folders[m.Path]); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// addLegal appends the licenses in a folder.
func addLegal(all *bytes.Buffer, title, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("%s: %w", title, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !legal.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(all, "%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), title, e.Name(), bytes.TrimSpace(text))
	}
	if !found {
		return fmt.Errorf("%s has no license", title)
	}
	return nil
}
