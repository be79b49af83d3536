package atoll

// Quota limits the resources that an owner can use at once. 0 means the fleet's default,
// negative means no limit.
type Quota struct {
	Sandboxes  int     `json:"sandboxes,omitempty"`
	CPU        float64 `json:"cpu,omitempty"`    // cores: sum of the limits of all running sandboxes
	Memory     int64   `json:"memory,omitempty"` // bytes: sum of the limits of all running sandboxes
	Disk       int64   `json:"disk,omitempty"`   // bytes: limits of all sandboxes plus the content of workspaces
	Workspaces int     `json:"workspaces,omitempty"`
	Processes  int     `json:"processes,omitempty"` // running commands
	Tokens     int64   `json:"tokens,omitempty"`    // model tokens, in and out, per month (UTC)
	Cost       float64 `json:"cost,omitempty"`      // US dollars for models per month (UTC)
}

// Allowance is the quota of an owner and its current usage.
type Allowance struct {
	Owner Owner `json:"owner"`
	Limit Quota `json:"limit"` // negative: no limit
	Used  Quota `json:"used"`
}
