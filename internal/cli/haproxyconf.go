package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	haproxyconf "github.com/haproxy-weighter/haproxy-weighter/haproxy-conf"
	"github.com/haproxy-weighter/haproxy-weighter/internal/config"
)

// haproxyConfFlags are the flags of "haproxy-conf".
type haproxyConfFlags struct {
	list  bool
	json  bool
	write string
}

func newHAProxyConf(p *Program) *cobra.Command {
	var f haproxyConfFlags
	c := &cobra.Command{
		Use:               "haproxy-conf [NAME [BACKEND [BACKEND]]]",
		Short:             "Print files for HAProxy that use what this program tells",
		Long:              wordsHAProxyConf,
		Example:           wordsHAProxyConfExample,
		Args:              arguments("[NAME]", "[BACKEND]", "[BACKEND]"),
		ValidArgsFunction: p.completeExample,
		RunE: p.action(func(_ context.Context, c *cobra.Command, args []string) error {
			if f.list || f.json {
				return p.listExamples(c, &f, args)
			}
			return p.haproxyConf(c, &f, args)
		}),
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.list, "list", false, "list the examples by NAME")
	flags.StringVar(&f.write, "write", "", "write the files into the folder `DIR` instead; one that is there already is never overwritten")
	flags.BoolVar(&f.json, "json", false, "print the list as JSON with stable fields")
	return c
}

