package system

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

const sleepUsage = `Usage: sleep NUMBER[SUFFIX]...
  or:  sleep OPTION
Pause for NUMBER seconds.  SUFFIX may be 's' for seconds (the default),
'm' for minutes, 'h' for hours or 'd' for days.  NUMBER need not be an
integer.  Given two or more arguments, pause for the amount of time
specified by the sum of their values.

      --help     display this help and exit
`

// parseSpan parses a duration in the syntax of sleep and timeout.
func parseSpan(s string) (time.Duration, bool) {
	unit := 1.0
	num := s
	if n := len(s); n > 0 {
		if i := strings.IndexByte("smhd", s[n-1]); i >= 0 {
			unit = []float64{1, 60, 3600, 86400}[i]
			num = s[:n-1]
		}
	}
	num = strings.TrimLeft(num, " \t\n")
	if num == "" || strings.Contains(num, "_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(num, 64)
	if math.IsNaN(v) || v < 0 || err != nil && !math.IsInf(v, 1) {
		return 0, false
	}
	if v *= unit; v > math.MaxInt64/2e9 {
		return math.MaxInt64 / 2, true
	}
	return time.Duration(math.Ceil(v * 1e9)), true
}

func runSleep(p *kernel.Proc) int {
	_, args, ok := option.NoOptions.Parse(p)
	if !ok || option.ReportMissing(p, args, 1) {
		return 1
	}
	var total time.Duration
	bad := false
	for _, a := range args {
		d, ok := parseSpan(a)
		if !ok {
			p.Errorf("invalid time interval %s", quoting.QuoteWord(a))
			bad = true
			continue
		}
		total = min(total+d, math.MaxInt64/2)
	}
	if bad {
		option.SuggestHelp(p)
		return 1
	}
	p.Sleep(total, false)
	return 0
}
