package provider

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// SetModels has the server list the models for requests with the key, and refuse others. By default there is no
// list.
func (s *Server) SetModels(key string, models ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.models = key, models
}

// list answers the lists of both protocols, which are at the same address.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	key, models := s.key, s.models
	s.mu.Unlock()
	p, given := ChatCompletions, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Header.Get("Anthropic-Version") != "" {
		p, given = Messages, r.Header.Get("X-Api-Key")
	}
	type view struct {
		ID string `json:"id"`
	}
	switch id := r.PathValue("id"); {
	case key == "":
		refuse(w, p, http.StatusNotFound, "not_found_error", "There is no such page.", nil)
	case given != key:
		refuse(w, p, http.StatusUnauthorized, "authentication_error", "Incorrect key provided: "+given, nil)
	case id == "":
		all := struct {
			Data []view `json:"data"`
		}{}
		for _, m := range models {
			all.Data = append(all.Data, view{m})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(all)
	case !slices.Contains(models, id):
		refuse(w, p, http.StatusNotFound, "not_found_error", "There is no model "+id, nil)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(view{id})
	}
}
