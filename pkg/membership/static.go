package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// MaxStatic bounds the count of [NewStatic].
const MaxStatic = 1000

// Static is a membership that never changes: count processes named "0" to
// count−1. It suits one process alone, and processes with stable numbers; a
// number whose process is down keeps its share of the work undone.
type Static struct {
	Notifier
	view View
}

// NewStatic returns the membership as process index (from 0) of count sees it.
func NewStatic(index, count int) (*Static, error) {
	var errs []error
	if count < 1 || count > MaxStatic {
		errs = append(errs, fmt.Errorf("member count: %d; want 1 to %d", count, MaxStatic))
	}
	if index < 0 || index >= max(count, 1) {
		errs = append(errs, fmt.Errorf("member index: %d; want 0 to count-1, which is %d", index, count-1))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	names := make([]string, count)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	slices.Sort(names)
	return &Static{view: View{Self: strconv.Itoa(index), Members: names}}, nil
}

// View implements [Provider].
func (s *Static) View() View { return s.view }

// Run implements [Provider].
func (s *Static) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
