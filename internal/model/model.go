// Package model is the way to models: connectors, which name an API and its
// key, the endpoint that sandboxes ask in place of it, and the budgets that
// bound both. Keys are added here and nowhere else.
package model

import (
	"context"
	"net/http"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// Connector is an API that models are asked at.
type Connector struct {
	Name    string            // "deepseek.v3": of the file connectors/deepseek/v3.conn.yao
	Label   string            // for people
	API     dialect.Name      // that it speaks
	Base    string            // URL; empty: the API's own
	Key     string            // never shown
	Model   string            // that is asked when none is named, and in place of those not in Models
	Models  []string          // that may be asked for besides; "*": any
	Headers map[string]string // set on every request
	Extra   map[string]any    // set in the body of every request
	Hosted  bool              // tools that the API runs itself, such as searches of the web, may be asked for
	Prices  map[string]Price  // by model; "*": all others
	Timeout time.Duration     // until the first byte of an answer; 0: 10 min
	Source  string            // the file that it is from, for errors
}

// Price is what a model costs, in US dollars a million tokens.
type Price struct{ Input, Output, CacheRead, CacheWrite float64 }

// Who asks.
type Who struct {
	Owner     atoll.Owner
	Chat      string
	Assistant string
	Turn      string
}

// Budget bounds what is asked for.
type Budget = agent.Budget

// Spend is what was asked for.
type Spend struct {
	dialect.Usage
	Requests int64
	Refused  int64
	Cost     float64
	First    time.Time
	Last     time.Time
}

// Ledger keeps what everybody spent. Its methods may be called at once from
// many goroutines.
type Ledger interface {
	// Charge adds to what w spent: to the sums of the owner, the chat, the
	// assistant and the turn.
	Charge(ctx context.Context, w Who, s Spend) error
	// Spent returns a sum: of all that in w is not empty.
	Spent(ctx context.Context, w Who) (Spend, error)
}

// Diary is a Ledger that knows days.
type Diary interface {
	// SpentSince returns a sum of an owner or an assistant without the days
	// before that of a time.
	SpentSince(ctx context.Context, w Who, since time.Time) (Spend, error)
}

// Bounds is a Ledger that knows limits of owners, beside those of an Access.
type Bounds interface {
	Limits(ctx context.Context, o atoll.Owner) ([]Limit, error)
}

// Limit is a budget and whose it is: that of all that in Who is not empty.
type Limit struct {
	Who    Who
	Budget Budget
	Since  time.Time // only what was spent since that day counts, where the Ledger is a Diary
}

// Line is one request to a model, for logs and audit. It holds no text of it.
type Line struct {
	Time      time.Time
	Who       Who
	Connector string
	Model     string
	Status    int
	Usage     dialect.Usage
	Cost      float64
	Duration  time.Duration
	First     time.Duration // until the first byte
	Refused   string        // why, if it was
}

// Access is a connector as one caller may use it. Its methods may be called at
// once from many goroutines.
type Access struct {
	Connector Connector
	Who       Who
	Limits    []Limit
	Ledger    Ledger            // nil: in memory, of this Access
	Client    *http.Client      // nil: one without a proxy for loopback addresses
	Log       func(Line)        // nil: nobody
	Now       func() time.Time  // nil: time.Now
	Aliases   map[string]string // names of models that mean others: "sonnet" -> "deepseek-chat"

	state state
}
