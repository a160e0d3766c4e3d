package integration

import (
	"bytes"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/race"
)

func TestTheDoctorBesideAServerReportsProblemsWithoutSecrets(t *testing.T) {
	race.Skip(t, "it is about a command of the program")
	s := collabd.Start(t)
	if output := ran(t, s, true, "doctor"); !strings.HasSuffix(output, "\nNothing is wrong.\n") {
		t.Errorf("it says:\n%s", output)
	}
	const secret = "S3cretOfTheCollector"
	for _, headers := range []string{secret, "authorization=%zz" + secret} {
		c := s.Command(t, []string{"doctor"}, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS="+headers)
		output, err := c.CombinedOutput()
		if err == nil || !bytes.Contains(output, []byte("\nwrong traces ")) || bytes.Contains(output, []byte(secret)) {
			t.Errorf("with the headers %q it ends with %v and says:\n%s", headers, err, output)
		}
	}
}
