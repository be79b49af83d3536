package syntax

// Print writes a node as bash writes the body of a function: the result of
// `declare -f` for a *FuncDecl. It parses back to an equal tree.
func Print(n Node) string { return "" }
