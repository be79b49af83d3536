package virtual

import "github.com/atoll-sandbox/atoll"

func newID() string { return atoll.NewID() }

func goodID(id string) bool { return atoll.CheckID(id) == nil }
