package app

import (
	"time"
)

// ProbeTimeout is how long one driver may take to be examined.
const ProbeTimeout = 15 * time.Second
