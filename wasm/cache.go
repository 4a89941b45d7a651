package wasm

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tetratelabs/wazero"
)

// openCache opens the folder for compiled modules. wazero names each file by the hash of the
// code that it compiled, which is the rewritten one, and keeps those of each of its versions
// in a folder of their own. So a new version of the rewriting or of wazero finds none of the
// old ones.
func openCache(folder string) (wazero.CompilationCache, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("CacheDir: %w", err)
	}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s can be written by others than its user, who could put code there that this program runs: chmod go-w %s", path, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("CacheDir: %w", err)
	}
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return nil, fmt.Errorf("CacheDir: %w", err)
	}
	return cache, nil
}
