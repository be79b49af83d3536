// Package timer checks the timer that the kernel of a VM has measured.
package timer

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Fault begins the message of a VM that ends before its hello since its timer is of no use. The host
// then boots another one.
const Fault = "the timer of this VM"

// The kernel measures the frequency of the local APIC's timer at each boot, for 100 ms by the time stamp counter. An
// emulated processor on a busy host may not run for as long: then the kernel switches the timer off ("APIC frequency too slow"), and
// the first program that sleeps never wakes; or it sets the timer too slow or too fast, for good, and for all clones
// of a saved VM. The frequency that QEMU emulates is known.
const (
	timerFrequency = 1e9 / 16 // Hz
	timerShift     = 32       // of the factor that the kernel multiplies nanoseconds by

	// Limits of the measured frequency. One that is too high makes all timers late by its factor; one that is
	// too low only costs additional interrupts.
	minTimerRatio, maxTimerRatio = 0.25, 1.5
)

// Check returns an error that begins with Fault if the kernel of an emulated VM has measured its timer wrongly. It needs
// no timer itself.
func Check() error {
	if runtime.GOARCH != "amd64" {
		return nil // other processors know the frequency
	}
	b, err := os.ReadFile("/proc/timer_list")
	if err != nil {
		return nil //nolint:nilerr // a kernel without it
	}
	return checkList(string(b))
}

// checkList checks the timer of the first processor in the text of /proc/timer_list.
func checkList(text string) error {
	_, device, found := strings.Cut(text, "Per CPU device: 0\n")
	if !found {
		return nil // an unknown format
	}
	device, _, _ = strings.Cut(device, "Tick Device:")
	name := ""
	for line := range strings.Lines(device) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Clock Event Device":
			name = value
			if value == "<NULL>" {
				return fmt.Errorf("%s is off: the host was too busy while the kernel measured it", Fault)
			}
		case "mult":
			mult, err := strconv.ParseFloat(value, 64)
			if err != nil || name != "lapic" {
				return nil //nolint:nilerr // another kind of timer, or an unknown format
			}
			ratio := mult / (timerFrequency / 1e9 * (1 << timerShift))
			if ratio < minTimerRatio || ratio > maxTimerRatio {
				return fmt.Errorf("%s was measured as %.3g times as fast as it is: the host was too busy", Fault, ratio)
			}
			return nil
		}
	}
	return nil
}
