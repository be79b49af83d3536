package atoll

// SnapshotDifference lists the files of a sandbox that differ between two times.
type SnapshotDifference struct {
	From  string           `json:"from"`         // id or name of the earlier snapshot
	To    string           `json:"to,omitempty"` // id or name of the later one; empty: the files as they are now
	Files []FileDifference `json:"files"`        // by path; the first ones of many
	Total int              `json:"total"`        // files that differ
}

// FileDifference is a file that differs.
type FileDifference struct {
	Path   string       `json:"path"` // absolute
	Status string       `json:"status" enum:"added,modified,deleted"`
	Old    *FileVersion `json:"old,omitempty"` // nil: it did not exist, or is a file of the image
	New    *FileVersion `json:"new,omitempty"` // nil: it does not exist any more
}

// What may have happened to a file that differs. A file of the image that was changed for the first time is added.
const (
	FileAdded    = "added"
	FileModified = "modified"
	FileDeleted  = "deleted"
)

// FileVersion describes a file at one time.
type FileVersion struct {
	Kind string `json:"kind"` // file, directory, link, pipe or device
	Size int64  `json:"size"` // bytes of its content
	Mode string `json:"mode"` // octal: 0644
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}
