package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// shots are the pictures of the page in docs/.
var shots = []struct {
	name          string
	width, height int64
	pixels        float64
	dark          bool
}{
	{"status-desktop-light.png", 1440, 1040, 1, false},
	{"status-desktop-dark.png", 1440, 1040, 1, true},
	{"status-phone-light.png", 390, 1205, 1.5, false},
	{"status-phone-dark.png", 390, 1205, 1.5, true},
}

// Takes the pictures, into the folder that LLMLB_SHOTS names, after the time that
// LLMLB_SHOTS_AFTER says: the plots are full after 15 minutes.
//
//	CHROMIUM=chromium LLMLB_SHOTS=../docs LLMLB_SHOTS_AFTER=15m go test -timeout 30m -run TestTakePictures
func TestTakePictures(t *testing.T) {
	folder := os.Getenv("LLMLB_SHOTS")
	if folder == "" {
		t.Skip("writes the pictures of docs/status.md; set LLMLB_SHOTS to a folder to have it do so")
	}
	after, err := time.ParseDuration(os.Getenv("LLMLB_SHOTS_AFTER"))
	if err != nil {
		after = 20 * time.Second
	}
	b := openBrowser(t)
	r := startPage(t)
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	for ctx.Err() == nil { // waves, so that there is something to see in the plots
		wave, end := context.WithTimeout(ctx, 40*time.Second)
		r.clients(wave, 24)
		<-wave.Done()
		end()
		select {
		case <-ctx.Done():
		case <-time.After(70 * time.Second):
		}
	}
	r.troubled()
	for _, s := range shots {
		b.screen(s.width, s.height, s.pixels, s.dark)
		b.open(r.page())
		b.until("the table and its plots", "document.querySelectorAll('.server').length === 9 && document.querySelectorAll('.canvas canvas').length > 0")
		time.Sleep(2 * time.Second)
		picture := run(b, "taking a picture", chromedp.CaptureScreenshot())
		if err := os.WriteFile(filepath.Join(folder, s.name), picture, 0o644); err != nil {
			t.Fatal(err)
		}
		if len(picture) > 200_000 {
			t.Errorf("%s has %d bytes, want at most 200,000", s.name, len(picture))
		}
	}
	b.calm(r.address)
}
