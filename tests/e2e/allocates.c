/* Takes memory of many sizes and gives it back in another order, for ever. */
#include <stdlib.h>

enum { HELD = 4096 };

int main(void)
{
	static void *held[HELD];
	for (unsigned n = 1;; n = n * 1664525 + 1013904223) {
		unsigned place = (n >> 8) % HELD;
		free(held[place]);
		held[place] = malloc(16u << (n >> 24) % 12);
	}
}
