package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo says what this binary was built from.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "Show the version",
		Annotations: anyConfig,
		Args:        needArgs(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.json {
				return a.print(v)
			}
			rev := ""
			if v.Revision != "" {
				rev = " (" + v.Revision[:min(12, len(v.Revision))] + ")"
			}
			_, err := fmt.Fprintf(a.out, "atoll %s%s %s %s\n", v.Version, rev, v.Go, v.Platform)
			return err
		},
	}
}
