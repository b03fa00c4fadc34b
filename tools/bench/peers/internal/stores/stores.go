// Package stores starts the servers that peers keep their jobs in, on this
// machine, in a temporary directory and on a free loopback port, with the
// durability a production would have; and stops them.
//
// A [Server] may be used concurrently.
package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const (
	startWait = 30 * time.Second
	stopWait  = 20 * time.Second
	look      = 50 * time.Millisecond
)

// Server is a server that runs.
type Server struct {
	// Addr is what clients connect to: host:port of redis, a URL of PostgreSQL.
	Addr string
	// Durability says which writes survive a crash.
	Durability string
	// Version is what the server calls itself.
	Version string

	cmd  *exec.Cmd
	dir  string
	sig  syscall.Signal // the one that ends it in good order
	stop sync.Once
	end  error
}

// Redis starts a redis-server.
func Redis(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed; on Debian: apt-get install -y redis-server")
	}
	s := &Server{Durability: "appendonly yes, appendfsync everysec: a crash of the machine loses up to a second", sig: syscall.SIGTERM}
	if s.dir, err = os.MkdirTemp("", "peers-redis-"); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	s.Version = version(ctx, path)
	err = s.start(exec.CommandContext(context.WithoutCancel(ctx), path, "--bind", "127.0.0.1", "--port", port, "--dir", s.dir, //nolint:gosec // found on the path.
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no", "--loglevel", "warning"), nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redis: %w", err), s.Close())
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	if err := until(ctx, func() error { return client.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(fmt.Errorf("redis does not answer: %w", err), s.Close())
	}
	return s, nil
}

// Postgres makes a database cluster and starts it, as another user if this is
// root, since PostgreSQL refuses to be root.
func Postgres(ctx context.Context) (*Server, error) {
	initdb, err1 := program("initdb")
	postgres, err2 := program("postgres")
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("PostgreSQL is not installed (%w); on Debian: apt-get install -y postgresql", err)
	}
	s := &Server{Durability: "fsync on, synchronous_commit on: no commit is lost", sig: syscall.SIGINT}
	var err error
	if s.dir, err = os.MkdirTemp("", "peers-postgres-"); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s.Version = version(ctx, postgres)
	data := filepath.Join(s.dir, "data")
	as, err := unprivileged(s.dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), s.Close())
	}
	cluster := exec.CommandContext(ctx, initdb, "-D", data, "-U", "peers", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync") //nolint:gosec // as above.
	cluster.Dir, cluster.SysProcAttr = s.dir, as
	if out, err := cluster.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), s.Close())
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Addr = "postgres://peers@127.0.0.1:" + port + "/postgres?sslmode=disable"
	err = s.start(exec.CommandContext(context.WithoutCancel(ctx), postgres, "-D", data, "-p", port, "-k", s.dir, //nolint:gosec // as above.
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "log_min_messages=panic"), as)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), s.Close())
	}
	if err := until(ctx, func() error {
		conn, err := pgx.Connect(ctx, s.Addr)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres does not answer: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) start(cmd *exec.Cmd, as *syscall.SysProcAttr) error {
	if as == nil {
		as = &syscall.SysProcAttr{}
	}
	// A Ctrl-C is for the parent, which ends its servers itself.
	as.Setpgid = true
	cmd.Dir, cmd.SysProcAttr, cmd.Stderr = s.dir, as, os.Stderr
	s.cmd = cmd
	return cmd.Start()
}

// CPU is the processor time the server has used, all its processes together.
func (s *Server) CPU() time.Duration { return treeCPU(s.cmd.Process.Pid) }

// Close ends the server and removes its data.
func (s *Server) Close() error {
	s.stop.Do(func() {
		if s.cmd != nil && s.cmd.Process != nil {
			_ = s.cmd.Process.Signal(s.sig) // it may be gone
			late := time.AfterFunc(stopWait, func() { _ = s.cmd.Process.Kill() })
			defer late.Stop()
			if err := s.cmd.Wait(); err != nil {
				s.end = fmt.Errorf("%s: %w", filepath.Base(s.cmd.Path), err)
			}
		}
		s.end = errors.Join(s.end, os.RemoveAll(s.dir))
	})
	return s.end
}

// program finds a program of PostgreSQL, which Debian keeps off the path.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return "", err
	}
	return found[len(found)-1], nil
}

func version(ctx context.Context, path string) string {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "unknown"
	}
	short, _, _ := strings.Cut(string(out), " sha=") // redis goes on with its build
	return strings.TrimSpace(short)
}

// freePort is one that is free now.
func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	addr, _ := l.Addr().(*net.TCPAddr)
	return strconv.Itoa(addr.Port), l.Close()
}

// until asks until the server answers.
func until(ctx context.Context, ask func() error) error {
	end := time.Now().Add(startWait)
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(look)
	}
}
