package wire

// Pull is a request to pull an image.
type Pull struct {
	Ref    string `json:"ref"`
	Driver string `json:"driver,omitempty"` // empty: the first driver that stores images
}
