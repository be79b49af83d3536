package wire

// NetworkChange is a change of a sandbox's network rules. An entry that is added to one list is
// removed from the other.
type NetworkChange struct {
	Allow  []string `json:"allow,omitempty"`  // entries to allow
	Deny   []string `json:"deny,omitempty"`   // entries to deny
	Remove []string `json:"remove,omitempty"` // entries to remove from both lists

	// Seconds is how long the added entries of Allow are allowed; 0: without an end. An entry that is allowed
	// longer already stays so.
	Seconds int64 `json:"seconds,omitempty" minimum:"0" maximum:"31536000"`
}
