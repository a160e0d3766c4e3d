package bucket

import (
	"errors"
	"net/http"

	"github.com/minio/minio-go/v7"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"collab/domain/fault"
)

// Status returns the HTTP status that an object store refused with, as far as
// an error tells; zero when it did not answer, or is none of the kind.
func Status(err error) int {
	var google *googleapi.Error
	var s3 minio.ErrorResponse
	switch {
	case errors.As(err, &google):
		return google.Code
	case errors.As(err, &s3):
		return s3.StatusCode
	case fault.KindOf(err) != fault.Unavailable:
		return 0
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return http.StatusNotFound
	case gcerrors.PermissionDenied:
		return http.StatusForbidden
	}
	return 0
}
