package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args, wrong string
		status      int
	}{
		{"", "", 0},
		{"-slice 500ms -pairs 3 -json x", "", 0},
		{"-slice 5", `invalid value "5" for flag -slice: a time has a unit, as in 500ms, 5s or 10m`, 2},
		{"-pairs many", `invalid value "many" for flag -pairs: that is not what it takes`, 2},
		{"-pears 3", "there is no option -pears; see -help", 2},
		{"-json=", "-json is given, and nothing after it: is a variable of your script empty?", 2},
		{"result.json", `what is "result.json"? Options begin with -; see -help`, 2},
	} {
		f := flag.NewFlagSet("x", flag.ContinueOnError)
		var slice time.Duration
		SpanVar(f, &slice, "slice", time.Second, "")
		f.Int("pairs", 15, "")
		f.String("json", "", "")
		err := Parse(f, strings.Fields(c.args), func(io.Writer) { t.Errorf("%q: the help was printed", c.args) })
		if text := fmt.Sprint(err); c.wrong != "" && text != c.wrong || Status(err) != c.status {
			t.Errorf("%q: %v, status %d; want %s, %d", c.args, err, Status(err), c.wrong, c.status)
		}
	}
}

func TestStatus(t *testing.T) {
	for want, err := range map[int]error{
		0:   flag.ErrHelp,
		1:   errors.New("the machine is too slow"),
		2:   fmt.Errorf("reading: %w", Wrong("no workload is called %q", "x")),
		130: errors.Join(ErrInterrupted, errors.New("and more")),
	} {
		if got := Status(err); got != want {
			t.Errorf("%v: status %d, want %d", err, got, want)
		}
	}
}

// A result that could not be written used to be told of after all was measured.
func TestOutput(t *testing.T) {
	folder := t.TempDir()
	if _, err := Open("-json", filepath.Join(folder, "nope", "x.json")); Status(err) != 2 || !strings.HasPrefix(err.Error(), "writing -json: ") {
		t.Errorf("a folder that is not there: %v", err)
	}
	if o, err := Open("-json", ""); o != nil || err != nil {
		t.Errorf("no name: %v, %v", o, err)
	} else {
		o.Close()
	}
	older, fresh := filepath.Join(folder, "older"), filepath.Join(folder, "fresh")
	if err := os.WriteFile(older, []byte("an older result"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(name string) *Output {
		t.Helper()
		o, err := Open("-o", name)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	// Given up before there was a result.
	open(fresh).Close()
	open(older).Close()
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("an empty file is left behind: %v", err)
	}
	if text, _ := os.ReadFile(older); string(text) != "an older result" {
		t.Errorf("the older result is now %q", text)
	}
	o := open(older)
	err := o.Write(func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	o.Close()
	if text, _ := os.ReadFile(older); err != nil || string(text) != "new" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// What a command has started ends with it, or the command would not end for as long
// as that holds its output.
func TestWhole(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := Whole(exec.CommandContext(ctx, "sh", "-c", "sleep 100 & echo; wait"))
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := r.Read(make([]byte, 1)); err != io.EOF { // the sleep has it, too
		t.Errorf("reading what it says: %v", err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it has ended well")
	}
}

// The compiler's folders used to stay in /tmp.
func TestBuildKeepsToItsFolder(t *testing.T) {
	source, folder := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "hello/main.go": "package main\n\nfunc main() { println(\"hello\") }\n"} {
		name = filepath.Join(source, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(source)
	program, err := Build(t.Context(), folder, "./hello")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("it says %q, %v", out, err)
	}
	if list, _ := os.ReadDir(folder); len(list) != 1 {
		t.Errorf("the folder has %v", list)
	}
	if _, err := Build(t.Context(), folder, "./nothing"); err == nil || !strings.HasPrefix(err.Error(), "building ./nothing, ") {
		t.Errorf("nothing to build: %v", err)
	}
}
