package app

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/myosin-jobs/myosin/pkg/job"
)

// Row is one archived run: the columns of every object. Times are UTC with
// microseconds; what a run has not is null. Columns are only ever added.
//
// What was sent and what was answered is left out: payloads and excerpts are the
// tenants' data, are up to hundreds of KiB a run, and were promised to go with
// the run. Call targets are left out for the same reason.
type Row struct {
	// EventID is the stream's id of the removal: a reader that finds it twice
	// drops one.
	EventID       string       `parquet:"event_id"`
	RunID         string       `parquet:"run_id"`
	JobID         string       `parquet:"job_id,dict"`
	Tenant        string       `parquet:"tenant,dict"`
	Kind          string       `parquet:"kind,dict"` // see [job.Kind]; "" is an occurrence
	Generation    int64        `parquet:"generation"`
	Nominal       *time.Time   `parquet:"nominal,optional,timestamp(microsecond)"`
	State         string       `parquet:"state,dict"`
	Reason        string       `parquet:"reason"`
	Attempts      []RowAttempt `parquet:"attempts,list"` // the last ones: see [job.MaxAttemptsKept]
	Failures      int64        `parquet:"failures"`
	Crashes       int64        `parquet:"crashes"`
	OriginalRunID string       `parquet:"original_run_id"` // of a redriven run, else ""
	SkippedFrom   *time.Time   `parquet:"skipped_from,optional,timestamp(microsecond)"`
	SkippedUntil  *time.Time   `parquet:"skipped_until,optional,timestamp(microsecond)"`
	SkippedCount  int64        `parquet:"skipped_count"`
	Ended         *time.Time   `parquet:"ended,optional,timestamp(microsecond)"`
}

// RowAttempt is one attempt of a [Row].
type RowAttempt struct {
	Number     int64      `parquet:"number"`
	Start      *time.Time `parquet:"start,optional,timestamp(microsecond)"`
	End        *time.Time `parquet:"end,optional,timestamp(microsecond)"`
	Error      string     `parquet:"error"`
	StatusCode int64      `parquet:"status_code"` // 0: no HTTP answer
}

func newRow(eventID string, r *job.Run) Row {
	row := Row{
		EventID: eventID, RunID: string(r.ID), JobID: r.Job.String(), Tenant: r.Tenant, Kind: string(r.Kind),
		Generation: r.Generation, Nominal: micros(r.Nominal), State: string(r.State), Reason: r.Reason,
		Failures: int64(r.Failures), Crashes: int64(r.Crashes), OriginalRunID: string(r.OriginalID),
		SkippedFrom: micros(r.Skipped.From), SkippedUntil: micros(r.Skipped.Until), SkippedCount: r.Skipped.Count,
		Ended: micros(r.Ended),
	}
	for _, a := range r.Attempts {
		row.Attempts = append(row.Attempts, RowAttempt{
			Number: int64(a.Number), Start: micros(a.Start), End: micros(a.End), Error: a.Error, StatusCode: int64(a.StatusCode),
		})
	}
	return row
}

// micros cuts a time to what a column holds; nil: none.
func micros(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

// dayOf is the UTC day an object of the run lies under: of the nominal time, by
// which runs are looked for, and which the run's id alone tells.
func dayOf(r *job.Run) (string, error) {
	if r.Nominal.IsZero() {
		return "", errors.New("run has no nominal time")
	}
	return r.Nominal.UTC().Format(time.DateOnly), nil
}

// newCodec returns the compression of columns. It keeps its encoders, which are
// dear to make; it may be used concurrently.
func newCodec() *zstd.Codec { return &zstd.Codec{Level: zstd.DefaultLevel, Concurrency: 1} }

// writeRows writes an object. Equal rows give equal bytes.
func writeRows(w io.Writer, rows []Row, codec *zstd.Codec) error {
	pw := parquet.NewGenericWriter[Row](w, parquet.Compression(codec))
	if _, err := pw.Write(rows); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	if err := pw.Close(); err != nil {
		return fmt.Errorf("close rows: %w", err)
	}
	return nil
}
