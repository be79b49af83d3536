package about

import (
	"context"

	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
)

// checkArchive stores, reads and removes an object in the archive storage, if there is one.
func (a commands) checkArchive(ctx context.Context) []finding {
	o := a.ArchiveOptions().Storage
	if o.Storage == "" {
		return nil
	}
	o.Resolve = (&secretref.Resolver{Providers: a.SecretProviders()}).ResolveSetting
	f := finding{Check: "archive storage"}
	s, err := objectstore.Open(o)
	if err == nil {
		err = objectstore.Check(ctx, s)
	}
	if err != nil {
		f.Detail, f.Fix = err.Error(), "see archive.storage in the configuration and docs/archive.md; until it works no sandbox is archived or brought back"
		return []finding{f}
	}
	f.OK, f.Detail = true, s.String()+": objects can be stored, read, listed and removed"
	return []finding{f}
}