func (p *Program) completeExample(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return p.completeBackend(c, nil, start)
	}
	var names []string
	for _, e := range haproxyconf.Examples() {
		if strings.HasPrefix(e.Name, start) {
			names = append(names, e.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// exampleRow is one element of --list --json. Its fields are documented and stable.
type exampleRow struct {
	Name     string `json:"name"`
	Backends int    `json:"backends"`
	Needs    string `json:"needs"`
	Summary  string `json:"summary"`
}

// The keys of weighter.toml that examples need.
const (
	needsSPOA = "spoa.listen"
	needsMaps = "backend.maps"
)

func newExampleRow(e haproxyconf.Example) exampleRow {
	r := exampleRow{Name: e.Name, Backends: e.Backends, Needs: needsMaps, Summary: e.Summary}
	if e.SPOE {
		r.Needs = needsSPOA
	}
	return r
}

func (p *Program) listExamples(c *cobra.Command, f *haproxyConfFlags, args []string) error {
	if len(args) > 0 || f.write != "" {
		return usage(errors.New("--list and --json go with neither NAME nor --write"), hintHelp(c.CommandPath()))
	}
	var rows []exampleRow
	for _, e := range haproxyconf.Examples() {
		rows = append(rows, newExampleRow(e))
	}
	if f.json {
		e := json.NewEncoder(p.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	t := newTable("name", ">backends", "needs", "what it does")
	for _, r := range rows {
		t.add(cell{r.Name, plain}, cell{fmt.Sprint(r.Backends), plain}, cell{r.Needs, plain}, cell{r.Summary, plain})
	}
	return t.write(p.Stdout, p.colours(p.Stdout))
}

// haproxyConf prints or writes one example.
func (p *Program) haproxyConf(c *cobra.Command, f *haproxyConfFlags, args []string) error {
	name := haproxyconf.Examples()[0].Name
	if len(args) > 0 {
		name = args[0]
	}
	example, ok := haproxyconf.Find(name)
	if !ok {
		return usage(fmt.Errorf("there is no example %q", name), hintExamples(name))
	}
	if backends := args[min(1, len(args)):]; len(backends) > example.Backends {
		return usage(fmt.Errorf("example %s is about %s, and %d are named", name, count(example.Backends, "backend"), len(backends)), hintUsage(c.UseLine()))
	}
	values := haproxyconf.Generic()
	if f.write != "" {
		dir, err := filepath.Abs(f.write)
		if err != nil {
			return err
		}
		values.Dir = dir
		values.LoadMap = filepath.Join(dir, filepath.Base(values.LoadMap))
		values.WeightMap = filepath.Join(dir, filepath.Base(values.WeightMap))
	}
	hints, err := p.fillIn(&values, c, example, args)
	if err != nil {
		return err
	}
	files, err := haproxyconf.Render(name, values)
	if err != nil {
		return err
	}
	if f.write != "" {
		err = p.writeFiles(values.Dir, files)
	} else {
		err = p.printFiles(values.Dir, files)
	}
	if err != nil {
		return err
	}
	for _, h := range hints {
		p.hintf("%s", h)
	}
	return nil
}

// fillIn takes names and addresses from weighter.toml. Without one they stay generic, unless
// a file was asked for. hints say what weighter.toml lacks.
func (p *Program) fillIn(v *haproxyconf.Values, c *cobra.Command, e haproxyconf.Example, args []string) (hints []string, err error) {
	loaded, err := config.LoadContext(c.Context(), p.file)
	if errors.Is(err, fs.ErrNotExist) && !c.Flags().Changed("config") && len(args) < 2 {
		return []string{hintGenericNames(p.file)}, nil
	}
	if err != nil {
		return nil, badConfig(p.file, err)
	}
	first := &loaded.Backends[0]
	if len(args) > 1 {
		if first, err = find(loaded, args[1]); err != nil {
			return nil, err
		}
	}
	if v.Backend = first.Name; v.Spare == v.Backend {
		v.Spare += "-2"
	}
	if e.Backends > 1 {
		if hints, err = setSpare(v, loaded, args); err != nil {
			return nil, err
		}
	}
	v.StatsSocket = statsSocket(loaded, first)
	if e.SPOE {
		return append(hints, setAgent(v, loaded)...), nil
	}
	return append(hints, setMaps(v, first)...), nil
}

// setSpare chooses the second backend: the one that was named, or the next one of the file.
func setSpare(v *haproxyconf.Values, c *config.Config, args []string) (hints []string, err error) {
	if len(args) > 2 {
		b, err := find(c, args[2])
		if err != nil {
			return nil, err
		}
		if b.Name == v.Backend {
			return nil, usage(fmt.Errorf("backend %q is named twice, and two are needed", b.Name))
		}
		v.Spare = b.Name
		return nil, nil
	}
	for i := range c.Backends {
		if c.Backends[i].Name != v.Backend {
			v.Spare = c.Backends[i].Name
			return nil, nil
		}
	}
	return []string{hintSpare(c.File, v.Spare)}, nil
}

// statsSocket is the backend's first runtime socket, as on a line "stats socket".
func statsSocket(c *config.Config, b *config.Backend) string {
	sockets := b.Sockets
	if len(sockets) == 0 {
		sockets = c.HAProxy.Sockets
	}
	switch a := sockets[0]; a.Kind {
	case "abns":
		return "abns@" + a.Path
	case "master":
		return "" // made by haproxy -S
	default:
		return a.Path
	}
}

// setAgent takes the agent's first address.
func setAgent(v *haproxyconf.Values, c *config.Config) (hints []string) {
	if len(c.SPOA.Listen) == 0 {
		return []string{hintSPOA(c.File, v.Agent)}
	}
	l := c.SPOA.Listen[0]
	if l.Network == "unix" {
		v.Agent = "unix@" + l.Address
		return nil
	}
	v.Agent = l.Address
	// All addresses of this machine are no address to connect to.
	host, port, err := net.SplitHostPort(l.Address)
	if err != nil {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		v.Agent = net.JoinHostPort(loopback(ip), port)
	}
	return nil
}

func loopback(ip netip.Addr) string {
	if ip.Is4() {
		return "127.0.0.1"
	}
	return "::1"
}

// setMaps takes the paths of a backend's maps.
func setMaps(v *haproxyconf.Values, b *config.Backend) (hints []string) {
	for _, m := range []struct {
		have string
		path *string
	}{{b.Maps.Load, &v.LoadMap}, {b.Maps.Weight, &v.WeightMap}} {
		if m.have == "" {
			continue
		}
		*m.path = m.have
		if filepath.Dir(m.have) != v.Dir {
			hints = append(hints, hintMapPath(m.have))
		}
	}
	if b.Maps.Load == "" || b.Maps.Weight == "" {
		hints = append(hints, hintMaps(b.Name, v.LoadMap, v.WeightMap))
	}
	return hints
}

// printFiles prints the files one after the other, each under its path.
func (p *Program) printFiles(dir string, files []haproxyconf.File) error {
	for i, f := range files {
		gap := "\n"
		if i == 0 {
			gap = ""
		}
		if _, err := fmt.Fprintf(p.Stdout, "%s#==== %s\n%s\n", gap, filepath.Join(dir, f.Name), strings.TrimRight(f.Text, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes all files, or none.
func (p *Program) writeFiles(dir string, files []haproxyconf.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, f := range files {
		if err := writeNew(filepath.Join(dir, f.Name), f.Text); err != nil {
			for _, written := range files[:i] {
				err = errors.Join(err, os.Remove(filepath.Join(dir, written.Name)))
			}
			if errors.Is(err, fs.ErrExist) {
				return failed(fmt.Errorf("%s is there already; nothing was written", filepath.Join(dir, f.Name)), hintOtherDir)
			}
			return failed(err)
		}
	}
	for _, f := range files {
		if _, err := fmt.Fprintf(p.Stdout, "wrote %s\n", filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	p.hintf("%s", hintTryConf(filepath.Join(dir, files[0].Name)))
	return nil
}

// writeNew writes a file that must not be there, not even as a symbolic link.
func writeNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
