package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(p *Program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(),
		RunE: p.action(func(context.Context, *cobra.Command, []string) error {
			_, err := fmt.Fprint(p.Stdout, p.versionLine())
			return err
		}),
	}
}

func (p *Program) versionLine() string {
	return fmt.Sprintf("haproxy-weighter %s (%s, %s/%s)\n", p.version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is what the build was told, or what the toolchain recorded.
func (p *Program) version() string {
	if p.Version != "" {
		return p.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
