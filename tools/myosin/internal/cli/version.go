package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionJSON struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.ran = true
			v := versionJSON{Version: "unknown"}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version, v.Go = info.Main.Version, info.GoVersion
				for _, s := range info.Settings {
					switch s.Key {
					case "vcs.revision":
						v.Revision = s.Value
					case "vcs.modified":
						v.Modified = s.Value == "true"
					}
				}
			}
			return a.out.object(v, "myosin %s %s (%s)", v.Version, v.Revision, v.Go)
		},
	}
}
