package network

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
)

func (a commands) openCommand() *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "open [SANDBOX [PORT]]",
		Short: "Open a port of a sandbox in the browser",
		Long: `Open a port of a sandbox in the browser by its host name, like
http://3000-box.localhost:7080/. The default PORT is the main one: the
configured port, or the first that was opened. The default SANDBOX is that of
the project in this directory. A server is started if none runs. Without a
browser, or with --print, the URL is printed. If the port needs a link, one is
created that expires after 12 hours.`,
		Example: `  atoll open
  atoll open box 3000
  curl "$(atoll open box 3000 --print)"`,
		Args:              app.CheckArgCount(0, 2, "a sandbox and a port"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := portAt(args, 1)
			if err != nil {
				return err
			}
			url, err := previewserver.SandboxURL(cmd.Context(), a.App, args, port)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]string{"url": url})
			}
			if !printOnly {
				if opened, err := a.OpenBrowser(cmd.Context(), url); opened || err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(a.Out, output.Clean(url))
			return err
		},
	}
	cmd.Flags().BoolVarP(&printOnly, "print", "p", false, "print the URL, open nothing")
	return cmd
}
