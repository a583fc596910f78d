/* loader LIBRARY: turns the crank of a library that it removes once it has loaded it, and runs code that it made at run
 * time and named in /tmp/perf-PID.map, in a JVM's form of it. Each in a thread of its own, for ever. TURN: the name. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __x86_64__
static const unsigned char for_ever[] = {0xeb, 0xfe}; /* jmp . */
#else
static const unsigned char for_ever[] = {0x00, 0x00, 0x00, 0x14}; /* b . */
#endif

static void *run(void *code)
{
	((void (*)(void))code)();
	return NULL;
}

int main(int count, char **words)
{
	char name[64];
	pthread_t thread;
	void *library = count > 1 ? dlopen(words[1], RTLD_NOW) : NULL;
	unsigned long (*turn)(unsigned long) = library ? dlsym(library, TURN) : NULL;
	unsigned char *code =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!turn || code == MAP_FAILED || unlink(words[1]))
		return 2;
	memcpy(code, for_ever, sizeof for_ever);
	__builtin___clear_cache((char *)code, (char *)code + sizeof for_ever);
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	if (!map || fprintf(map, "%#lx 0x10 made_at_run_time\n", (unsigned long)code) < 0 || fclose(map))
		return 3;
	if (pthread_create(&thread, NULL, run, code))
		return 4;
	puts("begun");
	fflush(stdout);
	return turn(0) != 0;
}
