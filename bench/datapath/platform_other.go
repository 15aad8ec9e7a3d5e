//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

func processorTime(int) (time.Duration, error) {
	return 0, errors.New("the processor time of others is read as Linux tells it, and this is none")
}

func apart() *syscall.SysProcAttr { return nil }

func pause(d time.Duration) { time.Sleep(d) }
