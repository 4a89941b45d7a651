package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is a file in an archive, or a folder if its name ends with a slash.
type file struct {
	name  string
	mode  int64
	owner int // user and group
	body  []byte
}

// archive packs a binary with its pages: as a zip archive for Windows, as .tar.gz for
// all other systems.
func (r *release) archive(b binary) error {
	body, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	files := []file{{name: b.program(), mode: 0o755, body: body}, {name: "THIRD-PARTY", mode: 0o644, body: b.legal}}
	for _, name := range []string{"LICENSE", "README.md"} {
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, file{name: name, mode: 0o644, body: body})
	}
	pages, err := read(r.pages())
	if err != nil {
		return err
	}
	files = append(files, pages...)
	folder := "bullpen_" + r.bare() + "_" + b.target.os + "_" + b.target.arch + "/"
	for i := range files {
		files[i].name = folder + files[i].name
	}
	if b.target.os == "windows" {
		return create(r.path(b.target, ".zip"), func(w io.Writer) error { return writeZip(w, files, r.when) })
	}
	return create(r.path(b.target, ".tar.gz"), func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return cmp.Or(writeTar(z, files, r.when), z.Close())
	})
}

// read returns the files below a folder, sorted, with their names from there.
func read(folder string) (all []file, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		all = append(all, file{name: filepath.ToSlash(name), mode: 0o644, body: body})
		return err
	})
	return all, err
}

// create makes a file with what write writes.
func create(path string, write func(w io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func writeTar(w io.Writer, files []file, when time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.body)), ModTime: when}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.body); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, files []file, when time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(fs.FileMode(f.mode))
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.body); err != nil {
			return err
		}
	}
	return z.Close()
}
