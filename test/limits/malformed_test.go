package limits

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
)

func TestRequestsThatNoHandlerSeesAreErrorsLikeAllOthers(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	s := collabd.Start(t)
	for request, status := range map[string]int{
		"GET /api/v1/tasks/%zz HTTP/1.1\r\nHost: x\r\n\r\n":                                              http.StatusBadRequest,
		"OPTIONS * HTTP/1.1\r\nHost: localhost:8080\r\n\r\n":                                             http.StatusNotFound,
		"GET /api/v1/tasks HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("x", 68<<10+1) + "\r\n\r\n": http.StatusRequestHeaderFieldsTooLarge,
	} {
		t.Run(request[:30], func(t *testing.T) {
			conn := dial(t, s)
			must.Do(fmt.Fprint(conn, request)).Or(t)
			response := must.Do(http.ReadResponse(bufio.NewReader(conn), nil)).Or(t)
			defer response.Body.Close()
			var body struct {
				StatusCode     int
				Message, Error string
			}
			must.NoError(t, json.NewDecoder(response.Body).Decode(&body))
			if response.StatusCode != status || body.StatusCode != status || body.Message == "" || body.Error != http.StatusText(status) || response.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s, %v, %+v", response.Status, response.Header, body)
			}
		})
	}
}
