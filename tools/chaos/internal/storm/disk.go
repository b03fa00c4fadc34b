package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/plan"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/procs"
)

const (
	engine   = "engine" // the place of an engine of our own
	diskRoom = 4 << 10  // bytes of a file that a full disk still takes
	// flushMs is how often the embedded engine writes snapshots: they are of
	// everything it holds.
	flushMs = 1000
	// flushWait is how soon after the disk has room again a snapshot must be there.
	flushWait = 30 * time.Second
	// onItsWay is how long one that was written before may take to be put in place.
	onItsWay = 3 * time.Second
)

// hasDisk reports whether the run's engine writes to a disk that can be filled.
func (w *world) hasDisk() bool { return w.o.Engine == EngineKumo && procs.CanLimitFiles }

func (w *world) dataDir() string { return filepath.Join(w.dir, "data") }

// fillDisk has the engine's writes fail for a while. It must go on answering, its
// last snapshot must stay whole, and once there is room a new one must come: the
// calls are the auditor's business.
func (w *world) fillDisk(ctx context.Context, e *plan.Event) {
	path := filepath.Join(w.dataDir(), "dynamodb.json")
	release, err := w.engine.LimitFiles(diskRoom)
	if err != nil {
		w.ledger.Breach("the disk could not be filled: " + err.Error())
		return
	}
	until(ctx, time.Now().Add(onItsWay))
	before := snapshot(path)
	until(ctx, time.Now().Add(e.Length-onItsWay))
	during := snapshot(path)
	if err := release(); err != nil {
		w.ledger.Breach(err.Error())
		return
	}
	switch {
	case ctx.Err() != nil:
		return
	case during.err != nil:
		w.ledger.Breach("on a full disk the engine's snapshot broke: " + during.err.Error())
	case !during.at.Equal(before.at):
		w.ledger.Breach("the disk was not full: the engine wrote a snapshot")
	}
	for end := time.Now().Add(flushWait); ; {
		after := snapshot(path)
		if after.err == nil && after.at.After(during.at) {
			w.say.line("the disk has room again, and a snapshot is there")
			return
		}
		if time.Now().After(end) || !until(ctx, time.Now().Add(200*time.Millisecond)) {
			w.ledger.Breach(fmt.Sprintf("%s after the disk had room again no snapshot had come: %v", flushWait, after.err))
			return
		}
	}
}

// written is a snapshot of the engine: when it came, and what is wrong with it.
type written struct {
	at  time.Time
	err error
}

func snapshot(path string) written {
	info, err := os.Stat(path)
	if err != nil {
		return written{err: err}
	}
	text, err := os.ReadFile(path)
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%s: %d bytes that are no JSON", path, len(text))
	}
	return written{info.ModTime(), err}
}
