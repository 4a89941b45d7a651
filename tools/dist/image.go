package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user and the group in the image.
const nobody = 65532

// imageConfig is how the image runs: as the image "bullpen" of deploy/Dockerfile.
var imageConfig = v1.Config{
	Env:          []string{"PATH=/usr/bin", "STATE_DIRECTORY=/var/lib/bullpen"},
	WorkingDir:   "/etc/bullpen",
	Volumes:      map[string]struct{}{"/var/lib/bullpen": {}},
	User:         "65532:65532",
	ExposedPorts: map[string]struct{}{"8650/tcp": {}},
	Healthcheck: &v1.HealthConfig{
		Test: []string{"CMD", "/usr/bin/bullpen", "status"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second,
	},
	StopSignal: "SIGTERM",
	Entrypoint: []string{"/usr/bin/bullpen"},
	Cmd:        []string{"serve"},
}

// image packs a binary as a container image: a layout of OCI in a tar archive, which
// docker load reads by its manifest.json.
func (r *release) image(b binary) error {
	img, err := r.makeImage(b)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.work, "image_"+b.target.arch)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	name := "bullpen:" + r.bare()
	err = path.AppendImage(img,
		layout.WithPlatform(v1.Platform{OS: b.target.os, Architecture: b.target.arch}),
		// The first is the whole name for containerd and docker, the second the tag.
		layout.WithAnnotations(map[string]string{"io.containerd.image.name": "docker.io/library/" + name, "org.opencontainers.image.ref.name": r.bare()}))
	if err != nil {
		return err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	d := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{name}}
	for _, l := range manifest.Layers {
		d.Layers = append(d.Layers, blob(l.Digest))
	}
	text, err := json.Marshal(tarball.Manifest{d})
	if err != nil {
		return err
	}
	if err := path.WriteFile("manifest.json", text, 0o644); err != nil {
		return err
	}
	files, err := read(folder)
	if err != nil {
		return err
	}
	return create(r.path(b.target, ".oci.tar"), func(w io.Writer) error { return writeTar(w, files, r.when) })
}

// makeImage returns the image with one layer.
func (r *release) makeImage(b binary) (v1.Image, error) {
	files, err := imageFiles(b)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, files, r.when); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	l, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: b.target.os, Architecture: b.target.arch, Created: v1.Time{Time: r.when}, Config: r.labelled()})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: r.when}, CreatedBy: "tools/dist"}})
}

// labelled returns imageConfig with the labels of this release.
func (r *release) labelled() v1.Config {
	c := imageConfig
	c.Labels = map[string]string{
		"org.opencontainers.image.title":    "bullpen",
		"org.opencontainers.image.version":  r.bare(),
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/bullpen-run/bullpen",
	}
	return c
}

// imageFiles returns all files of the image: those of deploy/Dockerfile, and licenses.
func imageFiles(b binary) ([]file, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	return []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/bullpen/", mode: 0o755},
		{name: "etc/group", mode: 0o644, body: []byte("bullpen:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, body: []byte("bullpen:x:65532:65532:Bullpen:/var/lib/bullpen:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: authorities()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/bullpen", mode: 0o755, body: program},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/bullpen/", mode: 0o755},
		{name: "usr/share/doc/bullpen/LICENSE", mode: 0o644, body: license},
		{name: "usr/share/doc/bullpen/THIRD-PARTY", mode: 0o644, body: b.legal},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/bullpen/", mode: 0o700, owner: nobody},
	}, nil
}

// authorities returns the certificates that TLS trusts, without those that are
// trusted with conditions, which this form cannot express.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return all.Bytes()
}
