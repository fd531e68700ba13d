package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/haproxy-weighter/haproxy-weighter/graphite"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// initFlags are the flags of "init".
type initFlags struct {
	sockets    []string
	haproxyCfg string
	cfgGiven   bool
	graphite   graphiteFlags
	targets    []string
	find       []string
	backends   []string
	output     string
}

// graphiteFlags become keys of [graphite].
type graphiteFlags struct{ url, user, passwordFile, tokenFile, caFile string }

// toStdout is the name of the file that stands for standard output.
const toStdout = "-"

func newInit(p *Program) *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:     "init --graphite URL",
		Short:   "Write a first configuration from what HAProxy and Graphite have",
		Long:    wordsInit,
		Example: wordsInitExample,
		Args:    arguments(),
		RunE: p.action(func(ctx context.Context, c *cobra.Command, _ []string) error {
			f.cfgGiven = c.Flags().Changed("haproxy-cfg")
			return p.init(ctx, c, &f)
		}),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.graphite.url, "graphite", "", "`URL` of Graphite, without /render; ${NAME} in it stays in the file, for a key in the environment")
	flags.StringArrayVar(&f.targets, "target", nil, "a Graphite `TARGET` with a series for each server; may be given again")
	flags.StringArrayVar(&f.find, "find", nil, "look for series below this `PATTERN`, such as 'tcp-service.*'; may be given again")
	flags.StringArrayVar(&f.backends, "backend", nil, "write this `BACKEND` only; may be given again")
	flags.StringArrayVar(&f.sockets, "socket", nil, "a runtime `SOCKET` of HAProxy; may be given again (default: those that are found)")
	flags.StringVar(&f.haproxyCfg, "haproxy-cfg", defaultHAProxyCfg, "look for lines \"stats socket\" in this `FILE`")
	flags.StringVar(&f.graphite.user, "graphite-user", "", "`NAME` for Basic authentication; needs --graphite-password-file")
	flags.StringVar(&f.graphite.passwordFile, "graphite-password-file", "", "`FILE` with the password on its only line")
	flags.StringVar(&f.graphite.tokenFile, "graphite-token-file", "", "`FILE` with a bearer token on its only line")
	flags.StringVar(&f.graphite.caFile, "graphite-ca-file", "", "`FILE` with the authority of Graphite's certificate")
	flags.StringVarP(&f.output, "output", "o", "weighter.toml", "`FILE` to write, which must not be there yet; - prints it")
	return c
}

// init asks HAProxy and Graphite and writes what they told.
func (p *Program) init(ctx context.Context, c *cobra.Command, f *initFlags) error {
	if err := f.check(c); err != nil {
		return err
	}
	if f.output != toStdout {
		// Told before anybody is asked; writeOnce makes sure of it.
		if _, err := os.Lstat(f.output); err == nil {
			return failed(fmt.Errorf("%s is there already; nothing was written", f.output), hintInitOutput)
		}
	}
	if err := f.graphite.absolute(); err != nil {
		return err
	}
	g := p.progress("asking HAProxy")
	draft, err := p.draft(ctx, f, g)
	g.end()
	if err != nil {
		return err
	}
	return p.finish(ctx, f, draft)
}

// check finds what is wrong with the flags by themselves.
func (f *initFlags) check(c *cobra.Command) error {
	switch {
	case f.graphite.url == "":
		return usage(errors.New("init: --graphite URL is missing"), hintInitGraphite, hintUsage(c.UseLine()))
	case len(f.targets) > 0 && len(f.find) > 0:
		return usage(errors.New("init: --target and --find exclude each other"), hintHelp(c.CommandPath()))
	case slices.ContainsFunc(f.find, func(s string) bool { return strings.ContainsAny(s, "() ") }):
		return usage(errors.New("init: --find takes the path of series with * in it"), "a target with functions is for --target")
	case f.output == "":
		return usage(errors.New("init: -o names no file"), hintHelp(c.CommandPath()))
	}
	for flag, values := range map[string][]string{
		"--target": f.targets, "--find": f.find, "--socket": f.sockets, "--backend": f.backends, "--graphite": {f.graphite.url},
	} {
		for _, v := range values {
			if strings.TrimSpace(v) == "" || !utf8.ValidString(v) {
				return usage(fmt.Errorf("init: %s %q is no text that could be used", flag, v))
			}
		}
	}
	return nil
}

// absolute makes paths independent of the folder of the file that is written.
func (g *graphiteFlags) absolute() error {
	for _, path := range []*string{&g.passwordFile, &g.tokenFile, &g.caFile} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	return nil
}

// draft is a configuration in the making.
type draft struct {
	sockets  []*initSocket
	graphite graphiteFlags
	backends []*initBackend
	when     time.Time
}

