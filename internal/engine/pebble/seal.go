package pebble

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A seal describes the files of the store after an orderly end. Tables have their own
// checksums for each block, so only their size is sealed.
//
//	one line a file: checksum, size, name; then the checksum of these lines

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// data returns the folder of Pebble's own files.
func (f folder) data() folder { return folder{f.fs, f.path(dataDir)} }

// lines returns the lines of the seal.
func (f folder) lines() (string, error) {
	data := f.data()
	names, err := f.fs.List(data.dir)
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		line, err := data.line(name)
		if err != nil {
			return "", err
		}
		text.WriteString(line)
	}
	return text.String(), nil
}

func (f folder) line(name string) (string, error) {
	file, err := f.fs.Open(f.path(name), vfs.SequentialReadsOption)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	sum := crc32.New(castagnoli)
	if !strings.HasSuffix(name, ".sst") {
		if _, err := io.Copy(sum, io.LimitReader(file, info.Size())); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%08x %d %s\n", sum.Sum32(), info.Size(), name), nil
}

// seal writes the seal of a closed store.
func (f folder) seal() error {
	text, err := f.lines()
	if err != nil {
		return err
	}
	return f.replace(sealFile, fmt.Appendf(nil, "%s%08x\n", text, crc32.Checksum([]byte(text), castagnoli)))
}

// breakSeal compares the files with the seal, if any, and removes it.
func (f folder) breakSeal(log *slog.Logger) error {
	all, err := f.read(sealFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the store was not closed in order
	}
	if err != nil {
		return f.explain(err)
	}
	text, sum := "", string(all)
	if i := strings.LastIndexByte(strings.TrimSuffix(sum, "\n"), '\n'); i >= 0 {
		text, sum = sum[:i+1], sum[i+1:]
	}
	if sum != fmt.Sprintf("%08x\n", crc32.Checksum([]byte(text), castagnoli)) {
		log.Warn("the seal of the store is damaged: the files are not compared with it", "file", f.path(sealFile))
	} else if err := f.compare(text); err != nil {
		return err
	}
	if err := f.fs.Remove(f.path(sealFile)); err != nil {
		return f.explain(err)
	}
	return f.explain(f.sync())
}

func (f folder) compare(text string) error {
	for sealed := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(sealed, "\n"), " ", 3)
		if len(fields) != 3 {
			continue
		}
		now, err := f.data().line(fields[2])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f.explain(err)
		}
		if now != sealed {
			return damaged(f.data().path(fields[2]), errors.New("it was changed since the store was closed"))
		}
	}
	return nil
}

// damaged returns the error for a damaged file.
func damaged(path string, cause error) error {
	return fmt.Errorf("the file %s of the store is damaged: %w: restore the folder from a backup, and check the disk", path, cause)
}
