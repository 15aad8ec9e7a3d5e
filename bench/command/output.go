package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Output is a file that a result goes to.
type Output struct {
	option  string
	file    *os.File
	created bool // there was none before
	written bool
}

// Open opens the file that an option names, before anything is measured: nobody
// wants to hear of a misspelt folder after half an hour. What is in it stays until
// there is a result. Without a name there is none, which may be closed all the same.
func Open(option, name string) (*Output, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) //nolint:gosec // a result, for whom the umask lets
	created := err == nil
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(name, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, Wrong("writing %s: %w", option, err)
	}
	return &Output{option: option, file: f, created: created}, nil
}

// Write puts the result into the file, in place of what was there, and closes it.
func (o *Output) Write(write func(io.Writer) error) error {
	o.written = true
	err := o.file.Truncate(0)
	if info, serr := o.file.Stat(); serr == nil && !info.Mode().IsRegular() {
		err = nil // what is no file has no length
	}
	if err == nil {
		err = write(o.file)
	}
	if err = errors.Join(err, o.file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", o.option, err)
	}
	return nil
}

// Close leaves no empty file behind where nothing was written.
func (o *Output) Close() {
	if o == nil || o.written {
		return
	}
	_ = o.file.Close() // nothing was written
	if o.created {
		_ = os.Remove(o.file.Name()) // an empty file harms nobody
	}
}
