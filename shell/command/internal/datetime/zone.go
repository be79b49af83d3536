// Package datetime parses and formats dates as the GNU tools do.
package datetime

import (
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/timezone"
)

// LocalZone returns the time zone that TZ names, or UTC.
func LocalZone(p *kernel.Proc) *time.Location { return timezone.Load(p.Getenv("TZ")) }
