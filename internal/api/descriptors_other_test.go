//go:build !unix

package api_test

import "github.com/atoll-sandbox/atoll/internal/api"

// limitDescriptors does nothing: this system has no limit of descriptors.
func limitDescriptors(*api.Limits) error { return nil }
