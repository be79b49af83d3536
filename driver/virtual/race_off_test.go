//go:build !race

package virtual_test

const raceEnabled = false
