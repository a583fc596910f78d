/* Burns CPU for ever in a function of its own. TURN names it: the same source is a library and a part of a program. */
__attribute__((noinline)) unsigned long TURN(unsigned long turns)
{
	for (volatile unsigned long turn = 0; !turns || turn < turns; turn++)
		;
	return turns;
}
