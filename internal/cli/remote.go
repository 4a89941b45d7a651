package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// The environment variables for the daemon's address and the token.
const (
	envURL       = "BULLPEN_URL"
	envToken     = "BULLPEN_TOKEN"
	envTokenFile = "BULLPEN_TOKEN_FILE"
)

// remoteNote ends the help of every command that talks to a daemon.
const remoteNote = `

Set the address of the daemon with --url ($BULLPEN_URL), the token with --token-file
($BULLPEN_TOKEN_FILE, or $BULLPEN_TOKEN for the token itself), and trusted
certificates with --ca.

Exit status: 0 done; 1 the job or the request failed; 2 wrong usage; 3 the daemon does
not answer, or is not ready; 4 not found; 5 not allowed; 124 the job has not ended
within the time of --wait, and continues; 130 interrupted; 141 the output was closed.`

// remote is what the commands that talk to a daemon have in common: the address, the
// client, and the output.
type remote struct {
	url, tokenFile, ca string
	output             string
	asJSON             bool
	bad                faults
	retries            int // of the client; -1 disables retries

	stdin          io.Reader
	stdout, stderr *os.File

	// These are set while a command runs.
	config client.Config
	out    *bufio.Writer // standard output
	style  style         // of standard output
	now    func() time.Time
}

func newRemote(stdin io.Reader, stdout, stderr *os.File) *remote {
	return &remote{retries: -1, stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}
}

// define adds the flags of all commands that talk to a daemon.
func (r *remote) define(set *pflag.FlagSet) {
	f := flagSet{set, &r.bad}
	add(f, &r.url, "url", "", "URL", "", word, "address of the daemon; by default $"+envURL+" or "+client.DefaultURL)
	add(f, &r.tokenFile, "token-file", "", "FILE", "", word, "file with the token; by default $"+envTokenFile+", or the token in $"+envToken)
	add(f, &r.ca, "ca", "", "FILE", "", word, "file with the certificates (PEM) of the authorities to trust, instead of the system's")
	add(f, &r.output, "output", "o", "WORD", "text", oneOf("text", "json"), "text, or json with an object per line")
	set.BoolVar(&r.asJSON, "json", false, "same as --output json")
}

// verb is a command that talks to a daemon.
type verb struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	flags                     func(f flagSet)      // flags of this command alone; may be nil
	complete                  cobra.CompletionFunc // completion of arguments; may be nil
	// do is called with a context that ends on a signal.
	do func(ctx context.Context, c *client.Client, args []string) error
}

// command returns the cobra command of a verb.
func (r *remote) command(v verb) *cobra.Command {
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long + remoteNote, Example: v.example,
		Args: v.args, ValidArgsFunction: v.complete,
		RunE: func(_ *cobra.Command, args []string) error {
			return r.run(func(ctx context.Context, c *client.Client) error { return v.do(ctx, c, args) })
		},
	}
	cmd.SetFlagErrorFunc(flagError)
	if v.complete == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().SortFlags = false
	if v.flags != nil {
		v.flags(flagSet{cmd.Flags(), &r.bad})
	}
	r.define(cmd.Flags())
	fixed(cmd, "output", "text", "json")
	return cmd
}

// flagError suggests the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	name, found := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !found {
		return err
	}
	if f := cmd.Flags().Lookup(elsewhere[name]); f != nil {
		return fmt.Errorf("%w; did you mean --%s?", err, f.Name)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if n := nearest(name, names); n != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, n)
	}
	return err
}

// elsewhere maps flags of GNU parallel and xargs to the names used here.
var elsewhere = map[string]string{"jobs": "max", "max-procs": "max", "workers": "max"}

// fixed completes a flag with fixed words.
func fixed(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// wants returns a check for the number of arguments, whose error shows how to give
// them.
func wants(least, most int, how string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s is missing: %s", missing(len(args), how), how)
		case len(args) > most:
			return fmt.Errorf("unexpected argument %q: %s", args[most], how)
		}
		return nil
	}
}

