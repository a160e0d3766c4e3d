package httpapi

import (
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strconv"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/spool"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/upload"
)

const (
	// batchPath is the path of batches of operations on files.
	batchPath = prefix + "/sync/batch"

	// maxBatch is the longest body of a batch, in bytes.
	maxBatch = 16 << 20

	// maxOperation is the limit of a line of a batch, and of the lines that are executed together, in bytes.
	maxOperation = 4 << 20

	// operationsPerToken is the number of operations of a batch that count as one request in the rate limit.
	operationsPerToken = 100
)

var linesType = []string{"application/x-ndjson"}

// batchFiles executes the operations in the lines of the body, in their order, and replies with a line for
// each. If the store or the database fails, the error is the response to the operations that were not
// executed, or to the whole request if none was.
func (a *api) batchFiles(c *call) error {
	if c.spooled == nil { // else it was spooled for its idempotency key
		if _, err := c.spoolBatch(); err != nil {
			return err
		}
	}
	if c.operations == 0 {
		return fault.New(fault.Invalid, "The body must have at least one operation")
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	a.chargeOperations(c, c.operations)
	size := min(c.spooled.Size+1, maxOperation)
	if err := c.Hold(size); err != nil { // contents are decoded in place
		return err
	}
	lines := &body.LineReader{From: c.spooled, Buffer: make([]byte, size)}
	var response []byte
	var failed error
	for index := 0; ; {
		found, err := lines.Next(objects.MaxTogether)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		operations := make([]objects.Operation, len(found))
		for i, line := range found {
			operations[i] = readOperation(line)
		}
		var outcomes []objects.Outcome
		if failed == nil {
			if outcomes, failed = a.Objects.Batch(c.r.Context(), actor, operations, c.yieldPermit); failed != nil {
				if index+len(outcomes) == 0 {
					return failed
				}
				a.classify(c, failed)
			}
		}
		held := len(response)
		for i, op := range operations {
			outcome := objects.Outcome{Err: failed}
			if i < len(outcomes) {
				outcome = outcomes[i]
			}
			response = append(appendOutcome(response, index, op, outcome), '\n')
			index++
		}
		if err := c.Hold(int64(len(response) - held)); err != nil && failed == nil {
			failed = err
		}
	}
	c.sendAs(linesType, http.StatusOK, response)
	return nil
}

// chargeOperations charges the caller and the limit of the organisation's plan for n operations on files, minus
// those that the charge of the request includes.
func (a *api) chargeOperations(c *call, n int) {
	tokens := max(0, n-1) / operationsPerToken
	a.callers.Charge(string(c.caller.User), tokens)
	for range tokens {
		if !a.PlanLimiter.Take(c.r.Context(), c.caller.Org).Allowed {
			return
		}
	}
}

// spoolBatch reads the body of a batch into the spool, counts the operations, and returns a SHA-256 of the body.
func (c *call) spoolBatch() ([]byte, error) {
	if err := body.CheckLines(c.r.Header, c.r.ContentLength, maxBatch); err != nil {
		return nil, err
	}
	c.spooled = spool.New(c)
	sum, count := sha256.New(), &body.LineCounter{}
	copied := io.TeeReader(c.deadlines.Body(c.r, true), io.MultiWriter(sum, count))
	if err := c.spooled.Fill(copied, maxBatch, func() error { return body.TooLarge(maxBatch) }); err != nil {
		return nil, err
	}
	if count.Lines > objects.MaxOperations {
		return nil, fault.New(fault.TooLarge, "The body must have at most %d operations", objects.MaxOperations)
	}
	c.operations = count.Lines
	return sum.Sum(nil), nil
}

// readOperation reads a line of a batch. A nil line is too long.
func readOperation(line []byte) objects.Operation {
	if line == nil {
		return objects.Operation{Err: fault.New(fault.TooLarge, "An operation must be at most %d bytes", maxOperation)}
	}
	f, err := body.ParseLine(line)
	if err != nil {
		return objects.Operation{Err: err}
	}
	op := objects.Operation{
		Action:   body.Required(f, "op", body.OneOf(objects.Actions...)),
		Expected: expectedIn(f, nil),
	}
	switch op.Action {
	case objects.PutFile:
		op.Object, op.Draft = readTarget(f, "id")
		op.MimeType = body.OrZero(f, "mimeType", body.Text)
		op.Checksum = body.OrZero(f, "checksum", asChecksum)
		op.Content = body.Content(f)
	case objects.MoveFile:
		op.Draft.Path = body.Required(f, "path", body.Text)
		fallthrough
	case objects.DeleteFile:
		op.Object = body.Required(f, "id", body.ID[id.Object]("file"))
	}
	op.Err = f.Err()
	return op
}

// appendOutcome appends the response to an operation.
func appendOutcome(dst []byte, index int, op objects.Operation, o objects.Outcome) []byte {
	status := http.StatusOK
	if op.Action == objects.PutFile && op.Object == "" {
		status = http.StatusCreated
	}
	file := o.Object
	var problem errorView
	if o.Err != nil {
		problem = viewError(o.Err)
		status = problem.Status
	}
	if problem.Stored != nil {
		file = *problem.Stored
	}
	if op.Action == objects.DeleteFile && o.Err == nil {
		file = object.Object{}
	}
	return appendOutcomeEnd(appendOutcomeStart(dst, index, status), file, problem)
}

// appendOutcomeStart appends the beginning of the response for one of several files: its number in the request and its
// status.
func appendOutcomeStart(dst []byte, index, status int) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(index), 10)
	return strconv.AppendInt(append(dst, `,"status":`...), int64(status), 10)
}

