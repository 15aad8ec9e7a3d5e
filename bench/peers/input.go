package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

const (
	model    = "llama-3.1-8b-instruct"
	families = 16 // system prompts that many requests begin with
)

// load is what is known of one endpoint.
type load struct {
	address          string
	running, waiting int
	kv               float64 // share of KV memory in use
}

// loads returns n endpoints with uneven load: what runs differs by less than what
// AIBrix calls imbalance, which would have it ignore prefixes.
func loads(n int) []load {
	list := make([]load, n)
	for i := range list {
		list[i] = load{
			address: fmt.Sprintf("10.4.%d.%d:8000", i/250, i%250+1),
			running: i * 7 % 13, waiting: i % 3, kv: float64(i*37%90) / 100,
		}
	}
	return list
}

// even returns n endpoints that differ in nothing.
func even(n int) []load {
	list := loads(n)
	for i := range list {
		list[i].running, list[i].waiting, list[i].kv = 2, 0, 0.3
	}
	return list
}

// request is one request, as the client sends it and as its reader hands it on.
type request struct {
	id           string
	body         []byte
	system, user string // of a completion the prompt is both, one after the other
}

// source makes requests whose prompts have a given length. Two sources with equal
// seeds make the same ones, but for the number that makes cold prompts new, which
// also depends on the salt.
type source struct {
	api    string
	random *rand.Rand
	nonce  *rand.Rand
	turn   int // of the family that the next warm request belongs to

	shared   [families]piece // beginnings of warm prompts
	cold     piece           // what follows the number in cold ones
	tail     piece           // the end of cold prompts
	warmTail piece           // what follows the number in the end of warm ones
}

// piece is a text and how it stands in JSON, without the quotes around it.
type piece struct{ text, json string }

const nonceBytes = 16

func newSource(api string, bytes int, seed, salt uint64) *source {
	s := &source{api: api, random: rand.New(rand.NewPCG(seed, 0)), nonce: rand.New(rand.NewPCG(seed, salt+1))}
	head := bytes * 3 / 4
	for i := range s.shared {
		s.shared[i] = s.text(head)
	}
	s.cold = s.text(head - nonceBytes)
	s.tail = s.text(bytes - head)
	s.warmTail = s.text(bytes - head - nonceBytes)
	return s
}

// text makes up prose of so many bytes, with line breaks and quotes in it, as
// prompts have, which JSON has to escape.
func (s *source) text(bytes int) piece {
	text := make([]byte, 0, bytes+16)
	for words := 0; len(text) < bytes; words++ {
		if words > 0 {
			text = append(text, ' ')
		}
		if words%14 == 13 {
			text = append(text, '\n')
		}
		if words%40 == 39 {
			text = append(text, '"')
		}
		for range 2 + s.random.IntN(8) {
			text = append(text, byte('a'+s.random.IntN(26)))
		}
	}
	p := piece{text: string(text[:bytes])}
	quoted := strconv.Quote(p.text) // as JSON has it, for the characters above
	p.json = quoted[1 : len(quoted)-1]
	return p
}

// batch returns the next n requests, every other one warm.
func (s *source) batch(n int) []request {
	list := make([]request, n)
	for i := range list {
		number := fmt.Sprintf("%0*x", nonceBytes, s.nonce.Uint64())
		if i%2 == 0 {
			head := s.shared[s.turn%families]
			s.turn++
			list[i] = s.request(number, head, piece{number + s.warmTail.text, number + s.warmTail.json})
		} else {
			list[i] = s.request(number, piece{number + s.cold.text, number + s.cold.json}, s.tail)
		}
	}
	return list
}

func (s *source) request(id string, system, user piece) request {
	body := make([]byte, 0, len(system.json)+len(user.json)+256)
	body = append(body, `{"model":"`+model+`","stream":true,"stream_options":{"include_usage":true},"max_tokens":256,`...)
	if s.api == completions {
		body = append(body, `"prompt":"`...)
		body = append(body, system.json...)
		body = append(body, user.json...)
		body = append(body, `"}`...)
	} else {
		body = append(body, `"messages":[{"role":"system","content":"`...)
		body = append(body, system.json...)
		body = append(body, `"},{"role":"user","content":"`...)
		body = append(body, user.json...)
		body = append(body, `"}]}`...)
	}
	return request{id: id, body: body, system: system.text, user: user.text}
}