// missing returns the name of the argument at a position in how.
func missing(position int, how string) string {
	for name := range strings.FieldsSeq(how) {
		if strings.ToUpper(name) != name {
			continue
		}
		if position == 0 {
			return strings.Trim(name, "[].;")
		}
		position--
	}
	return "an argument"
}

// run checks the flags, calls do and turns errors into a message and an exit status.
func (r *remote) run(do func(ctx context.Context, c *client.Client) error) error {
	c, err := r.connect()
	if err != nil {
		return err // wrong usage
	}
	defer c.Close()
	r.out = bufio.NewWriterSize(r.stdout, 32<<10)
	pipe := make(chan os.Signal, 1)
	catchPipe(pipe)
	defer signal.Stop(pipe)
	ctx, stop := signal.NotifyContext(context.Background(), endings...)
	defer stop()
	r.style = styleOf(ctx, r.stdout)
	// Ending a command takes only a moment; if it hangs, signals have their default
	// effect again.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(2*time.Second, stop) })()
	err = do(ctx, c)
	if flushed := r.out.Flush(); flushed != nil {
		err = flushed // failing to print the output matters most
	}
	if err == nil {
		return nil
	}
	if code, ok := errors.AsType[status](err); ok {
		return code
	}
	if ctx.Err() != nil && !errors.Is(err, syscall.EPIPE) {
		if errors.Is(err, job.ErrUnconfirmed) {
			r.say("interrupted before the daemon answered: it is unknown whether this was done")
		} else {
			r.say("interrupted")
		}
		return status(exitInterrupted)
	}
	code, text := r.explain(ctx, c, err)
	if text != "" {
		r.say("%s", text)
	}
	return status(code)
}

// connect returns the client for the address that the flags and the environment give.
func (r *remote) connect() (*client.Client, error) {
	bad := r.bad
	if r.output == "json" {
		r.asJSON = true
	}
	config := client.Config{URL: r.address(), Retries: r.retries}
	var err error
	if config.Token, err = r.token(); err != nil {
		bad = append(bad, err)
	}
	if config.TLS, err = r.trust(); err != nil {
		bad = append(bad, err)
	}
	if config.Token != "" && exposed(config.URL) {
		bad.add("the token would be sent to %s without TLS, where others can read it: use an https:// address", plain(config.URL))
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	config.MaxResult = mostPayload
	r.config = config
	return client.New(config)
}

// exposed reports whether data sent to an address can be read on the way.
func exposed(address string) bool {
	to, err := url.Parse(address)
	if err != nil || to.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(to.Hostname())
	return to.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// patient returns a client for long waits: it survives some seconds without the
// daemon.
func (r *remote) patient() (*client.Client, error) {
	config := r.config
	config.Retries = max(config.Retries, 8)
	return client.New(config)
}

func (r *remote) address() string {
	switch {
	case r.url != "":
		return r.url
	case os.Getenv(envURL) != "":
		return os.Getenv(envURL)
	}
	return client.DefaultURL
}

func (r *remote) token() (string, error) {
	name, from := r.tokenFile, "--token-file"
	if name == "" {
		if token := os.Getenv(envToken); token != "" {
			return strings.TrimSpace(token), nil
		}
		name, from = os.Getenv(envTokenFile), "$"+envTokenFile
	}
	if name == "" {
		return "", nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s %s: use a file with one token and nothing else", from, name)
	}
	return token, nil
}

func (r *remote) trust() (*tls.Config, error) {
	if r.ca == "" {
		return nil, nil
	}
	content, err := os.ReadFile(r.ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("--ca %s: the file has no certificate: use a file in PEM format", r.ca)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// say prints a message to standard error. It makes its lines fit for a terminal.
func (r *remote) say(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	fmt.Fprintf(r.stderr, "bullpen: %s\n", strings.Join(lines, "\n"))
}

// printf prints to standard output. The writer keeps the error.
func (r *remote) printf(format string, args ...any) { fmt.Fprintf(r.out, format, args...) }

// object prints one JSON object on a line of standard output.
func (r *remote) object(v any) error {
	e := json.NewEncoder(r.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// flush writes the buffered output.
func (r *remote) flush() error { return r.out.Flush() }
