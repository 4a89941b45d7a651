//go:build !linux

package pebble

import "os"

func dataSync(f *os.File) error { return f.Sync() }
