// Package queue holds the Calls that wait for an endpoint, and says whose turn it
// is. It is pure: it takes the time as an argument, starts no goroutine, and
// learns of the world through the three functions in [World].
//
// # Late binding
//
// An engine serves its own queue first come, first served, and what stands there
// can neither be reordered nor sent elsewhere. So each endpoint gets only as much
// work as keeps it busy, and the rest waits here. Whenever there may be room,
// [Queue.Freed] offers it to the Call whose turn it is, which then chooses among
// all endpoints with the freshest view.
//
// # Lines
//
// Calls are of one kind when the same endpoints can serve them; kinds do not stand
// in each other's way. A Call that would wait for one endpoint, because the prefix
// of its prompt is there and waiting costs less than computing it again, stands in
// that endpoint's line. The others stand in the line of their kind, and take what
// comes first. An endpoint with room asks the first in each line that it might
// serve, in order; when none of them can use it, it asks of each kind the Call
// that would have to wait longest elsewhere. So room is not left unused, and
// nobody who stays where it is, is asked twice for one change.
//
// What a change costs grows with the logarithm of how many wait. It grows in
// proportion to the kinds that wait, each of which is asked, and a Call's charge
// to the lines in which its tenant stands. An endpoint that goes out of use sends
// its whole line elsewhere at once.
//
// # Order
//
// Across lines the order is one: by class, the highest first, while lower ones
// are guaranteed a share of all tokens, and may fall behind with it by what one
// Call costs; within a class by tenant, whoever has had the fewest
// tokens first; within a tenant by arrival. Tokens are counted as in "Fairness in
// Serving Large Language Models" (Sheng et al., OSDI 2024): a counter for each
// tenant grows by what its Calls cost, and one who comes back is lifted to the
// least of those who wait, without what these may get back for open Calls. It
// gives the shares of deficit round robin and finds the next in logarithmic time.
//
// Whoever cannot be placed keeps its own class, in its line, waiting, and those
// below; those above are asked all the same.
//
// # Bounds
//
// A full queue is shared too. A Call of a tenant that has less waiting than
// another one of its class takes the place of that one's newest, which is told to
// leave. So no tenant keeps the others out by filling the queue.
//
// Selection may hold Calls back from an endpoint with room, because it warms up. That
// is a reason to wait, and none to be refused: before anybody is, for its time is over
// or the queue is full, Calls are tried once more, as their last chance.
//
// # Who calls it
//
// The admission handler, and the simulator with a clock of its own. The queue
// lives as long as its pool: it, and those who wait in it, survive reloads. Each
// Call brings the class and the bounds of the configuration it began under.
package queue
