package about

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
)

// checkSecrets checks whether the key that encrypts the secrets in the registry can be read.
func (a commands) checkSecrets(ctx context.Context) finding {
	f := finding{Check: "secrets"}
	o := a.KeyOptions()
	id, err := keyring.Check(ctx, o)
	switch {
	case !o.IsSet() && err == nil:
		f.Optional, f.Detail = true, "those in the registry are plain text: whoever can read a copy of it has them"
		f.Fix = "set secrets.key_file in your own atoll.yaml to a file outside of the state directory; the next start makes it"
	case errors.Is(err, fs.ErrNotExist) && o.File != "":
		f.OK, f.Detail = true, "the key file "+o.File+" is missing: the next start makes it, unless secrets are encrypted already"
	case err != nil:
		f.Detail, f.Fix = err.Error(), "see docs/secrets.md"
	case id == "":
		f.OK, f.Detail = true, "encryption is turned off: the first key is none"
	default:
		f.OK, f.Detail = true, "those in the registry are encrypted with the key "+id
	}
	return f
}

// checkKeys reports an issuer of identity tokens that is incomplete, and a key of the registry's secrets that can't be read. A file that is missing is no error: atoll
// makes it.
func (a commands) checkKeys(ctx context.Context) error {
	if o := a.IssuerOptions(); o.URL != "" || len(o.Audiences) > 0 {
		err := o.Check()
		if err == nil && !a.KeyOptions().IsSet() {
			err = errors.New("identity.issuer needs secrets.key_file or secrets.key_command: its signing keys are stored encrypted only")
		}
		if err != nil {
			return config.Problem{Location: cmp.Or(a.Config.Settings["identity.issuer"].Origin, a.Config.Settings["identity.audiences"].Origin), Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
		}
	}
	f := a.checkSecrets(ctx)
	if f.OK || f.Optional {
		return nil
	}
	origin := a.Config.Settings["secrets.key_file"].Origin
	if origin == "" {
		origin = a.Config.Settings["secrets.key_command"].Origin
	}
	return config.Problem{Location: origin, Message: f.Detail}
}
