//go:build !race

package shell_test

import "time"

// slack is how much longer than its deadline a command may take.
const slack = 50 * time.Millisecond
