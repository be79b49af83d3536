//go:build !linux && !darwin

package project

import "math"

// free is more than anybody writes: here nobody says what is free.
func free(string) (int64, error) { return math.MaxInt64, nil }
