package data_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestSeq(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases(nil, "",
		"seq 5", "seq 0", "seq -3", "seq 2 5", "seq 5 2", "seq 5 -1 1", "seq 1 2 10", "seq 0.5 3", "seq 1 0.5 3", "seq 0 0.1 1", "seq 1 .25 2", "seq -w 8 11", "seq -w -5 5", "seq -w 0.5 1.5 10", "seq -w 1 100",
		"seq -s , 5", "seq -s '' 3", "seq -s ' - ' 1 3", "seq -f %03g 3", "seq -f %.2f 1 0.5 2", "seq -f x%gy%% 2", "seq -f '%5.1f|' 1 2", "seq -f %d 3", "seq -f abc 3", "seq -f %g%g 3", "seq -f % 3", "seq -w -f %g 3",
		"seq 1 0 5", "seq", "seq 1 2 3 4", "seq a", "seq 1 b", "seq ''", "seq 1e3 1002", "seq 1e0 3", "seq 0x10 18", "seq 10000000000000000000 10000000000000000002", "seq 1 -1 5", "seq -1 -3", "seq -1 -1 -3", "seq -0.5 0.5 1", "seq 1 1.5",
		"seq 3 1 3", "seq 1.0 3", "seq 1 3.0", "seq 0.1 0.1 0.3", "seq 1.00 2", "seq -w 1.0 10", "seq -w 9 10.5", "seq 999999 1000002", "seq 1000000 1 1000002", "seq 1e6 1000001", "seq nan", "seq -x", "seq -s", "seq +3", "seq -- -2 0", "seq -s, -2 0", "seq 1 inf x", "seq 0 0.000001 0.000003", "seq 0 5 23", "seq 10 -2.5 0", "seq 99999999 100000001", "seq -f %e 2", "seq -f %G 1e-5 1e-5 3e-5", "seq -f %+05g 2",
	))
}
