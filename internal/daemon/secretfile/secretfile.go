// Package secretfile reads files with secrets.
package secretfile

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

// Read reads a regular file of up to most bytes that only its owner and group may
// read.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	// Its group may read it: secrets are mounted like this for programs that do not
	// run as root.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o037 != 0 {
		return nil, fmt.Errorf("%s can be read or written by others than its owner and group (mode %04o): run chmod 600 %s", path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes: is it the right file?", path, most)
	}
	return text, nil
}
