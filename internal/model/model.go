// Package model calls models: it has connectors, which name an API and its key, the
// endpoint that sandboxes use in place of the API, and the budgets that limit both.
// Keys are added here and nowhere else.
package model

import (
	"context"
	"net/http"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// Connector is an API of models.
type Connector struct {
	Name    string            // "deepseek.v3" for the file connectors/deepseek/v3.conn.yao
	Label   string            // for display
	API     dialect.Name      // dialect of the API
	Base    string            // URL; empty: the dialect's default
	Key     string            // never printed
	Model   string            // default, which also replaces models that are not allowed
	Models  []string          // further allowed models; "*": any
	Headers map[string]string // set on every request
	Extra   map[string]any    // set in the body of every request
	Hosted  bool              // allow tools that the API runs itself, such as web search
	Prices  map[string]Price  // by model; "*": all others
	Timeout time.Duration     // until the first byte of an answer; 0: 10 min
	Source  string            // its file, for errors
}

// Price is the price of a model, in US dollars per million tokens.
type Price struct{ Input, Output, CacheRead, CacheWrite float64 }

// Caller identifies the turn that calls a model.
type Caller struct {
	Owner     atoll.Owner
	Chat      string
	Assistant string
	Turn      string
}

// Budget limits the usage of models.
type Budget = agent.Budget

// Usage is the usage of models.
type Usage struct {
	dialect.Usage
	Requests int64
	Refused  int64
	Cost     float64
	First    time.Time
	Last     time.Time
}

// Ledger stores the usage of all callers. Its methods are safe for concurrent use.
type Ledger interface {
	// Charge adds to the usage of w: to the sums of its owner, chat, assistant
	// and turn.
	Charge(ctx context.Context, w Caller, s Usage) error
	// Usage returns the usage of everything that matches the non-empty fields of w.
	Usage(ctx context.Context, w Caller) (Usage, error)
}

// DailyLedger is a Ledger that stores usage by day.
type DailyLedger interface {
	// UsageSince returns the usage of an owner or an assistant since the day of a
	// time.
	UsageSince(ctx context.Context, w Caller, since time.Time) (Usage, error)
}

// LimitedLedger is a Ledger with limits of owners, in addition to those of an Access.
type LimitedLedger interface {
	Limits(ctx context.Context, o atoll.Owner) ([]Limit, error)
}

// Limit is a budget for everything that matches the non-empty fields of Who.
type Limit struct {
	Caller Caller
	Budget Budget
	Since  time.Time // count only usage since that day, if the Ledger is a Diary
}

// LogEntry describes one request to a model, for logs and audit, without its text.
type LogEntry struct {
	Time      time.Time
	Caller    Caller
	Connector string
	Model     string
	Status    int            // HTTP status of the answer; 0: the client left before there was one
	Failed    *dialect.Error // why it failed; nil: it did not
	Usage     dialect.Usage
	Cost      float64
	Duration  time.Duration
	FirstByte time.Duration // until the first byte
	Refused   string        // why the request was refused; empty: it was not
}

// Access is a connector with the limits of one caller. Its methods are safe for
// concurrent use.
type Access struct {
	Connector Connector
	Caller    Caller
	Limits    []Limit
	Ledger    Ledger         // nil: in memory, for this Access
	Client    *http.Client   // nil: one without a proxy for loopback addresses
	Log       func(LogEntry) // nil: nothing is logged

	// Progress is called with the usage so far of a request in flight, with its whole usage before that is
	// charged, and once more after it. Requests are numbered. Nil: it is not called.
	Progress func(request int64, u Usage, charged bool)

	Now     func() time.Time  // nil: time.Now
	Aliases map[string]string // other names of models: "sonnet" -> "deepseek-chat"

	state state
}
