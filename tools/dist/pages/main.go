// Command pages writes the manual pages and the shell completions of bullpen, from the
// definitions of its commands:
//
//	go -C tools/dist run ./pages -version v1.2.3 FOLDER
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/bullpen-run/bullpen/internal/cli"
)

func main() {
	version := flag.String("version", "", "version that the pages name")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "pages: name the folder")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

// write makes man/bullpen-COMMAND.1.gz and completions/bullpen.SHELL below a folder.
func write(folder, version string) error {
	root := cli.Command()
	shells := map[string]func(path string) error{
		"bullpen.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_bullpen":     root.GenZshCompletionFile,
		"bullpen.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		"bullpen.ps1":  root.GenPowerShellCompletionFileWithDesc,
	}
	completions, man := filepath.Join(folder, "completions"), filepath.Join(folder, "man")
	if err := errors.Join(os.MkdirAll(completions, 0o755), os.MkdirAll(man, 0o755)); err != nil {
		return err
	}
	for name, write := range shells {
		if err := write(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	when, err := date()
	if err != nil {
		return err
	}
	root.InitDefaultCompletionCmd()
	return writeMan(root, doc.GenManHeader{Section: "1", Date: &when, Source: "Bullpen " + version, Manual: "Bullpen"}, man)
}

// date returns the time of the pages: $SOURCE_DATE_EPOCH, or now.
func date() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now().UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// writeMan writes the page of a command and those of the commands below it.
func writeMan(cmd *cobra.Command, header doc.GenManHeader, folder string) error {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			if err := writeMan(c, header, folder); err != nil {
				return err
			}
		}
	}
	cmd.DisableAutoGenTag = true
	cmd.Long = markdown(cmd.Long)
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	var page, packed bytes.Buffer
	if err := doc.GenMan(cmd, &header, &page); err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = z.Write(page.Bytes())
	if err := errors.Join(err, z.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".1.gz"), packed.Bytes(), 0o644)
}

// special are the characters that Markdown, which cobra writes manual pages from,
// would take for its own.
var special = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`, `&`, `\&`, `#`, `\#`, `|`, `\|`, `~`, `\~`)

// markdown returns a plain text as Markdown: paragraphs flow, and indented lines stay
// as they are.
func markdown(text string) string {
	var b strings.Builder
	before := false // the line before was indented
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if indented != before {
			b.WriteByte('\n') // only an empty line ends a paragraph, and what is indented
		}
		before = indented
		if indented {
			b.WriteString("    " + line)
		} else {
			b.WriteString(special.Replace(line))
		}
	}
	return b.String()
}
