package main

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bom writes what a binary is made of, as the linker has recorded it: Go's standard
// library and all modules.
func (r *release) bom(b binary) error {
	sum, _, err := digest(b.path)
	if err != nil {
		return err
	}
	main := component(&b.info.Main)
	main.Type = cdx.ComponentTypeApplication
	main.PackageURL += "#cmd/bullpen"
	main.BOMRef = main.PackageURL
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}

	parts := []cdx.Component{component(&debug.Module{Path: "std", Version: strings.TrimPrefix(b.info.GoVersion, "go")})}
	for _, m := range b.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component(m))
	}
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	doc := cdx.NewBOM()
	doc.Metadata = &cdx.Metadata{
		Timestamp:  r.when.Format(time.RFC3339),
		Component:  &main,
		Properties: &[]cdx.Property{{Name: "GOOS", Value: b.target.os}, {Name: "GOARCH", Value: b.target.arch}},
	}
	doc.Components = &parts
	doc.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return create(r.path(b.target, ".cdx.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(doc)
	})
}

// component returns a module as a part of a binary.
func component(m *debug.Module) cdx.Component {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	return c
}
