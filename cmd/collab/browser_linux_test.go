package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"collab/test/must"
)

// browser returns an app whose browser calls visit with the address that it is started with. The test
// ends after that.
func browser(t *testing.T, visit func(address string)) *app {
	t.Helper()
	directory := t.TempDir()
	program, pipe := directory+"/browser", directory+"/address"
	must.NoError(t, errors.Join(os.WriteFile(program, []byte("#!/bin/sh\necho \"$1\" > "+pipe+"\n"), 0o700), syscall.Mkfifo(pipe, 0o600)))
	visited := make(chan struct{})
	go func() {
		defer close(visited)
		text, err := os.ReadFile(pipe) // waits for the program
		must.Succeed(t, err)
		visit(strings.TrimSpace(string(text)))
	}()
	t.Cleanup(func() { <-visited })
	a, _, _ := terminal(t, 80, map[string]string{"BROWSER": program})
	return a
}

func get(t *testing.T, address string) (status int, text string) {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	body := must.Do(io.ReadAll(response.Body)).Or(t)
	return response.StatusCode, string(body)
}

func TestTheStateOfASignInIsNotAmongTheArgumentsOfTheBrowser(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, "http://localhost:"+q.Get("port")+"/callback?token=secret&state="+q.Get("state"), http.StatusFound)
	}))
	t.Cleanup(server.Close)
	a := browser(t, func(given string) {
		if strings.Contains(given, "state") || strings.HasPrefix(given, server.URL) {
			t.Errorf("the browser is started with %s", given)
		}
		if status, text := get(t, given); status != http.StatusOK || !strings.Contains(text, "signed in") {
			t.Errorf("it shows %d %s", status, text)
		}
	})
	must.Is(t, "secret", must.Do(a.tokenFromBrowser(t.Context(), server.URL, false)).Or(t))
}

func TestAPageThatIsOpenedTwiceEndsTheCommand(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	a := browser(t, func(given string) {
		for i, want := range []int{http.StatusNotFound, http.StatusGone} {
			if status, _ := get(t, given); status != want {
				t.Errorf("answer %d is %d, want %d", i, status, want)
			}
		}
	})
	err := a.browse(t.Context(), page.URL, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	must.FailIs(t, err, errOpenedTwice)
}

func TestACommandThatIsDoneWaitsForTheBrowser(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	a := browser(t, func(given string) { get(t, given) })
	must.NoError(t, a.browse(t.Context(), page.URL, nil))
	if err := a.browse(t.Context(), "file:///etc/passwd", nil); err == nil {
		t.Error("a file is opened")
	}
}

func TestAnotherUserCannotOpenThePage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	listener := must.Do(net.Listen("tcp4", "127.0.0.1:0")).Or(t)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, try := range []struct {
		uid     uint32
		closed  bool
		allowed bool
	}{{uid: 0, allowed: true}, {uid: 65534}, {uid: 65534, closed: true}} {
		then := "cat <&3"
		if try.closed {
			then = "echo GET >&3" // and ends
		}
		other := exec.Command("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port+" && "+then)
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: try.uid, Gid: try.uid}}
		must.NoError(t, other.Start())
		_ = listener.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
		c := must.Do(listener.Accept()).Or(t)
		if try.closed {
			_ = other.Wait()
		}
		if got := isOwnConnection(c.RemoteAddr().String(), c.LocalAddr().String()); got != try.allowed {
			t.Errorf("%+v: %v", try, got)
		}
		c.Close()
		_ = other.Wait()
	}
}

func TestAConnectionThatIsResetIsNobodys(t *testing.T) {
	listener := must.Do(net.Listen("tcp4", "127.0.0.1:0")).Or(t)
	defer listener.Close()
	peer := must.Do(net.Dial("tcp4", listener.Addr().String())).Or(t)
	c := must.Do(listener.Accept()).Or(t)
	defer c.Close()
	from, to := c.RemoteAddr().String(), c.LocalAddr().String()
	if !isOwnConnection(from, to) {
		t.Error("an open connection is another user's")
	}
	must.NoError(t, errors.Join(peer.(*net.TCPConn).SetLinger(0), peer.Close()))
	if isOwnConnection(from, to) {
		t.Error("a connection that was reset is this user's")
	}
}
