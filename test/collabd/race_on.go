//go:build race

package collabd

// race says that the tests run with the race detector, and so does the server.
const race = true
