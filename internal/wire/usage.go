package wire

import "time"

// UsageSample is the resource usage of a sandbox at one moment.
type UsageSample struct {
	Time      time.Time `json:"time"`
	CPU       float64   `json:"cpu"`    // processors in use on average since the sample before
	Memory    int64     `json:"memory"` // bytes
	Disk      int64     `json:"disk"`   // bytes of its own files
	Processes int       `json:"processes"`
	Sent      int64     `json:"sent"`     // bytes over the network since the sample before
	Received  int64     `json:"received"` // bytes over the network since the sample before
}

// UsageSeries is the resource usage of a sandbox over time.
type UsageSeries struct {
	Interval int           `json:"interval"` // seconds between two samples, at least
	Samples  []UsageSample `json:"samples"`  // oldest first; there are none of times at which the sandbox did not run
}
