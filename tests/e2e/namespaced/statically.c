/* Linked statically: the crank is a part of it. */
unsigned long TURN(unsigned long turns);

int main(void)
{
	return TURN(0) != 0;
}
