package server

import "github.com/danielgtaylor/huma/v2"

func (s *Server) snapshots(huma.API)  {}
func (s *Server) workspaces(huma.API) {}
func (s *Server) tokens(huma.API)     {}
func (s *Server) pools(huma.API)      {}
func (s *Server) events(huma.API)     {}
func (s *Server) audit(huma.API)      {}
func (s *Server) quotas(huma.API)     {}
