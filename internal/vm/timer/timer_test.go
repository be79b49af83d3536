package timer

import (
	"fmt"
	"strings"
	"testing"
)

// timerList is a part of /proc/timer_list.
const timerList = `Tick Device: mode:     0
Broadcast device
Clock Event Device: <NULL>
tick_broadcast_mask: 0

Tick Device: mode:     1
Per CPU device: 0
Clock Event Device: %s
`

// TestWronglyMeasuredTimerIsFound reads what kernels say about timers that they have measured on a busy host.
func TestWronglyMeasuredTimerIsFound(t *testing.T) {
	lapic := func(mult int) string {
		return fmt.Sprintf(timerList, "lapic\n max_delta_ns:   34359738366\n min_delta_ns:   1000\n mult:           "+fmt.Sprint(mult)+"\n shift:          32\n mode:           3")
	}
	for text, want := range map[string]string{
		lapic(1 << 28):                   "",
		lapic(1<<28 + 1<<26):             "",
		lapic(1 << 27):                   "",
		lapic(1 << 25):                   "0.125 times as fast",
		lapic(1 << 29):                   "2 times as fast",
		lapic(0):                         "0 times as fast",
		fmt.Sprintf(timerList, "<NULL>"): "is off",
		fmt.Sprintf(timerList, "lapic-deadline\n mult:           9000"): "",
		fmt.Sprintf(timerList, "arch_sys_timer\n mult:           9000"): "",
		"": "",
	} {
		err := checkList(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), Fault) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, not %q: %s", err, want, text)
		}
	}
}
