package sandbox

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

func (a commands) identityTokenCommand() *cobra.Command {
	var audience string
	cmd := &cobra.Command{
		Use:   "identity-token SANDBOX --audience AUDIENCE",
		Short: "Create a token that proves who a sandbox is",
		Long: `Create a token that proves to a service, the audience, who a running sandbox is:
a JSON Web Token with the owner and the id of the sandbox, signed by the server,
which must be configured as an issuer (identity.issuer). It is valid for minutes
and can't be revoked.`,
		Example: `  atoll identity-token web --audience sts.amazonaws.com
  atoll identity-token web --audience sts.amazonaws.com --json`,
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if audience == "" {
				return fmt.Errorf("%w: --audience: must name the service that the token is for", atoll.ErrInvalid)
			}
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			t, err := sb.IdentityToken(cmd.Context(), audience)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(t)
			}
			_, err = fmt.Fprintln(a.Out, t.Token)
			return err
		},
	}
	cmd.Flags().StringVar(&audience, "audience", "", "`SERVICE` that the token is for, of those that the server allows")
	return cmd
}
