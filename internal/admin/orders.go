package admin

import "net/http"

func (s *Server) serveOrder(w http.ResponseWriter, r *http.Request, kind string) {
	problem(w, http.StatusNotFound, "no orders yet", "")
}