// draft finds out what goes into the file.
func (p *Program) draft(ctx context.Context, f *initFlags, g *progress) (*draft, error) {
	d := &draft{graphite: f.graphite, when: p.now()}
	var err error
	if d.sockets, err = p.initSockets(ctx, f); err != nil {
		return nil, err
	}
	c, err := d.head()
	if err != nil {
		return nil, err
	}
	if d.backends, err = initBackends(ctx, d.sockets); err != nil {
		return nil, err
	}
	if err := d.keepNamed(f.backends); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(d.backends, (*initBackend).weightable) {
		return nil, failed(d.nothing("HAProxy has no backend that can be weighted"))
	}
	client, err := graphite.NewClient(c.Graphite)
	if err != nil {
		return nil, failed(err)
	}
	defer client.Close()
	g.set("asking Graphite")
	s := newSearch(client)
	switch {
	case len(f.targets) > 0:
		err = s.targets(ctx, f.targets, d.backends)
	case len(f.find) > 0:
		err = s.patterns(ctx, f.find, d.backends)
	default:
		err = s.tree(ctx, d.backends)
	}
	if err != nil {
		return nil, failed(err, hintInitFailed(f)...)
	}
	if !slices.ContainsFunc(d.backends, (*initBackend).ready) {
		return nil, failed(d.nothing("Graphite has no series for the servers of any backend"), hintInitNothing(f, s))
	}
	return d, nil
}

// head has the program's own reader of configurations judge sockets and the
// keys of [graphite], and load the secrets.
func (d *draft) head() (*config.Config, error) {
	text := d.headText() + "\n[[backend]]\nname = \"none\"\ntarget = \"none\"\n"
	c, err := config.Parse("init", []byte(text), os.LookupEnv)
	var mistakes config.Errors
	if !errors.As(err, &mistakes) {
		return c, err
	}
	var errs []error
	for _, m := range mistakes {
		errs = append(errs, errors.New(initKeys.Replace(m.Key+": "+m.Text)))
	}
	return nil, usage(errors.Join(errs...))
}

// initKeys puts the flags in the place of the keys that come from them.
var initKeys = strings.NewReplacer(
	"graphite.url", "--graphite",
	"graphite.username", "--graphite-user",
	"graphite.password_file", "--graphite-password-file",
	"graphite.bearer_token_file", "--graphite-token-file",
	"graphite.ca_file", "--graphite-ca-file",
	"haproxy.sockets", "--socket",
)

// keepNamed drops the backends that were not asked for.
func (d *draft) keepNamed(names []string) error {
	if len(names) == 0 {
		return nil
	}
	var have []string
	for _, b := range d.backends {
		have = append(have, b.name)
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			return failed(fmt.Errorf("--backend: HAProxy has no backend %q", name), doBackend(have))
		}
	}
	d.backends = slices.DeleteFunc(d.backends, func(b *initBackend) bool { return !slices.Contains(names, b.name) })
	return nil
}

// nothing is the error when no backend is left, with the reason of the first few.
func (d *draft) nothing(what string) error {
	const shown = 8
	errs := []error{errors.New(what + "; nothing was written")}
	for i, b := range d.backends {
		if i == shown {
			errs = append(errs, fmt.Errorf("... and %s more", count(len(d.backends)-shown, "backend")))
			break
		}
		errs = append(errs, fmt.Errorf("%s: %s", b.name, printable(b.why)))
	}
	return errors.Join(errs...)
}

// finish writes the file and tells what is in it.
func (p *Program) finish(ctx context.Context, f *initFlags, d *draft) error {
	text := d.text(f.output)
	if _, err := config.Parse(f.output, []byte(text), os.LookupEnv); err != nil {
		return failed(fmt.Errorf("what was found can't be written as a configuration, which is a mistake in this program: %w", err))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	out := p.Stdout
	if f.output == toStdout {
		if _, err := fmt.Fprint(p.Stdout, text); err != nil {
			return err
		}
		out = p.Stderr
	} else if err := writeOnce(f.output, text); err != nil {
		return err
	}
	ready := 0
	for _, b := range d.backends {
		line := wordsInitLeftOut(b.why)
		if b.ready() {
			ready++
			line = wordsInitMatch(b.found) + ": " + b.found.target
		}
		fmt.Fprintf(out, "%s: %s\n", b.name, printable(line))
	}
	if f.output == toStdout {
		return nil
	}
	if _, err := fmt.Fprintln(p.Stdout, wordsInitWrote(f.output, ready)); err != nil {
		return err
	}
	p.hintf("%s", hintInitNext(f.output))
	return nil
}