// appendOutcomeEnd appends the end of the response for one of several files: its record and its error, without the
// one that is zero.
func appendOutcomeEnd(dst []byte, file object.Object, problem errorView) []byte {
	if file.ID != "" {
		dst = append(dst, `,"file":`...)
		dst = appendObject(dst, file)
	}
	if problem.Status != 0 {
		dst = encode.AppendError(append(dst, `,"error":`...), problem.Status, problem.Message)
		dst = dst[:len(dst)-1] // without the line break
	}
	return append(dst, '}')
}

type (
	syncLimitsView struct {
		MaxFileBytes           int64              `json:"maxFileBytes"`
		MaxBatchOperations     int                `json:"maxBatchOperations"`
		MaxBatchBytes          int                `json:"maxBatchBytes"`
		MaxBatchOperationBytes int                `json:"maxBatchOperationBytes"`
		MaxBatchFileBytes      int                `json:"maxBatchFileBytes"`
		MaxPathBytes           int                `json:"maxPathBytes"`
		MaxSegmentBytes        int                `json:"maxSegmentBytes"`
		ForbiddenCharacters    string             `json:"forbiddenCharacters"`
		ForbiddenNames         []string           `json:"forbiddenNames"`
		ForbiddenEndings       []string           `json:"forbiddenEndings"`
		Rates                  syncRatesView      `json:"rates"`
		ReadOnly               bool               `json:"readOnly"`
		Storage                usedStorageView    `json:"storage"`
		Versions               *retentionView     `json:"versions"`
		Reads                  readSizesView      `json:"batchReads"`
		Resumable              resumableSizesView `json:"resumableUploads"`
	}
	readSizesView struct {
		Files     int   `json:"maxFiles"`
		Bytes     int64 `json:"maxBytes"`
		FileBytes int64 `json:"maxFileBytes"`
	}
	retentionView struct {
		Days  int   `json:"days"`
		Count int64 `json:"count"`
	}
	resumableSizesView struct {
		PartBytes   int64 `json:"partBytes"`
		AppendBytes int64 `json:"minAppendBytes"`
		MaxOpen     int   `json:"maxOpen"`
	}
	syncRatesView struct {
		Requests             *rateView `json:"requests"`
		OperationsPerRequest int       `json:"operationsPerRequest"`
	}
	rateView struct {
		Count   int `json:"count"`
		Seconds int `json:"seconds"`
	}
	usedStorageView struct {
		Used     int64  `json:"used"`
		Reserved int64  `json:"reserved"`
		Limit    *int64 `json:"limit"`
	}
)

// viewRetention returns nil for a retention that keeps nothing.
func viewRetention(r object.Retention) *retentionView {
	if !r.Enabled() {
		return nil
	}
	return &retentionView{r.Days, r.Versions}
}

// syncLimits replies with the limits for the transfer of files.
func (a *api) syncLimits(c *call, actor org.Actor) error {
	stored, err := a.Metering.Storage(c.r.Context(), actor)
	if err != nil {
		return err
	}
	v := syncLimitsView{
		MaxFileBytes: a.Objects.MaxSize, MaxBatchOperations: objects.MaxOperations, MaxBatchBytes: maxBatch, MaxBatchOperationBytes: maxOperation - 1,
		MaxBatchFileBytes: objects.MaxBatchFile, MaxPathBytes: object.MaxPath, MaxSegmentBytes: object.MaxSegment,
		ForbiddenCharacters: object.ForbiddenCharacters, ForbiddenNames: object.ForbiddenNames, ForbiddenEndings: object.ForbiddenEndings,
		Rates:     syncRatesView{OperationsPerRequest: operationsPerToken},
		ReadOnly:  actor.CheckWrite() != nil,
		Versions:  viewRetention(a.Objects.Retention.Of(stored.Plan)),
		Storage:   usedStorageView{stored.Used.Present(), stored.Uploads, limitOrNull(stored.Limit)},
		Reads:     readSizesView{objects.MaxReads, objects.MaxReadBytes, objects.MaxReadFile},
		Resumable: resumableSizesView{a.Objects.PartSize, a.Objects.MinAppend, upload.MaxOpen},
	}
	if r := a.Rates.Caller; r.Count > 0 {
		v.Rates.Requests = &rateView{r.Count, int(r.Per.Seconds())}
	}
	return c.reply(http.StatusOK, v)
}
