package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Static is a [Source] in memory: for tests, simulations and processes whose
// services are known at start. The zero value holds nothing and is ready.
type Static struct {
	mu       sync.Mutex
	services map[string]Service
	fail     error
}

// NewStatic returns a source that holds the services, as [Static.Set] does.
func NewStatic(services ...Service) *Static {
	s := new(Static)
	s.Set(services...)
	return s
}

// Set replaces everything the source holds. It takes the services as they are,
// without validation.
func (s *Static) Set(services ...Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services = make(map[string]Service, len(services))
	for i := range services {
		s.services[services[i].Name] = clone(services[i])
	}
}

// Fail makes every call return err until it is called with nil.
func (s *Static) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// List implements [Source]; the answer is sorted by name.
func (s *Static) List(ctx context.Context) ([]Service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.broken(ctx); err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	all := make([]Service, 0, len(s.services))
	for name := range s.services {
		all = append(all, clone(s.services[name]))
	}
	slices.SortFunc(all, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Get implements [Source].
func (s *Static) Get(ctx context.Context, name string) (Service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.broken(ctx); err != nil {
		return Service{}, fmt.Errorf("get service %q: %w", name, err)
	}
	svc, ok := s.services[name]
	if !ok {
		return Service{}, fmt.Errorf("get service %q: %w", name, ErrUnknown)
	}
	return clone(svc), nil
}

// Put implements [Source].
func (s *Static) Put(ctx context.Context, svc Service) error {
	if err := svc.Validate(); err != nil {
		return fmt.Errorf("put service %q: %w", svc.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.broken(ctx); err != nil {
		return fmt.Errorf("put service %q: %w", svc.Name, err)
	}
	if s.services == nil {
		s.services = make(map[string]Service)
	}
	s.services[svc.Name] = touched(svc)
	return nil
}

// Delete implements [Source].
func (s *Static) Delete(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.held(ctx, name); err != nil {
		return fmt.Errorf("delete service %q: %w", name, err)
	}
	delete(s.services, name)
	return nil
}

// SetPaused implements [Source].
func (s *Static) SetPaused(ctx context.Context, name string, paused bool) error {
	return s.change(ctx, "pause", name, func(svc *Service) { svc.Paused = paused })
}

// SetRate implements [Source].
func (s *Static) SetRate(ctx context.Context, name string, rate float64) error {
	return s.change(ctx, "set rate of", name, func(svc *Service) { svc.Rate = rate })
}

func (s *Static) change(ctx context.Context, op, name string, set func(*Service)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.held(ctx, name); err != nil {
		return fmt.Errorf("%s service %q: %w", op, name, err)
	}
	svc := s.services[name]
	set(&svc)
	if err := svc.Validate(); err != nil {
		return fmt.Errorf("%s service %q: %w", op, name, err)
	}
	s.services[name] = touched(svc)
	return nil
}

func (s *Static) broken(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.fail
}

func (s *Static) held(ctx context.Context, name string) error {
	if err := s.broken(ctx); err != nil {
		return err
	}
	if _, ok := s.services[name]; !ok {
		return ErrUnknown
	}
	return nil
}

func touched(svc Service) Service {
	svc = clone(svc)
	svc.Updated = time.Now().UTC().Truncate(time.Millisecond)
	return svc
}

func clone(svc Service) Service {
	svc.Senders = slices.Clone(svc.Senders)
	return svc
}
