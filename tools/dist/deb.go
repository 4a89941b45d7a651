package main

import (
	"bytes"
	_ "embed"
	"io"
	"os"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

// debConfig says what is in the package.
//
//go:embed deb.yaml
var debConfig []byte

// deb packs a binary for Debian and Ubuntu.
func (r *release) deb(b binary) error {
	legal := b.path + ".THIRD-PARTY"
	if err := os.WriteFile(legal, b.legal, 0o644); err != nil {
		return err
	}
	values := map[string]string{"ARCH": b.target.arch, "VERSION": r.version, "PROGRAM": b.path, "PAGES": r.pages(), "LEGAL": legal}
	config, err := nfpm.ParseWithEnvMapping(bytes.NewReader(debConfig), func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	info := config.Info
	info.MTime = r.when
	return create(r.path(b.target, ".deb"), func(w io.Writer) error { return deb.Default.Package(&info, w) })
}
